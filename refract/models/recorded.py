"""Existing answers as a model: a file of completions, judged without running a model.

The file is JSONL, CSV or JSON (by its suffix); JSON is a list of rows, or an artifact of
JailbreakBench, whose rows are its ``jailbreaks``. Logs of other tools are read too, see
:mod:`refract.suites.importing.logs`: Inspect's (``.eval``, or JSON) and lm-evaluation-harness's
``samples_*.jsonl``. Each prompt takes the answer whose id equals its
id, or, where the file has no such id, whose prompt text equals its text. A prompt without an answer
is an error row, as is one whose answer is null: in an artifact, an attack that failed. Totals that
such a file states about itself are not read.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from refract.core.errors import RowError
from refract.core.jsonl import (
    read_rows,
    sha256_file,
)
from refract.core.settings import Settings
from refract.core.types import Row
from refract.models.protocol import AdapterError, Answer, Model, Request
from refract.suites.importing.logs import (
    LOG,
    about_log,
    inspect_rows,
    is_inspect,
    is_lm_eval,
    lm_eval_rows,
    read_inspect,
)

ID_COLUMNS = ("prompt_id", "id")
PROMPT_COLUMNS = ("prompt", "goal", "question")
RESPONSE_COLUMNS = ("response", "completion", "output", "answer")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


class RecordedSettings(Settings):
    """A file of answers, and which of its columns are read."""

    path: str = Field(
        pattern=r"[^/]\.(jsonl|csv|json|eval)$",
        description="the file with the answers",
        json_schema_extra={"allowed": "the path of a .jsonl, .csv, .json or .eval file of answers"},
    )
    where: dict[str, Any] | None = Field(
        None,
        description="column: value, to take one model's rows of a file with several",
        json_schema_extra={"allowed": "a mapping of column to value, or null"},
    )
    id_column: str | None = Field(None, description=f"null: the first of {_listed(ID_COLUMNS)}")
    prompt_column: str | None = Field(
        None, description=f"null: the first of {_listed(PROMPT_COLUMNS)}"
    )
    response_column: str | None = Field(
        None, description=f"null: the first of {_listed(RESPONSE_COLUMNS)}"
    )


class Recorded(Model):
    """See the module."""

    adapter = "recorded"
    version = "1"
    USES = ("prompt_id",)
    Settings = RecordedSettings

    def __init__(self, name: str, settings: RecordedSettings) -> None:
        self.name, self.settings, self.path = name, settings, Path(settings.path)
        self.columns: dict[str, str | None] = {}
        self.hint = ""

    def identity(self) -> dict[str, Any]:
        """The file's content and which of its columns are read, never where it lies."""
        try:
            content = sha256_file(self.path)
        except OSError as error:
            raise AdapterError(
                f"models.{self.name}: {self.path} cannot be read ({error.strerror})"
            ) from None
        return {
            "adapter": "recorded",
            "adapter_version": self.version,
            "sha256": content,
            **self.settings.model_dump(exclude={"path"}),
        }

    def description(self) -> dict[str, Any]:
        """What a log says of the run that it is of; of other files nothing is known."""
        try:
            about = about_log(self.path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            about = None
        if about is not None:
            return {"parameters": about.pop("parameters"), "recorded": about}
        # None is what answers from another machine are completed by, where inspect_ai is not here.
        return {"parameters": None, **({"recorded": None} if self.path.suffix == ".eval" else {})}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers in order; raises :class:`AdapterError` when the file cannot be used."""
        by_id, by_prompt = self._read()
        for index, request in enumerate(requests):
            prompt = request.attempts[0][-1]["content"]
            row = by_id.get(request.metadata["prompt_id"])
            if row is None or self._cell(row, "prompt") not in (None, prompt):
                # The id belongs to another text, so the file numbers other prompts.
                row = by_prompt.get(prompt)
            yield index, self._answer(row)

    def _cell(self, row: Row, column: str) -> Any:
        """What a row holds in the column of ids, prompts or responses; None without such a column."""
        name = self.columns[column]
        return None if name is None else row.get(name)

    def _answer(self, row: Row | None) -> Answer:
        if row is None:
            return Answer.failed(
                "NoRecordedAnswer",
                f"{self.path.name} has no answer to this prompt, or several that differ{self.hint}",
            )
        response = self._cell(row, "response")
        reason: Any = row.get("finish_reason") or "stop"
        error = row.get("error")
        if error or reason == "error":
            return Answer.failed("RecordedError", str(error or "the recorded answer is an error"))
        if response is None:
            return Answer.failed("RecordedError", "the recorded answer is null")
        if not isinstance(response, str):
            return Answer.failed(
                "RecordedError", f"the answer is not a text (got {response!r:.60})"
            )
        if reason not in ("stop", "length", "content_filter", "refusal"):
            return Answer.failed("RecordedError", f"unknown finish_reason {reason!r}")
        log = row.get(LOG) or {}
        return Answer(
            response,
            reason,
            prompt_tokens=log.get("prompt_tokens"),
            completion_tokens=log.get("completion_tokens"),
            thinking=log.get("thinking"),
        )

    def _read(self) -> tuple[dict[str, Row], dict[str, Row]]:
        try:
            rows = read_answers(self.path)
        except (OSError, RowError) as error:
            raise AdapterError(f"models.{self.name}: {self.path} cannot be read: {error}") from None
        present = sorted({column for row in rows for column in row})
        where = self.settings.where or {}
        for column, value in where.items():
            rows = [row for row in rows if str(row.get(column)) == str(value)]
        if not rows:
            raise AdapterError(
                f"models.{self.name}: {self.path} holds no answers"
                + (f" with {where}; it has the columns {', '.join(present)}" if where else "")
            )
        self.columns = {
            "id": self._column(present, "id_column", ID_COLUMNS),
            "prompt": self._column(present, "prompt_column", PROMPT_COLUMNS),
            "response": self._column(present, "response_column", RESPONSE_COLUMNS),
        }
        if self.columns["response"] is None or not (self.columns["id"] or self.columns["prompt"]):
            raise AdapterError(
                f"models.{self.name}: {self.path} needs a response and an id or a prompt for each "
                f"row; it has the columns {', '.join(present)}. Name them with "
                "response_column, id_column or prompt_column"
            )
        if LOG in present:
            self.hint = (
                f" (looked up in {self.columns['prompt']!r}; prompt_column names another: "
                f"{', '.join(name for name in present if name != LOG)})"
            )
        by_id = self._index(rows, "id")
        # An answer is found by its prompt's text only where all answers to that text agree: the same
        # text can stand under several ids with different answers.
        by_prompt = self._index(rows, "prompt")
        return by_id, by_prompt

    def _column(self, present: list[str], setting: str, usual: Sequence[str]) -> str | None:
        named: str | None = getattr(self.settings, setting)
        if named is not None and named not in present:
            raise AdapterError(
                f"models.{self.name}: {self.path} has no column {named!r}; "
                f"it has {', '.join(present)}"
            )
        return named or next((column for column in usual if column in present), None)

    def _index(self, rows: list[Row], column: str) -> dict[str, Row]:
        """Rows by the value of a column, without values whose rows hold different answers."""

        def content(row: Row) -> tuple[Any, ...]:
            return self._cell(row, "response"), row.get("finish_reason"), row.get("error")

        index: dict[str, Row] = {}
        ambiguous = set()
        for row in rows:
            cell = self._cell(row, column)
            if cell is None:
                continue
            value = str(cell)
            first = index.setdefault(value, row)
            if content(first) != content(row):
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
        if path.suffix == ".eval":
            return inspect_rows(read_inspect(path))
    except (csv.Error, ValueError, RecursionError) as error:
        raise RowError(str(error)) from None
    rows = read_rows(path)
    return lm_eval_rows(rows) if is_lm_eval(rows) else rows


def _read_json(path: Path) -> list[Row]:
    value = json.loads(path.read_bytes())
    if is_inspect(value):
        return inspect_rows(value)
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


_: type[Model] = Recorded
