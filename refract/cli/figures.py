"""``refract figures``: the report's figures as files for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from refract.cli.options import listed, several_files
from refract.core.jsonl import write_bytes
from refract.core.showing import say


def figures(
    out: Annotated[Path, typer.Option(help="Folder to write to.", callback=several_files)],
    format_: Annotated[
        Literal["pdf", "png", "svg"], typer.Option("--format", help="How they are written.")
    ] = "pdf",
    figure: Annotated[
        list[str] | None,
        typer.Option(help="Figures, as in metrics/figures: NAME,...; default: all."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Models of the grid: NAME,...; default: all.")
    ] = None,
    suite: Annotated[list[str] | None, typer.Option(help="Suites: NAME,...; default: all.")] = None,
    style: Annotated[
        Path | None,
        typer.Option(help="A matplotlib style sheet.", exists=True, dir_okay=False),
    ] = None,
) -> None:
    """Draw the figures of the report, of chosen models and suites, as PDF, PNG or SVG.

    Example: refract figures --format pdf --out paper/figures --suite harmful_helpful
    """
    from refract.project import project_root
    from refract.report.drawing import drawn
    from refract.report.figure_data import figures_of
    from refract.report.view import check_names, read_view

    view = read_view(project_root()).only(listed(model), listed(suite))
    figures = {drawing.name: drawing for drawing in figures_of(view)}
    check_names("--figure", listed(figure), figures)
    for name in listed(figure) or figures:
        path = out / f"{name}.{format_}"
        write_bytes(path, [drawn(figures[name], format_, style)])
        say(f"{path}: {figures[name].title}")
