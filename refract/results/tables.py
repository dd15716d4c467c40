"""The tables and the provenance of a project's ``metrics/``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.rates.rate import Rate
from refract.results.table_rows import confidence_of as confidence_of
from refract.results.table_rows import rate_to_row, read_rate_tables

Table = Sequence[Mapping[str, str]]


def read_results(root: Path, models: Sequence[str]) -> tuple[dict[str, Table], dict[str, Any]]:
    """:func:`refract.results.table_rows.read_rate_tables`, the rates as texts."""
    rates, provenance = read_rate_tables(root, models)
    return {model: as_table(table) for model, table in rates.items()}, provenance


def with_cluster_fields(table: Table, provenance: Mapping[str, Any] | None) -> Table:
    """The rows of a table with their ``cluster_field``: empty where the suite sets none."""
    suites = (provenance or {}).get("suites", {})
    fields = {held.get("label", name): held.get("cluster") for name, held in suites.items()}
    return [{**row, "cluster_field": fields.get(row["suite"]) or ""} for row in table]


def plain(row: Mapping[str, Any]) -> str:
    """The name of a row's suite, without what its label says of samples."""
    return str(row["suite"]).partition("[")[0]


def as_table(rates: Iterable[Rate]) -> Table:
    """Rates as texts, as they would be read from a table."""
    return [
        {key: "" if value is None else str(value) for key, value in rate_to_row(rate).items()}
        | {"cluster_field": rate.clustered_by}
        for rate in rates
    ]
