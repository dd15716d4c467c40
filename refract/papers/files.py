"""Files of published answers and labels, found by their names below a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refract.core.errors import RowError
from refract.core.types import Row
from refract.models.recorded import read_answers

# A field, and the columns that may hold it: publishers and collections name the same thing otherwise.
Columns = Mapping[str, tuple[str, ...]]


class Folder:
    """The files that a user has of a paper, anywhere below one folder."""

    def __init__(self, path: Path) -> None:
        self._files = sorted(found for found in path.rglob("*") if found.is_file())

    def files(self, *patterns: str) -> list[Path]:
        """The files whose names match a pattern, sorted by path."""
        return [path for path in self._files if any(path.match(pattern) for pattern in patterns)]

    def rows(
        self,
        pattern: str,
        columns: Columns,
        optional: Columns | None = None,
        raw: Columns | None = None,
    ) -> list[Row]:
        """The rows of all files of that name, with these fields alone.

        Fields of ``columns`` are texts in every row; numbers and booleans are spelt as CSV files spell
        them. An optional field is None where the file has no such column or no text in it, a raw one is
        what the file holds. Raises :class:`RowError`, which names the file, where it cannot be read, or
        lacks a column or a text in one.
        """
        wanted = {**columns, **(optional or {}), **(raw or {})}
        found = []
        for path in self.files(pattern):
            try:
                rows = read_answers(path)
            except (OSError, RowError) as error:
                raise RowError(f"{path} cannot be read: {error}") from None
            present = {column for row in rows for column in row}
            names = {field: _first(choices, present) for field, choices in wanted.items()}
            for field, choices in columns.items():
                if names[field] is None:
                    raise RowError(
                        f"{path} has no column {' or '.join(choices)}; "
                        f"it has {', '.join(sorted(present)) or 'no rows'}"
                    )
            for number, row in enumerate(rows, 1):
                values = {field: row.get(name) if name else None for field, name in names.items()}
                read = {
                    field: value if field in (raw or {}) else as_text(value)
                    for field, value in values.items()
                }
                for field in columns:
                    if read[field] is None:
                        raise RowError(
                            f"{path}: row {number}: {names[field]} must hold a text "
                            f"(got {values[field]!r:.40})"
                        )
                found.append(read)
        return found

    def objects(self, *patterns: str) -> list[tuple[Path, dict[str, Any]]]:
        """The JSON objects in files of these names, with their paths. Raises :class:`RowError`."""
        found = []
        for path in self.files(*patterns):
            try:
                value = json.loads(path.read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                raise RowError(f"{path} cannot be read: {error}") from None
            if isinstance(value, dict):
                found.append((path, value))
        return found


def _first(choices: tuple[str, ...], present: set[str]) -> str | None:
    return next((column for column in choices if column in present), None)


def as_text(value: Any) -> str | None:
    """A scalar as CSV files spell it; None for anything else."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None
