"""Tools of published agents: what a row offers, what they return, and which calls it names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from refract.core.settings import Settings
from refract.core.types import Row


class ScriptedTool(Settings):
    """A tool that each row offers, with ``arguments`` that are texts, and what it returns.

    Without a ``column`` that is always the text ``returns``. An object in the column is
    looked up: a call gets the entry whose key its first argument holds; so is a list with
    ``by``, the fields that name an entry. Other calls get ``returns`` and the names. Any
    other value is returned whole."""

    arguments: list[str] = Field([])
    column: str | None = None
    by: list[str] = Field([])
    returns: str = ""

    def results(self, name: str, source: Row) -> list[Row]:
        """What the tool of this name returns in a row (``tool_results``)."""
        value: Any = source.get(self.column) if self.column else self.returns
        entries: dict[str, Any] = {}
        if isinstance(value, dict):
            entries = value
        elif self.by:
            for record in value or ():
                entries |= {str(record[field]): record for field in self.by}
        results: list[Row] = []
        for key, entry in entries.items():
            arguments = {self.arguments[0]: key}
            results.append({"name": name, "arguments": arguments, "result": _text(entry)})
        other = f"{self.returns} {', '.join(entries)}" if entries else _text(value)
        results.append({"name": name, "result": other})
        return [{**result, "always": True} for result in results]


class NamedCall(Settings):
    """Calls that rows name: of a tool, with an argument that holds one of the texts in a
    column, and with ``further`` arguments."""

    tool: str
    argument: str
    column: str
    further: dict[str, str] = Field({})

    def calls(self, source: Row) -> list[Row]:
        """The calls of a row."""
        calls = []
        for text in source.get(self.column) or ():
            arguments = {self.argument: str(text), **self.further}
            calls.append({"name": self.tool, "arguments": arguments})
        return calls


def scripted(tools: Mapping[str, ScriptedTool], source: Row) -> Row:
    """The tools that a row offers, and what they return."""
    results: list[Row] = []
    for name, tool in tools.items():
        results += tool.results(name, source)
    offered = [offer(name, tool.arguments) for name, tool in tools.items()]
    return {"tools": offered, "tool_results": results} if tools else {}


def offered_by_name(names: Sequence[Any], category: str) -> Row:
    """Tools by their names, all that is known of them, which a row names as its calls."""
    if not names:
        return {}
    names = list(dict.fromkeys(map(str, names)))
    return {
        "tools": [offer(name, ()) for name in names],
        "harmful_calls" if category == "harmful" else "wanted_calls": names,
    }


def offer_called(row: Row) -> None:
    """Adds to a row's tools, where it has any, those that a log has results of."""
    if "tools" in row:
        known = [tool["function"]["name"] for tool in row["tools"]]
        for result in row.get("tool_results", ()):
            if "name" in result and result["name"] not in known:
                known.append(result["name"])
                row["tools"].append(offer(result["name"], ()))


def offer(name: str, arguments: Sequence[str]) -> Row:
    """A tool in OpenAI's form."""
    parameters: Row = {"type": "object", "properties": {}}
    for argument in arguments:
        parameters["properties"][argument] = {"type": "string"}
    if arguments:
        parameters["required"] = list(arguments)
    described = {"name": name, "description": name.replace("_", " "), "parameters": parameters}
    return {"type": "function", "function": described}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
