"""Files of rows as people and publishers have them, and which of them are logs of other tools."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RowError
from refract.core.jsonl import iter_rows, parse_json
from refract.core.registry import Registry, find
from refract.core.tables import SEVERAL, check_separator
from refract.core.types import Row

# What pip installs to read a file, by its suffix.
TYPED = {".parquet": "pyarrow", ".xlsx": "openpyxl"}
SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", *TYPED)
DEEPEST = 200  # lists and objects within each other
MOST_LISTED = 30  # names of columns in a message
# Columns that tell several answers to one prompt apart.
TELLING = (
    *("model", "suite", "source", "annotator", "judge", "epoch", "choice", "repeat", "sample"),
    *("trial", "run", "seed", "attempt", "turn", "step", "perturbation"),
)
# Tools whose logs are known and not read, and where these hold a prompt and its answers.
NOT_READ = {
    "promptfoo": "prompt.raw and response.output of each result in its JSON",
    "garak": "prompt and each of outputs of each attempt of status 2 in its report",
}
# How promptfoo heads the columns of a table, and begins their cells.
PROMPTFOO = re.compile(r"\[[^\]]+\] ")


class Logs(Registry):
    """Readers of other tools' logs, by the names that ``log_kind`` gives: functions of a path
    that return a Log."""

    def code_of(self, name: str) -> dict[str, Path]:
        """The code of the package that reads a file, by the file's path; {} for no log."""
        path, rows = Path(name), list[Row]()
        with suppress(RowError):
            if path.suffix == ".jsonl":
                rows = list(islice(iter_rows(path, has_nan=True), 1))
            elif path.suffix == ".json":
                rows = read_row_file(path)
        return super().code_of(log_kind(path, rows) or "")


LOGS = Logs({}, "refract.logs")


class Log(NamedTuple):
    """Rows of answers, what is known of the run that they are of (None: nothing), what whoever
    reads a rate of them must know, and the tool whose log they are ("": rows of no tool)."""

    rows: list[Row]
    about: Row | None = None
    notes: Sequence[str] = ()
    tool: str = ""


def read_log(path: Path, encoding: str = "utf-8", *, header: bool = True) -> Log:
    """The rows of a file, which may be the log of another tool; a package reads these. Raises
    RowError and MissingPackage."""
    rows: list[Row] = []
    if path.suffix != ".eval":
        rows = read_row_file(path, encoding, header=header)
    kind = log_kind(path, rows)
    if kind is None:
        return Log(rows)
    if kind in NOT_READ:
        raise RowError(
            f"{path}: a log of {kind}, which is not read: write {NOT_READ[kind]} to a file (.csv or "
            ".jsonl) with the columns prompt and response"
        )
    read: Callable[[Path], Log] = find(LOGS, kind, f"{path}: this kind of log")
    log = read(path)
    try:
        return log._replace(rows=finite(log.rows), tool=kind)
    except ValueError as error:
        raise RowError(f"{path}: {error}") from None


def log_kind(path: Path, rows: Sequence[Row]) -> str | None:
    """Which tool wrote a file of these rows as its log; None for any other file."""
    if path.suffix == ".eval":
        return "inspect"
    if len(rows) == 1 and isinstance(rows[0].get("eval"), dict) and "status" in rows[0]:
        return "inspect"
    first = rows[0] if rows else {}
    if {"doc_id", "doc", "resps"} <= first.keys() or {"results", "versions"} <= first.keys():
        return "lm_eval"
    inner = first.get("results")
    if isinstance(inner, dict) and isinstance(inner.get("results"), list):
        return "promptfoo"
    cells = [str(cell) for name, cell in first.items() if PROMPTFOO.match(name)]
    is_table = any(cell.startswith(("[PASS] ", "[FAIL] ", "[ERROR] ")) for cell in cells)
    if is_table or {"promptIdx", "testIdx"} <= first.keys():
        return "promptfoo"
    if "entry_type" in first or {"attempt_id", "probe", "detector"} <= first.keys():
        return "garak"
    return None


