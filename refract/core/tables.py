"""CSV tables that are read by people, by spreadsheets and by later stages."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from refract.core.errors import RowError
from refract.core.jsonl import write_bytes
from refract.core.types import Row


class _LineFeeds(list[bytes]):
    """Takes the lines of a CSV writer and ends them in LF.

    The writer quotes a carriage return in a cell only where it ends lines in CRLF itself, and an
    unquoted one ends the row for every reader."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix("\r\n").encode("utf-8", "backslashreplace") + b"\n")


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Writes rows as CSV with LF line ends; a missing or None value is an empty cell."""
    lines = _LineFeeds()
    writer = csv.DictWriter(lines, columns, lineterminator="\r\n", extrasaction="raise")
    writer.writeheader()
    writer.writerows(rows)
    write_bytes(path, lines)


def parse_table(text: str) -> list[dict[str, str]]:
    """The rows of the text of a CSV table; values are strings. Raises csv.Error."""
    csv.field_size_limit(sys.maxsize)  # answers can be long
    return list(csv.DictReader(io.StringIO(text, newline="")))


def read_table(path: Path) -> list[dict[str, str]]:
    """All rows of a CSV table; see :func:`iter_table`."""
    return list(iter_table(path))


def iter_table(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV table, one by one; values are strings; a leading byte order mark is dropped.
    Raises :class:`RowError`."""
    csv.field_size_limit(sys.maxsize)  # answers can be long
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file)
    except OSError as error:
        raise RowError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise RowError(f"{path}: not a CSV table in UTF-8 ({error})") from None
