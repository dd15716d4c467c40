"""Calls of tools: what a suite's row says of them, what a model wrote of them. None is ever executed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from refract.core.jsonl import canonical_json, has_form, parse_json
from refract.core.types import Row, ToolCall

# Fields of a row that name calls: those that a harmful request is after, or a harmless one.
NAMING = ("harmful_calls", "wanted_calls")
# What templates of local models have a call begin with; Mistral's may have the name before the JSON.
_BEGIN = re.compile(r"(?:<tool_call>|\[TOOL_CALLS\](?:([\w.-]+)(?:\[ARGS\])?)?)\s*(?=[\[{])")
_BETWEEN = re.compile(r"\s*(?:</tool_call>)?[\s;,]*")
MARKERS = ("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>")
# For checkpoints whose template has no place for tools: Hermes' format, which most templates share.
INSTRUCTION = (
    "You can call these functions:\n<tools>\n{tools}\n</tools>\nTo call one, write <tool_call>"
    '{{"name": "FUNCTION", "arguments": {{"ARGUMENT": "VALUE"}}}}</tool_call>'
)


def tool_call(name: Any, arguments: Any) -> ToolCall:
    """A call; arguments that are a text are read as JSON, and what is not valid JSON is kept as text.
    Raises ValueError for a call without a name."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"a call without a name (got {name!r:.40})")
    given = arguments
    try:
        arguments = parse_json(given or "{}") if isinstance(given, str) else given
        canonical_json(arguments)
    except (RecursionError, ValueError):  # NaN, too
        arguments = str(given)
    return {"name": name, "arguments": arguments}


def calls_in(text: str, tools: Sequence[Row]) -> tuple[str, list[ToolCall]]:
    """What a local model wrote without its calls, and these: behind a marker, or where a text is
    nothing but the JSON of calls of ``tools``. What has another form stays text."""
    calls: list[ToolCall] = []
    rest, at = "", 0
    while begin := _BEGIN.search(text, at):
        found, end = _calls_at(text, begin.end(), begin[1])
        rest += text[at : begin.start() if found else end]
        calls += found
        at = end
    if calls:
        return (rest + text[at:]).strip(), calls
    bare, at = text.replace("<|python_tag|>", "").strip(), 0
    names = {tool["function"]["name"] for tool in tools}
    while at < len(bare):
        found, at = _calls_at(bare, at)
        calls += found
        if not found or not names.issuperset(call["name"] for call in found):
            return text, []
    return ("", calls) if calls else (text, [])


def _calls_at(text: str, at: int, name: str | None = None) -> tuple[list[ToolCall], int]:
    """The calls that a JSON value at a place is, and where what follows begins; ``name``: it is the
    arguments of this one."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
        value = {"name": name, "arguments": value} if name else value
        every = value if isinstance(value, list) else [value]
        calls = [tool_call(x["name"], x.get("arguments", x.get("parameters", {}))) for x in every]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return [], at
    between = _BETWEEN.match(text, end)
    return calls, between.end() if between else end


def with_calls(response: Mapping[str, Any]) -> str:
    """The answer of a response row as people read it: the text, and each call on a line behind it."""
    lines = [
        f"[call] {call['name']}({json.dumps(call['arguments'], ensure_ascii=False)})"
        for call in response.get("tool_calls") or ()
    ]
    return "\n".join([response["response"], *lines] if response["response"] else lines)


def is_call(call: ToolCall, named: str | Row) -> bool:
    """Whether a call is one that a row names: by its name and, where the row has them, by arguments: a
    text is to be part of the call's, in any case, another value equal to it."""
    wanted: Row = {"name": named} if isinstance(named, str) else named
    given = call["arguments"] if isinstance(call["arguments"], dict) else {}
    return call["name"] == wanted["name"] and all(
        key in given
        and (
            value.casefold() in str(given[key]).casefold()
            if isinstance(value, str)
            else given[key] == value
        )
        for key, value in wanted.get("arguments", {}).items()
    )


def call_problems(row: Row) -> list[str]:
    """What is wrong with a row's tools, and with the calls that it names."""
    problems, tools = [], row.get("tools", [])
    form = [{"type": str, "function": {"name": str}}]
    names = [x["function"]["name"] for x in tools] if has_form(tools, form) else []
    if "tools" in row and (not names or len(set(names)) < len(names)):
        problems.append(
            "'tools' must be a list of {'type': 'function', 'function': {'name', 'description', "
            f"'parameters'}}}}, each of another name (got {tools!r:.80})"
        )
    for field in NAMING:
        given = row.get(field, [])
        for named in given if isinstance(given, list) else [{"got": given}]:
            stated = {"name": named} if isinstance(named, str) else named
            if not has_form(stated, {"name": str}) or not isinstance(
                stated.get("arguments", {}), dict
            ):
                wanted = "a list of names, or of {'name': NAME, 'arguments': {…}}"
                problems.append(f"'{field}' must be {wanted} (got {given!r:.60})")
            elif names and stated["name"] not in names:
                problems.append(f"'{field}': {stated['name']!r:.60} is no name of 'tools'")
    return problems
