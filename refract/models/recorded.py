"""Existing answers as a model: a file of completions, judged without running a model.

The file holds rows in any form of :mod:`refract.core.file_formats`, or is a log that a package
reads. A prompt takes the answer with its id and text (in whichever normal form, and without blanks
around it), or with its id where the row has no text, or else with its very text; without one, or
with null, it is an error row. Where a row's prompt is several messages, those before the last are to
be the same too; a system prompt that all of them begin with is the model's, and not compared."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from refract.core.errors import RowError
from refract.core.file_formats import SUFFIXES, TELLING, Log, check_ids, id_text, listed, read_log
from refract.core.jsonl import canonical_json, sha256_file
from refract.core.secrets import without_secrets
from refract.core.settings import Settings
from refract.core.types import Row
from refract.core.vocabulary import UNUSABLE
from refract.models.answer_rows import (
    ID_COLUMNS,
    PROMPT_COLUMNS,
    RESPONSE_COLUMNS,
    USUAL,
    answer_warnings,
    is_failed_check,
    other_answers,
    recorded_answer,
    usual_column,
)
from refract.models.protocol import AdapterError, Answer, Model, Request
from refract.suites.rows import CATEGORIES

logger = logging.getLogger(__name__)
FIRST = "null: the first there is of "
FORMS = ", ".join((*SUFFIXES, ".eval"))


class RecordedSettings(Settings):
    """A file of answers, and which of its columns are read."""

    path: str = Field(
        pattern=r"[^/]\.(csv|tsv|json|jsonl|parquet|xlsx|eval)$",
        description="the answers",
        json_schema_extra={"allowed": f"the path of a file of answers ({FORMS})"},
    )
    where: dict[str, Any] | None = Field(
        None,
        description="which rows are taken",
        json_schema_extra={"allowed": "a mapping of column to value, or null"},
    )
    id_column: str | None = Field(None, description=FIRST + ", ".join(ID_COLUMNS))
    prompt_column: str | None = Field(None, description=FIRST + ", ".join(PROMPT_COLUMNS))
    response_column: str | None = Field(None, description=FIRST + ", ".join(RESPONSE_COLUMNS))


class RecordedAnswer(NamedTuple):
    """A row's prompt and category (None: the file has none) and its answer."""

    prompt: Any
    answer: Answer
    category: Any

    @property
    def said(self) -> list[Any]:
        """What must be equal in two answers to one prompt."""
        answer = self.answer
        return [answer.response, answer.finish_reason, answer.error, answer.tool_calls]


# What an answer is joined by: a text, or of several messages each one's role and text.
Asked = str | tuple[tuple[str, str], ...]
# Other names of roles.
ROLES = {"developer": "system", "human": "user", "gpt": "assistant", "ai": "assistant"}
# Answers by id and prompt, or by prompt; None where several differ.
Answers = dict[tuple[str, Asked | None], RecordedAnswer | None]


