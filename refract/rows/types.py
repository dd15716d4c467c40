"""The rows that pass between stages, as types. ``docs/rows.md`` says what each field holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

# Any object of a JSONL file, before it is known to be one of those below.
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


class SuiteRow(TypedDict):
    """One prompt of a suite. Exactly one of ``prompt``, ``messages`` and ``features`` is there; any
    other column may be."""

    id: str
    category: Category
    prompt: NotRequired[str]
    messages: NotRequired[list[Message]]
    features: NotRequired[dict[str, str]]
    pair_id: NotRequired[str]
    expected_strings: NotRequired[list[str]]
    task_strings: NotRequired[list[str]]
    requirement: NotRequired[str]


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


class VerdictRow(TypedDict):
    """The verdicts on one answer, by the judges' names."""

    prompt_id: str
    judges: dict[str, Verdict]
