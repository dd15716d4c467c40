"""Rows of answers as other tools write them: what their columns and cells mean.

What is read here is read alike by ``refract judge``, in Python and as a recorded model."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from refract.core.errors import UsageError, nearest
from refract.core.file_formats import listed
from refract.core.jsonl import parse_json
from refract.core.tool_calls import tool_call
from refract.core.types import Row
from refract.models.protocol import Answer, stop_details
from refract.models.replies import CALLED, FINISHED, TEMPLATE, token_count

ID_COLUMNS = ("prompt_id", "id")
PROMPT_COLUMNS = ("prompt", "goal", "question")
RESPONSE_COLUMNS = ("response", "completion", "output", "answer")
# Endings, by what providers call them.
ENDINGS = FINISHED | dict.fromkeys(CALLED, "stop") | {"loop": "loop"}
ENDING_COLUMNS = ("finish_reason", "error", "tool_calls")
# How tables write that a cell holds nothing.
MISSING = ("", "nan", "na", "n/a", "none", "null", "false")
USUAL = {"id": ID_COLUMNS, "prompt": PROMPT_COLUMNS, "response": RESPONSE_COLUMNS}
# Text in UTF-8 that was read in another encoding, or lost.
MISREAD = re.compile("\u00e2\u20ac|\u00c3[\u00a9\u00a8\u00bc\u00b6\u00a4\u0178\u00b1]|\\w\ufffd\\w")
CELL = 32_767  # characters, of Excel
# A text that Python wrote of an object that holds one.
PYTHON_FORM = re.compile(
    r"""\A\[?(?:b['"]|content=['"]|(?:AI|Chat)?Message\(|ChatCompletion\w*\(|ModelResponse\(|TextBlock\()"""
)


def usual_column(role: str, present: Collection[str]) -> str | None:
    """The first column that usually holds answers, prompts or ids, perhaps in capitals or beside
    blanks; None without any."""
    spelt = {name.strip().lower(): name for name in present} | {name: name for name in present}
    return next((spelt[column] for column in USUAL[role] if column in spelt), None)


def named_answers(rows: Sequence[Row], where: str) -> tuple[list[Row], list[str]]:
    """Rows with the columns that judges know, and what was decided. Raises UsageError."""
    columns = dict.fromkeys(name for row in rows for name in row)
    taken: dict[str, str] = {}
    notes = []
    for role in USUAL:
        column = usual_column(role, columns)
        if column not in (None, role, "prompt_id"):
            taken[role] = str(column)
            notes.append(f"the column {role!r} is taken from {column!r}")
    if "response" not in {*columns, *taken}:
        raise UsageError(
            f"{where} holds no answers: one of the columns {', '.join(USUAL['response'])} "
            f"(got {listed(columns) or 'no rows'})"
        )
    near = nearest("prompt", [name for name in columns if "_" not in name])  # prompt_id is another
    if near and "prompt" not in {*columns, *taken}:
        notes.append(f"no column is called 'prompt'{near} Answers are judged without their prompts")
    parts = [number for number, row in enumerate(rows, 1) if row.get("done") is False]
    if parts:
        raise UsageError(
            f"{where}: row {parts[0]} is a part of an answer that was streamed (done: false); put the "
            "parts of each answer together"
        )
    answers = []
    for row in rows:
        answers.append({**row, **{role: row.get(column) for role, column in taken.items()}})
    notes += other_answers(rows, taken.get("response", "response"))
    pairs = [(row.get("prompt"), row.get("response")) for row in answers]
    return answers, [*notes, *answer_warnings(pairs)]


def other_answers(rows: Sequence[Row], column: str) -> list[str]:
    """What is said of columns that usually hold answers, and hold others than a column does."""
    notes = []
    for name in RESPONSE_COLUMNS:
        differing = sum(row.get(name) not in (None, "", row.get(column)) for row in rows)
        if name != column and differing:
            notes.append(
                f"the column {name!r} is not read; {differing} rows hold another text there"
            )
    return notes


def answer_warnings(pairs: Iterable[tuple[Any, Any]]) -> list[str]:
    """What may be wrong with answers, each with its prompt, that a judge takes for their text; blank
    ones are not judged."""
    texts = [pair for pair in pairs if isinstance(pair[1], str) and pair[1].strip()]
    signs: dict[str, Callable[[Any, str], object]] = {
        "are a word that stands for a missing one": lambda _, text: _is_missing(text),
        "hold characters of another encoding": lambda _, text: MISREAD.search(text),
        "begin with their prompt, which the model may not have written": _repeats_prompt,
        "end where a cell of Excel does": lambda _, text: len(text) == CELL,
        "hold markers of a chat template": lambda _, text: TEMPLATE.search(text),
        "are objects as Python prints them": lambda _, text: PYTHON_FORM.match(text),
    }
    warnings = []
    for sign, has_sign in signs.items():
        signed = [text for prompt, text in texts if has_sign(prompt, text)]
        if signed:
            warnings.append(
                f"{len(signed)} of {len(texts)} answers {sign}, and are judged as they stand "
                f"(the first: {signed[0]!r:.60})"
            )
    return warnings


def _repeats_prompt(prompt: Any, text: str) -> bool:
    prompt = prompt.strip() if isinstance(prompt, str) else ""
    return 0 < len(prompt) < len(text.strip()) and text.strip().startswith(prompt)


def _is_missing(cell: Any) -> bool:
    return not cell or str(cell).strip().lower() in MISSING


def is_failed_check(row: Row, response: Any) -> bool:
    """Whether the error of a row is that of a check, as promptfoo writes the two in one column."""
    failed = str(row.get("success")).lower() == "false"
    has_answer = isinstance(response, str) and response != ""
    return failed and has_answer and not _is_missing(row.get("error"))


def recorded_answer(row: Row, response: Any) -> Answer:
    """The answer that a row holds: an error for one, and for anything but a text."""
    cells = {name: row[name] for name in ENDING_COLUMNS if not _is_missing(row.get(name))}
    ending: Any = cells.get("finish_reason", "stop")
    ending = ENDINGS.get(str(ending).lower().removeprefix("finishreason."), ending)
    error = cells.get("error")
    if response is None and ending in ("refusal", "content_filter"):
        response = ""
    calls, problem = cells.get("tool_calls", []), ""
    try:
        calls = parse_json(calls) if isinstance(calls, str) else calls
        calls = [call.get("function") or call for call in calls]  # as OpenAI's API has them
        calls = [tool_call(call["name"], call.get("arguments", {})) for call in calls]
    except (AttributeError, KeyError, TypeError, ValueError):
        problem = f"tool_calls are no list of names and arguments (got {calls!r:.60})"
    if ending == "error" or (error and not is_failed_check(row, response)):
        problem = str(error or "the recorded answer is an error")
    elif response is None:
        problem = "the recorded answer is null"
    elif not isinstance(response, str):
        problem = f"the answer is not a text (got {response!r:.60})"
    elif ending not in ENDINGS.values():
        problem = f"unknown finish_reason {ending!r}"
    if problem:
        return Answer.failed("RecordedError", problem)
    log = row.get("log")  # what a reader of logs notes beside an answer
    log = log if isinstance(log, dict) else {}
    thinking = row.get("thinking")  # a column of `refract run --rows`
    thinking = thinking if isinstance(thinking, str) and not _is_missing(thinking) else None
    return Answer(
        response,
        ending,
        prompt_tokens=token_count(log.get("prompt_tokens")),
        completion_tokens=token_count(log.get("completion_tokens")),
        thinking=str(log["thinking"]) if log.get("thinking") else thinking,
        tool_calls=calls or None,
        stop_details=stop_details(row.get("stop_details")),
    )
