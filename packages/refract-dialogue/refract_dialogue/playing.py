"""Conversations turn by turn: the model's own answers, and what tools return, in their places.

A conversation goes on in one of two ways. Where its script has a further turn of the user's,
that turn follows whatever the model said. Where it has ``tool_results``, results follow as long
as the model calls tools; its last answer is that of all further
steps, so that the last step of each such conversation has the answer that it came to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from refract.core.jsonl import canonical_json
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
)
from refract.models.answering import Turns
from refract.models.protocol import Answer
from refract_dialogue.calls import is_call


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


def following(prompt: PromptRow, replies: Sequence[Reply]) -> list[Attempt] | None:
    """A turn's attempts behind the replies before it; None where the conversation has
    ended before it, as only one with ``tool_results`` does."""
    if "tool_results" not in prompt:
        return [_filled(attempt, replies) for attempt in prompt["attempts"]]
    attempts: list[Attempt] = []
    if len(replies) >= prompt["turn"] - 1:
        for attempt in prompt["attempts"]:
            messages = _after_calls(attempt, replies, prompt["tool_results"])
            if messages is None:
                return None
            attempts.append(messages)
    return attempts or None


def _filled(attempt: Attempt, replies: Iterable[Reply]) -> Attempt:
    """A conversation with the model's own answers in their places, empty where there are
    no more."""
    if isinstance(attempt, str):
        return attempt
    left = iter(replies)
    messages = []
    for message in attempt:
        if message == OWN_ANSWER:
            message = {**message, "content": next(left, Reply("")).text}
        messages.append(message)
    return messages


def _with_results(
    replies: Sequence[Reply], results: Sequence[Row]
) -> Iterator[tuple[Reply, list[tuple[ToolCall, Row | None]]]]:
    """Each reply with its calls and their results, each of which is given once, in order; None
    for a call without one."""
    left = list(results)
    for reply in replies:
        called: list[tuple[ToolCall, Row | None]] = []
        for call in reply.calls:
            result = next((each for each in left if is_call(call, each)), None)
            if result is not None:
                left.remove(result)
            called.append((call, result))
        yield reply, called


def _after_calls(
    attempt: Attempt, replies: Sequence[Reply], results: Sequence[Row]
) -> list[Message] | None:
    """A conversation behind the model's replies, with the results of its calls. None where a
    reply has no calls, or one of them no result."""
    messages: list[Message] = []
    if isinstance(attempt, str):
        messages.append({"role": "user", "content": attempt})
    else:
        messages += attempt
    for reply, called in _with_results(replies, results):
        if not called:
            return None
        calls = list(reply.calls)
        messages.append({"role": "assistant", "content": reply.text, "tool_calls": calls})
        for call, result in called:
            if result is None:
                return None
            content = result["result"]
            messages.append({"role": "tool", "content": content, "name": call["name"]})
    return messages


def with_answers(
    prompt: PromptRow, response: ResponseRow | None, earlier: dict[str, list[Reply]]
) -> PromptRow:
    """A turn with the model's own answers in their places (an empty text where there is
    none).

    ``earlier`` has the answers before each turn, and to it, by its id. The ``response`` to
    this turn is added to it, so that turns have to come in order."""
    replies = earlier.get(prompt.get("after", ""), [])
    reply = Reply("")
    if response is not None:
        calls = response.get("tool_calls")
        reply = reply_in(response["response"], response["finish_reason"], calls)
    attempts = following(prompt, replies)
    if attempts is None:  # the conversation ended with the last of these answers
        earlier[prompt["prompt_id"]] = replies
        attempts = following({**prompt, "turn": 1}, replies[:-1]) or prompt["attempts"]
    else:
        earlier[prompt["prompt_id"]] = [*replies, reply]
    return {**prompt, "attempts": attempts, "script": prompt["attempts"]}


class PlayedTurns(Turns):
    """First all requests that follow no answer; then, as long as there are any, the next turns
    of conversations, which hold the model's own answers before them.

    A turn after one without an answer, or without text, is not asked, and has the answer
    before it where that is a refusal or a content filter of the provider's."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._waiting: list[tuple[str, PromptRow]] = []
        # The model's own turns before each of a conversation's.
        self._replies: dict[tuple[str, str], list[Reply]] = {}
        # Calls that ended a conversation, since nothing says what they return.
        self._unscripted: Counter[str] = Counter()
        super().__init__(*arguments, **named)

    def add(self, suite: str, row: PromptRow) -> None:
        """Takes up a prompt; one behind another turn waits for the answer to that."""
        if "after" in row:
            self.keys[suite][row["prompt_id"]] = ""
            self._waiting.append((suite, row))
        else:
            super().add(suite, row)

    def go_on(self, answers: Mapping[str, Answer]) -> None:
        self.requests = {}
        waiting, self._waiting = self._waiting, []
        for suite, row in waiting:
            self._follow(suite, row, answers)

    def _follow(self, suite: str, row: PromptRow, answers: Mapping[str, Answer]) -> None:
        """Adds the request of a turn whose conversation has come to it."""
        keys = self.keys[suite]
        before = answers.get(keys[row["after"]])
        scripted = "tool_results" in row
        if before is None or not (scripted or _speaks(before)):
            ended = ("refusal", "content_filter")  # by the provider
            if before is not None and before.finish_reason in ended:
                keys[row["prompt_id"]] = keys[row["after"]]
            else:
                self._waiting.append((suite, row))
            return
        earlier = self._replies.get((suite, row["after"]), [])
        reply = reply_in(before.response, before.finish_reason, before.tool_calls)
        replies = [*earlier, reply]
        attempts = following(row, replies)
        if attempts is None:
            if len(replies) == row["turn"] - 1:
                *_, (_, called) = _with_results(replies, row["tool_results"])
                self._unscripted.update(call["name"] for call, result in called if result is None)
            self._replies[suite, row["prompt_id"]] = earlier
            keys[row["prompt_id"]] = keys[row["after"]]
            return
        self._replies[suite, row["prompt_id"]] = replies
        if len({canonical_json(attempt[:-1]) for attempt in attempts}) > 1:
            # The change is in an earlier turn, so that what was answered there is what goes on.
            attempts = attempts[: before.attempt + 1]
        super().add(suite, {**row, "attempts": attempts})

    def note(self) -> str:
        """What conversations ended at, where a script says nothing of it."""
        if not self._unscripted:
            return ""
        calls = ", ".join(f"{tool} ({count})" for tool, count in sorted(self._unscripted.items()))
        return f"conversations ended at calls that `tool_results` says nothing of: {calls}"


def _speaks(answer: Answer) -> bool:
    """Whether a conversation can go on after an answer: the model said something."""
    return answer.finish_reason not in ("content_filter", "error") and bool(answer.response.strip())
