"""The rows that pass between stages, as types, and the samples of a prompt.

``docs/rows.md`` says what each field holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Literal, NotRequired, TypedDict, cast

from refract.core.errors import RowError

# Any object of a JSONL file. A suite's rows stay of this type: they may have any columns besides
# their own, which refract.suites.rows checks.
Row = dict[str, Any]

Category = Literal["harmful", "helpful", "borderline"]
FinishReason = Literal["stop", "length", "loop", "content_filter", "refusal", "error"]
# Of answers that did not end by themselves, so that their last sentence may be half of one.
UNFINISHED = ("length", "loop")
Label = Literal["refusal", "partial_refusal", "compliance", "degenerate"]


class Message(TypedDict):
    """One turn of a conversation; ``role`` is system, user or assistant."""

    role: str
    content: str


class ToolCall(TypedDict):
    """A call of a tool; ``arguments``: an object, or the text that is none."""

    name: str
    arguments: Any


# An attempt of a prompt row: a text, or a conversation that ends with the user's turn.
Attempt = str | list[Message]
# The place of an answer of the model's own in a conversation that is played.
OWN_ANSWER = cast(Message, {"role": "assistant", "content": None})


class PromptRow(TypedDict):
    """One variant of a prompt. ``perturbation`` is None for the clean one, ``seed`` None unless its
    text was drawn; ``sample`` is there where each prompt is answered several times. A turn of a
    conversation that is played has its number and the last one's, and in ``after`` the turn that the
    model answered before it; ``script`` are the attempts without the model's answers, where
    :func:`with_answers` filled these in."""

    prompt_id: str
    source_id: str
    suite: str
    category: Category
    perturbation: Row | None
    attempts: list[Attempt]
    seed: int | None
    sample: NotRequired[int]
    turn: NotRequired[int]
    turns: NotRequired[int]
    after: NotRequired[str]
    script: NotRequired[list[Attempt]]
    tools: NotRequired[list[Row]]


class ErrorInfo(TypedDict):
    """Why a request was not answered: the error's class and its message."""

    type: str
    message: str


class ResponseRow(TypedDict):
    """One answer; counts of tokens are the row's own, without padding. ``tokens``, where a local model
    answered: the ids of the answer's tokens (:func:`refract.models.protocol.packed_tokens`)."""

    prompt_id: str
    request_sha256: str
    response: str
    finish_reason: FinishReason
    attempt: int
    prompt_tokens: int | None
    completion_tokens: int | None
    thinking: str | None
    error: ErrorInfo | None
    tokens: NotRequired[str]
    tool_calls: NotRequired[list[ToolCall]]
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
    rubric: NotRequired[dict[str, int]]
    task_done: NotRequired[bool]
    truncated: NotRequired[bool]
    guessed: NotRequired[bool]
    of_empty: NotRequired[bool]
    probabilities: NotRequired[dict[str, float]]


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


def sample_id(prompt_id: str, sample: int) -> str:
    """The id of a sample: the first has its prompt's own, the others ``PROMPT_ID~2``, ``~3``, …"""
    return prompt_id if sample == 1 else f"{prompt_id}~{sample}"


def sample_prompts(prompts: Iterable[PromptRow], samples: int) -> Iterable[PromptRow]:
    """Prompt rows with one row for each sample, those of a prompt after one another.

    With one sample they are the rows as they are; else each has its number as ``sample``, and ids as
    :func:`sample_id` makes them, so that a further sample changes no row. Raises :class:`RowError` for a
    prompt whose id is that of another prompt's sample."""
    if samples == 1:
        return prompts
    prompts = list(prompts)
    taken = {row["prompt_id"] for row in prompts}
    sampled: list[PromptRow] = []
    for row in prompts:
        for sample in range(1, samples + 1):
            id_ = sample_id(row["prompt_id"], sample)
            if sample > 1 and id_ in taken:
                of = row["prompt_id"]
                raise RowError(f"the id {id_!r} is that of a sample of {of!r}; rename the row")
            of_sample: PromptRow = {**row, "prompt_id": id_, "sample": sample}
            if "after" in row:
                of_sample["after"] = sample_id(row["after"], sample)
            sampled.append(of_sample)
    return sampled


def answered_prompts(
    prompts: Sequence[PromptRow], responses: Sequence[ResponseRow]
) -> list[PromptRow]:
    """Prompt rows with as many samples as their response rows have, and with the model's own answers
    (:func:`with_answers`)."""
    sampled = list(sample_prompts(prompts, max(1, len(responses) // max(1, len(prompts)))))
    if all("turn" not in prompt for prompt in sampled):
        return sampled
    said: dict[str, list[str]] = {}
    answers = {row["prompt_id"]: row["response"] for row in responses}
    return [with_answers(row, answers.get(row["prompt_id"], ""), said) for row in sampled]


def with_answers(prompt: PromptRow, response: str, said: dict[str, list[str]]) -> PromptRow:
    """A prompt in which, where it is a turn of a conversation that is played, the model's own answers
    stand in the places left for them, an empty text where it gave none.

    ``said`` has its answers up to each turn, and gets the ``response`` to this one: turns in order."""
    if "turn" not in prompt:
        return prompt
    before = said.get(prompt.get("after", ""), [])
    said[prompt["prompt_id"]] = [*before, response]
    attempts = [filled(attempt, before) for attempt in prompt["attempts"]]
    return {**prompt, "attempts": attempts, "script": prompt["attempts"]}


def filled(attempt: Attempt, answers: Iterable[str]) -> Attempt:
    """A conversation with the model's own answers, as far as there are any, in their places."""
    if isinstance(attempt, str):
        return attempt
    texts = chain(answers, repeat(""))
    return [m if m != OWN_ANSWER else {**m, "content": next(texts)} for m in attempt]


def turns_of(prompt: PromptRow) -> dict[str, str]:
    """The number of a turn of a conversation that is played, and that of the last, as columns."""
    if "turn" not in prompt:
        return {}
    return {"turn": str(prompt["turn"]), "turns": str(prompt["turns"])}


def is_last(row: Mapping[str, Any]) -> bool:
    """Whether a prompt or an outcome is a last turn, or of no conversation that is played: of the
    others no headline is made."""
    turn, turns = row.get("turn"), row.get("turns")
    return turn == turns or not (turn and turns)  # one of them alone is a field of the suite's own


def prompt_of_sample(row: PromptRow) -> str:
    """The id of the prompt that a row of :func:`sample_prompts` is a sample of."""
    id_ = row["prompt_id"]
    sample = row.get("sample", 1)
    return id_ if sample == 1 else id_.removesuffix(f"~{sample}")


def conversation_text(attempt: Attempt) -> str:
    """A prompt as people read it: the text, or each message behind its role."""
    if isinstance(attempt, str):
        return attempt
    return "\n\n".join(f"[{message['role']}]\n{message['content']}" for message in attempt)


def turn_id(id_: str, turn: int, turns: int) -> str:
    """The id of a turn of a conversation: the last has the conversation's, the others ``ID/1``, …"""
    return id_ if turn == turns else f"{id_}/{turn}"


def clean_id(prompt: PromptRow, *, first: bool = False) -> str:
    """The id of the clean prompt that a variant is compared with: of its own sample, or the first."""
    id_ = turn_id(prompt["source_id"], prompt.get("turn", 1), prompt.get("turns", 1))
    return id_ if first else sample_id(id_, prompt.get("sample", 1))
