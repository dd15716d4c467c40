"""``refract protocols``: the published protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from refract.core.showing import say

if TYPE_CHECKING:
    from refract.suites.protocols.catalogue import Protocol


def protocols(
    name: Annotated[
        str | None, typer.Option(help="All about this one: each field with its source.")
    ] = None,
) -> None:
    """List the published protocols that `refract run --protocol` knows.

    Example: refract protocols --name harmbench
    """
    from refract.suites.protocols.catalogue import find_protocol, names

    if name is not None:
        _describe(*find_protocol(name, "--name"))
        return
    for known in names():
        _, found = find_protocol(known)
        say(f"{known}@{found.version}: {found.of}")
        judges = dict.fromkeys(part.judge or "not defined here" for part in found.parts.values())
        say(f"  parts: {', '.join(found.parts)}; judge: {', '.join(judges)}")


def _describe(name: str, found: Protocol) -> None:
    from refract.suites.protocols.catalogue import Generation

    say(f"{name}@{found.version}: {found.of}")
    for key in Generation.model_fields:
        held = getattr(found.generation, key)
        shown = "unknown" if key in found.unknown else "none" if held is None else held
        say(f"  {key}: {shown} (source: {found.sources[key]})")
    for key in ("suite", "judge", "clip", "empty", "partial", "measures"):
        say(f"  {key}: {found.sources[key]}")
    for part_name, part in found.parts.items():
        clip = "whole answers" if part.clip is None else f"clipped to {part.clip} of its tokens"
        say(f"  part {part_name}: {part.suite.kind}, {part.suite.page}")
        say(f"    judge {part.judge or 'not defined here'}, {clip}; empty answers {part.empty}")
        say(f"    measures: {', '.join(part.measures)}")
    for limit in found.limits:
        say(f"  limit: {limit}")
