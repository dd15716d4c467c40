"""Files as publishers ship them, read without losing or merging a row."""

from __future__ import annotations

import ast
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RowError
from refract.core.jsonl import parse_json, parse_line
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
# Who speaks, by what publishers call them.
SPEAKERS = {"system": "system", "user": "user", "human": "user"}
SPEAKERS |= dict.fromkeys(("assistant", "bot", "gpt", "model"), "assistant")
# Rows with the line that each ends on, or its number where a file has no lines.
Numbered = list[tuple[int, Row]]


class Table(NamedTuple):
    """The rows of a file in order, the line each ends on, and what had to be decided on the way."""

    rows: list[Row]
    lines: list[int | str]
    columns: list[str]
    notes: list[str]


def literal(text: Any) -> Any:
    """The value of JSON or Python that a text writes; anything else as it is."""
    for read in (parse_json, ast.literal_eval) if isinstance(text, str) else ():
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return _plain(read(text))
    return text


def joined(table: Table, path: Path, other: Path, by: str, encoding: str) -> Table:
    """A table with the columns of another file, for the same values of a column. Raises
    :class:`SuiteError`."""
    more = read_table(other, encoding)
    found = {row.get(by): row for row in more.rows}
    own = [row.get(by) for row in table.rows]
    if len({*own}) != len(own) or {*own} != {*found}:
        raise SuiteError(f"{path} and {other} must both have each {by}, and {path} have it once")
    rows = [{**row, **found[row.get(by)]} for row in table.rows]
    return Table(rows, table.lines, list(rows[0]), table.notes + more.notes)


def messages_of(value: Any, *, answers: bool) -> list[dict[str, str]]:
    """The messages of a published conversation up to the user's last one: each a text (the user's), an
    object with a role and a text, or one with a text for each role. Without ``answers`` the
    assistant's are left out."""
    messages: list[dict[str, str]] = []
    for turn in value if isinstance(value, list) else [value]:
        said: dict[Any, Any] = turn if isinstance(turn, dict) else {"user": turn}
        if (role := said.get("role", said.get("from"))) is not None:
            said = {role: next((said[x] for x in ("content", "body", "value") if x in said), None)}
        messages += [
            {"role": SPEAKERS[name], "content": text}
            for name, text in said.items()
            if name in SPEAKERS and isinstance(text, str) and text.strip()
        ]
    kept = [message for message in messages if answers or message["role"] != "assistant"]
    while kept and kept[-1]["role"] != "user":
        kept.pop()
    return kept


def read_tables(
    path: Path, encoding: str, pattern: str | None, *, header: bool
) -> tuple[Table, list[Path]]:
    """A file, or those of a folder whose paths end in a pattern, as one table, and the files; named
    groups of the pattern are columns, and ``number`` is a row's number in its file. Raises
    :class:`SuiteError`."""
    if pattern is None:
        return read_table(path, encoding, header=header), [path]
    ends = re.compile(f"(?:{pattern})$")
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    files = [file for file in files if file == path or ends.search(file.as_posix())]
    if not files:
        raise SuiteError(f"{path}: holds no file of prompts (a path that ends in {pattern})")
    together = Table([], [], [], [])
    for file in files:
        table, match = read_table(file, encoding, header=header), ends.search(file.as_posix())
        named = {of: str(text).lower() for of, text in match.groupdict().items()} if match else {}
        where = "" if file == path else "/".join(file.parts[-2:])
        notes = [f"{where}: {note}" for note in table.notes if "byte order" not in note]
        together.notes.extend(notes if where else table.notes)
        for number, (row, line) in enumerate(zip(table.rows, table.lines, strict=True), 1):
            together.rows.append({**row, **named, "number": number})
            together.lines.append(f"{line} of {where}" if where else line)
        together.columns.extend(x for x in [*table.columns, *named] if x not in together.columns)
    return together, files


