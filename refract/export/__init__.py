"""Results for other tools: what ``refract export`` writes, by format.

An exporter is a function of an :class:`Export`. An installed package adds one by an entry point of
the group ``refract.exporters``."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from refract.core.errors import UsageError, nearest
from refract.core.registry import Registry
from refract.core.settings import S, read_settings
from refract.core.showing import say

if TYPE_CHECKING:
    from refract.results import Results

EXPORTERS = Registry({"csv": "refract.export.csv_files:write_csv"}, "refract.exporters", "__call__")


@dataclass(frozen=True)
class Export:
    """What is exported, and how.

    Results of ``source`` (None: the project of the current folder), of some ``models``
    and ``suites`` where these are named, go to the folder ``out``. ``values`` are the
    settings that a user gave."""

    out: Path
    source: str | None = None
    models: Sequence[str] = ()
    suites: Sequence[str] = ()
    values: Mapping[str, Any] | None = None

    def settings(self, kind: type[S]) -> S:
        """The exporter's own settings. Raises :class:`refract.core.errors.ParamsError`."""
        return read_settings(kind, "--set", self.values or {})

    @cached_property
    def results(self) -> Results:
        """The tables of a project's folder or of a results file; notes on them are printed.

        Raises :class:`refract.core.errors.RefractError` where these have no such suite or model."""
        from refract.results import results_and_notes

        results, notes = results_and_notes(self.source or ".", self.models or None)
        for note in notes:
            say(f"note: {note}", file=sys.stderr)
        check_known("--model", self.models, sorted(set(results.tables["model"])))
        check_known("--suite", self.suites, sorted(set(results.tables["suite"])))
        return results


class Exporter(Protocol):
    """Writes results in one format."""

    def __call__(self, export: Export) -> Iterator[str]:
        """Writes the files; says of each what was written."""


def check_known(option: str, asked: Iterable[str], known: Collection[str]) -> None:
    """Raises :class:`UsageError` for a name that results do not have."""
    for name in asked:
        if name not in known:
            raise UsageError(
                f"{option} {name!r} is not in these results{nearest(name, known)}; there are: "
                f"{', '.join(known)}"
            )
