"""``refract protocols``: what each published protocol states, and its sources."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from refract.core.showing import say
from refract_published.protocols import CATALOGUE
from refract_published.protocols.definitions import Generation


def protocols(
    name: Annotated[
        str | None, Option(help="All about this one: each field with its source.")
    ] = None,
) -> None:
    """List the published protocols that `refract run --protocol` knows.

    Example: refract protocols --name harmbench
    """
    for key in CATALOGUE.names() if name is None else [name]:
        key, protocol = CATALOGUE.protocol(key, "--name")
        say(f"{key}@{protocol.version}: {protocol.of}")
        if name is None:
            graders = dict.fromkeys(part.judge or "none here" for part in protocol.parts.values())
            say(f"  parts: {', '.join(protocol.parts)}; judge: {', '.join(graders)}")
            continue
        for field, source in protocol.sources.items():
            value = getattr(protocol.generation, field, "")
            if field in protocol.unknown:
                value = "unknown"
            elif value is None:
                value = "none"
            stated = f"{value} (source: {source})"
            say(f"  {field}: {stated if field in Generation.model_fields else source}")
        for part_name, part in protocol.parts.items():
            clip = "whole answers" if part.clip is None else f"clipped to {part.clip} of its tokens"
            say(f"  part {part_name}: {part.suite.kind}, {part.suite.page}")
            say(f"    judge {part.judge or 'none here'}, {clip}; empty answers {part.empty}")
            say(f"    measures: {', '.join(part.measures)}")
        for limit in protocol.limits:
            say(f"  limit: {limit}")