def read_row_file(path: Path, encoding: str = "utf-8", *, header: bool = True) -> list[Row]:
    """All rows of a file in one of ``SUFFIXES``; none is lost or merged.

    Cells of CSV, TSV and the first sheet of XLSX are texts as they stand there, and None where a
    sheet's are empty; without a ``header`` the columns are called ``1``, ``2``, … A row of CSV with
    more or fewer cells than the first is an error. A JSON object is its one list of objects, or
    else one row; NaN is null. Raises RowError, which names the file."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise RowError(f"{path}: must be one of {', '.join(SUFFIXES)} (got {path.suffix!r})")
    try:
        if suffix == ".jsonl":
            return finite(list(iter_rows(path, has_nan=True)))
        if suffix == ".json":
            return finite(_json_rows(path))
        if suffix == ".parquet":
            return _parquet_rows(path)
        if suffix == ".xlsx":
            return _named(_xlsx_cells(path), header=header)
        text = _decoded(path.read_bytes(), encoding)
        first, separator = text.split("\n", 1)[0], {".csv": ",", ".tsv": "\t"}[suffix]
        if header:
            check_separator(first, separator, suffix)
        return _named(_csv_cells(text, separator), header=header)
    except ImportError:
        package = TYPED[suffix]
        raise RowError(f"{path}: reading {suffix} needs: pip install {package}") from None
    except RowError:
        raise
    except OSError as error:
        raise RowError(f"{path}: cannot be read ({error.strerror or error})") from None
    except Exception as error:  # the readers raise whatever a damaged file makes them raise
        reason = [*str(error).splitlines(), type(error).__name__]
        again = "; export it anew, perhaps as CSV" if suffix in TYPED else ""
        raise RowError(f"{path}: cannot be read ({reason[0]}){again}") from None


def _json_rows(path: Path) -> list[Row]:
    try:
        value = parse_json(path.read_bytes(), keys_once=True)
    except ValueError as error:
        with suppress(RowError):  # many files on the hub are JSONL by another name
            return list(iter_rows(path, has_nan=True))
        hint = "rows, each an object on its line, are .jsonl"
        raise ValueError(f"not JSON: {error}; {hint}") from None
    if isinstance(value, dict) and log_kind(path, [value]) is None:
        lists = {name: x for name, x in value.items() if isinstance(x, list)}
        tables = [name for name, x in lists.items() if x and isinstance(x[0], dict)]
        if len(tables) > 1:
            raise ValueError(f"holds several lists of objects ({listed(tables)}): take one")
        by_id = value and all(isinstance(x, dict) for x in value.values())
        if by_id or (len(value) == len(lists) > 1 and len({*map(len, lists.values())}) == 1):
            raise ValueError(
                "expected a list of objects, and it is one of rows by id or of columns (of a DataFrame "
                "take to_json(orient='records'))"
            )
        value = lists[tables[0]] if tables else value
    rows: list[Row] = [value] if isinstance(value, dict) and value else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"expected a list of objects, each a row (got {value!r:.60})")
    return rows


def _parquet_rows(path: Path) -> list[Row]:
    import pandas

    frame = pandas.read_parquet(path, dtype_backend="pyarrow")
    if frame.index.names != [None]:
        frame = frame.reset_index()
    columns: dict[str, list[Any]] = {}
    for name in frame.columns:
        try:
            columns[str(name)] = [plain(cell) for cell in frame[name]]
        except UnicodeDecodeError:
            raise ValueError(
                f"the column {name!r} holds bytes that are no UTF-8: leave it out"
            ) from None
    rows = zip(*columns.values(), strict=True)
    return finite([dict(zip(columns, row, strict=True)) for row in rows])


def _xlsx_cells(path: Path) -> list[list[str | None]]:
    import pandas

    frame = pandas.read_excel(path, header=None, dtype=object, keep_default_na=False)
    rows = []
    for values in frame.to_numpy().tolist():
        cells = [plain(value) for value in values]
        texts = [None if cell in (None, "") else str(cell) for cell in cells]
        if any(texts):
            rows.append(texts)
    return rows


def _decoded(content: bytes, encoding: str) -> str:
    """The text of a file. Raises ValueError, which names the encoding that its first bytes tell."""
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        marks = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
        known = marks.get(content[:2], "another encoding, such as cp1252")
        raise ValueError(
            f"{error}; it is in {known}: save it as UTF-8 (import-suite takes --encoding)"
        ) from None


def _csv_cells(text: str, separator: str) -> list[list[str]]:
    # A carriage return ends a row for the reader. Where rows end in LF it is text.
    mark = next(chr(code) for code in range(0xE000, 0x110000) if chr(code) not in text)
    if "\n" in text:
        text = re.sub("\r(?!\n)", mark, text)
    csv.field_size_limit(sys.maxsize)  # answers can be long
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    hint = f"a cell with {separator!r}, quotes or line breaks stands in double quotes"
    try:
        rows = [row for row in lines if len(row) > 1 or "".join(row).strip()]
    except csv.Error as error:
        raise ValueError(f"{error}; {hint}") from None
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            counts = f"row {number} and the first differ in their number of cells"
            raise ValueError(f"{counts} ({len(row)} and {len(rows[0])}); {hint}")
    return [[cell.replace(mark, "\r") for cell in row] for row in rows]


def _named(cells: Sequence[Sequence[str | None]], *, header: bool) -> list[Row]:
    """Rows of cells by the first row's names, or by their places."""
    if not cells:
        return []
    names = [str(place) for place in range(1, len(cells[0]) + 1)]
    if header:
        places_and_names = zip(names, cells[0], strict=True)
        names = [f"column {place}" if name is None else name for place, name in places_and_names]
        cells = cells[1:]
    if header and len(names) == 1 and SEVERAL.fullmatch(names[0]):
        raise ValueError(
            f"its one column is called {names[0]!r}: cells are not separated like that"
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"two columns are called {twice[0]!r}")
    again = next((number for number, row in enumerate(cells, 2) if [*row] == names), None)
    if header and again:
        raise ValueError(f"row {again} repeats the header: several files in one")
    return [dict(zip(names, row, strict=True)) for row in cells]


