"""Logs of Inspect as rows of answers, through Inspect's own reader.

The thinking and the counts of tokens stand under ``log``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.core.errors import MissingPackage, RowError
from refract.core.file_formats import Log
from refract.core.types import Row
from refract_published.logs.messages import conversation, images_in, last_content, shown, text_of

INSTALL = "reading logs of Inspect needs inspect-ai: pip install 'refract-published[inspect]'"
# Inspect's reasons why a model stopped; providers that do not know it say "unknown".
FINISH_REASONS = {
    "stop": "stop",
    "unknown": "stop",
    "tool_calls": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
}
# Solvers of Inspect that let a model call tools.
AGENTS = ("basic_agent", "react", "use_tools")


def read(path: Path) -> Log:
    """The answers in a log, ``.eval`` or ``.json``, and what it says of its run.
    Raises RowError and MissingPackage."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise MissingPackage(f"{path}: {INSTALL}") from None
    try:
        log = read_eval_log(path, resolve_attachments=True, exclude_fields={"events", "store"})
    except Exception as error:  # whatever a damaged file makes it raise
        reason = ": ".join(str(error).splitlines()[:2]) or repr(error)
        raise RowError(f"{path}: not a log of Inspect ({reason})") from None
    left_out = {"events", "store", "attachments"}
    content = log.model_dump(mode="json", exclude={"samples": {"__all__": left_out}})
    return Log(inspect_rows(content), _about(content))


def inspect_rows(log: Mapping[str, Any]) -> list[Row]:
    """A row for each sample and epoch of a log of Inspect.

    ``prompt`` is what the user sent last before the model's answers, ``input`` what the data
    set holds; ``where`` can choose by ``epoch`` and ``model``. A sample has an ``error``
    where it ended in one, and where the model did not answer.

    In the log of an agent ``response`` is the last answer, ``tool_calls`` are those of all."""
    samples = log.get("samples") or []
    plan = (log.get("plan") or {}).get("steps") or []
    has_tools = any(step.get("solver") in AGENTS for step in plan)
    for sample in samples:
        has_tools |= any(message.get("tool_calls") for message in sample.get("messages") or ())
    return [_inspect_row(sample, log["eval"], has_tools) for sample in samples]


def _inspect_row(sample: dict[str, Any], about: dict[str, Any], has_tools: bool) -> Row:
    asked = sample.get("input")
    if not isinstance(asked, list):
        asked = [{"role": "user", "content": asked}]
    sent, turns = _sent_and_answered(sample.get("messages") or asked, is_agent=has_tools)
    output = sample.get("output") or {}
    choices = output.get("choices") or [{}]
    reply = choices[0].get("message") or {}
    last = _last_answer(sample, about, reply)
    if last["error"]:
        last["response"] = None
    row = {
        "id": str(sample.get("id")),
        "epoch": sample.get("epoch"),
        **conversation(sent),
        "input": shown(last_content(asked)),
        **last,
    }
    calls = []
    for message in turns or [reply]:
        calls += [_call(call) for call in message.get("tool_calls") or ()]
    if calls and not last["error"]:
        row["tool_calls"] = calls
    if has_tools and not last["error"]:
        # What an agent submits is its last answer.
        row["response"] = last["response"] or str(output.get("completion") or "")
    images = images_in([*sent, *turns])
    if images:
        row["images"] = images
    for name, value in (sample.get("metadata") or {}).items():
        row[f"metadata.{name}"] = value
    return row


def _last_answer(sample: dict[str, Any], about: dict[str, Any], reply: dict[str, Any]) -> Row:
    """The sample's output, a ``reply`` of the model's, as fields of a row; ``error`` says why
    it is none."""
    output = sample.get("output") or {}
    choice = (output.get("choices") or [{}])[0]
    content = reply.get("content")
    parts = content if isinstance(content, list) else []
    reason = choice.get("stop_reason")
    finish = FINISH_REASONS.get(str(reason))
    model = output.get("model") or about.get("model")
    # Inspect writes a refusal by Claude as it writes a filter; a filter states an error.
    by_claude = finish == "content_filter" and "claude" in str(model) and not output.get("error")
    if by_claude or any(part.get("refusal") for part in parts):
        finish = "refusal"
    limit = (sample.get("limit") or {}).get("type")
    error = None
    if sample.get("error"):
        error = str(sample["error"].get("message") or "the sample ended in an error")
    elif output.get("error") and reason != "content_filter":  # where it says what was filtered
        error = str(output["error"])
    elif not choice:
        error = f"the sample reached its {limit} limit" if limit else "the model was not asked"
    usage = output.get("usage") or {}
    tokens = usage.get("input_tokens")
    if tokens is not None:
        for cache in ("input_tokens_cache_read", "input_tokens_cache_write"):
            tokens += usage.get(cache) or 0
    return {
        "model": model,
        "response": text_of(content) or "",
        "finish_reason": finish,
        "stop_details": choice.get("stop_details"),
        "error": error,
        "log": {
            "thinking": text_of(parts, "reasoning") or None,
            "prompt_tokens": tokens,
            "completion_tokens": usage.get("output_tokens"),
        },
    }


def _sent_and_answered(
    messages: Sequence[Row], *, is_agent: bool
) -> tuple[Sequence[Row], Sequence[Row]]:
    """The messages that were sent first, and those behind them up to the model's last answer.

    The user's last message was sent. Of an agent it is the last that its sample put in: what
    the user says later keeps it going."""
    roles = [message.get("role") for message in messages]
    if "assistant" in roles:
        while roles[-1] != "assistant":
            roles.pop()
    places = [place for place, role in enumerate(roles) if role == "user"]
    inputs = [place for place in places if messages[place].get("source") == "input"]
    chosen = inputs if is_agent and inputs else places
    first = chosen[-1] + 1 if chosen else 0
    return messages[:first], messages[first : len(roles)]


def _call(call: Row) -> Row:
    return {"name": call.get("function"), "arguments": call.get("arguments", {})}


def _about(log: Mapping[str, Any]) -> Row:
    """The model, task and settings of the run that a log is of."""
    about = log["eval"]
    settings = (log.get("plan") or {}).get("config") or {}
    arguments = about.get("model_args")
    return {
        "tool": "inspect_ai",
        "version": (about.get("packages") or {}).get("inspect_ai"),
        "status": log.get("status"),
        "task": about.get("task"),
        "task_version": about.get("task_version"),
        "model": about.get("model"),
        "model_args": arguments if isinstance(arguments, dict) else {},
        "generation": {name: value for name, value in settings.items() if value is not None},
    }
