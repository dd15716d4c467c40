"""``refract protocols``: the published protocols."""

from __future__ import annotations

from refract.core.showing import say


def protocols(name: str | None = None) -> None:
    """List the published protocols that `refract run --protocol` knows.

    Example: refract protocols --name harmbench

    Args:
        name: All about this one: each field with its source.
    """
    from refract.suites.protocols.catalogue import Generation, find_protocol, names

    for known in names() if name is None else [name]:
        known, protocol = find_protocol(known, "--name")
        say(f"{known}@{protocol.version}: {protocol.of}")
        if name is None:
            judges = dict.fromkeys(part.judge or "none here" for part in protocol.parts.values())
            say(f"  parts: {', '.join(protocol.parts)}; judge: {', '.join(judges)}")
            continue
        for key, source in protocol.sources.items():
            value = getattr(protocol.generation, key, "")
            shown = "unknown" if key in protocol.unknown else "none" if value is None else value
            setting = f"{shown} (source: {source})" if key in Generation.model_fields else source
            say(f"  {key}: {setting}")
        for part_name, part in protocol.parts.items():
            clip = "whole answers" if part.clip is None else f"clipped to {part.clip} of its tokens"
            say(f"  part {part_name}: {part.suite.kind}, {part.suite.page}")
            say(f"    judge {part.judge or 'none here'}, {clip}; empty answers {part.empty}")
            say(f"    measures: {', '.join(part.measures)}")
        for limit in protocol.limits:
            say(f"  limit: {limit}")
