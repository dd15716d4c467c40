"""Files as publishers ship them, read without losing or merging a row."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RowError
from refract.core.jsonl import parse_line
from refract.core.types import Row
from refract.suites.importing.logs import (
    asked_rows,
    inspect_rows,
    is_inspect,
    is_lm_eval,
    lm_eval_rows,
    read_inspect,
)
from refract.suites.rows import SuiteError

BOM = "\ufeff"
# A prompt may be longer than the csv module's default limit for one field.
LONGEST_FIELD = 10_000_000
# Suffix, and what pip installs to read it.
TYPED = {".parquet": "pyarrow", ".xlsx": "openpyxl"}
TEXTS = (".csv", ".tsv", ".json", ".jsonl")
SUFFIXES = (*TEXTS, *TYPED, ".eval")


class Table(NamedTuple):
    """The rows of a file in order, the line each ends on, and what had to be decided on the way."""

    rows: list[Row]
    lines: list[int]
    columns: list[str]
    notes: list[str]
    sha256: str


def read_table(path: Path, encoding: str = "utf-8", *, header: bool = True) -> Table:
    """All rows of a file in one of ``SUFFIXES``; of a log of Inspect or lm-evaluation-harness the
    prompts.

    Without a ``header`` the columns of CSV, TSV and XLSX are called ``1``, ``2``, …
    A byte order mark is not part of the text. In CSV, rows that start with # are comments where they
    stand before the header or do not have its number of cells; every other line is data, and a row
    with more or fewer cells than the header (or the first row) is an error. Line breaks and carriage
    returns within a cell stay as they are. In TSV a quote is a quote only where it starts a cell, as in
    CSV. In JSONL, blank lines and lines that start with # are skipped. NUL characters and lone
    surrogates, which a prompt may not hold, become U+FFFD. Everything but blank lines is stated in
    ``notes``. Raises :class:`SuiteError` naming the file and the line.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise SuiteError(f"{path}: must be one of {', '.join(SUFFIXES)} (got {path.suffix!r})")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SuiteError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # a NUL in the name
        raise SuiteError(f"{str(path)!r}: cannot be read ({error})") from None
    notes: list[str] = []
    try:
        if suffix == ".eval":
            rows, lines, columns = _asked(inspect_rows(read_inspect(path)))
        elif suffix in TYPED:
            rows, lines, columns = _read_typed(path, data, notes, header=header)
        else:
            text = _decoded(path, data, encoding, notes)
            if suffix == ".jsonl":
                rows, lines, columns = _read_jsonl(path, text, notes)
            elif suffix == ".json":
                rows, lines, columns = _read_json(path, text)
            else:
                delimiter = "," if suffix == ".csv" else "\t"
                rows, lines, columns = _read_csv(path, text, notes, delimiter, header)
    except RowError as error:  # of another tool's log
        raise SuiteError(f"{path}: {error}") from None
    if not rows:
        raise SuiteError(f"{path}: holds no rows")
    returns = _changed(rows, _in_texts(rows, "\r", ""), lines)
    if returns:
        notes.append(f"Rows with carriage returns, kept as they are: {_listed(returns)}.")
    mended = _in_texts(rows, "[\0\ud800-\udfff]", "\ufffd")
    replaced = _changed(rows, mended, lines)
    if replaced:
        notes.append(
            "Rows with NUL characters or lone surrogates, each replaced by U+FFFD: "
            f"{_listed(replaced)}."
        )
    return Table(mended, lines, columns, notes, hashlib.sha256(data).hexdigest())


def _decoded(path: Path, data: bytes, encoding: str, notes: list[str]) -> str:
    try:
        text = data.decode(encoding)
    except (LookupError, AssertionError):
        raise SuiteError(f"no encoding is called {encoding!r}; try utf-8 or cp1252") from None
    except UnicodeDecodeError as error:
        raise SuiteError(
            f"{path}: not {encoding} at byte {error.start}; name its encoding with --encoding"
        ) from None
    except ValueError as error:  # a codec that is no encoding of text can raise anything of its own
        raise SuiteError(
            f"{path}: cannot be read as {encoding} ({error}); try utf-8 or cp1252"
        ) from None
    if text.startswith(BOM):
        text = text.removeprefix(BOM)
        notes.append("The file starts with a byte order mark, which is not part of its text.")
    return text


def column_of(path: Path, table: Table, names: Sequence[str], what: str) -> str:
    """The first of some columns that a file has. Raises :class:`SuiteError` where it has none."""
    for name in names:
        if name in table.columns:
            return name
    raise SuiteError(
        f"{path}: has no {what} column ({' or '.join(names)}); "
        f"it has {', '.join(map(repr, table.columns))}"
    )


def _listed(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:10])) + (", …" if len(lines) > 10 else "")
    return f"{len(lines)} (ending on line {shown})"


def _changed(rows: list[Row], others: list[Row], lines: list[int]) -> list[int]:
    """The lines of the rows that differ."""
    compared = zip(rows, others, lines, strict=True)
    return [line for row, other, line in compared if row != other]


def _in_texts(value: Any, pattern: str, replacement: str) -> Any:
    """A JSON value with what matches replaced in every text of it; keys stay."""
    if isinstance(value, dict):
        return {key: _in_texts(part, pattern, replacement) for key, part in value.items()}
    if isinstance(value, list):
        return [_in_texts(part, pattern, replacement) for part in value]
    return re.sub(pattern, replacement, value) if isinstance(value, str) else value