class Recorded(Model):
    """Answers of a file; see the module."""

    adapter = "recorded"
    version = "1"
    USES = ("prompt_id", "step")
    Settings = RecordedSettings

    def __init__(self, name: str, settings: RecordedSettings) -> None:
        self.settings, self.path = settings, Path(settings.path)
        self.model, self.where = f"models.{name}", f"models.{name}: {self.path}"

    def identity(self) -> dict[str, Any]:
        """The file's content and which of its columns are read, never where it lies."""
        try:
            content = sha256_file(self.path)
        except OSError as error:
            raise AdapterError(f"{self.where} cannot be read ({error.strerror})") from None
        identity = {"sha256": content, **self.settings.model_dump(exclude={"path"})}
        with suppress(AdapterError):
            if any(len(_messages(prompt)) > 1 for prompt in self._prompts(self._log.rows)):
                identity["conversations"] = "whole"  # until now joined by their last text
        return identity

    def description(self) -> dict[str, Any]:
        """What a log says of its run, and whether answers are joined by id alone."""
        known: dict[str, Any] = {"parameters": None}
        with suppress(AdapterError):
            about = self._log.about
            if about is not None:
                known["recorded"] = without_secrets(about)[0]  # provenance is committed
            if self._log.notes:
                known["notes"] = list(self._log.notes)
            if self._system:
                note = f"asked with the system prompt {self._system!r:.200}"
                known["notes"] = [*known.get("notes", ()), note]
            if any(prompt is None for _, prompt in self._answers[0]):
                known["prompts"] = "not compared: answers are joined by id alone"
        return known

    def check(self) -> None:
        """Raises :class:`AdapterError` where the file cannot be used."""
        self._answers  # noqa: B018 - it is read

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers in order; raises :class:`AdapterError` when the file cannot be used."""
        by_id, by_prompt = self._answers
        alone = differing = 0
        endings: dict[str, set[str]] = {}  # conversations by their last text
        for request in requests:
            conversation = canonical_json([*request.attempts[0]])
            endings.setdefault(request.attempts[0][-1]["content"], set()).add(conversation)
        for index, request in enumerate(requests):
            step = request.metadata.get("step")
            if step and step > 1:
                text = "steps behind the results of tools are not recorded"
                yield index, Answer.failed("NoRecordedAnswer", text)
                continue
            messages = [*request.attempts[0]]
            prompt = messages[-1]["content"]
            id_ = request.metadata["source_id" if step else "prompt_id"]
            asked = _asked(messages, self._system)
            places: list[tuple[Answers, tuple[str, Asked | None]]] = [
                (by_id, (id_, asked)),
                (by_id, (id_, _folded(prompt))),
                (by_id, (id_, None)),
            ]
            if isinstance(asked, tuple):
                places.append((by_prompt, ("", asked)))
            if len(endings[prompt]) == 1:
                places.append((by_prompt, ("", prompt)))
            there = [answers[key] for answers, key in places if key in answers]
            recorded = next((row for row in there if row is not None), None)
            if recorded is not None:
                self._check_category(recorded.category, request)
                alone += recorded.prompt is None
                yield index, recorded.answer
            else:
                differing += bool(there)
                text = f"{self.path.name} has {self._lacking(id_, prompt, differ=bool(there))}"
                if len(endings[prompt]) > 1:
                    text += f"; {len(endings[prompt])} conversations of the suite end in its text, "
                    text += "so that an id has to tell them apart"
                yield index, Answer.failed("NoRecordedAnswer", text)
        if differing:
            logger.warning(
                "%s: %d prompts have answers that differ, and are errors, so that rates are of those "
                "whose answers agree; choose by where (%s)",
                self.where,
                differing,
                self._telling,
            )
        if alone:
            logger.warning(
                "%s: %d answers are joined by id alone, prompts not compared: the file has no column "
                "of prompts; name it with prompt_column",
                self.where,
                alone,
            )

    def _check_category(self, stated: Any, request: Request) -> None:
        """Raises :class:`AdapterError` where the file has another category for a prompt."""
        known = request.metadata.get("category")
        if stated in CATEGORIES and known in CATEGORIES and stated != known:
            raise AdapterError(
                f"{self.where} has {request.metadata['prompt_id']} in the category {stated}, and the "
                f"suite in {known}: its ids are of other prompts, or one of the two is wrong"
            )

    def _lacking(self, id_: str, prompt: str, *, differ: bool) -> str:
        """What the file has in the place of an answer to a prompt."""
        if differ:
            return (
                f"several answers to this prompt, which differ; choose by where ({self._telling})"
            )
        if _folded(prompt) in self._last_of_several:
            return "an answer to this text behind another system prompt or other turns alone"
        if id_ in self._texts:
            other = f"{self._texts[id_]!r:.60}"
            return f"this id beside another prompt ({other}), and no answer to this one"
        ids = f" (its ids are such as {next(iter(self._texts))!r:.40})" if self._texts else ""
        return f"no answer to this prompt, by its id or its text{ids}"

    @cached_property
    def _answers(self) -> tuple[Answers, Answers]:
        """The answers by id and text, and by text alone."""
        rows = self._rows()
        columns = sorted({column for row in rows for column in row})
        ids, prompts, responses = [self._column(role, columns) for role in USUAL]
        if responses is None or not (ids or prompts):
            raise AdapterError(
                f"{self.where} needs columns of responses and of ids or prompts; it has "
                f"{listed(columns)}. Name them: response_column, id_column, prompt_column"
            )
        if responses.strip().lower() not in (self.settings.response_column, RESPONSE_COLUMNS[0]):
            logger.warning(
                "%s: answers are read from the column %r; response_column names another",
                self.where,
                responses,
            )
        by_id: Answers = {}
        by_prompt: Answers = {}
        keys = {}
        for row in rows:
            asked = self._asked_in(row, prompts)
            prompt = _last_text(asked)
            answer = recorded_answer(row, row.get(responses))
            recorded = RecordedAnswer(prompt, answer, row.get("category"))
            id_ = row.get(ids or "")
            folded = None if prompt is None else _asked(asked, self._system)
            key = None if id_ is None else (id_text(id_), folded)
            if key is not None:
                _add(by_id, key, recorded)
                keys[id(row)] = key
            if prompt is not None:
                text = re.sub(UNUSABLE, "\ufffd", str(prompt))
                _add(by_prompt, ("", folded if isinstance(folded, tuple) else text), recorded)
        everything = self._log.rows
        try:
            check_ids([keys.get(id(row)) for row in everything], everything, f"{self.where}: row")
        except RowError as error:
            raise AdapterError(str(error)) from None
        pairs = ((row.get(prompts or ""), row.get(responses)) for row in rows)
        others = [] if self.settings.response_column else other_answers(rows, responses)
        for warning in (*others, *answer_warnings(pairs)):
            logger.warning("%s: %s", self.where, warning)
        failed = sum(is_failed_check(row, row.get(responses)) for row in rows)
        if failed:
            logger.warning(
                "%s: %d rows without success hold an answer and an error, which is taken for a "
                "check that the answer failed, not for an error of the model",
                self.where,
                failed,
            )
        return by_id, by_prompt

    @cached_property
    def _telling(self) -> str:
        """The columns by which answers to one prompt can be told apart."""
        columns = [name for name in TELLING if any(name in row for row in self._log.rows)]
        return ", ".join(columns) or "a column that tells them apart"

    @cached_property
    def _texts(self) -> dict[str, Asked | None]:
        return dict(iter(self._answers[0]))

    @cached_property
    def _system(self) -> str | None:
        """The system prompt that all rows were asked with, if each has the same."""
        first = {_messages(prompt)[:1] for prompt in self._prompts(self._rows())}
        if self._log.tool:  # which may state the last text of a row alone
            first.discard(())
        ((role, text),) = first.pop() if len(first) == 1 and () not in first else (("", ""),)
        return text if role == "system" else None

    @cached_property
    def _last_of_several(self) -> set[str]:
        """The last texts of prompts of several messages."""
        return {asked[-1][1] for _, asked in self._answers[1] if isinstance(asked, tuple)}

    @cached_property
    def _log(self) -> Log:
        try:
            log = read_log(self.path)
        except RowError as error:
            raise AdapterError(f"{self.model}: {error}") from None
        for note in log.notes:
            logger.warning("%s: %s", self.where, note)
        return log

    def _rows(self) -> list[Row]:
        """The file's rows, those of ``where`` alone."""
        rows = self._log.rows
        where = self.settings.where or {}
        chosen = [r for r in rows if all(str(r.get(key)) == str(where[key]) for key in where)]
        if not chosen:
            columns = sorted({column for row in rows for column in row})
            why = f" with {where}; it has the columns {listed(columns)}" if where else ""
            raise AdapterError(f"{self.where} holds no answers{why}")
        models = sorted({str(row["model"]) for row in chosen if row.get("model") is not None})
        if len(models) > 1:
            logger.warning(
                "%s holds answers of several models (%s); choose one by where: {model: %s}",
                self.where,
                ", ".join(models),
                models[0],
            )
        return chosen

    def _prompts(self, rows: Sequence[Row]) -> list[Any]:
        """The prompt of each row, None where it has none."""
        column = self._column("prompt", sorted({column for row in rows for column in row}))
        return [self._asked_in(row, column) for row in rows]

    def _asked_in(self, row: Row, column: str | None) -> Any:
        """The prompt of a row; of a log, whose ``prompt`` is the last text, all messages."""
        whole = row.get("messages") if self._log.tool and column == "prompt" else None
        return whole or row.get(column or "")

    def _column(self, role: str, present: Sequence[str]) -> str | None:
        """The column of a role: the one that settings name, or the first usual one."""
        named: str | None = getattr(self.settings, f"{role}_column")
        if named is not None and named not in present:
            raise AdapterError(f"{self.where} has no column {named!r}; it has {listed(present)}")
        return named or usual_column(role, present)


