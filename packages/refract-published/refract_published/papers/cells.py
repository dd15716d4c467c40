"""A published number beside the computed one, and the files behind that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from refract.core.errors import RowError
from refract.core.file_formats import read_row_file
from refract.core.types import Row

# A field, and the columns that may hold it: publishers and collections name them differently.
Columns = Mapping[str, str | list[str]]
# The statuses of a cell, in the order in which they are counted.
STATUSES = ("reproduced", "explained", "differs", "not comparable")
REPRODUCED, EXPLAINED, DIFFERS, NOT_COMPARABLE = STATUSES


@dataclass(frozen=True)
class Cell:
    """One number of a published table.

    It is comparable with the computed one only where both are of as many rows."""

    row: str
    column: str
    published: str
    """The number as it is printed, whose decimals say how it was rounded."""

    computed: Fraction | float | None
    """In the unit of the published number."""

    held: int
    """Rows that it was computed from."""

    needed: int
    """Rows of the published number."""

    explanation: str = ""
    """Why it deviates, where the data show that."""

    @property
    def status(self) -> str:
        """Reproduced, explained, differs or not comparable."""
        if self.computed is None or self.held != self.needed:
            return NOT_COMPARABLE
        if rounds_to(self.computed, self.published):
            return REPRODUCED
        return EXPLAINED if self.explanation else DIFFERS

    @property
    def reason(self) -> str:
        """Why a cell is not reproduced."""
        if self.status == EXPLAINED:
            return self.explanation
        if self.status != NOT_COMPARABLE:
            return ""
        return f"{self.held:,} of {self.needed:,} rows" if self.held else "no rows"

    @property
    def shown(self) -> str:
        """The computed value with one decimal more than the printed number."""
        if self.computed is None:
            return "—"
        text = f"{float(self.computed):.{_decimals(self.published) + 1}f}"
        return text if "." in self.published else text.removesuffix(".0")


def _decimals(printed: str) -> int:
    return len(printed.partition(".")[2])


def rounds_to(value: Fraction | float, printed: str) -> bool:
    """Whether a value, rounded to the decimals of the printed number, is that number. Halves may go
    either way, since publishers round both ways."""
    half = Fraction(1, 2 * 10 ** _decimals(printed))
    return abs(Fraction(value) - Fraction(printed)) <= half


def percent(count: int, total: int) -> Fraction | None:
    """An exact share in per cent; None of nothing."""
    return Fraction(100 * count, total) if total else None


class Folder:
    """The files that a user has of a paper, anywhere below one folder."""

    def __init__(self, path: Path) -> None:
        self._files = sorted(file for file in path.rglob("*") if file.is_file())

    def files(self, pattern: str) -> list[Path]:
        """The files whose names match a pattern, sorted by path."""
        return [path for path in self._files if path.match(pattern)]

    def rows(
        self,
        pattern: str,
        columns: Columns,
        optional: Columns | None = None,
        raw: Sequence[str] = (),
    ) -> list[Row]:
        """The rows of all files of that name, with these fields alone.

        Fields of ``columns`` are texts in every row; numbers and booleans are spelt as CSV files
        spell them. An optional field is None where there is no text; fields in ``raw`` stay as the
        file has them. Raises :class:`RowError` where a file cannot be read, or lacks a column or a
        text in one."""
        rows: list[Row] = []
        for path in self.files(pattern):
            try:
                table = read_row_file(path)
            except (OSError, RowError) as error:
                raise RowError(f"{path} cannot be read: {error}") from None
            present = {column for row in table for column in row}
            names = {}
            for field, choices in {**columns, **(optional or {})}.items():
                if isinstance(choices, str):
                    choices = [choices]
                names[field] = next(filter(present.__contains__, choices), "")
                if field in columns and not names[field]:
                    raise RowError(
                        f"{path} has no column {' or '.join(choices)}; "
                        f"it has {', '.join(sorted(present)) or 'no rows'}"
                    )
            for number, row in enumerate(table, 1):
                read = {}
                for field, name in names.items():
                    value = row.get(name)
                    read[field] = value if field in raw else as_text(value)
                    if field in columns and read[field] is None:
                        raise RowError(
                            f"{path}: row {number}: {name} must hold a text (got {value!r:.40})"
                        )
                rows.append(read)
        return rows


def as_text(value: object) -> str | None:
    """A scalar as CSV files spell it; None for anything else."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None
