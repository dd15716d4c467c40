"""The report's figures, of chosen models and suites, for papers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from refract.core.jsonl import write_bytes
from refract.core.settings import Settings
from refract.export import Export
from refract.project import project_root
from refract.report.drawing import Format, drawn
from refract.report.figure_data import figures_of
from refract.report.view import read_view


class FigureSettings(Settings):
    """How figures are written."""

    format: Format = "pdf"


def write_figures(export: Export) -> Iterator[str]:
    """A file for each figure of a project's report."""
    settings = export.settings(FigureSettings)
    root = Path(export.source) if export.source else project_root()
    for figure in figures_of(read_view(root).only(export.models, export.suites)):
        path = export.out / f"{figure.name}.{settings.format}"
        write_bytes(path, [drawn(figure, settings.format)])
        yield f"{path}: {figure.title}"