def _last_text(prompt: Any) -> Any:
    """A prompt, or the text of its last message where it is a conversation."""
    last = prompt[-1] if isinstance(prompt, list) and prompt else None
    return _text_of(last.get("content")) if isinstance(last, dict) else prompt


def _text_of(content: Any) -> Any:
    """A message's content, or the text of its parts."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "\n".join(str(text) for text in texts if text)


def _messages(prompt: Any) -> tuple[tuple[str, str], ...]:
    """The role and folded text of each message of a prompt that is several, less empty ones of the
    system; nothing of another prompt."""
    if not isinstance(prompt, list) or not all(isinstance(message, dict) for message in prompt):
        return ()
    messages = []
    for message in prompt:
        role = str(message.get("role")).lower()
        role = ROLES.get(role, role)
        text = _folded(_text_of(message.get("content")) or "")
        if text or role != "system":
            messages.append((role, text))
    return tuple(messages)


def _asked(prompt: Any, system: str | None = None) -> Asked:
    """What a prompt is known by: its folded text, or each of several messages, the first of which may
    be the model's own ``system`` prompt."""
    messages = _messages(prompt)
    if messages[:1] == (("system", system),):
        messages = messages[1:]
    return messages if len(messages) > 1 else _folded(_last_text(prompt))


def _folded(prompt: Any) -> str:
    """A prompt without what differs between two copies of one text: normal forms, ends of lines,
    blanks around it, characters that no prompt may hold."""
    text = re.sub(UNUSABLE, "\ufffd", str(prompt)).replace("\r\n", "\n")
    return unicodedata.normalize("NFC", text).strip()


def _add(answers: Answers, key: tuple[str, Asked | None], row: RecordedAnswer) -> None:
    known = answers.setdefault(key, row)
    if known is not None and known.said != row.said:
        answers[key] = None
