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
from refract.suites.importing import logs
from refract.suites.rows import UNUSABLE, SuiteError

BOM = "\ufeff"
# A prompt may be longer than the csv module's default limit for one field.
LONGEST_FIELD = 10_000_000
# Suffix, and what pip installs to read it.
TYPED = {".parquet": "pyarrow", ".xlsx": "openpyxl"}
SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", *TYPED, ".eval")
# Who speaks, by what publishers call them.
SPEAKERS = {"system": "system", "user": "user", "human": "user"}
SPEAKERS |= dict.fromkeys(("assistant", "bot", "gpt", "model"), "assistant")
# Rows, each with the line that it ends on, or with its number in a file without lines.
Numbered = list[tuple[int, Row]]


class Table(NamedTuple):
    """The rows of a file in order, the line each ends on, the columns, what had to be
    decided on the way, and whether it is the log of another tool."""

    rows: list[Row]
    lines: list[int | str]
    columns: list[str]
    notes: list[str]
    is_log: bool = False


def literal(text: Any) -> Any:
    """The value of JSON or Python that a text writes; anything else as it is."""
    if isinstance(text, str):
        for read in (parse_json, ast.literal_eval):
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                return _plain(read(text))
    return text


def joined(table: Table, path: Path, other: Path, column: str, encoding: str) -> Table:
    """A table with the columns of another file, for the same values of a column.
    Raises SuiteError."""
    more = read_table(other, encoding)
    by_value = {row.get(column): row for row in more.rows}
    own = [row.get(column) for row in table.rows]
    if len(set(own)) != len(own) or set(own) != set(by_value):
        raise SuiteError(
            f"{path} and {other} must both have each {column}, and {path} have it once"
        )
    rows = [row | by_value[row.get(column)] for row in table.rows]
    return table._replace(rows=rows, columns=list(rows[0]), notes=table.notes + more.notes)


def messages_of(value: Any, *, answers: bool) -> list[dict[str, str]]:
    """The messages of a published conversation, up to the user's last one.

    A message is a text (the user's), an object with a role and a text, or an object with
    a text for each role. Without ``answers`` the assistant's messages are left out."""
    messages: list[dict[str, str]] = []
    for turn in value if isinstance(value, list) else [value]:
        texts = turn if isinstance(turn, dict) else {"user": turn}
        speaker = texts.get("role", texts.get("from"))
        if speaker is not None:
            keys = [key for key in ("content", "body", "value") if key in texts]
            texts = {speaker: texts[keys[0]]} if keys else {}
        for speaker, text in texts.items():
            role = SPEAKERS.get(speaker)
            if role is None or (role == "assistant" and not answers):
                continue
            if isinstance(text, str) and text.strip():
                messages.append({"role": role, "content": text})
    while messages and messages[-1]["role"] != "user":
        messages.pop()
    return messages


def read_tables(
    path: Path, encoding: str, pattern: str | None, *, header: bool
) -> tuple[Table, list[Path]]:
    """A file, or all files of a folder whose paths end in a pattern, as one table; and
    the files.

    Named groups of the pattern become columns; ``number`` is a row's number in its file.
    Raises SuiteError."""
    if pattern is None:
        return read_table(path, encoding, header=header), [path]
    ending = re.compile(f"(?:{pattern})$")
    files = [path]
    if not path.is_file():
        files = [file for file in sorted(path.rglob("*")) if ending.search(file.as_posix())]
    if not files:
        raise SuiteError(f"{path}: holds no file of prompts (a path that ends in {pattern})")
    whole = Table(rows=[], lines=[], columns=[], notes=[])
    columns: dict[str, None] = {}
    for file in files:
        table = read_table(file, encoding, header=header)
        match = ending.search(file.as_posix())
        groups = match.groupdict() if match else {}
        groups = {name: str(text).lower() for name, text in groups.items()}
        where = "" if file == path else "/".join(file.parts[-2:])
        for note in table.notes:
            if not where:
                whole.notes.append(note)
            elif "byte order" not in note:
                whole.notes.append(f"{where}: {note}")
        for number, (line, row) in enumerate(zip(table.lines, table.rows, strict=True), 1):
            whole.rows.append({**row, **groups, "number": number})
            whole.lines.append(f"{line} of {where}" if where else line)
        columns |= dict.fromkeys([*table.columns, *groups])
    return whole._replace(columns=list(columns)), files


