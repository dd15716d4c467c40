"""The rows that pass between stages (``docs/rows.md``), and the samples of a prompt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, cast

from refract.core.errors import RowError

# Any object of a JSONL file. The rows of a suite stay of this type, since they may have any columns
# beside their own, which refract.suites.rows checks.
Row = dict[str, Any]


def filled(cell: Any) -> Any:
    """The value of a cell; None where it is null or blank.

    Tables leave a cell blank where a row belongs to no other: such rows have nothing in common."""
    return None if isinstance(cell, str) and not cell.strip() else cell


Category = Literal["harmful", "helpful", "borderline"]
FinishReason = Literal["stop", "length", "loop", "content_filter", "refusal", "error"]
# Of answers that did not end by themselves, whose last sentence may be cut.
UNFINISHED = ("length", "loop")
Label = Literal["refusal", "partial_refusal", "compliance", "degenerate"]


class ToolCall(TypedDict):
    """A call of a tool; ``arguments``: an object, or a text that is not JSON."""

    name: str
    arguments: Any


class Message(TypedDict):
    """One turn of a conversation; ``role`` is system, user, assistant or tool. The assistant's may
    have ``tool_calls``; behind it stands, for each, what the tool of that ``name`` returned."""

    role: str
    content: str
    tool_calls: NotRequired[list[ToolCall]]
    name: NotRequired[str]


# An attempt of a prompt row: a text, or a conversation that ends with the user's turn.
Attempt = str | list[Message]
# Stands in a conversation that is played for an answer of the model's own.
OWN_ANSWER = cast(Message, {"role": "assistant", "content": None})


class PromptRow(TypedDict):
    """One variant of a prompt. ``perturbation`` is None for the clean one, ``seed`` None unless its
    text was drawn, ``sample`` present where a prompt is answered several times.

    A turn of a conversation that is played has its number (``turn``), the last one's (``turns``),
    and the id of the turn answered ``after`` which it comes. ``script`` has the attempts without
    the model's answers, where ``with_answers`` filled these in. A step of a model that calls tools
    is such a turn, too: ``tool_results`` are what they return in the whole conversation."""

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
    tool_results: NotRequired[list[Row]]


class ErrorInfo(TypedDict):
    """Why a request was not answered: class and message of the error."""

    type: str
    message: str


class StopDetails(TypedDict):
    """Why a provider refused, as far as it says so."""

    category: str | None
    explanation: str | None


class ResponseRow(TypedDict):
    """One answer. Counts of tokens are without padding; ``tokens``: the ids of a local
    model's tokens (``refract.models.protocol.packed_tokens``)."""

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
    stop_details: NotRequired[StopDetails]
    answer_sha256: str


class Verdict(TypedDict):
    """One judge's verdict on one answer. ``label`` is None where the judge gives none,
    ``refused`` where the label tells nothing about refusal; a judge may add fields.
    ``reads`` is there where the thinking was judged in place of the answer."""

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
    of_steps: NotRequired[bool]
    reads: NotRequired[Literal["thinking"]]
    probabilities: NotRequired[dict[str, float]]


class VerdictRow(TypedDict):
    """The verdicts on one answer, by the judges' names."""

    prompt_id: str
    judges: dict[str, Verdict]


class NullVerdictRow(VerdictRow):
    """The verdicts on one null answer, which cannot depend on its prompt
    (``refract.core.vocabulary.NULL_ANSWERS``). ``prompt_id`` is the prompt that it was
    judged under, of this ``category``; ``answer`` is the id of the prompt whose answer it
    is, None where it is none of the model's. The two rows of one kind and ``pair`` are
    compared: one answer, or answers of one kind, under a harmful and a helpful prompt."""

    kind: str
    pair: int
    category: Category
    answer: str | None


def given_prompt(prompt_id: str, attempt: Attempt) -> PromptRow:
    """The clean prompt row of an answer that already exists, without a suite."""
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
    """The response row of an answer that already exists, without a request."""
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


def thought_in(response: ResponseRow) -> str:
    """What a model thought before it answered; empty where there is nothing, or nothing is known."""
    return response.get("thinking") or ""


def sample_id(prompt_id: str, sample: int) -> str:
    """The id of a sample: the prompt's for the first, then ``PROMPT_ID~2``, ``PROMPT_ID~3``, …"""
    return prompt_id if sample == 1 else f"{prompt_id}~{sample}"


def sample_prompts(prompts: Iterable[PromptRow], samples: int) -> Iterable[PromptRow]:
    """Prompt rows, one for each sample, with its number (``sample``) and an id by
    ``sample_id``; the rows as they are for one sample.
    Raises RowError for a prompt that has the id of another prompt's sample."""
    if samples == 1:
        return prompts
    prompts = list(prompts)
    taken = {row["prompt_id"] for row in prompts}
    sampled: list[PromptRow] = []
    for row in prompts:
        for sample in range(1, samples + 1):
            id_ = sample_id(row["prompt_id"], sample)
            if sample > 1 and id_ in taken:
                raise RowError(
                    f"the id {id_!r} is that of a sample of {row['prompt_id']!r}; rename the row"
                )
            copy: PromptRow = {**row, "prompt_id": id_, "sample": sample}
            if "after" in row:
                copy["after"] = sample_id(row["after"], sample)
            sampled.append(copy)
    return sampled


def turns_of(prompt: PromptRow) -> dict[str, str]:
    """The numbers of a turn that is played and of the last turn, as columns."""
    if "turn" not in prompt:
        return {}
    return {"turn": str(prompt["turn"]), "turns": str(prompt["turns"])}


def is_last(row: Mapping[str, Any]) -> bool:
    """Whether a prompt or an outcome is a last turn, or not a turn that is played. No
    headline counts the others."""
    turn = row.get("turn")
    turns = row.get("turns")
    return turn == turns or not (turn and turns)  # one of them alone is a field of the suite's own


def prompt_of_sample(row: PromptRow) -> str:
    """The id of the prompt that a row of ``sample_prompts`` is a sample of."""
    id_ = row["prompt_id"]
    sample = row.get("sample", 1)
    return id_ if sample == 1 else id_.removesuffix(f"~{sample}")


def conversation_text(attempt: Attempt) -> str:
    """A prompt as people read it: the text, or each message behind its role."""
    if isinstance(attempt, str):
        return attempt
    texts = []
    for message in attempt:
        lines = [f"[{message['role']}]", message["content"]]
        for call in message.get("tool_calls", ()):
            arguments = json.dumps(call["arguments"], ensure_ascii=False)
            lines.append(f"[call] {call['name']}({arguments})")
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def turn_id(id_: str, turn: int, turns: int) -> str:
    """The id of a turn: the conversation's for the last, ``ID/1``, … for the others."""
    return id_ if turn == turns else f"{id_}/{turn}"


def clean_id(prompt: PromptRow, *, first: bool = False) -> str:
    """The id of the clean prompt that a variant is compared with: of its sample, or the ``first``."""
    id_ = turn_id(prompt["source_id"], prompt.get("turn", 1), prompt.get("turns", 1))
    return id_ if first else sample_id(id_, prompt.get("sample", 1))
