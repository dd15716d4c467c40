"""``refract figures``: the report's figures as files for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from refract.cli.options import listed
from refract.cli.output import several_files
from refract.core.errors import UsageError
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
) -> None:
    """Draw the figures of the report, of chosen models and suites, as PDF, PNG or SVG.

    Example: refract figures --format pdf --out paper/figures --suite harmful_helpful
    """
    from refract.core.settings import nearest
    from refract.project import project_root
    from refract.report.converting import drawn
    from refract.report.inputs import read_inputs

    found = read_inputs(project_root()).only(listed(model), listed(suite)).figures()
    names = [one.name for one in found]
    for name in listed(figure):
        if name not in names:
            raise UsageError(
                f"no figure {name!r} of these results{nearest(name, names)}; there are: "
                f"{', '.join(names)}"
            )
    for one in found:
        if not figure or one.name in listed(figure):
            path = out / f"{one.name}.{format_}"
            write_bytes(path, [drawn(one, format_)])
            say(f"{path}: {one.title}")
