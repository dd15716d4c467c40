"""Existing answers as a model: a file of completions, judged without running a model.

The file is JSONL, CSV or JSON: a list of rows, or an artifact of JailbreakBench
(``jailbreaks``). Logs of Inspect and lm-evaluation-harness are read by
:mod:`refract.suites.importing.logs`. A prompt takes the answer with its id or, where
the file has no such id, with its text; without one, or with null, it is an error row.
Totals that the file states about itself are not read.
"""

from __future__ import annotations

import csv
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from refract.core.errors import RowError
from refract.core.jsonl import canonical_json, parse_json, read_rows, sha256_file
from refract.core.settings import Settings
from refract.core.tool_calls import tool_call
from refract.core.types import Message, Row
from refract.models.protocol import AdapterError, Answer, Model, Request, stop_details
from refract.suites.importing import logs
from refract.suites.rows import UNUSABLE

logger = logging.getLogger(__name__)
ID_COLUMNS = ("prompt_id", "id")
PROMPT_COLUMNS = ("prompt", "goal", "question")
RESPONSE_COLUMNS = ("response", "completion", "output", "answer")
FIRST = "null: the first there is of "


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
    id_column: str | None = Field(None, description=FIRST + ", ".join(ID_COLUMNS))
    prompt_column: str | None = Field(None, description=FIRST + ", ".join(PROMPT_COLUMNS))
    response_column: str | None = Field(None, description=FIRST + ", ".join(RESPONSE_COLUMNS))


class Recorded(Model):
    """See the module."""

    adapter = "recorded"
    version = "1"
    USES = ("prompt_id", "step")
    Settings = RecordedSettings
    portable = False

    def __init__(self, name: str, settings: RecordedSettings) -> None:
        self.settings, self.path = settings, Path(settings.path)
        self.where = f"models.{name}: {self.path}"

    def identity(self) -> dict[str, Any]:
        """The file's content and which of its columns are read, never where it lies."""
        try:
            content = sha256_file(self.path)
        except OSError as error:
            raise AdapterError(f"{self.where} cannot be read ({error.strerror})") from None
        return {"sha256": content, **self.settings.model_dump(exclude={"path"})}

    def description(self) -> dict[str, Any]:
        """What a log says of its run; of other files nothing is known. ``prompts`` says
        where answers can be joined by id alone."""
        try:
            about = logs.about_log(self.path)
            canonical_json(about)  # fails for 1e400, which JSON has no number for
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            about = None
        known: dict[str, Any] = {"parameters": None}
        # None is what answers from another machine are completed by, where the log cannot
        # be read here.
        if about is not None or self.path.suffix == ".eval":
            known["recorded"] = about
        with suppress(AdapterError):
            by_id, _ = self._read
            if any(recorded.prompt is None for recorded in by_id.values()):
                known["prompts"] = "not compared: answers are joined by id alone"
        return known

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers in order; raises :class:`AdapterError` when the file cannot be used."""
        by_id, by_prompt = self._read
        absent = Answer.failed(
            "NoRecordedAnswer",
            f"{self.path.name} has no answer to this prompt, or several that differ",
        )
        alone = 0
        for index, request in enumerate(requests):
            step = request.metadata.get("step")
            sent, after = _sent_and_after(request.attempts[0], step or 1)
            prompt = sent[-1]["content"]
            recorded = by_id.get(request.metadata["source_id" if step else "prompt_id"])
            if recorded is None or recorded.prompt not in (None, prompt):
                # The id belongs to another text, so the file numbers other prompts.
                recorded = by_prompt.get(prompt)
            elif recorded.prompt is None:
                alone += 1
            answer = absent
            if recorded is not None:
                answer = recorded.step(step, after) if step else recorded.answer
            yield index, answer
        if alone:
            logger.warning(
                "%s: %d answers are joined by id alone, prompts not compared: the file has no column "
                "of prompts; name it with prompt_column",
                self.where,
                alone,
            )

    @cached_property
    def _read(self) -> tuple[_Answers, _Answers]:
        """The answers by id and by prompt."""
        settings, chosen = self.settings, self.settings.where or {}
        try:
            rows = read_answers(self.path)
        except (OSError, RowError) as error:
            raise AdapterError(f"{self.where} cannot be read: {error}") from None
        present = sorted({column for row in rows for column in row})
        for column, value in chosen.items():
            rows = [row for row in rows if str(row.get(column)) == str(value)]
        if not rows:
            why = f" with {chosen}; it has the columns {', '.join(present)}" if chosen else ""
            raise AdapterError(f"{self.where} holds no answers{why}")
        models = sorted({str(row["model"]) for row in rows if row.get("model") is not None})
        if len(models) > 1:
            logger.warning(
                "%s holds answers of several models (%s); choose one by where: {model: %s}",
                self.where,
                ", ".join(models),
                models[0],
            )

        def column_of(named: str | None, usual: Sequence[str]) -> str | None:
            if named is not None and named not in present:
                raise AdapterError(
                    f"{self.where} has no column {named!r}; it has {', '.join(present)}"
                )
            return named or next((column for column in usual if column in present), None)

        ids = column_of(settings.id_column, ID_COLUMNS)
        prompts = column_of(settings.prompt_column, PROMPT_COLUMNS)
        responses = column_of(settings.response_column, RESPONSE_COLUMNS)
        if responses is None or not (ids or prompts):
            raise AdapterError(
                f"{self.where} needs columns of responses and of ids or prompts; it has "
                f"{', '.join(present)}. Name them: response_column, id_column, prompt_column"
            )
        by_id, by_prompt = [], []
        for row in rows:
            prompt = prompts and row.get(prompts)
            answer = _answer_of(row, row.get(responses))
            steps = []
            log = row.get(logs.LOG)
            for step in log.get("steps", ()) if isinstance(log, dict) else ():
                steps.append((_answer_of(step, step["response"]), step["after"]))
            recorded = _Recorded(prompt, answer, steps)
            by_id.append((ids and row.get(ids), recorded))
            # The same text can stand under several ids with different answers.
            by_prompt.append((prompt, recorded))
        return _clear_answers(by_id), _clear_answers(by_prompt)


class _Recorded(NamedTuple):
    """A row's prompt, which not every file holds, its answer, and the steps that an agent
    took to it, each with the texts that came after."""

    prompt: Any
    answer: Answer
    steps: Sequence[tuple[Answer, list[str]]] = ()

    def step(self, number: int, after: Sequence[str]) -> Answer:
        """The answer of one step, behind these texts; of a row without steps the first has
        its answer."""
        steps = self.steps or [(self.answer, [])]
        recorded = []
        for _, texts in steps[: number - 1]:
            recorded += [re.sub(UNUSABLE, "\ufffd", text) for text in texts]  # as in suites
        if number > len(steps) or recorded != list(after):
            return Answer.failed(
                "NoRecordedAnswer",
                f"no step {number} is recorded behind what the row's tool_results say; the suite of a "
                "log is made by refract import-suite generic LOG",
            )
        return steps[number - 1][0]


_Answers = dict[str, _Recorded]


def _sent_and_after(messages: Sequence[Message], step: int) -> tuple[Sequence[Message], list[str]]:
    """What was sent first, and the texts behind the model's answers before this step."""
    place = len(messages)
    for _ in range(step - 1):
        place -= 1
        while messages[place]["role"] != "assistant":
            place -= 1
    later = messages[place:]
    return messages[:place], [x["content"] for x in later if x["role"] != "assistant"]