def _read_csv(
    path: Path, text: str, notes: list[str], delimiter: str, has_header: bool
) -> tuple[list[Row], list[int], list[str]]:
    mark = ""
    if "\n" in text:
        # To the csv module a carriage return ends a row. In a file whose rows end in LF it is text.
        mark = next(chr(code) for code in range(0xE000, 0xF900) if chr(code) not in text)
        text = re.sub("\r(?!\n)", mark, text)
    before = csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    header: list[str] | None = None
    rows, lines, comments = [], [], []
    try:
        for cells in reader:
            if not cells:
                continue
            cells = [cell.replace(mark, "\r") if mark else cell for cell in cells]
            if not has_header and header is None:
                header = [str(number) for number in range(1, len(cells) + 1)]
            if cells[0].startswith("#") and (header is None or len(cells) != len(header)):
                comments.append(reader.line_num)
            elif header is None:
                header = cells
            elif len(cells) != len(header):
                raise SuiteError(
                    f"{path}: the row ending on line {reader.line_num} has more or fewer fields "
                    f"than the {'header' if has_header else 'first'} ({len(cells)}, not {len(header)})"
                )
            else:
                rows.append(dict(zip(header, cells, strict=True)))
                lines.append(reader.line_num)
    except csv.Error as error:
        what = "CSV" if delimiter == "," else "TSV"
        raise SuiteError(f"{path}:{reader.line_num}: not {what} ({error})") from None
    finally:
        csv.field_size_limit(before)
    if comments:
        notes.append(f"Comment lines, skipped: {_listed(comments)}.")
    twice = sorted({name for name in header or () if (header or []).count(name) > 1})
    if twice:
        raise SuiteError(f"{path}: two columns are called {twice[0]!r}")
    return rows, lines, header or []


def _read_jsonl(path: Path, text: str, notes: list[str]) -> tuple[list[Row], list[int], list[str]]:
    rows, lines, comments = [], [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        if line.startswith("#"):
            comments.append(number)
            continue
        try:
            row = parse_line(line.encode("utf-8"))
        except ValueError as error:
            raise SuiteError(f"{path}:{number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise SuiteError(f"{path}:{number}: expected an object, got {type(row).__name__}")
        rows.append(row)
        lines.append(number)
    if comments:
        notes.append(f"Comment lines, skipped: {_listed(comments)}.")
    if is_lm_eval(rows):
        return _asked(lm_eval_rows(rows))
    return rows, lines, list(dict.fromkeys(key for row in rows for key in row))


def _read_json(path: Path, text: str) -> tuple[list[Row], list[int], list[str]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"{path}: not JSON ({error})") from None
    if is_inspect(value):
        return _asked(inspect_rows(value))
    if isinstance(value, dict) and "jailbreaks" in value:
        value = value["jailbreaks"]  # JailbreakBench's artifacts
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise SuiteError(f"{path}: expected a list of objects")
    columns = list(dict.fromkeys(key for row in value for key in row))
    return value, list(range(1, len(value) + 1)), columns


def _asked(answers: list[Row]) -> tuple[list[Row], list[int], list[str]]:
    """The prompts of another tool's log."""
    rows = asked_rows(answers)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return rows, list(range(1, len(rows) + 1)), columns


def _read_typed(
    path: Path, data: bytes, notes: list[str], *, header: bool
) -> tuple[list[Row], list[int], list[str]]:
    """Rows, their numbers and the columns. Raises :class:`SuiteError`.

    An empty cell is None. Of XLSX the first sheet is read; a cell that holds a number gives it as a
    text, as the sheet shows whole numbers. The rows of Parquet count from 1, those of XLSX as in the
    sheet.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            return _parquet(data)
        return _xlsx(data, notes, header)
    except ImportError:
        package = TYPED[suffix]
        raise SuiteError(
            f"{path}: reading {suffix} needs {package}: pip install {package}, or refract-eval"
            f"[{suffix[1:]}]"
        ) from None
    except SuiteError as error:
        raise SuiteError(f"{path}: {error}") from None
    except Exception as error:  # the readers raise whatever a damaged file makes them raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SuiteError(f"{path}: not {suffix[1:].upper()} ({reason})") from None


def _parquet(data: bytes) -> tuple[list[Row], list[int], list[str]]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(data))
    rows = [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]
    return rows, list(range(1, len(rows) + 1)), list(table.column_names)


def _plain(value: Any) -> Any:
    """A value as JSON has it; dates, decimals and bytes as texts."""
    if isinstance(value, list):
        return [_plain(held) for held in value]
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items()}
    if isinstance(value, float) and value != value:  # NaN, which JSON does not have
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _xlsx(
    data: bytes, notes: list[str], has_header: bool
) -> tuple[list[Row], list[int], list[str]]:
    import pandas as pd

    sheets = pd.read_excel(
        io.BytesIO(data),
        engine="openpyxl",
        sheet_name=None,
        header=None,
        dtype=object,
        na_filter=False,
    )
    (name, first), *others = sheets.items()
    if others:
        unread = ", ".join(repr(other) for other, _ in others)
        notes.append(f"Sheets besides {name!r}, which are not read: {unread}.")
    rows: list[Row] = []
    lines: list[int] = []
    columns: list[str] | None = None
    for number, cells in enumerate(first.itertuples(index=False, name=None), 1):
        values = [None if _is_empty(cell) else str(_plain(cell)) for cell in cells]
        if not any(value is not None for value in values):
            continue
        if columns is None:
            named = [value or f"column {place}" for place, value in enumerate(values, 1)]
            columns = named if has_header else [str(n) for n in range(1, len(values) + 1)]
            twice = sorted({column for column in columns if columns.count(column) > 1})
            if twice:
                raise SuiteError(f"two columns are called {twice[0]!r}")
            if has_header:
                continue
        rows.append(dict(zip(columns, values, strict=True)))
        lines.append(number)
    return rows, lines, columns or []


def _is_empty(cell: Any) -> bool:
    return cell is None or cell == "" or cell != cell
