"""Around a model's turn: the system prompt before it, a prefill, the template, and its thinking."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from refract.core.published_text import Source, SourceError, fetched_text
from refract.core.tool_calls import INSTRUCTION
from refract.core.types import Message, Row
from refract.models.protocol import AdapterError

Text = Annotated[str, Field(min_length=1)]
Markers = Annotated[
    list[Text],
    Field(
        min_length=2,
        max_length=2,
        json_schema_extra={"allowed": 'two markers such as ["<think>", "</think>"]'},
    ),
]
SystemPrompt = Annotated[
    Text | Source | None,
    Field(
        description="put before conversations that have no system message",
        json_schema_extra={
            "allowed": "a text, null, or where a published one stands: {package or repository, path, "
            "at, sha256}"
        },
    ),
]


def system_text(where: str, given: str | Source | None) -> str | None:
    """The text itself; a published one is fetched at its first use. Raises :class:`AdapterError`."""
    if not isinstance(given, Source):
        return given
    try:
        return fetched_text(given)
    except SourceError as error:
        raise AdapterError(f"{where}: system_prompt: {error}") from None


def system_identity(given: str | Source | None) -> Any:
    """What an identity holds of it: a published text by its SHA-256, wherever it stands."""
    return {"sha256": given.sha256} if isinstance(given, Source) else given


def with_system_prompt(messages: Sequence[Message], system: str | None) -> list[Message]:
    """The messages with the definition's system prompt where they have none."""
    if system is None or any(message["role"] == "system" for message in messages):
        return list(messages)
    return [{"role": "system", "content": system}, *messages]


def with_tools(messages: Sequence[Message], tools: Sequence[Row]) -> list[Message]:
    """The messages with the tools in the system message, for a template that has no place for them."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False, sort_keys=True) for tool in tools)
    told = INSTRUCTION.format(tools=listed)
    first = [m["content"] for m in messages[:1] if m["role"] == "system"]
    content = "\n\n".join([*first, told])
    return [{"role": "system", "content": content}, *messages[len(first) :]]


def with_prefill(prefill: str | None, response: str) -> str:
    """The model's whole turn: prefill plus generated continuation. Where it wrote nothing there is
    no answer."""
    return f"{prefill}{response}" if prefill and response.strip() else response


def split_reasoning(text: str, markers: list[str], opened: bool = False) -> tuple[str, str | None]:
    """Splits thinking from the answer: ``(response, thinking or None)``.

    ``opened``: the prompt itself ended with the opening marker. A closing marker without an opening
    one closes what the text began with, since some templates open it out of sight.
    """
    start, end = markers
    head, opening, inside = ("", start, text) if opened else text.partition(start)
    if opened and inside.lstrip().startswith(start):
        inside = inside.lstrip()[len(start) :]
    if not opening:
        thinking, closed, answer = text.partition(end)
        return (answer.lstrip(), thinking.strip()) if closed else (text, None)
    thinking, closed, answer = inside.partition(end)
    if not closed:
        return "", thinking.strip()
    return (head.rstrip() + answer).lstrip(), thinking.strip()