def _clear_answers(rows: Sequence[tuple[Any, _Recorded]]) -> _Answers:
    """Rows by a value of theirs, without values whose rows hold different answers."""
    answers: _Answers = {}
    ambiguous = set()
    for value, recorded in rows:
        if value is not None:
            first = answers.setdefault(str(value), recorded)
            if _content(first) != _content(recorded):
                ambiguous.add(str(value))
    return {value: row for value, row in answers.items() if value not in ambiguous}


def _content(recorded: _Recorded) -> list[Any]:
    answers = [recorded.answer, *(answer for answer, _ in recorded.steps)]
    return [[x.response, x.finish_reason, x.error, x.tool_calls] for x in answers]


def _answer_of(row: Row, response: Any) -> Answer:
    """The answer that a row holds: an error for one, and for anything but a text."""
    reason: Any = row.get("finish_reason") or "stop"
    error = row.get("error")
    problem = ""
    if response is None and reason in ("refusal", "content_filter"):
        response = ""
    calls = row.get("tool_calls") or []
    try:
        calls = [tool_call(call["name"], call.get("arguments", {})) for call in calls]
    except (AttributeError, KeyError, TypeError, ValueError):
        problem = f"tool_calls are no list of names and arguments (got {calls!r:.60})"
    if error or reason == "error":
        problem = str(error or "the recorded answer is an error")
    elif response is None:
        problem = "the recorded answer is null"
    elif not isinstance(response, str):
        problem = f"the answer is not a text (got {response!r:.60})"
    elif reason not in ("stop", "length", "loop", "content_filter", "refusal"):
        problem = f"unknown finish_reason {reason!r}"
    if problem:
        return Answer.failed("RecordedError", problem)
    log: dict[str, Any] = row[logs.LOG] if isinstance(row.get(logs.LOG), dict) else {}
    thinking = log.get("thinking")
    return Answer(
        response,
        reason,
        prompt_tokens=_count(log.get("prompt_tokens")),
        completion_tokens=_count(log.get("completion_tokens")),
        thinking=str(thinking) if thinking else None,
        tool_calls=calls or None,
        stop_details=stop_details(row.get("stop_details")),
    )


def _count(tokens: Any) -> int | None:
    return tokens if isinstance(tokens, int) and tokens >= 0 else None


def read_answers(path: Path) -> list[Row]:
    """The rows of a file of answers, by its suffix. Raises OSError and
    :class:`RowError`."""
    try:
        if path.suffix == ".csv":
            return _read_csv(path)
        rows: Any
        if path.suffix == ".eval":
            rows = [logs.read_inspect(path)]
        elif path.suffix == ".json":
            rows = parse_json(path.read_bytes())
            if logs.is_inspect(rows):
                rows = [rows]
            elif isinstance(rows, dict):
                rows = rows.get("jailbreaks")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise ValueError("expected a list of rows, or an object with 'jailbreaks'")
        else:
            rows = read_rows(path)
    except (csv.Error, ValueError) as error:
        raise RowError(str(error)) from None
    answers = logs.rows_of_log(rows)
    return rows if answers is None else answers


def _read_csv(path: Path) -> list[Row]:
    """Rows of a CSV file as its publisher wrote it: BOM tolerated, line breaks in cells
    kept."""
    csv.field_size_limit(sys.maxsize)
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, strict=True))
    for number, row in enumerate(rows, 1):
        if None in row:  # cells without a column: a comma that should have been quoted
            raise csv.Error(f"row {number} has more cells than there are columns")
    return rows
