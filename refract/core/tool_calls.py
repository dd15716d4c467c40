"""Calls of tools, as rows name them and as models write them. None is ever executed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from refract.core.jsonl import canonical_json, has_form, parse_json
from refract.core.types import Row, ToolCall

# Fields of a row that name the calls which a harmful, or a harmless, request is after.
NAMING = ("harmful_calls", "wanted_calls")
# And those that an attack in what tools return is after.
ATTACK_CALLS = "attack_calls"
# How a call begins in templates of local models; Mistral's may have the name before the JSON.
_BEGIN = re.compile(r"(?:<tool_call>|\[TOOL_CALLS\](?:([\w.-]+)(?:\[ARGS\])?)?)\s*(?=[\[{])")
_BETWEEN = re.compile(r"\s*(?:</tool_call>)?[\s;,]*")
MARKERS = (
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
)
# Hermes' format, which most templates share, for checkpoints whose template lacks a place for tools.
INSTRUCTION = (
    "You can call these functions:\n<tools>\n{tools}\n</tools>\nTo call one, write <tool_call>"
    '{{"name": "FUNCTION", "arguments": {{"ARGUMENT": "VALUE"}}}}</tool_call>'
)


def tool_call(name: Any, arguments: Any) -> ToolCall:
    """A call. Arguments in a text are read as JSON; what is not valid JSON is kept as text.
    Raises ValueError for a call without a name."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"a call without a name (got {name!r:.40})")
    try:
        value = parse_json(arguments or "{}") if isinstance(arguments, str) else arguments
        canonical_json(value)
    except (RecursionError, ValueError):  # NaN, too
        value = str(arguments)
    return {"name": name, "arguments": value}


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


def with_calls(response: Mapping[str, Any]) -> str:
    """The answer of a response row as people read it: the text, then a line for each call."""
    lines = [response["response"]] if response["response"] else []
    for call in response.get("tool_calls") or ():
        lines.append(f"[call] {call['name']}({json.dumps(call['arguments'], ensure_ascii=False)})")
    return "\n".join(lines)


def call_problems(row: Row) -> list[str]:
    """What is wrong with a row's tools, and with the calls that it names."""
    problems = []
    names: list[str] = []
    tools = row.get("tools", [])
    if has_form(tools, [{"type": str, "function": {"name": str}}]):
        names = [tool["function"]["name"] for tool in tools]
    if "tools" in row and (not names or len(set(names)) < len(names)):
        problems.append(
            "'tools' must be a list of {'type': 'function', 'function': {'name', 'description', "
            f"'parameters'}}}}, each of another name (got {tools!r:.80})"
        )
    for field in (*NAMING, ATTACK_CALLS):
        value = row.get(field, [])
        for call in value if isinstance(value, list) else [None]:
            named: Any = {"name": call} if isinstance(call, str) else call
            has_name = has_form(named, {"name": str})
            if not has_name or not isinstance(named.get("arguments", {}), dict):
                problems.append(
                    f"'{field}' must be a list of names, or of {{'name': NAME, 'arguments': {{…}}}} "
                    f"(got {value!r:.60})"
                )
            elif names and named["name"] not in names:
                problems.append(f"'{field}': {named['name']!r:.60} is not the name of a tool")
    return problems + _result_problems(row, names)


def _result_problems(row: Row, names: Sequence[str]) -> list[str]:
    """What is wrong with what a row's tools return, and with what the user says meanwhile."""
    if "tool_results" not in row:
        return []
    results = row["tool_results"]
    steps = row.get("max_steps", 1)
    problems = []
    fits = has_form(results, [{}])
    endless = False
    for result in results if fits else ():
        form = {"name": str, "result": str} if "name" in result else {"user": str}
        fits &= has_form(result, form) and isinstance(result.get("user", ""), str)
        fits &= isinstance(result.get("arguments", {}), dict)
        endless |= bool(result.get("always"))
    if not fits:
        problems.append(
            "'tool_results' must be a list of {'name': TOOL, 'result': TEXT}, each with "
            "'arguments': {…} where it is of calls with these, and of {'user': TEXT} "
            f"(got {results!r:.60})"
        )
    elif endless and "max_steps" not in row:
        problems.append("'tool_results' that are returned 'always' need 'max_steps'")
    elif names:
        called = {result["name"] for result in results if "name" in result}
        for name in sorted(called.difference(names)):
            problems.append(f"'tool_results': {name!r:.60} is not the name of a tool")
    if type(steps) is not int or steps < 1:
        problems.append(f"'max_steps' must be a whole number of 1 or more (got {steps!r:.60})")
    return problems
