"""Calls of tools in answers. None is ever executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from refract.core.jsonl import canonical_json, parse_json
from refract.core.types import ToolCall

# Fields of a row that name the calls which a harmful, or a harmless, request is after.
NAMING = ("harmful_calls", "wanted_calls")
# What begins and ends a call in the texts of local models; some are special tokens.
MARKERS = ("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>")


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


def with_calls(response: Mapping[str, Any]) -> str:
    """The answer of a response row as people read it: the text, then a line for each call."""
    lines = [response["response"]] if response["response"] else []
    for call in response.get("tool_calls") or ():
        lines.append(f"[call] {call['name']}({json.dumps(call['arguments'], ensure_ascii=False)})")
    return "\n".join(lines)
