"""Suite rows of which a model answers several turns, or in which it may call tools: what is wrong
with one, and its prompts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from refract.core.jsonl import has_form
from refract.core.tool_calls import NAMING
from refract.core.types import OWN_ANSWER, Attempt, Message, PromptRow, Row, turn_id
from refract.suites.perturbations import OneTurn
from refract.suites.rows import SuiteError


def problems(row: Row) -> list[str]:
    """What is wrong with a row's tools, the calls that it names, and what tools return."""
    found = []
    names: list[str] = []
    tools = row.get("tools", [])
    if has_form(tools, [{"type": str, "function": {"name": str}}]):
        names = [tool["function"]["name"] for tool in tools]
    if "tools" in row and (not names or len(set(names)) < len(names)):
        found.append(
            "'tools' must be a list of {'type': 'function', 'function': {'name', 'description', "
            f"'parameters'}}}}, each of another name (got {tools!r:.80})"
        )
    for field in NAMING:
        value = row.get(field, [])
        for call in value if isinstance(value, list) else [None]:
            named: Any = {"name": call} if isinstance(call, str) else call
            has_name = has_form(named, {"name": str})
            if not has_name or not isinstance(named.get("arguments", {}), dict):
                found.append(
                    f"'{field}' must be a list of names, or of {{'name': NAME, 'arguments': {{…}}}} "
                    f"(got {value!r:.60})"
                )
            elif names and named["name"] not in names:
                found.append(f"'{field}': {named['name']!r:.60} is not the name of a tool")
    problem = _problem_of_results(row, names) if "tool_results" in row else ""
    return [*found, problem] if problem else found


def _problem_of_results(row: Row, names: Sequence[str]) -> str:
    results = row["tool_results"]
    steps = row.get("max_steps", 1)
    for result in results if has_form(results, [{}]) else [{}]:
        form = {"name": str, "result": str, "arguments": {}}
        if not has_form({"arguments": {}, **result}, form):
            return (
                "'tool_results' must be a list of {'name': TOOL, 'result': TEXT}, each with "
                f"'arguments': {{…}} where it is of calls with these (got {results!r:.60})"
            )
        if names and result["name"] not in names:
            return f"'tool_results': {result['name']!r:.60} is not the name of a tool"
    if type(steps) is not int or steps < 1:
        return f"'max_steps' must be a whole number of 1 or more (got {steps!r:.60})"
    if has_form(row.get("messages", []), [{"role": str}]) and len(_open_turns(row)) > 1:
        return "'tool_results' are for one request of the user's, and the row has several"
    return ""


def _open_turns(row: Row) -> list[int]:
    """The numbers of the user's turns without an assistant's message behind them."""
    messages = row.get("messages", [{"role": "user"}])
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    places = pairwise([*users, -1])
    return [turn for turn, (place, after) in enumerate(places, 1) if after in (place + 1, -1)]


class Conversation(OneTurn):
    """The prompts of a row that is played, or in which a model may call ``tools``, for rows
    without tools of their own. Raises SuiteError, which ``where`` begins."""

    def __init__(self, row: Row, tools: Sequence[Row] | None, where: str) -> None:
        super().__init__(row)
        self._added: dict[str, Any] = {}
        offered = row.get("tools", tools)
        if offered:
            self._added["tools"] = list(offered)
            found = problems({**row, "tools": offered})
            if found:
                raise SuiteError(f"{where}: row {row['id']!r}: {found[0]}")
        turns = _open_turns(row)
        self._turns = turns if len(turns) > 1 else []
        results = row.get("tool_results")
        if results is not None:
            self._added["tool_results"] = results
            steps = min(row.get("max_steps", len(results) + 1), len(results) + 1)
            self._turns = list(range(1, steps + 1))

    def prompts(self, prompt: PromptRow) -> Iterator[PromptRow]:
        """A row for each turn, or step, of a variant for the last turn, or each step; the prompt
        itself where only the last turn is answered."""
        whole: Any = {**prompt, **self._added}
        if not self._turns:
            yield whole
            return
        last = self._turns[-1]
        first = last if whole["perturbation"] and "tool_results" not in whole else 1
        before = None
        for turn in self._turns:
            id_ = turn_id(whole["prompt_id" if turn >= first else "source_id"], turn, last)
            if turn >= first:
                row: Any = {**whole, "prompt_id": id_, "turn": turn, "turns": last}
                if "tool_results" not in whole:
                    row["attempts"] = [_up_to(turn, attempt) for attempt in whole["attempts"]]
                if before is not None:
                    row["after"] = before
                yield row
            before = id_


def _up_to(turn: int, attempt: Attempt) -> list[Message]:
    """A conversation up to one of the user's turns, with places for the model's own answers."""
    messages: list[Message] = []
    for message in attempt:
        assert not isinstance(message, str)  # only conversations are played
        if message["role"] == "user":
            if messages and messages[-1]["role"] == "user":
                messages.append(OWN_ANSWER)
            turn -= 1
        messages.append(message)
        if not turn:
            break
    return messages
