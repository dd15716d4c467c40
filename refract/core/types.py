"""The rows that pass between stages, as types. ``docs/rows.md`` says what each field holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

# Any object of a JSONL file. A suite's rows stay of this type: they may have any columns besides
# their own, which refract.suites.rows checks.
Row = dict[str, Any]

Category = Literal["harmful", "helpful", "borderline"]
FinishReason = Literal["stop", "length", "content_filter", "refusal", "error"]
Label = Literal["refusal", "partial_refusal", "compliance", "degenerate"]


class Message(TypedDict):
    """One turn of a conversation; ``role`` is system, user or assistant."""

    role: str
    content: str


# An attempt of a prompt row: a text, or a conversation that ends with the user's turn.
Attempt = str | list[Message]


class PromptRow(TypedDict):
    """One variant of a prompt. ``perturbation`` is None for the clean one, ``seed`` None unless its
    text was drawn; ``sample`` is there where each prompt is answered several times."""

    prompt_id: str
    source_id: str
    suite: str
    category: Category
    perturbation: Row | None
    attempts: list[Attempt]
    seed: int | None
    sample: NotRequired[int]


class ErrorInfo(TypedDict):
    """Why a request was not answered: the error's class and its message."""

    type: str
    message: str


class ResponseRow(TypedDict):
    """One answer; tokens are the row's own, without padding."""

    prompt_id: str
    request_sha256: str
    response: str
    finish_reason: FinishReason
    attempt: int
    prompt_tokens: int | None
    completion_tokens: int | None
    thinking: str | None
    error: ErrorInfo | None
    answer_sha256: str


class Verdict(TypedDict):
    """What one judge says of one answer. ``label`` is None where it says nothing, ``refused`` None
    where the label does not mean refusal or its absence; a judge may add fields of its own."""

    label: str | None
    refused: bool | None
    score: float | None
    evidence: Sequence[Mapping[str, Any]]
    error: str | None
    reason: NotRequired[str | None]
    raw: NotRequired[list[list[str]]]
    votes: NotRequired[dict[str, int]]
    agreement: NotRequired[float | None]
    rubric: NotRequired[dict[str, int]]
    task_done: NotRequired[bool]
    truncated: NotRequired[bool]
    guessed: NotRequired[bool]
    of_empty: NotRequired[bool]
    probability: NotRequired[float]


class VerdictRow(TypedDict):
    """The verdicts on one answer, by the judges' names."""

    prompt_id: str
    judges: dict[str, Verdict]


def given_prompt(prompt_id: str, attempt: Attempt) -> PromptRow:
    """The prompt row of an answer that already exists, clean and of no suite."""
    return {
        "prompt_id": prompt_id,
        "source_id": prompt_id,
        "suite": "",
        "category": "borderline",
        "perturbation": None,
        "attempts": [attempt],
        "seed": None,
    }


def given_response(
    prompt_id: str, response: str, finish_reason: FinishReason = "stop"
) -> ResponseRow:
    """The response row of an answer that already exists and came of no request."""
    return {
        "prompt_id": prompt_id,
        "request_sha256": "",
        "response": response,
        "finish_reason": finish_reason,
        "attempt": 0,
        "prompt_tokens": None,
        "completion_tokens": None,
        "thinking": None,
        "error": None,
        "answer_sha256": "",
    }
