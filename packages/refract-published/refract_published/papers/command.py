"""``refract reproduce paper``: a published table, recomputed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from refract.cli.options import AsJson
from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.registry import find
from refract.core.showing import json_text, say
from refract_published.papers import PAPERS
from refract_published.papers.cells import DIFFERS, STATUSES


def reproduce_paper(
    name: Annotated[str | None, Argument(help="The paper; without one, papers are listed.")] = None,
    data: Annotated[Path | None, Option(help="A folder that holds the publisher's files.")] = None,
    format_: AsJson = "table",
) -> None:
    """Recompute a published table from recorded answers and labels, beside the published numbers.

    Exits with 1 if a number differs and nothing in the data explains it.

    Example: refract reproduce paper xstest --data data/recorded
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
    raise typer.Exit(int(DIFFERS in by_status))
