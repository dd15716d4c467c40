"""What a provider's replies and errors mean: how an answer ended, whether a failure
passes, whether a filter stopped the request."""

from __future__ import annotations

import email.utils
import re
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal, NamedTuple

from refract.core.showing import say
from refract.core.types import FinishReason
from refract.models.protocol import Answer

# Why a completion ended, by the words of all the servers that speak the two protocols,
# in small letters. Gemini's own words pass through its server of OpenAI's protocol.
WORDS: dict[FinishReason, str] = {
    "stop": "stop end_turn stop_sequence eos eos_token complete",
    "length": "length max_tokens max_output_tokens model_length model_context_window_exceeded",
    "content_filter": "content_filter content_filtered guardrail_intervened safety recitation "
    "blocklist prohibited_content spii sensitive moderation content_moderation moderated blocked "
    "flagged unsafe content_policy_violation policy_violation image_safety model_armor",
    "refusal": "refusal",
    "loop": "repetition repetition_detected",
}
FINISHED: dict[str, FinishReason] = {}
for _ending, _words in WORDS.items():
    FINISHED.update(dict.fromkeys(_words.split(), _ending))
# Endings that a repeat can mend.
PASSING = ("insufficient_system_resource", "network_error")
# What servers call such errors instead of a number.
STATUS = {"rate_limit_exceeded": 429, "rate_limit_error": 429, "overloaded_error": 529}
CALLED = ("tool_calls", "tool_use", "function_call")
# What chat templates write around turns: in an answer it was not taken off, or begins a turn that
# the model invented.
TEMPLATE = re.compile(
    r"<\|(?:im_start|im_end|start_header_id|eot_id|endoftext|user|assistant)\|>"
    r"|<(?:start|end)_of_turn>|\[/INST\]"
)
Kind = Literal["filtered", "too long", "passing", "final"]
TOO_LONG = re.compile(
    r"context.?length|context.?window|context.?size|context.?limit|prompt is too long"
    r"|input is too long|too many (?:input )?tokens|longer than the model|max(?:imum)?.?model.?len"
    r"|maximum number of (?:input )?tokens|maximum context|too large for model"
    r"|reduce the length of|inputs. tokens|string_above_max_length|request_too_large",
    re.IGNORECASE,
)
FILTER_CODES = {
    "content_filter",
    "responsibleaipolicyviolation",
    "moderation_blocked",
    "bio_policy",
    "cyber_policy",
    "misalignment_policy_violation",
}
FILTER_TEXT = re.compile(
    r"blocked by (?:the |our )?content.?filter|content management policy"
    r"|(?:input|prompt|content) was flagged|content.?policy.?violation",
    re.IGNORECASE,
)


class Failure(NamedTuple):
    """How a call came back without an answer, after all its repeats.

    ``name``, ``text``: the row's error. ``paid``: whether the call may have cost something.
    ``response``: what came, kept in the row.
    ``kind``: ``filtered``: the provider's filter is the row's ending. ``too long``: the row goes on
    with its next attempt. ``passing``: repeats can mend it. ``final``: they cannot."""

    name: str
    text: str
    kind: Kind
    paid: bool = False
    response: str = ""

    def answer(self, attempt: int) -> Answer:
        """The row of a request that ends so."""
        if self.kind == "filtered":
            return Answer("", "content_filter", attempt)
        return replace(Answer.failed(self.name, self.text, attempt), response=self.response)


class InvalidResponse(ValueError):
    """A call succeeded, but what came is not an answer; ``text``: what there is of one."""

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


def first_word(reason: object) -> str:
    """A reason as :data:`FINISHED` has it: ``content_filter: SAFETY`` is a content filter."""
    return str(reason).lower().partition(":")[0]


def _first_choice(payload: dict[str, Any]) -> dict[str, Any]:
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}


def error_inside(payload: Any) -> tuple[int, str] | None:
    """The status and the message of an error that a server sent as a success, of one without a code
    500, of one that says what a 400 would 400; None without one, or with another code."""
    if not isinstance(payload, dict):
        return None
    choice = _first_choice(payload)
    if choice.get("finish_reason") in PASSING:
        return 503, f"the completion ended with {choice['finish_reason']}"
    error = choice.get("error") or (not choice and payload.get("error"))
    if isinstance(error, str) and error:
        error = {"message": error}
    if not isinstance(error, dict):
        return None
    code = str(error.get("code") or error.get("type") or 500)
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else STATUS.get(code)
    # A response that failed has an output and says so itself.
    if not status and "output" not in payload and kind_of(400, *error_parts(payload)) != "final":
        status = 400
    return (status, str(error.get("message") or code)) if status else None


def token_count(tokens: object) -> int | None:
    """A count of tokens as it was stated; None for what can be none."""
    # No request has more; a sum of such counts could not be written.
    return tokens if type(tokens) is int and 0 <= tokens < 2**53 else None


@cache
def say_once(text: str) -> None:
    """Says it on standard error, once."""
    say(text, file=sys.stderr)


def error_parts(body: Any) -> tuple[str, set[str]]:
    """The message and the codes of an error, whatever a server wraps them in."""
    try:
        if isinstance(body, list) and body:
            body = body[0]
        if isinstance(body, dict):
            error = _first_choice(body).get("error") or body.get("error") or body.get("detail")
            body = error or body
        if not isinstance(body, dict):
            return str(body or "")[:1000], set()
        codes = [body.get("code"), body.get("type")]
        inner = body.get("innererror")
        if isinstance(inner, dict):
            codes.append(inner.get("code"))
        return str(body.get("message") or ""), {str(code).lower() for code in codes}
    except RecursionError:  # nested deeper than Python prints
        return "", set()


def says_filtered(codes: Collection[str], text: str) -> bool:
    """Whether an error says that the provider's filter stopped the request."""
    return not FILTER_CODES.isdisjoint(codes) or bool(FILTER_TEXT.search(text))


def says_too_long(status: int | None, text: str) -> bool:
    """Whether an error says that the prompt is too long; ``status``: of HTTP, None
    where unknown."""
    return status == 413 or (status in (None, 400, 422, 500) and bool(TOO_LONG.search(text)))


def kind_of(status: int, message: str, codes: Collection[str]) -> Kind:
    """What follows from an error response of such a status, message and codes."""
    words = " ".join([message, *sorted(codes)])
    if says_filtered(codes, words if status <= 500 else ""):
        return "filtered"
    if says_too_long(status, words):
        return "too long"
    used_up = "insufficient_quota" in codes or "request too large" in message.lower()
    passes = status in (408, 409, 429) or status >= 500
    return "passing" if passes and not used_up else "final"


def asks_for(headers: Mapping[str, str]) -> float:
    """For how many seconds a server asks to be left alone, in any form of ``Retry-After`` that the
    packages obey: milliseconds in a header of their own, seconds, a date. 0 where it does not say."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            return max(0.0, float(headers[name]) / unit)
        except (KeyError, ValueError):
            continue
    try:
        date = email.utils.parsedate_tz(headers["retry-after"])
        return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else 0.0
    except (KeyError, ValueError, OverflowError, OSError):
        return 0.0
