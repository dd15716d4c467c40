"""A published number beside the computed one, and the files that it is computed from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from refract.core.errors import RowError
from refract.core.types import Row
from refract.models.recorded import read_answers

# A field, and the columns that may hold it: publishers and collections name the same thing otherwise.
Columns = Mapping[str, str | list[str]]
# What a cell may be.
REPRODUCED, EXPLAINED, DIFFERS = "reproduced", "explained", "differs"
NOT_COMPARABLE = "not comparable"
STATUSES = (REPRODUCED, EXPLAINED, DIFFERS, NOT_COMPARABLE)


@dataclass(frozen=True)
class Cell:
    """One number of a published table.

    ``published`` is the number as it is printed, whose decimals say how it was rounded. ``computed`` has
    its unit. ``held`` is the number of rows it was computed from, ``needed`` that of the published one's
    rows: only where both are equal are the two comparable. ``explanation`` says why it deviates, where
    the data bear that out; ``lacking`` what besides rows is not there."""

    row: str
    column: str
    published: str
    computed: Fraction | float | None
    held: int
    needed: int
    explanation: str = ""
    lacking: str = ""

    @property
    def status(self) -> str:
        """One of ``STATUSES``."""
        if self.computed is None or self.held != self.needed or self.lacking:
            return NOT_COMPARABLE
        if rounds_to(self.computed, self.published):
            return REPRODUCED
        return EXPLAINED if self.explanation else DIFFERS

    @property
    def reason(self) -> str:
        """What a reader has to know of a cell that is not reproduced."""
        if self.status == NOT_COMPARABLE:
            if self.lacking:
                return self.lacking
            return f"{self.held:,} of {self.needed:,} rows" if self.held else "no rows"
        return self.explanation if self.status == EXPLAINED else ""


def rounds_to(value: Fraction | float, printed: str) -> bool:
    """Whether a value, rounded to as many decimals as the printed number has, is that number. Halves
    may go either way, since publishers round both ways."""
    decimals = len(printed.partition(".")[2])
    return abs(Fraction(value) - Fraction(printed)) <= Fraction(1, 2 * 10**decimals)


def shown(value: Fraction | float | None, printed: str) -> str:
    """A value with one decimal more than the printed number."""
    if value is None:
        return "—"
    text = f"{float(value):.{len(printed.partition('.')[2]) + 1}f}"
    return text if "." in printed else text.removesuffix(".0")


def percent(count: int, total: int) -> Fraction | None:
    """A share in per cent, exactly; None of nothing."""
    return Fraction(100 * count, total) if total else None


def counts(cells: Sequence[Cell]) -> dict[str, int]:
    """How many cells have each status, in the order of ``STATUSES``."""
    return {status: sum(cell.status == status for cell in cells) for status in STATUSES}


class Folder:
    """The files that a user has of a paper, anywhere below one folder."""

    def __init__(self, path: Path) -> None:
        self._files = sorted(file for file in path.rglob("*") if file.is_file())

    def files(self, *patterns: str) -> list[Path]:
        """The files whose names match a pattern, sorted by path."""
        return [path for path in self._files if any(path.match(pattern) for pattern in patterns)]

    def rows(
        self,
        pattern: str,
        columns: Columns,
        optional: Columns | None = None,
        raw: Sequence[str] = (),
    ) -> list[Row]:
        """The rows of all files of that name, with these fields alone.

        Fields of ``columns`` are texts in every row; numbers and booleans are spelt as CSV files spell
        them. An optional field is None where there is no text, or what the file holds where ``raw``
        names it. Raises :class:`RowError`, which names the file, where it cannot be read, or lacks a
        column or a text in one."""
        read: list[Row] = []
        for path in self.files(pattern):
            try:
                rows = read_answers(path)
            except (OSError, RowError) as error:
                raise RowError(f"{path} cannot be read: {error}") from None
            present = {column for row in rows for column in row}
            names = {}
            for field, given in {**columns, **(optional or {})}.items():
                choices = [given] if isinstance(given, str) else given
                names[field] = next((name for name in choices if name in present), "")
                if field in columns and not names[field]:
                    raise RowError(
                        f"{path} has no column {' or '.join(choices)}; "
                        f"it has {', '.join(sorted(present)) or 'no rows'}"
                    )
            for number, row in enumerate(rows, 1):
                values = {field: row.get(name) for field, name in names.items()}
                read.append({k: v if k in raw else as_text(v) for k, v in values.items()})
                for field in columns:
                    if read[-1][field] is None:
                        raise RowError(
                            f"{path}: row {number}: {names[field]} must hold a text "
                            f"(got {values[field]!r:.40})"
                        )
        return read

    def objects(self, *patterns: str) -> list[tuple[Path, Row]]:
        """The JSON objects in files of these names, with their paths. Raises :class:`RowError`."""
        objects = []
        for path in self.files(*patterns):
            try:
                value = json.loads(path.read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                raise RowError(f"{path} cannot be read: {error}") from None
            if isinstance(value, dict):
                objects.append((path, value))
        return objects


def as_text(value: object) -> str | None:
    """A scalar as CSV files spell it; None for anything else."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None
