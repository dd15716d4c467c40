"""CSV tables that are read by people, by spreadsheets and by later stages."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from stages.rows.jsonl import Row, write_bytes


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Writes rows as CSV with LF line ends; a missing or None value is an empty cell."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="raise")
    writer.writeheader()
    writer.writerows(rows)
    write_bytes(path, [text.getvalue().encode("utf-8", "backslashreplace")])


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV table; every value is a text."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
