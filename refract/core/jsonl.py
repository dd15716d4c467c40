"""JSONL as every stage reads and writes it: UTF-8, one object per line, LF, sorted keys."""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from refract.core.errors import RowError
from refract.core.played import with_own_answers
from refract.core.types import PromptRow, ResponseRow, Row, Verdict, VerdictRow, sample_prompts

BOM = b"\xef\xbb\xbf"

_dumps = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False).encode
# The one spelling of a JSON value that hashes are taken of.
canonical_json = json.JSONEncoder(
    ensure_ascii=True, sort_keys=True, allow_nan=False, separators=(",", ":")
).encode


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _keys_once(pairs: list[tuple[str, Any]]) -> Row:
    """An object of a file that somebody else wrote, where a second value would hide the first."""
    entry = dict(pairs)
    if len(entry) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {twice!r:.60} twice")
    return entry


_loads = json.JSONDecoder(parse_constant=_reject_constant).decode


def sha256_json(value: Any) -> str:
    """SHA-256 of ``canonical_json``, in hex."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(text: str | bytes, *, keys_once: bool = False) -> Any:
    """The JSON value of a text. Raises ValueError, also where it is nested too deeply, or where an
    object has a key twice that must have its ``keys_once``."""
    try:
        return json.loads(text, object_pairs_hook=_keys_once if keys_once else None)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def has_form(value: Any, form: Any) -> bool:
    """Whether a JSON value has a form.

    The form of a mapping is a dict of forms by key (``...``: of every value), that of a
    list a list of one form, that of anything else a type."""
    if isinstance(form, list):
        return isinstance(value, list) and all(has_form(entry, form[0]) for entry in value)
    if not isinstance(form, dict):
        return isinstance(value, form)
    if not isinstance(value, Mapping):
        return False
    for key, inner in form.items():
        if key is not ... and key not in value:
            return False
        parts = value.values() if key is ... else [value[key]]
        if not all(has_form(part, inner) for part in parts):
            return False
    return True


def parse_line(line: bytes, *, has_nan: bool = False) -> Any:
    """The JSON value of one line; ``NaN`` and ``Infinity`` are not JSON, unless it ``has_nan``, as
    lines of other tools do, whose objects must have their keys once.
    Raises ValueError, which is a UnicodeDecodeError where the line is not UTF-8."""
    text = line.removesuffix(b"\n").decode("utf-8")
    try:
        return json.loads(text, object_pairs_hook=_keys_once) if has_nan else _loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump_row(row: Mapping[str, Any]) -> bytes:
    """One row as a line, LF included. A lone surrogate, which has no UTF-8 form, becomes
    its JSON escape."""
    return _dumps(row).encode("utf-8", "backslashreplace") + b"\n"


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise RowError(f"{path}: cannot be read ({error.strerror})") from None


def holds_row(line: bytes) -> bool:
    """Whether a line of a JSONL file is neither blank nor a comment (``#`` or ``//``)."""
    text = line.removeprefix(BOM).strip()
    return bool(text) and not text.startswith((b"#", b"//"))


def iter_rows(path: Path, *, has_nan: bool = False) -> Iterator[Row]:
    """The rows of a JSONL file, in order. Lines end at LF alone: U+2028, U+0085 or a carriage
    return in a text never splits a row. Raises RowError with file and line number."""
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            if not holds_row(line):
                continue
            try:
                row = parse_line(line.removeprefix(BOM) if number == 1 else line, has_nan=has_nan)
            except UnicodeDecodeError as error:
                raise RowError(f"{path}:{number}: not UTF-8 ({error.reason})") from None
            except ValueError as error:
                raise RowError(f"{path}:{number}: not JSON ({error})") from None
            if not isinstance(row, dict):
                raise RowError(f"{path}:{number}: expected an object, got {type(row).__name__}")
            yield row


def read_rows(path: Path) -> list[Row]:
    """All rows of a JSONL file; see ``iter_rows``."""
    return list(iter_rows(path))


# The rows of data/prompts, data/responses and data/verdicts, one by one.
iter_prompts = cast(Callable[[Path], Iterator[PromptRow]], iter_rows)
iter_responses = cast(Callable[[Path], Iterator[ResponseRow]], iter_rows)
iter_verdicts = cast(Callable[[Path], Iterator[VerdictRow]], iter_rows)


class RowsById(Mapping[str, Any]):
    """The rows of a JSONL file by their ``key``, or one ``field`` of each.

    A row is read whenever it is asked for; only the places of the lines stay in memory. ``numbers``
    has the number of each row by its key, from 0. Raises RowError for a row with another key."""

    def __init__(
        self, path: Path, numbers: Mapping[str, int], key: str = "prompt_id", field: str = ""
    ) -> None:
        self._file = _opened(path)
        weakref.finalize(self, self._file.close)
        self._path, self._numbers, self._key, self._field = (path, numbers, key, field)
        self._starts = array("q")
        start = 0
        for line in self._file:
            if holds_row(line):
                self._starts.append(start)
            start += len(line)

    def __getitem__(self, id_: str) -> Any:
        number = self._numbers[id_]
        if number >= len(self._starts):
            raise KeyError(id_)
        self._file.seek(self._starts[number])
        try:
            row = parse_line(self._file.readline().removeprefix(BOM))
            if row[self._key] != id_:
                raise ValueError(f"is that of {row[self._key]!r}, expected {id_!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise RowError(f"{self._path}: row {number + 1}: {error}; run: dvc repro") from None
        return row[self._field] if self._field else row

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._starts)


class StoredRows(NamedTuple):
    """The rows that stages wrote of one suite and model, in order and by prompt id. Prompts have
    their samples, and the model's own answers where a conversation is played."""

    prompts: Mapping[str, PromptRow]
    responses: Mapping[str, ResponseRow]
    verdicts: Mapping[str, dict[str, Verdict]]


def stored_rows(prompts: Path, responses: Path, verdicts: Path | None = None) -> StoredRows:
    """The rows in these files; no verdicts without a file of them."""
    numbers: dict[str, int] = {}
    played = False
    for number, row in enumerate(iter_prompts(prompts)):
        numbers[row["prompt_id"]] = number
        played = played or "turn" in row
    answers = RowsById(responses, numbers)
    judged = RowsById(verdicts, numbers, field="judges") if verdicts else {}
    samples = len(answers) // max(1, len(numbers))
    if samples < 2 and not played:
        return StoredRows(RowsById(prompts, numbers), answers, judged)
    rows: dict[str, PromptRow] = {}
    earlier: dict[str, Any] = {}
    numbers.clear()
    for number, row in enumerate(sample_prompts(iter_prompts(prompts), max(1, samples))):
        id_ = row["prompt_id"]
        numbers[id_] = number
        rows[id_] = with_own_answers(row, answers.get(id_) if played else None, earlier)
    return StoredRows(rows, answers, judged)


def write_bytes(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a file beside its place and moves it there, so that no reader sees half of it.
    Raises OSError, which names the file, where the disk is full too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            file.writelines(chunks)
        os.replace(beside, path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSONL; the file appears whole or not at all."""
    write_bytes(path, map(dump_row, rows))


def write_json(path: Path, value: Any) -> None:
    """Writes one JSON value: sorted keys, two spaces, trailing newline."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2, allow_nan=False) + "\n"
    write_bytes(path, [text.encode("utf-8", "backslashreplace")])