def read_table(path: Path, encoding: str = "utf-8", *, header: bool = True) -> Table:
    """All rows of a file in one of ``SUFFIXES``; the prompts of a log of Inspect or
    lm-evaluation-harness.

    Without a ``header`` the columns of CSV, TSV and XLSX are called ``1``, ``2``, … In CSV
    and TSV, a row that starts with # is a comment before the header, and wherever its
    number of cells differs from the header's. Any other row with more or fewer cells than
    the header (or the first row) is an error. Line breaks and carriage returns within a
    cell stay. In JSONL, blank lines and lines that start with # are skipped. NUL characters
    and lone surrogates, which a prompt may not hold, become U+FFFD. ``notes`` states
    everything but blank lines. Of XLSX the first sheet is read: an empty cell is None, a
    formula its stored value.
    Raises SuiteError, which names the file and the line."""
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
            numbered = [(1, logs.read_inspect(path))]
        elif suffix in TYPED:
            numbered = _read_typed(path, data, notes, header=header)
        else:
            text = _decoded(path, data, encoding=encoding, notes=notes)
            if suffix == ".jsonl":
                numbered = _read_jsonl(path, text, notes)
            elif suffix == ".json":
                numbered = _read_json(path, text, notes)
            else:
                cells = _csv_cells(
                    path,
                    text,
                    notes=notes,
                    delimiter="," if suffix == ".csv" else "\t",
                    has_header=header,
                )
                numbered = _named(path, cells, header)
        answers = logs.rows_of_log([row for _, row in numbered])
        if answers is not None:
            numbered = logs.asked_rows(answers, notes)
    except RowError as error:  # in another tool's log
        raise SuiteError(f"{path}: {error}") from None
    if not numbered:
        raise SuiteError(f"{path}: holds no rows")
    rows: list[Row] = []
    columns: dict[str, None] = {}
    returns: list[int] = []
    replaced: list[int] = []
    for line, row in numbered:
        usable = _in_texts(row, UNUSABLE, "\ufffd")
        if usable != row:
            replaced.append(line)
        if _in_texts(row, "\r", "") != row:
            returns.append(line)
        rows.append(usable)
        columns |= dict.fromkeys(usable)
    _note(notes, "Rows with carriage returns, kept as they are", returns)
    title = "Rows with NUL characters or lone surrogates, each replaced by U+FFFD"
    _note(notes, title, replaced)
    lines: list[int | str] = [line for line, _ in numbered]
    return Table(rows, lines, list(columns), notes, is_log=answers is not None)


def column_of(path: Path, table: Table, names: Sequence[str], role: str) -> str:
    """The first of these columns that a file has.
    Raises SuiteError where it has none."""
    for name in names:
        if name in table.columns:
            return name
    raise SuiteError(
        f"{path}: has no {role} column ({' or '.join(names)}); "
        f"it has {', '.join(map(repr, table.columns))}"
    )


def _note(notes: list[str], title: str, lines: Sequence[int]) -> None:
    """Adds a note about these lines where there are any; the first ten are named."""
    if lines:
        first = ", ".join(map(str, lines[:10])) + (", …" if len(lines) > 10 else "")
        notes.append(f"{title}: {len(lines)} (ending on line {first}).")


def _decoded(path: Path, data: bytes, encoding: str, notes: list[str]) -> str:
    try:
        text = data.decode(encoding)
    except (LookupError, ValueError, AssertionError) as error:
        # A codec that is not an encoding of text can raise any of them.
        raise SuiteError(
            f"{path}: cannot be read as {encoding!r} ({error}); name its encoding with "
            "--encoding, such as utf-8 or cp1252"
        ) from None
    if text.startswith(BOM):
        notes.append("The file starts with a byte order mark, which is not part of its text.")
    return text.removeprefix(BOM)


def _in_texts(value: Any, pattern: str, replacement: str) -> Any:
    """A JSON value with what matches replaced in every text of it; keys stay."""
    if isinstance(value, dict):
        return {key: _in_texts(part, pattern, replacement) for key, part in value.items()}
    if isinstance(value, list):
        return [_in_texts(part, pattern, replacement) for part in value]
    return re.sub(pattern, replacement, value) if isinstance(value, str) else value


def _named(path: Path, cells: Iterable[tuple[int, list[Any]]], has_header: bool) -> Numbered:
    """Rows of equally many cells, by the names in the first row or by the cells' places."""
    numbered: Numbered = []
    names: list[str] = []
    taken: set[str] = set()
    for line, values in cells:
        if names or not has_header:
            names = names or [str(place) for place in range(1, len(values) + 1)]
            numbered.append((line, dict(zip(names, values, strict=True))))
            continue
        for place, value in enumerate(values, 1):
            name = f"column {place}" if value is None else value
            if name in taken:
                raise SuiteError(f"{path}: two columns are called {name!r}")
            names.append(name)
            taken.add(name)
    return numbered


