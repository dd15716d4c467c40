"""Around a model's turn: the system prompt before it, a prefill, the template, and its
thinking."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from refract.core.thinking import split
from refract.core.types import Message, Row
from refract.models.protocol import AdapterError

# The day of a chat template that asks for the date: what Llama 3's takes without a clock.
DATE = date(2024, 7, 26)
_CLOCK = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
_UNFIXED = re.compile(r"""strftime_now(?!\s+is\s)|(\||map\(["'])\s*random\b|\blipsum\b""")

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
    Text | None, Field(description="for conversations without a system message")
]


def with_system_prompt(messages: Sequence[Message], system: str | None) -> list[Message]:
    """The messages with the definition's system prompt where they have none."""
    if system is None or any(message["role"] == "system" for message in messages):
        return list(messages)
    return [{"role": "system", "content": system}, *messages]


def with_call_ids(messages: Sequence[Message], *, as_text: bool = False) -> list[Row]:
    """The messages with their calls of tools in OpenAI's form, numbered, and with the
    number of its call in each result; ``as_text``: arguments as JSON texts. Ids have nine
    letters and digits, since Mistral takes no others."""
    numbered: list[Row] = []
    calls = results = 0
    for message in messages:
        row: Row = {**message}
        if "tool_calls" in message:
            row["tool_calls"] = []
            for call in message["tool_calls"]:
                arguments = call["arguments"]
                if as_text and not isinstance(arguments, str):
                    arguments = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
                function = {"name": call["name"], "arguments": arguments}
                id_ = f"call{calls:05d}"
                row["tool_calls"].append({"id": id_, "type": "function", "function": function})
                calls += 1
        elif message["role"] == "tool":
            row["tool_call_id"] = f"call{results:05d}"
            results += 1
        numbered.append(row)
    return numbered


def at_fixed_day(where: str, template: Any) -> Any:
    """A chat template, or some by name, with the midnight of ``DATE`` where it asks for the time.
    Raises :class:`AdapterError` where it could still give another text another time."""
    if isinstance(template, dict):
        return {name: at_fixed_day(where, text) for name, text in template.items()}

    def written(call: re.Match[str]) -> str:
        quote, form = call.groups()
        return f"{quote}{DATE.strftime(form)}{quote}"

    fixed = _CLOCK.sub(written, template)
    unfixed = _UNFIXED.search(fixed)
    if unfixed:
        raise AdapterError(
            f"{where}: with {unfixed[0]!r} in the checkpoint's chat template a prompt would not be the "
            "same tomorrow; set chat_template: false, or change the template in a copy of the checkpoint"
        )
    return fixed


class Begun(NamedTuple):
    """What a prefill means for the model's turn: its own thinking is no part of the answer.

    ``opened``: the model goes on inside thinking."""

    answer: str = ""
    thinking: str | None = None
    opened: bool = False


def refuse_ambiguous(prefill: str | None, markers: Sequence[str] | None) -> None:
    """Raises ValueError at a prefill that opens thinking twice and closes it once, since nobody can
    say whether the model goes on inside."""
    if not (prefill and markers) or split(prefill, markers).unfinished:
        return
    opened, closed = map(prefill.count, markers)
    if opened > closed and prefill.replace(markers[0], "", 1).lstrip().startswith(markers[0]):
        raise ValueError(
            f"prefill opens thinking {opened} times and closes it {closed}; write {markers[0]} once, or "
            f"close each (got {prefill!r:.80})"
        )


def begun(prefill: str | None, markers: Sequence[str] | None, opened: bool = False) -> Begun:
    """What a prefill begins, behind a template that has ``opened`` thinking or not."""
    if not (prefill and markers):
        return Begun(prefill or "", None, opened)
    answer, thinking, unfinished = split(prefill, markers, opened)
    return Begun(answer, thinking, unfinished)


def whole_turn(before: Begun, response: str, thinking: str | None) -> tuple[str, str | None]:
    """Answer and thinking of a turn: those of its prefill, and what the model went on with. Where it
    wrote no answer, the prefill is none."""
    thoughts = [part for part in (before.thinking, thinking) if part is not None]
    joined = "\n\n".join(filter(None, thoughts)) if thoughts else None
    return f"{before.answer if response.strip() else ''}{response}", joined
