"""Files as publishers ship them, read without losing or merging a row."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.file_formats import plain, read_log
from refract.core.jsonl import parse_json
from refract.core.types import Row
from refract.core.vocabulary import UNUSABLE
from refract.suites.rows import SuiteError

# Who speaks, by what publishers call them.
SPEAKERS = {"system": "system", "developer": "system", "user": "user", "human": "user"}
SPEAKERS |= dict.fromkeys(("assistant", "bot", "gpt", "model"), "assistant")
# Parts of an answer that are no words of it.
THINKING = ("reasoning", "thinking", "redacted_thinking")
# What suites of logs leave out.
ANSWER_FIELDS = (
    *("response", "tool_calls", "finish_reason", "stop_details", "error"),
    *("epoch", "choice", "repeat", "model", "log"),
)


class Table(NamedTuple):
    """The rows of a file in order, what messages call each, the columns, what had to be
    decided on the way, and whether it is the log of another tool."""

    rows: list[Row]
    places: list[str]
    columns: list[str]
    notes: list[str]
    is_log: bool = False


def literal(text: Any) -> Any:
    """The value of JSON or Python that a text writes; anything else as it is."""
    if isinstance(text, str):
        for read in (parse_json, ast.literal_eval):
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                return plain(read(text))
    return text


def joined(table: Table, path: Path, other: Path, column: str, encoding: str) -> Table:
    """A table with the columns of another file, for the same values of a column.
    Raises SuiteError, also where both have a column and differ in it."""
    more = read_table(other, encoding)
    by_value = {row.get(column): row for row in more.rows}
    own = [row.get(column) for row in table.rows]
    if len(set(own)) != len(own) or len(by_value) != len(more.rows) or {*own} != {*by_value}:
        raise SuiteError(f"{path} and {other} must both have each {column} once")
    rows = []
    for row in table.rows:
        beside = by_value[row.get(column)]
        for name in row.keys() & beside.keys():
            if row[name] != beside[name]:
                raise SuiteError(
                    f"{path} and {other} differ in {name}, where {column} is {row[column]}: "
                    f"{row[name]!r:.60} and {beside[name]!r:.60}"
                )
        rows.append(row | beside)
    return table._replace(rows=rows, columns=list(rows[0]), notes=table.notes + more.notes)


def messages_of(value: Any, *, answers: bool) -> list[dict[str, str]]:
    """The messages of a published conversation, up to the user's last one.

    A message is a text (the user's), an object with a role and a text, or an object with
    a text for each role. Without ``answers`` the assistant's messages are left out. Texts without a
    role, and the system's, may be blank. Raises ValueError for a message that cannot be read."""
    said: list[tuple[str | None, Any, bool]] = []
    for turn in value if isinstance(value, list) else [value]:
        texts = turn if isinstance(turn, dict) else {"user": turn}
        speaker = texts.get("role") or texts.get("from")
        if speaker:
            given = [texts.get(key) for key in ("content", "body", "value")]
            texts = {str(speaker): next((text for text in given if text is not None), None)}
        roles = {name: SPEAKERS.get(str(name).lower()) for name in texts}
        known = [(role, texts[name], bool(speaker)) for name, role in roles.items() if role]
        said += known or [(None, turn, True)]
    messages: list[dict[str, str]] = []
    asks = any(role == "user" for role, *_ in said)
    for role, content, has_role in reversed(said):
        if asks and not messages and role != "user":
            continue  # behind the user's last one, which need not be texts
        if role is None:
            who = ", ".join(SPEAKERS)
            raise ValueError(f"a message must be by one of {who} (got {content!r:.80})")
        if role == "assistant" and not answers:
            continue
        text = _text_in(content)
        if text.strip() or (has_role and role != "system"):
            messages.append({"role": role, "content": text})
    has_text = any(message["content"].strip() for message in messages)
    return messages[::-1] if asks and has_text else []


def _text_in(content: Any) -> str:
    """The text of a message, or those of its parts without thinking. Raises ValueError for a part
    that is no text."""
    texts = []
    for part in content if isinstance(content, list) else [content or ""]:
        if isinstance(part, dict) and part.get("type") in THINKING:
            continue
        text = part.get("text") if isinstance(part, dict) else part
        if not isinstance(text, str):
            raise ValueError(f"a message must be of texts alone (got {part!r:.80})")
        texts.append(text)
    return "\n".join(texts)


def read_tables(
    path: Path, encoding: str, pattern: str | None, *, header: bool
) -> tuple[Table, list[Path]]:
    """A file, or all files of a folder whose paths end in a pattern, as one table; and the files.

    Named groups of the pattern become columns; ``number`` is a row's number in its file. Raises
    SuiteError and RowError."""
    if pattern is None:
        return read_table(path, encoding, header=header), [path]
    ending = re.compile(f"(?:{pattern})$")
    files = [path]
    if not path.is_file():
        files = [file for file in sorted(path.rglob("*")) if ending.search(file.as_posix())]
    if not files:
        raise SuiteError(f"{path}: holds no file of prompts (a path that ends in {pattern})")
    whole = Table(rows=[], places=[], columns=[], notes=[])
    columns: dict[str, None] = {}
    for file in files:
        table = read_table(file, encoding, header=header)
        match = ending.search(file.as_posix())
        groups = match.groupdict() if match else {}
        groups = {name: str(text).lower() for name, text in groups.items()}
        where = "" if file == path else "/".join(file.parts[-2:])
        whole.notes.extend(f"{where}: {note}" if where else note for note in table.notes)
        for number, (place, row) in enumerate(zip(table.places, table.rows, strict=True), 1):
            whole.rows.append({**row, **groups, "number": number})
            whole.places.append(f"{place} of {where}" if where else place)
        columns |= dict.fromkeys([*table.columns, *groups])
    return whole._replace(columns=list(columns)), files


def read_table(path: Path, encoding: str = "utf-8", *, header: bool = True) -> Table:
    """All rows of a file (:mod:`refract.core.file_formats`); the prompts of a log.

    NUL characters and lone surrogates, which a prompt may not hold, become U+FFFD; ``notes`` say
    where. Raises SuiteError and RowError."""
    log = read_log(path, encoding, header=header)
    notes = [*log.notes]
    rows = log.rows
    if log.tool:
        rows = _asked(rows)
        if len(rows) < len(log.rows):
            again = len(log.rows) - len(rows)
            notes.append(f"Further answers to the same prompts, left out: {again}.")
        shortened = sum(row.pop("messages", "") is None for row in rows)
        if shortened:
            notes.append(
                "Conversations that no row can hold as they were sent (messages of tools, two of the "
                f"user's in a row), of which the user's last text alone is asked: {shortened}."
            )
    if not rows:
        raise SuiteError(f"{path}: holds no rows")
    usable = [_usable(row) for row in rows]
    replaced = [number for number, row in enumerate(rows, 1) if usable[number - 1] != row]
    if replaced:
        first = ", ".join(map(str, replaced[:10])) + (", …" if len(replaced) > 10 else "")
        title = "Rows with NUL characters or lone surrogates, each replaced by U+FFFD"
        notes.append(f"{title}: {len(replaced)} (row {first}).")
    columns = dict.fromkeys(column for row in usable for column in row)
    places = [str(number) for number in range(1, len(usable) + 1)]
    return Table(usable, places, list(columns), notes, is_log=bool(log.tool))


def _asked(rows: Sequence[Row]) -> list[Row]:
    """The prompts of a log, whole conversations too, once for each id and text."""
    asked: dict[tuple[Any, Any], Row] = {}
    for row in rows:
        kept = {name: value for name, value in row.items() if name not in ANSWER_FIELDS}
        if kept.get("messages"):
            kept["prompt"] = kept.pop("messages")
        asked.setdefault((row["id"], row.get("prompt")), kept)
    return list(asked.values())


def column_of(path: Path, table: Table, names: Sequence[str], role: str) -> str:
    """The first of these columns that a file has. Raises SuiteError where it has none."""
    for name in names:
        if name in table.columns:
            return name
    raise SuiteError(
        f"{path}: has no {role} column ({' or '.join(names)}); "
        f"it has {', '.join(map(repr, table.columns))}"
    )


def _usable(value: Any) -> Any:
    """A JSON value without characters that no prompt may hold, in every text; keys stay."""
    if isinstance(value, dict):
        return {key: _usable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_usable(part) for part in value]
    return re.sub(UNUSABLE, "\ufffd", value) if isinstance(value, str) else value
