"""The report's figures, of chosen models and suites, for papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from refract.core.jsonl import write_bytes
from refract.core.settings import Settings
from refract.export import Export
from refract.project import project_root
from refract.report.drawing import Format, drawn
from refract.report.figure_data import figures_of
from refract.report.view import View, read_view
from refract_paper.paper_tables import check_names


class FigureSettings(Settings):
    """How figures are written."""

    format: Format = "pdf"


def write_figures(export: Export) -> Iterator[str]:
    """A file for each figure of a project's report."""
    settings = export.settings(FigureSettings)
    root = Path(export.source) if export.source else project_root()
    for figure in figures_of(only(read_view(root), export.models, export.suites)):
        path = export.out / f"{figure.name}.{settings.format}"
        write_bytes(path, [drawn(figure, settings.format)])
        yield f"{path}: {figure.title}"


def only(view: View, models: Sequence[str], suites: Sequence[str]) -> View:
    """The numbers of some models and suites, of all where none is named; p stays corrected for all.
    Raises :class:`refract.core.errors.UsageError` for a name that is not there."""
    check_names("--model", models, view.models)
    check_names("--suite", suites, sorted({rate.suite for rate in view.every}))
    rates, pairs = {}, []
    for model in view.models:
        if not models or model in models:
            own = view.rates[model]
            rates[model] = [rate for rate in own if not suites or rate.suite in suites]
    for pair in view.compared:
        of_suites = not suites or pair.difference.suite in suites
        if of_suites and {pair.a, pair.b} <= rates.keys():
            pairs.append(pair)
    return replace(view, rates=rates, compared=pairs, all_tests=view.tests)
