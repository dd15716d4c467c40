"""The tables and the provenance of a project's ``metrics/``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.core.tables import read_table
from refract.core.vocabulary import TABLE_COLUMNS
from refract.results.current import named, without_results

Table = Sequence[Mapping[str, str]]


def read_results(root: Path, models: Sequence[str]) -> tuple[dict[str, Table], dict[str, Any]]:
    """The tables and the provenance of some models, by name, from a project's ``metrics/``.

    Rows have a ``cluster_field`` beside their columns, where a suite sets one (``cluster``).
    Raises FileNotFoundError with what to run when a model has no results yet.
    """
    if missing := without_results(root, models):
        raise FileNotFoundError(f"no results yet for {named(list(missing))}; run: dvc repro")
    tables = {model: read_table(root / f"metrics/tables/{model}.csv") for model in models}
    provenance = {
        model: json.loads((root / f"metrics/provenance/{model}.json").read_text("utf-8"))
        for model in models
    }
    return {
        model: with_cluster_fields(table, provenance[model]) for model, table in tables.items()
    }, provenance


def with_cluster_fields(table: Table, provenance: Mapping[str, Any] | None) -> Table:
    """The rows of a table with their ``cluster_field``: empty where the suite sets none."""
    suites = (provenance or {}).get("suites", {})
    fields = {held.get("label", name): held.get("cluster") for name, held in suites.items()}
    return [{**row, "cluster_field": fields.get(row["suite"]) or ""} for row in table]


def plain(row: Mapping[str, Any]) -> str:
    """The name of a row's suite, without what its label says of samples."""
    return str(row["suite"]).partition("[")[0]


def as_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Rows of rates that were just computed, as they would be read from a table."""
    columns: dict[str, Any] = dict.fromkeys(TABLE_COLUMNS)
    return [
        {key: "" if value is None else str(value) for key, value in {**columns, **row}.items()}
        for row in rows
    ]


def confidence_of(provenance: Mapping[str, Any] | None) -> float:
    """The confidence of a result's intervals; results from before it was recorded are at .95."""
    held = provenance or {}
    return float(held.get("confidence") or held.get("run", {}).get("confidence") or 0.95)
