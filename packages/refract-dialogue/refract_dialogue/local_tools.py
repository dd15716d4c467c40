"""Tools in the texts of local models: as they are told of them, and as they write their calls."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from refract.core.tool_calls import tool_call
from refract.core.types import Message, Row, ToolCall

# How a call begins in templates of local models; Mistral's may have the name before the JSON.
_BEGIN = re.compile(r"(?:<tool_call>|\[TOOL_CALLS\](?:([\w.-]+)(?:\[ARGS\])?)?)\s*(?=[\[{])")
_BETWEEN = re.compile(r"\s*(?:</tool_call>)?[\s;,]*")
# Hermes' format, which most templates share, for checkpoints whose template lacks a place for tools.
INSTRUCTION = (
    "You can call these functions:\n<tools>\n{tools}\n</tools>\nTo call one, write <tool_call>"
    '{{"name": "FUNCTION", "arguments": {{"ARGUMENT": "VALUE"}}}}</tool_call>'
)


def with_tools(messages: Sequence[Message], tools: Sequence[Row]) -> list[Message]:
    """The messages with the tools in the system message, for a template that has no
    place for them."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False, sort_keys=True) for tool in tools)
    content, turns = INSTRUCTION.format(tools=listed), list(messages)
    if turns and turns[0]["role"] == "system":
        content = f"{turns.pop(0)['content']}\n\n{content}"
    return [{"role": "system", "content": content}, *turns]


def calls_in(text: str, tools: Sequence[Row]) -> tuple[str, list[ToolCall]]:
    """What a local model wrote, without its calls, and these.

    A call stands behind a marker, or the text is nothing but the JSON of calls of
    ``tools``. What has another form stays text."""
    calls: list[ToolCall] = []
    kept = ""
    place = 0
    begin = _BEGIN.search(text)
    while begin:
        read, end = _calls_at(text, begin.end(), begin[1])
        kept += text[place : begin.start() if read else end]
        calls += read
        place = end
        begin = _BEGIN.search(text, place)
    if calls:
        return (kept + text[place:]).strip(), calls
    bare = text.replace("<|python_tag|>", "").strip()
    names = {tool["function"]["name"] for tool in tools}
    place = 0
    while place < len(bare):
        read, place = _calls_at(bare, place)
        calls += read
        if not read or not names.issuperset(call["name"] for call in read):
            return text, []
    return ("", calls) if calls else (text, [])


def _calls_at(text: str, place: int, name: str | None = None) -> tuple[list[ToolCall], int]:
    """The calls in a JSON value at a place, and where the text after it begins. With a
    ``name`` the value is the arguments of that call."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, place)
        if name:
            value = {"name": name, "arguments": value}
        calls = []
        for entry in value if isinstance(value, list) else [value]:
            arguments = entry.get("arguments", entry.get("parameters", {}))
            calls.append(tool_call(entry["name"], arguments))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return [], place
    between = _BETWEEN.match(text, end)
    return calls, between.end() if between else end
