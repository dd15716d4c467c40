"""Parquet and XLSX: files whose cells have types, as rows of texts, numbers and lists."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from refract.core.types import Row
from refract.suites.rows import SuiteError

# Suffix, and what pip installs to read it.
TYPED = {".parquet": "pyarrow", ".xlsx": "openpyxl"}


def read_typed(
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
