"""``refract reproduce-paper``: published tables, recomputed from recorded answers and labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.showing import json_text, say

if TYPE_CHECKING:
    from refract.papers.cells import Cell

HEADER = ["row", "column", "published", "computed", "rows", "result", "why"]


def reproduce_paper(
    name: Annotated[str | None, typer.Argument()] = None,
    data: Path | None = None,
    format_: Annotated[Literal["table", "json"], typer.Option("--format")] = "table",
) -> None:
    """Recompute a published table from recorded answers and labels, beside the published numbers.

    Exits with 1 if a number differs and nothing in the data explains it.

    Example: refract reproduce-paper xstest --data data/recorded

    Args:
        name: The paper; without one, papers are listed.
        data: A folder that holds the publisher's files.
        format_: How it is printed.
    """
    from refract.papers import open_paper, paper_cells, paper_names
    from refract.papers.cells import DIFFERS, Folder, counts, shown

    if name is None:
        papers = {key: open_paper(key) for key in paper_names()}
        rows = [[key, paper.title, "; ".join(paper.files)] for key, paper in papers.items()]
        print_table(["name", "what", "files"], rows)
        return
    paper = open_paper(name)
    files = "".join(f"\n  {line}" for line in paper.files)
    if data is None:
        raise UsageError(f"--data names the folder with the files of {name}:{files}")
    if not data.is_dir():
        raise UsageError(f"--data must be a folder (got {str(data)!r})")
    cells = paper_cells(name, Folder(data))
    if not any(cell.held for cell in cells):
        raise UsageError(f"no file of {name} in {data} or below; it needs:{files}")
    by_status = {status: count for status, count in counts(cells).items() if count}
    table = [
        [
            *(cell.row, cell.column, cell.published, shown(cell.computed, cell.published)),
            *(f"{cell.held:,}", cell.status, cell.reason),
        ]
        for cell in cells
    ]
    if format_ == "json":
        numbers = [_as_json(cell) for cell in cells]
        result = {"paper": name, "source": paper.source, "cells": numbers, "counts": by_status}
        say(json_text(result))
    else:
        say(f"{paper.title}\n{paper.source}")
        print_table(HEADER, table)
        say(", ".join(f"{status}: {count}" for status, count in by_status.items()))
    raise typer.Exit(int(DIFFERS in by_status))


def _as_json(cell: Cell) -> dict[str, object]:
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