def _csv_cells(
    path: Path, text: str, notes: list[str], delimiter: str, has_header: bool
) -> Iterator[tuple[int, list[str]]]:
    """The rows of CSV or TSV with the line each ends on, without comments."""
    mark = "\r"
    if "\n" in text:
        # To the csv module a carriage return ends a row. In a file whose rows end in LF it is text.
        mark = next(chr(code) for code in range(0xE000, 0x110000) if chr(code) not in text)
        text = re.sub("\r(?!\n)", mark, text)
    before = csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    width = 0
    comments = []
    try:
        for cells in filter(None, reader):
            line = reader.line_num
            is_comment = len(cells) != width if width else has_header
            if cells[0].startswith("#") and is_comment:
                comments.append(line)
                continue
            if not width:
                width = len(cells)
                others = [sign for sign in ";|,\t" if sign in cells[0] and sign != delimiter]
                if has_header and width == 1 and others:
                    raise SuiteError(
                        f"{path}: its columns seem to be divided by {others[0]!r}; write them with "
                        "commas into a .csv, or with tabs into a .tsv"
                    )
            if len(cells) != width:
                raise SuiteError(
                    f"{path}: the row ending on line {line} has more or fewer fields than the "
                    f"{'header' if has_header else 'first'} ({len(cells)}, not {width})"
                )
            yield line, [cell.replace(mark, "\r") for cell in cells]
    except csv.Error as error:
        form = "CSV" if delimiter == "," else "TSV"
        raise SuiteError(f"{path}:{reader.line_num}: not {form} ({error})") from None
    finally:
        csv.field_size_limit(before)
    _note(notes, "Comment lines, skipped", comments)


def _read_jsonl(path: Path, text: str, notes: list[str]) -> Numbered:
    numbered: Numbered = []
    comments = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            comments.append(number)
        elif line.strip():
            try:
                row = parse_line(line.encode("utf-8"))
            except ValueError as error:
                raise SuiteError(f"{path}:{number}: not JSON ({error})") from None
            if not isinstance(row, dict):
                raise SuiteError(f"{path}:{number}: expected an object, got {type(row).__name__}")
            numbered.append((number, row))
    _note(notes, "Comment lines, skipped", comments)
    return numbered


def _read_json(path: Path, text: str, notes: list[str]) -> Numbered:
    try:
        value = parse_json(text)
    except ValueError as error:
        with suppress(SuiteError):  # many files on the hub are JSONL by another name
            return _read_jsonl(path, text, notes)
        raise SuiteError(f"{path}: not JSON ({error})") from None
    if logs.is_inspect(value):
        return [(1, value)]
    if isinstance(value, dict) and value:
        # The one list of objects in it, or a single row.
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
            return list(enumerate(map(_plain, table.to_pylist()), 1))
        cells = _xlsx_cells(data, notes)
    except ImportError:
        package = TYPED[suffix]
        raise SuiteError(
            f"{path}: reading {suffix} needs {package}: pip install {package}, or "
            f"refract-eval[{suffix[1:]}]"
        ) from None
    except UnicodeDecodeError as error:
        raise SuiteError(
            f"{path}: holds bytes that are not UTF-8 ({error.reason}: {error.object[:40]!r}); "
            "write the column as text and import that"
        ) from None
    except Exception as error:  # the readers raise whatever a damaged file makes them raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SuiteError(f"{path}: not {suffix[1:].upper()} ({reason})") from None
    return _named(path, cells, header)


def _xlsx_cells(data: bytes, notes: list[str]) -> list[tuple[int, list[str | None]]]:
    """The rows of a workbook's first sheet that hold anything, with their numbers, each
    with as many cells as the widest.

    A sheet is read row by row, since one cell far out would make millions of empty ones.
    It is read twice, since a formula without a stored value looks empty where values are
    read."""
    from openpyxl import load_workbook

    sheets = []
    for data_only in (True, False):
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=data_only)
        sheets.append(book.worksheets[0])
        sheets[-1].reset_dimensions()  # the size that a file states may be wrong
    rows: list[tuple[int, list[str | None]]] = []
    unread: list[int] = []
    width = 0
    pairs = zip(sheets[0].rows, sheets[1].rows, strict=True)
    for number, (values, formulas) in enumerate(pairs, 1):
        texts: list[str | None] = []
        for value, formula in zip(values, formulas, strict=True):
            is_error = value.data_type == "e"
            text = None if is_error else _cell_text(value.value)
            texts.append(text)
            lacks_value = text is None and (is_error or formula.data_type == "f")
            if lacks_value and number not in unread[-1:]:
                unread.append(number)
        while texts and texts[-1] is None:
            texts.pop()
        if texts:
            rows.append((number, texts))
            width = max(width, len(texts))
    if len(book.worksheets) > 1:
        others = ", ".join(repr(sheet.title) for sheet in book.worksheets[1:])
        notes.append(f"Sheets besides {sheets[0].title!r}, which are not read: {others}.")
    title = "Rows with errors, or formulas without a stored value, which are read as empty"
    _note(notes, title, unread)
    for _, texts in rows:
        texts.extend([None] * (width - len(texts)))
    return rows


def _cell_text(value: Any) -> str | None:
    plain = _plain(value)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return None if plain in (None, "") else str(plain)


def _plain(value: Any) -> Any:
    """A value as JSON has it; dates and decimals as texts, and bytes as the UTF-8 that
    they are."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if value != value:  # NaN and NaT, which JSON does not have
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
