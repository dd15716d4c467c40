"""Conversations that are played: the model's own answers, and what tools return, in their
places.

A conversation goes on in one of two ways. Where its script has a further turn of the user's,
that turn follows whatever the model said. Where it has ``tool_results``, results follow as long
as the model calls tools, and what the user says meanwhile; its last answer is that of all further
steps, so that the last step of each such conversation has the answer that it came to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from refract.core.types import (
    OWN_ANSWER,
    UNFINISHED,
    Attempt,
    FinishReason,
    Message,
    PromptRow,
    ResponseRow,
    Row,
    ToolCall,
    sample_prompts,
)

# What stands before a tool's name in some templates.
_PREFIX = re.compile(r"^(?:functions?|tools?|default_api)[.:]")


class Reply(NamedTuple):
    """What a conversation goes on from: an answer's text, and its calls of tools."""

    text: str
    calls: Sequence[ToolCall] = ()


def reply_in(
    text: str, finish_reason: FinishReason, calls: Sequence[ToolCall] | None = None
) -> Reply:
    """The reply in an answer. Calls of one that failed, or that was refused by a signal of
    the provider, lead nowhere."""
    goes_on = finish_reason in ("stop", *UNFINISHED)
    return Reply(text, calls or ()) if goes_on else Reply(text)


def answered_prompts(
    prompts: Sequence[PromptRow], responses: Sequence[ResponseRow]
) -> list[PromptRow]:
    """Prompt rows with as many samples as were answered, and ``with_answers``."""
    samples = len(responses) // max(1, len(prompts))
    earlier: dict[str, list[Reply]] = {}
    answers = {row["prompt_id"]: row for row in responses}
    return [
        with_answers(row, answers.get(row["prompt_id"]), earlier)
        for row in sample_prompts(prompts, max(1, samples))
    ]


def with_answers(
    prompt: PromptRow, response: ResponseRow | None, earlier: dict[str, list[Reply]]
) -> PromptRow:
    """A turn of a conversation that is played, with the model's own answers in their
    places (an empty text where there is none); any other prompt as it is.

    ``earlier`` has the answers before each turn, and to it, by its id. The ``response`` to
    this turn is added to it, so that turns have to come in order."""
    if "turn" not in prompt:
        return prompt
    before = earlier.get(prompt.get("after", ""), [])
    reply = Reply("")
    if response is not None:
        calls = response.get("tool_calls")
        reply = reply_in(response["response"], response["finish_reason"], calls)
    attempts: list[Attempt] = []
    if "tool_results" in prompt:
        steps = before
        if len(before) < prompt["turn"] - 1 or after_calls([], before, prompt) is None:
            steps = before[:-1]  # the conversation ended with the last of these answers
            earlier[prompt["prompt_id"]] = before
        else:
            earlier[prompt["prompt_id"]] = [*before, reply]
        for attempt in prompt["attempts"]:
            attempts.append(after_calls(attempt, steps, prompt) or attempt)
    else:
        earlier[prompt["prompt_id"]] = [*before, reply]
        for attempt in prompt["attempts"]:
            attempts.append(filled(attempt, [answer.text for answer in before]))
    return {**prompt, "attempts": attempts, "script": prompt["attempts"]}


def filled(attempt: Attempt, answers: Iterable[str]) -> Attempt:
    """A conversation with the model's own answers in their places, empty where there are
    no more."""
    if isinstance(attempt, str):
        return attempt
    texts = iter(answers)
    messages = []
    for message in attempt:
        if message == OWN_ANSWER:
            message = {**message, "content": next(texts, "")}
        messages.append(message)
    return messages


def after_calls(
    attempt: Attempt, replies: Sequence[Reply], prompt: PromptRow
) -> list[Message] | None:
    """A conversation behind the model's replies, with what followed each: of the prompt's
    ``tool_results`` those of its calls, and what the user says behind them or behind a text
    without calls; each once, in order, unless it is there ``always``. None where nothing
    follows a reply, or one of its calls."""
    messages: list[Message] = []
    if isinstance(attempt, str):
        messages.append({"role": "user", "content": attempt})
    else:
        messages += attempt
    left = list(prompt["tool_results"])
    for reply in replies:
        answer: Message = {"role": "assistant", "content": reply.text}
        messages.append(answer)
        if reply.calls:
            answer["tool_calls"] = list(reply.calls)
        elif not reply.text.strip():
            return None
        result: Row | None = None
        for call in reply.calls or (None,):
            result = _first_result(call, left)
            if result is None:
                return None
            if not result.get("always"):
                left.remove(result)
            if call is not None:
                content = result["result"]
                messages.append({"role": "tool", "content": content, "name": call["name"]})
        if result is not None and "user" in result:
            messages.append({"role": "user", "content": result["user"]})
    return messages


def _first_result(call: ToolCall | None, results: Sequence[Row]) -> Row | None:
    """The first result of a call; without one, the first text of the user's alone."""
    for result in results:
        is_result = "name" in result
        if call is None:
            if not is_result:
                return result
        elif is_result and is_call(call, result):
            return result
    return None


def is_call(call: ToolCall, named: str | Row) -> bool:
    """Whether a call is one that a row names: by its name in any spelling
    (``_spelled``) and, where the row has them, by arguments. A text must be part of
    the call's argument, in any case; any other value must equal it."""
    wanted: Row = {"name": named} if isinstance(named, str) else named
    if _spelled(call["name"]) != _spelled(wanted["name"]):
        return False
    arguments = call["arguments"] if isinstance(call["arguments"], dict) else {}
    for key, value in wanted.get("arguments", {}).items():
        if key not in arguments:
            return False
        if isinstance(value, str):
            if value.casefold() not in str(arguments[key]).casefold():
                return False
        elif arguments[key] != value:
            return False
    return True


def _spelled(name: str) -> str:
    """A tool's name as models write it: in any case, with any marks between its words, and
    behind the name that providers have for all tools."""
    return re.sub(r"\W|_", "", _PREFIX.sub("", name)).casefold()
