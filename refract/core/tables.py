"""CSV tables, which people, spreadsheets and later stages read."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast

from refract.core.errors import RowError
from refract.core.jsonl import write_bytes
from refract.core.types import Row

# Names of several columns in one cell, and what stands between them.
SEVERAL = re.compile(r'"?\w+"? *([;,|\t] *"?\w+"? *)+')
SHARED = 1_000  # different values of a column that its later rows share


class _LineFeeds:
    """Returns each line of a CSV writer, ended in LF.

    The writer quotes a carriage return in a cell only where its own lines end in CRLF;
    unquoted, it ends the row for every reader."""

    def write(self, line: str) -> bytes:
        return line.removesuffix("\r\n").encode("utf-8", "backslashreplace") + b"\n"


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Writes rows as CSV, with LF line ends; a missing or None value is an empty cell."""
    writer = csv.DictWriter(_LineFeeds(), columns, lineterminator="\r\n", extrasaction="raise")
    lines = map(cast(Callable[[Row], bytes], writer.writerow), rows)
    write_bytes(path, chain([cast(bytes, writer.writeheader())], lines))


def parse_table(content: bytes) -> list[dict[str, str]]:
    """The rows in the content of a CSV table.
    Raises csv.Error, and ValueError for a row with more or fewer cells than the first."""
    csv.field_size_limit(sys.maxsize)  # answers can be long
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline=""))
    columns = next(reader, [])
    return list(shared(zip(columns, cells, strict=True) for cells in reader if cells))


def shared(rows: Iterable[Iterable[tuple[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Rows of columns and values, in little memory: equal values of a column, and of a
    row, are one object."""
    of_column: dict[str, dict[str, Any]] = {}
    for row in rows:
        own: dict[str, Any] = {}
        values = {}
        for column, value in row:
            known = of_column.setdefault(column, {})
            name = repr(value)
            if name not in known and len(known) >= SHARED:
                known = own
            values[column] = known.setdefault(name, value)
        yield values


def check_separator(header: str, separator: str = ",", kind: str = ".csv") -> None:
    """Raises ValueError for the header of a file whose cells do not end at the separator of its kind:
    spreadsheets write semicolons where the comma stands in decimals."""
    names = SEVERAL.fullmatch(header.strip())
    if names and separator not in header:
        raise ValueError(
            f"{header.strip()!r:.80} is one cell: cells of {kind} end at {separator!r}, and this file "
            f"is separated by {names[1][0]!r}"
        )


def read_table(path: Path) -> list[dict[str, str]]:
    """All rows of a CSV table; see ``iter_table``."""
    return list(iter_table(path))


def iter_table(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV table, with texts as values; a leading byte order mark is dropped.
    Raises RowError, also for two columns of one name."""
    csv.field_size_limit(sys.maxsize)  # answers can be long
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            check_separator(header)
            reader = csv.DictReader(chain([header], file))
            for name, count in Counter(reader.fieldnames).items():
                if name and count > 1:
                    raise ValueError(
                        f"{count} columns are called {name!r}: delete or rename the others"
                    )
            yield from reader
    except OSError as error:
        raise RowError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise RowError(f"{path}: not a CSV table in UTF-8 ({error})") from None
    except ValueError as error:
        raise RowError(f"{path}: {error}") from None
