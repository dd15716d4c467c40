"""``refract figures``: the report's figures as files for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from refract.cli.options import Models, Suites, listed
from refract.core.jsonl import write_bytes
from refract.core.showing import say


def figures(
    out: Annotated[Path, typer.Option()],
    format_: Annotated[Literal["pdf", "png", "svg"], typer.Option("--format")] = "pdf",
    models: Models = None,
    suites: Suites = None,
    style: Annotated[Path | None, typer.Option(exists=True, dir_okay=False)] = None,
) -> None:
    """Draw the figures of the report, of chosen models and suites, as PDF, PNG or SVG.

    Example: refract figures --format pdf --out paper/figures --suite harmful_helpful

    Args:
        out: Folder to write to.
        format_: How they are written.
        style: A matplotlib style sheet.
    """
    from refract.project import project_root
    from refract.report.drawing import drawn
    from refract.report.figure_data import figures_of
    from refract.report.view import read_view

    for figure in figures_of(read_view(project_root()).only(listed(models), listed(suites))):
        path = out / f"{figure.name}.{format_}"
        write_bytes(path, [drawn(figure, format_, style)])
        say(f"{path}: {figure.title}")
