"""promptfoo's results as rows of answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refract.core.errors import RowError
from refract.core.file_formats import Log, read_row_file
from refract.core.types import Row
from refract_published.logs.messages import sent

EXPORT = "export it with: promptfoo export eval ID -o results.json"


def read(path: Path) -> Log:
    """The answers in promptfoo's JSON or JSONL, and what it says of its run. Raises RowError."""
    if path.suffix not in (".json", ".jsonl"):
        raise RowError(f"{path}: a table of promptfoo, which holds verdicts in its cells; {EXPORT}")
    rows, about = read_row_file(path), {}
    if "results" in rows[0]:
        about = {name: rows[0].get(name) for name in ("evalId", "metadata")}
        rows = rows[0]["results"]["results"]
    try:
        answers = promptfoo_rows(rows)
    except (AttributeError, KeyError, TypeError) as error:
        raise RowError(f"{path}: not results of promptfoo ({error!r}); {EXPORT}") from None
    return Log(answers, {"tool": "promptfoo", **about})


def promptfoo_rows(rows: Sequence[Row]) -> list[Row]:
    """A row for each result.

    Its ``id`` numbers test and prompt; what the test was made of are ``vars.NAME`` and
    ``metadata.NAME``. ``error`` is the provider's: that of an assertion that failed is none of
    the model's."""
    answers = []
    for row in rows:
        reply = row.get("response") or {}
        provider = row.get("provider") or {}
        output = reply.get("output")
        error = reply.get("error")
        if output is None and not error:
            error = row.get("error") or "the result holds no output"
        metadata = {**(row.get("metadata") or {}), **(reply.get("metadata") or {})}
        final = metadata.get("redteamFinalPrompt")  # what an attack of several turns ended in
        answer: Row = {"id": f"{row['testIdx']}-{row['promptIdx']}"}
        answer |= sent(final or row["prompt"]["raw"])
        answer["model"] = provider.get("label") or provider.get("id")
        answer |= {"error": error, **_answered(output), "finish_reason": _ending(reply)}
        tokens = reply.get("tokenUsage") or {}
        counts = {f"{part}_tokens": tokens.get(part) for part in ("prompt", "completion")}
        answer["log"] = counts
        answer |= {f"vars.{name}": value for name, value in (row.get("vars") or {}).items()}
        answer |= {f"metadata.{name}": value for name, value in metadata.items()}
        answers.append(answer)
    return answers


def _answered(output: Any) -> Row:
    """The text and the calls of an output, which may be a JSON value."""
    calls = []
    for part in output if isinstance(output, list) else ():
        function = part.get("function") if isinstance(part, dict) else None
        if isinstance(function, dict):
            calls.append({"name": function["name"], "arguments": function.get("arguments", {})})
    if calls:
        return {"response": "", "tool_calls": calls}
    if output is None or isinstance(output, str):
        return {"response": output}
    return {"response": json.dumps(output, ensure_ascii=False)}


def _ending(reply: Row) -> str:
    """How an answer ended, by the provider's reason, which promptfoo keeps."""
    if reply.get("isRefusal"):
        return "refusal"
    if (reply.get("guardrails") or {}).get("flagged"):
        return "content_filter"
    return str(reply.get("finishReason") or "stop").lower()
