"""What the report and the page are made of, read once for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.agreement.ledger import LedgerEntry, known_entries
from refract.core.errors import ParamsError, UsageError
from refract.core.params import decision_settings, grid, load_params
from refract.core.settings import nearest
from refract.core.tables import read_table
from refract.report.charts import Figure
from refract.report.comparisons import (
    Compared,
    compare_fields,
    compare_models,
    near_pairs,
    read_clean_outcomes,
)
from refract.report.figures import draw_figures
from refract.report.scaling import Series, Size, model_sizes, scaling_series
from refract.report.titles import Titles, read_titles
from refract.results.tables import Table, plain, read_results


class Inputs(NamedTuple):
    """The numbers of the grid's models, and what is computed of them for people alone.

    Everything is under titles but ``models`` (names) and ``stored`` (the provenance by name).
    ``compared`` are the models on whole suites, ``by_field`` on the prompts of one value; ``agreement``,
    ``confusion`` and ``slices`` are the tables of judges on the project's own labelled pairs.
    """

    models: list[str]
    stored: dict[str, Any]
    titles: Titles
    tables: dict[str, Table]
    provenance: dict[str, Any]
    reference: str
    compared: list[Compared]
    by_field: list[Compared]
    sizes: dict[str, Size]
    series: list[Series]
    agreement: Table
    confusion: Table
    slices: Table
    confidence: float
    entries: list[LedgerEntry]

    def only(self, models: Sequence[str], suites: Sequence[str]) -> Inputs:
        """The numbers of some models and suites, of all where none is named. What was corrected for
        all comparisons stays so. Raises :class:`UsageError` for a name that is not there."""
        names = {title: name for name, title in self.titles.suites.items()}
        present = {plain(row) for table in self.tables.values() for row in table}
        known = sorted(names.get(title, title) for title in present)
        for name, held in [(m, self.models) for m in models] + [(s, known) for s in suites]:
            if name not in held:
                raise UsageError(
                    f"{name!r} is not in these results{nearest(name, held)}; there are: "
                    f"{', '.join(held)}"
                )
        kept = [self.titles.models[name] for name in self.models if not models or name in models]
        wanted = {self.titles.suite(suite) for suite in suites}

        def in_suites(row: Mapping[str, Any]) -> bool:
            return not wanted or plain(row) in wanted

        tables: dict[str, Table] = {
            model: list(filter(in_suites, self.tables[model])) for model in kept
        }
        sizes = {model: size for model, size in self.sizes.items() if model in kept}
        return self._replace(
            tables=tables,
            compared=[
                (one, two, row)
                for one, two, row in self.compared
                if one in kept and two in kept and in_suites(row)
            ],
            series=scaling_series(tables, sizes, self.confidence),
        )

    def figures(self) -> list[Figure]:
        """The figures, each drawn once."""
        shown = list(self.tables)
        near = set(near_pairs(shown, self.reference if self.reference in shown else shown[0]))
        return draw_figures(
            self.tables,
            compared=[held for held in self.compared if held[:2] in near],
            reference=self.reference,
            series=self.series,
            agreement=self.agreement,
            slices=self.slices,
            confidence=self.confidence,
        )


def read_inputs(root: Path) -> Inputs:
    """Reads ``params.yaml`` and ``metrics/`` of a project.

    Raises FileNotFoundError with what to run when a model has no results yet, ParamsError and
    RowError for files that cannot be used.
    """
    params = load_params(root / "params.yaml")
    models = grid(params, "models")
    metadata = params.get("metadata") or {}
    settings = decision_settings(root)
    if settings.reference not in (None, *models):
        raise ParamsError(
            f"decisions.reference must be a model of the grid: {', '.join(models)} "
            f"(got {settings.reference!r})"
        )
    tables, stored = read_results(root, models)
    titles = read_titles(metadata, models, grid(params, "suites"))
    outcomes = {
        titles.models[model]: [{**row, "suite": titles.suite(row["suite"])} for row in rows]
        for model, rows in read_clean_outcomes(root, models).items()
    }
    titled = titles.tables(tables)
    sizes = {titles.models[model]: size for model, size in model_sizes(stored, metadata).items()}
    reference = titles.models[settings.reference or models[0]]
    return Inputs(
        models,
        stored,
        titles,
        titled,
        titles.provenance(stored),
        reference,
        compare_models(outcomes, settings, reference),
        compare_fields(outcomes, settings, reference),
        sizes,
        scaling_series(titled, sizes, settings.confidence),
        _optional(root / "metrics/judges_agreement.csv"),
        _optional(root / "metrics/judges_confusion.csv"),
        _optional(root / "metrics/judges.csv"),
        settings.confidence,
        known_entries(root),
    )


def _optional(path: Path) -> Table:
    return read_table(path) if path.is_file() else []