def id_text(value: Any) -> str:
    """An id as a text; a whole number is the same id however a file writes it (7, 7.0)."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if is_whole else value)


def row_key(id_: Any, row: Mapping[str, Any]) -> tuple[str, ...]:
    """What the row of an id is known by: the id and its columns of ``TELLING``."""
    return (str(id_), *(str(row.get(column)) for column in TELLING))


def check_ids(ids: Iterable[Any], rows: Iterable[Mapping[str, Any]], where: str) -> None:
    """Raises RowError for two rows with one id, where no column of ``TELLING`` tells them apart.
    ``where`` stands before the number of a row; an id of None is none."""
    first: dict[tuple[str, ...], int] = {}
    for number, (id_, row) in enumerate(zip(ids, rows, strict=True), 1):
        shown = str(id_[0] if isinstance(id_, tuple) else id_)
        key = row_key(id_, row)
        if id_ is not None and first.setdefault(key, number) != number:
            raise RowError(
                f"{where} {number} has the id {shown!r:.60}, as row {first[key]} does: delete one, give "
                "it another id, or tell them apart by a column such as model, suite, epoch or sample"
            )


def listed(columns: Iterable[str]) -> str:
    """The names of columns for a message; of many the first."""
    names = list(columns)
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(f"{name:.60}" for name in names[:MOST_LISTED]) + more


def finite(rows: Sequence[Row]) -> list[Row]:
    """Rows with null for NaN and the infinities, which tools write and JSON lacks.
    Raises ValueError for one that is nested too deeply to be worked on."""
    return [_finite(row) for row in rows]


def _finite(value: Any, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        return {name: _finite(part, depth + 1) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part, depth + 1) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(value: Any) -> Any:
    """A value as JSON has it: dates and decimals are texts, bytes the UTF-8 that they are."""
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8")
    import pandas

    if pandas.isna(value):
        return None
    return value if isinstance(value, str | int | float | bool) else str(value)