def read_table(path: Path, encoding: str = "utf-8", *, header: bool = True) -> Table:
    """All rows of a file in one of ``SUFFIXES``; of a log of Inspect or lm-evaluation-harness the
    prompts.

    Without a ``header`` the columns of CSV, TSV and XLSX are called ``1``, ``2``, … In CSV, rows that
    start with # are comments where they stand before the header or do not have its number of cells; a
    row with more or fewer cells than the header (or the first row) is an error. Line breaks and carriage
    returns within a cell stay. In JSONL, blank lines and lines that start with # are skipped. NUL
    characters and lone surrogates, which a prompt may not hold, become U+FFFD. Everything but blank
    lines is stated in ``notes``. Of XLSX the first sheet is read, an empty cell is None, and a formula
    is the value that was stored with it. Raises :class:`SuiteError` naming the file and the line."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise SuiteError(f"{path}: must be one of {', '.join(SUFFIXES)} (got {path.suffix!r})")
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # a ValueError for a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise SuiteError(f"{path}: cannot be read ({reason})") from None
    notes: list[str] = []
    try:
        if suffix == ".eval":
            numbered = asked_rows(inspect_rows(read_inspect(path)), notes)
        elif suffix in TYPED:
            numbered = _read_typed(path, data, notes, header=header)
        else:
            text = _decoded(path, data, encoding, notes)
            if suffix == ".jsonl":
                numbered = _read_jsonl(path, text, notes)
            elif suffix == ".json":
                numbered = _read_json(path, text, notes)
            else:
                cells = _csv_cells(path, text, notes, "," if suffix == ".csv" else "\t", header)
                numbered = _named(path, cells, header)
    except RowError as error:  # of another tool's log
        raise SuiteError(f"{path}: {error}") from None
    if not numbered:
        raise SuiteError(f"{path}: holds no rows")
    lines: list[int | str] = [line for line, _ in numbered]
    given = [row for _, row in numbered]
    rows = [_in_texts(row, "[\0\ud800-\udfff]", "\ufffd") for row in given]
    without = [_in_texts(row, "\r", "") for row in given]
    for what, changed in (
        ("Rows with carriage returns, kept as they are", without),
        ("Rows with NUL characters or lone surrogates, each replaced by U+FFFD", rows),
    ):
        at = [line for line, row, old in zip(lines, changed, given, strict=True) if row != old]
        notes += [f"{what}: {_listed(at)}."] if at else []
    return Table(rows, lines, list(dict.fromkeys(key for row in rows for key in row)), notes)


def column_of(path: Path, table: Table, names: Sequence[str], what: str) -> str:
    """The first of some columns that a file has. Raises :class:`SuiteError` where it has none."""
    for name in names:
        if name in table.columns:
            return name
    raise SuiteError(
        f"{path}: has no {what} column ({' or '.join(names)}); "
        f"it has {', '.join(map(repr, table.columns))}"
    )


def _decoded(path: Path, data: bytes, encoding: str, notes: list[str]) -> str:
    try:
        text = data.decode(encoding)
    except (LookupError, ValueError, AssertionError) as error:
        # A codec that is no encoding of text can raise any of them.
        raise SuiteError(
            f"{path}: cannot be read as {encoding!r} ({error}); name its encoding with --encoding, "
            "such as utf-8 or cp1252"
        ) from None
    if text.startswith(BOM):
        text = text.removeprefix(BOM)
        notes.append("The file starts with a byte order mark, which is not part of its text.")
    return text


def _listed(lines: Sequence[int | str]) -> str:
    first = ", ".join(map(str, lines[:10])) + (", …" if len(lines) > 10 else "")
    return f"{len(lines)} (ending on line {first})"


def _in_texts(value: Any, pattern: str, replacement: str) -> Any:
    """A JSON value with what matches replaced in every text of it; keys stay."""
    if isinstance(value, dict):
        return {key: _in_texts(part, pattern, replacement) for key, part in value.items()}
    if isinstance(value, list):
        return [_in_texts(part, pattern, replacement) for part in value]
    return re.sub(pattern, replacement, value) if isinstance(value, str) else value


def _named(path: Path, cells: Iterable[tuple[int, list[Any]]], has_header: bool) -> Numbered:
    """Rows of cells, all of one number, by the names in the first of them or by their places."""
    numbered: Numbered = []
    header: list[str] | None = None
    for line, values in cells:
        if header is None:
            header = [str(place) for place in range(1, len(values) + 1)]
            if has_header:
                header = [f"column {n}" if v is None else v for n, v in enumerate(values, 1)]
                twice = sorted({name for name in header if header.count(name) > 1})
                if twice:
                    raise SuiteError(f"{path}: two columns are called {twice[0]!r}")
                continue
        numbered.append((line, dict(zip(header, values, strict=True))))
    return numbered


def _csv_cells(
    path: Path, text: str, notes: list[str], delimiter: str, has_header: bool
) -> Iterator[tuple[int, list[str]]]:
    """The rows of CSV or TSV with the line each ends on, without comments."""
    mark = ""
    if "\n" in text:
        # To the csv module a carriage return ends a row. In a file whose rows end in LF it is text.
        mark = next(chr(code) for code in range(0xE000, 0x110000) if chr(code) not in text)
        text = re.sub("\r(?!\n)", mark, text)
    before = csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    width, comments = 0, []
    try:
        for cells in filter(None, reader):
            starts = not width
            if cells[0].startswith("#") and (has_header if starts else len(cells) != width):
                comments.append(reader.line_num)
                continue
            other = next((x for x in ";|," + "\t" * (delimiter == ",") if x in cells[0]), None)
            if starts and has_header and len(cells) == 1 and other:
                raise SuiteError(
                    f"{path}: its columns seem to be divided by {other!r}; write them with commas into "
                    "a .csv, or with tabs into a .tsv"
                )
            width = width or len(cells)
            if len(cells) != width:
                raise SuiteError(
                    f"{path}: the row ending on line {reader.line_num} has more or fewer fields "
                    f"than the {'header' if has_header else 'first'} ({len(cells)}, not {width})"
                )
            yield reader.line_num, [cell.replace(mark, "\r") if mark else cell for cell in cells]
    except csv.Error as error:
        what = "CSV" if delimiter == "," else "TSV"
        raise SuiteError(f"{path}:{reader.line_num}: not {what} ({error})") from None
    finally:
        csv.field_size_limit(before)
    if comments:
        notes.append(f"Comment lines, skipped: {_listed(comments)}.")


def _read_jsonl(path: Path, text: str, notes: list[str]) -> Numbered:
    numbered: Numbered = []
    comments = []
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
        numbered.append((number, row))
    if comments:
        notes.append(f"Comment lines, skipped: {_listed(comments)}.")
    rows = [row for _, row in numbered]
    return asked_rows(lm_eval_rows(rows), notes) if is_lm_eval(rows) else numbered


def _read_json(path: Path, text: str, notes: list[str]) -> Numbered:
    try:
        value = parse_json(text)
    except ValueError as error:
        with suppress(SuiteError):  # many files on the hub are JSONL by another name
            return _read_jsonl(path, text, notes)
        raise SuiteError(f"{path}: not JSON ({error})") from None
    if is_inspect(value):
        return asked_rows(inspect_rows(value), notes)
    if isinstance(value, dict) and value:  # rows beside what is said of all of them, or a row
        lists = [x for x in value.values() if isinstance(x, list) and x and isinstance(x[0], dict)]
        value = lists[0] if len(lists) == 1 else [value]
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise SuiteError(f"{path}: expected a list of objects")
    return list(enumerate(value, 1))


def _read_typed(path: Path, data: bytes, notes: list[str], *, header: bool) -> Numbered:
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            import pyarrow.parquet

            table = pyarrow.parquet.read_table(io.BytesIO(data))
            return [(number, _plain(row)) for number, row in enumerate(table.to_pylist(), 1)]
        cells = _xlsx_cells(data, notes)
    except ImportError:
        package = TYPED[suffix]
        raise SuiteError(
            f"{path}: reading {suffix} needs {package}: pip install {package}, or refract-eval"
            f"[{suffix[1:]}]"
        ) from None
    except UnicodeDecodeError as error:
        raise SuiteError(
            f"{path}: holds bytes that are not UTF-8 ({error.reason}: {error.object[:40]!r}); write "
            "the column as text and import that"
        ) from None
    except Exception as error:  # the readers raise whatever a damaged file makes them raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SuiteError(f"{path}: not {suffix[1:].upper()} ({reason})") from None
    return _named(path, cells, header)


def _xlsx_cells(data: bytes, notes: list[str]) -> list[tuple[int, list[str | None]]]:
    """The rows of a workbook's first sheet that hold anything, with their numbers, each of as many cells
    as the widest.

    A sheet is read row by row, since one cell far out would make millions of empty ones, and twice,
    since a formula without a stored value looks empty where values are read."""
    from openpyxl import load_workbook

    sheets = []
    for data_only in (True, False):
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=data_only)
        sheets.append(book.worksheets[0])
    rows: list[tuple[int, list[str | None]]] = []
    without: list[int | str] = []
    for sheet in sheets:
        sheet.reset_dimensions()  # what a file says of its size may be wrong
    both = zip(*(sheet.rows for sheet in sheets), strict=True)
    for number, (values, formulas) in enumerate(both, 1):
        texts = [None if cell.data_type == "e" else _cell_text(cell.value) for cell in values]
        kinds = zip(values, formulas, strict=True)
        odd = [cell.data_type == "e" or of.data_type == "f" for cell, of in kinds]
        if any(text is None and is_odd for text, is_odd in zip(texts, odd, strict=True)):
            without.append(number)
        while texts and texts[-1] is None:
            texts.pop()
        if texts:
            rows.append((number, texts))
    if others := [other.title for other in book.worksheets[1:]]:
        unread = ", ".join(map(repr, others))
        notes.append(f"Sheets besides {sheets[0].title!r}, which are not read: {unread}.")
    if without:
        what = "Rows with errors, or formulas without a stored value, which are read as empty"
        notes.append(f"{what}: {_listed(without)}.")
    width = max((len(texts) for _, texts in rows), default=0)
    return [(number, [*texts, *[None] * (width - len(texts))]) for number, texts in rows]


def _cell_text(value: Any) -> str | None:
    plain = _plain(value)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return None if plain in (None, "") else str(plain)


def _plain(value: Any) -> Any:
    """A value as JSON has it; dates and decimals as texts, and bytes as the UTF-8 that they are."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if value != value:  # NaN and NaT, which JSON does not have
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
