"""Answers that someone already has, as a model: a file of completions, re-judged without a model.

The file is JSONL, CSV or JSON (by its suffix); JSON is a list of rows, or an artifact of
JailbreakBench, whose rows are its ``jailbreaks``. Each prompt takes the answer whose id equals its
id, or, where the file has no such id, whose prompt text equals its text. A prompt without an answer
is an error row, as is one whose answer is null: in an artifact, an attack that failed. What such a
file says about its own totals is not read.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from refract.errors import ParamsError
from refract.models import check_keys
from refract.models.protocol import AdapterError, Answer, Request
from refract.rows.jsonl import Row, RowError, read_rows, sha256_file

DEFAULTS: dict[str, Any] = {
    "path": None,  # the file with the answers: .jsonl, .csv or .json
    "where": None,  # column: value, to take one model's rows of a file with several
    "id_column": None,  # default: the first of ID_COLUMNS that the file has
    "prompt_column": None,  # default: the first of PROMPT_COLUMNS
    "response_column": None,  # default: the first of RESPONSE_COLUMNS
}
ID_COLUMNS = ("prompt_id", "id")
PROMPT_COLUMNS = ("prompt", "goal", "question")
RESPONSE_COLUMNS = ("response", "completion", "output", "answer")
SUFFIXES = (".jsonl", ".csv", ".json")


class Recorded:
    """See the module; the keys of a definition are those of ``DEFAULTS``."""

    VERSION = "1"
    USES = ("prompt_id",)
    samples = False

    def __init__(self, name: str, definition: dict[str, Any]) -> None:
        self.name = name
        self.settings = check_keys(name, definition, DEFAULTS)
        path = self.settings["path"]
        if not isinstance(path, str) or Path(path).suffix not in SUFFIXES:
            raise ParamsError(
                f"model {name!r}: path must name a .jsonl, .csv or .json file of answers "
                f"(got {path!r})"
            )
        where = self.settings["where"]
        if where is not None and not isinstance(where, dict):
            raise ParamsError(
                f"model {name!r}: where must be a mapping of column to value (got {where!r})"
            )
        self.path = Path(path)

    def identity(self) -> dict[str, Any]:
        """The file's content and which of its columns are read, never where it lies."""
        try:
            content = sha256_file(self.path)
        except OSError as error:
            raise AdapterError(
                f"model {self.name!r}: {self.path} cannot be read ({error.strerror})"
            ) from None
        settings = {key: value for key, value in self.settings.items() if key != "path"}
        return {
            "adapter": "recorded",
            "adapter_version": self.VERSION,
            "sha256": content,
            **settings,
        }

    def description(self) -> dict[str, Any]:
        """What made the answers is not known here."""
        return {"parameters": None}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers in order; raises :class:`AdapterError` when the file cannot be used."""
        by_id, by_prompt = self._read()
        for index, request in enumerate(requests):
            prompt = request.attempts[0][-1]["content"]
            row = by_id.get(request.metadata["prompt_id"])
            if row is None or row.get(self.columns["prompt"]) not in (None, prompt):
                # An id that stands for another text is somebody else's numbering.
                row = by_prompt.get(prompt)
            yield index, self._answer(row)

    def _answer(self, row: Row | None) -> Answer:
        if row is None:
            return Answer.failed(
                "NoRecordedAnswer",
                f"{self.path.name} has no answer to this prompt, or several that differ",
            )
        response = row.get(self.columns["response"])
        reason = row.get("finish_reason") or "stop"
        error = row.get("error")
        if error or reason == "error":
            return Answer.failed("RecordedError", str(error or "the recorded answer is an error"))
        if response is None:
            return Answer.failed("RecordedError", "the recorded answer is null")
        if not isinstance(response, str):
            return Answer.failed("RecordedError", f"the answer is no text (got {response!r:.60})")
        if reason not in ("stop", "length", "content_filter", "refusal"):
            return Answer.failed("RecordedError", f"unknown finish_reason {reason!r}")
        return Answer(response, reason)

    def _read(self) -> tuple[dict[str, Row], dict[str, Row]]:
        try:
            rows = read_answers(self.path)
        except (OSError, RowError) as error:
            raise AdapterError(
                f"model {self.name!r}: {self.path} cannot be read: {error}"
            ) from None
        present = sorted({column for row in rows for column in row})
        where = self.settings["where"] or {}
        for column, value in where.items():
            rows = [row for row in rows if str(row.get(column)) == str(value)]
        if not rows:
            raise AdapterError(
                f"model {self.name!r}: {self.path} holds no answers"
                + (f" with {where}; it has the columns {', '.join(present)}" if where else "")
            )
        self.columns = {
            "id": self._column(present, "id_column", ID_COLUMNS),
            "prompt": self._column(present, "prompt_column", PROMPT_COLUMNS),
            "response": self._column(present, "response_column", RESPONSE_COLUMNS),
        }
        if self.columns["response"] is None or not (self.columns["id"] or self.columns["prompt"]):
            raise AdapterError(
                f"model {self.name!r}: {self.path} needs a response and an id or a prompt for each "
                f"row; it has the columns {', '.join(present)}. Name them with "
                "response_column, id_column or prompt_column"
            )
        by_id = self._index(rows, self.columns["id"])
        # An answer is joined by text only where all answers to that text agree; with ids that
        # differ, the same text can have several.
        by_prompt = self._index(rows, self.columns["prompt"])
        return by_id, by_prompt

    def _column(self, present: list[str], setting: str, usual: Sequence[str]) -> str | None:
        named = self.settings[setting]
        if named is not None and named not in present:
            raise AdapterError(
                f"model {self.name!r}: {self.path} has no column {named!r}; "
                f"it has {', '.join(present)}"
            )
        return named or next((column for column in usual if column in present), None)

    def _index(self, rows: list[Row], column: str | None) -> dict[str, Row]:
        """Rows by the value of a column, without values whose rows hold different answers."""
        index: dict[str, Row] = {}
        answer = (self.columns["response"], "finish_reason", "error")
        ambiguous = set()
        for row in rows:
            if row.get(column) is None:
                continue
            value = str(row[column])
            first = index.setdefault(value, row)
            if any(first.get(field) != row.get(field) for field in answer):
                ambiguous.add(value)
        for value in ambiguous:
            del index[value]
        return index


def read_answers(path: Path) -> list[Row]:
    """The rows of a file of answers, by its suffix. Raises OSError and :class:`RowError`."""
    try:
        if path.suffix == ".csv":
            return _read_csv(path)
        if path.suffix == ".json":
            return _read_json(path)
    except (csv.Error, ValueError, RecursionError) as error:
        raise RowError(str(error)) from None
    return read_rows(path)


def _read_json(path: Path) -> list[Row]:
    value = json.loads(path.read_bytes())
    rows = value.get("jailbreaks") if isinstance(value, dict) else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("expected a list of rows, or an object with 'jailbreaks'")
    return rows


def _read_csv(path: Path) -> list[Row]:
    """Rows of a CSV file as its publisher wrote it: BOM tolerated, line breaks in cells kept."""
    csv.field_size_limit(sys.maxsize)
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows, 1):
        if None in row:  # cells without a column: a comma that should have been quoted
            raise csv.Error(f"row {number} has more cells than there are columns")
    return rows
