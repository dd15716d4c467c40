"""Results for other tools: a paper's tables, records of Every Eval Ever, data files,
trackers.

An exporter is a function of an :class:`Export`. An installed package adds one by an
entry point of the group ``refract.exporters``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from refract.core.registry import Registry

if TYPE_CHECKING:
    from refract.results import Results

EXPORTERS = Registry(
    {
        "csv": "refract.export.data_files:write_csv",
        "parquet": "refract.export.data_files:write_parquet",
        "every_eval_ever": "refract.export.every_eval_ever:write_records",
    },
    "refract.exporters",
    "__call__",
)


class Export(NamedTuple):
    """What is exported, and how.

    ``results`` come from ``place``, a project's folder or a results file, and go to
    the folder ``out``. ``publisher`` is who ran the evaluation (``organization``) and
    what they are to the models (``relationship``); ``model_ids`` are models' ids by
    name, for those that have none of their own.
    """

    results: Results
    place: Path
    out: Path
    publisher: Mapping[str, str]
    model_ids: Mapping[str, str]


class Exporter(Protocol):
    """Writes results in one format."""

    def __call__(self, export: Export) -> Iterator[str]:
        """Writes the files; says of each what was written."""
