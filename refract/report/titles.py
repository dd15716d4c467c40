"""Display names: what the report, its page and figures call models and suites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refract.core.errors import ParamsError
from refract.core.params import Metadata
from refract.core.settings import read_settings
from refract.results.tables import Table


class Titles(NamedTuple):
    """The display name of each model and suite of the grid, by name."""

    models: dict[str, str]
    suites: dict[str, str]

    def suite(self, label: str) -> str:
        """A suite's label with its title for its name, as in ``Title[sampled 60/309, seed=1]``."""
        name, bracket, rest = label.partition("[")
        return self.suites.get(name, name) + bracket + rest

    def tables(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """Tables of rates by model, under titles."""
        return {
            self.models[model]: [{**row, "suite": self.suite(row["suite"])} for row in table]
            for model, table in tables.items()
        }

    def provenance(self, provenance: Mapping[str, Any]) -> dict[str, Any]:
        """The provenance of models and of their suites, under titles."""
        return {
            self.models[model]: {
                **found,
                "suites": {
                    self.suite(suite): {**held, "label": self.suite(held["label"])}
                    for suite, held in found["suites"].items()
                },
            }
            for model, found in provenance.items()
        }


def read_titles(
    metadata: Mapping[str, Any] | None, models: Sequence[str], suites: Sequence[str]
) -> Titles:
    """The titles under ``metadata`` in params.yaml; a name that has none stands for itself.

    Raises :class:`ParamsError` where two models, or two suites, would be called the same.
    """
    titles = Titles({}, {})
    for names, found in ((models, titles.models), (suites, titles.suites)):
        for name in names:
            given = (metadata or {}).get(name) or {}
            title = read_settings(Metadata, f"metadata.{name}", given).title or name
            for other, used in found.items():
                if used == title:
                    raise ParamsError(
                        f"metadata.{name}.title must be a text that no other model or suite has "
                        f"(got {title!r}, which is {other}'s); change one of the two"
                    )
            found[name] = title
    return titles
