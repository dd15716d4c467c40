"""Logs of Inspect as rows of answers, through Inspect's own reader.

The thinking and the counts of tokens stand under ``log``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from refract.core.errors import MissingPackage, RowError
from refract.core.file_formats import Log
from refract.core.jsonl import parse_json
from refract.core.types import Row
from refract_published.logs.messages import conversation, images_in, last_content, shown, text_of

INSTALL = "reading logs of Inspect needs inspect-ai: pip install 'refract-published[inspect]'"
# Inspect's reasons why a model stopped that have other names here; providers that do not know it
# say "unknown".
FINISH_REASONS = {
    "unknown": "stop",
    "tool_calls": "stop",
    "max_tokens": "length",
    "model_length": "length",
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
        log = read_eval_log(
            _readable(path), resolve_attachments=True, exclude_fields={"events", "store"}
        )
    except Exception as error:  # whatever a damaged file makes it raise
        reason = ": ".join(str(error).splitlines()[:2]) or repr(error)
        raise RowError(f"{path}: not a log of Inspect ({reason}); copy it anew") from None
    left_out = {"events", "store", "attachments"}
    content = log.model_dump(mode="json", exclude={"samples": {"__all__": left_out}})
    return Log(inspect_rows(content), _about(content), _notes(content))


def _readable(path: Path) -> Path | BytesIO:
    """A log as Inspect's reader takes it: without halves of surrogate pairs, which it stops at."""
    if path.suffix != ".json" or not re.search(rb"\\u[dD][89a-fA-F]", path.read_bytes()):
        return path
    text = json.dumps(parse_json(path.read_bytes()), ensure_ascii=False)
    return BytesIO(re.sub("[\ud800-\udfff]", "\ufffd", text).encode())


def _notes(log: Mapping[str, Any]) -> list[str]:
    """What a log says against its samples that no row of its own says."""
    samples = log.get("samples") or []
    notes = []
    if log.get("status") != "success":
        notes.append(
            f"the run ended as {log.get('status')!r}: of its samples {len(samples)} are in the log, "
            "and a rate of these need not be that of all"
        )
    limits = sorted({sample["limit"]["type"] for sample in samples if sample.get("limit")})
    if limits:
        count = sum(bool(sample.get("limit")) for sample in samples)
        notes.append(
            f"{count} samples ended at a limit ({', '.join(limits)}); their answers count as cut off"
        )
    count = sum(_set_by_solver(log, sample) is not None for sample in samples)
    if count:
        notes.append(
            f"{count} answers were set by a solver behind the model: what it set is judged, as "
            "scorers of Inspect do"
        )
    return notes


def _has_tools(log: Mapping[str, Any], samples: Sequence[Row]) -> bool:
    """Whether samples are an agent's: by the run's plan, or by a call in any of them."""
    steps = (log.get("plan") or {}).get("steps") or []
    messages = [message for sample in samples for message in sample.get("messages") or ()]
    return any(step.get("solver") in AGENTS for step in steps) or any(
        message.get("tool_calls") for message in messages
    )


def _set_by_solver(log: Mapping[str, Any], sample: Row) -> str | None:
    """The text that a solver put in the place of the model's; None where it did not, and where it
    is not judged: of an agent, whose last answer is read, and of a sample without an answer."""
    if sample.get("error") or sample.get("invalidation") or _has_tools(log, [sample]):
        return None
    output = sample.get("output") or {}
    choices = output.get("choices") or [{}]
    content = (choices[0].get("message") or {}).get("content")
    text = "".join((text_of(content) or "").split())
    completion = str(output.get("completion") or "")
    # Where thinking stands in the completion of an older log, the text is its end.
    thought = isinstance(content, list) and not text
    if thought or "".join(completion.split()).endswith(text or completion):
        return None
    return completion or None


def inspect_rows(log: Mapping[str, Any]) -> list[Row]:
    """A row for each sample, epoch and ``choice`` of a log of Inspect.

    ``prompt`` is what the user sent last before the model's answers, ``input`` what the data
    set holds; ``where`` can choose by ``epoch``, ``choice`` and ``model``. A sample has an
    ``error`` where it ended in one or was invalidated, and where the model did not answer.

    In the log of an agent ``response`` is the last answer, ``tool_calls`` are those of all."""
    rows = []
    samples = log.get("samples") or []
    # An agent's sample that refuses calls nothing; those beside it tell.
    is_agent = _has_tools(log, samples)
    for sample in samples:
        choices = (sample.get("output") or {}).get("choices") or [{}]
        for number, choice in enumerate(choices, 1):
            row = _inspect_row(sample, log, choice, is_agent=is_agent)
            several = {"choice": number} if len(choices) > 1 else {}
            rows.append(row | several)
    return rows


def _inspect_row(sample: Row, log: Mapping[str, Any], choice: Row, *, is_agent: bool) -> Row:
    asked = sample.get("input")
    if not isinstance(asked, list):
        asked = [{"role": "user", "content": asked}]
    sent, turns = _sent_and_answered(sample.get("messages") or asked, is_agent=is_agent)
    output = sample.get("output") or {}
    reply = choice.get("message") or {}
    is_first = choice in (output.get("choices") or [{}])[:1]
    last = _last_answer(sample, log["eval"], choice)
    if is_first:
        last["response"] = _set_by_solver(log, sample) or last["response"]
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
    for message in (turns if is_first else ()) or [reply]:
        for call in message.get("tool_calls") or ():
            calls.append({"name": call.get("function"), "arguments": call.get("arguments", {})})
    if calls and not last["error"]:
        row["tool_calls"] = calls
    if is_agent and not last["error"]:
        # What an agent submits is its last answer.
        row["response"] = last["response"] or str(output.get("completion") or "")
    images = images_in([*sent, *turns])
    if images:
        row["images"] = images
    for name, value in (sample.get("metadata") or {}).items():
        row[f"metadata.{name}"] = value
        if name == "behavior" and isinstance(value, str):
            row[name] = value
    return row


def _last_answer(sample: dict[str, Any], about: dict[str, Any], choice: dict[str, Any]) -> Row:
    """A ``choice`` of the sample's output as fields of a row; ``error`` says why it is none."""
    output = sample.get("output") or {}
    content = (choice.get("message") or {}).get("content")
    parts = content if isinstance(content, list) else []
    reason = choice.get("stop_reason")
    finish = FINISH_REASONS.get(str(reason), reason)
    model = output.get("model") or about.get("model")
    # Inspect writes a refusal by Claude as it writes a filter; a filter states an error.
    by_claude = finish == "content_filter" and "claude" in str(model) and not output.get("error")
    if by_claude or any(part.get("refusal") for part in parts):
        finish = "refusal"
    limit = (sample.get("limit") or {}).get("type")
    if limit and finish == "stop":
        finish = "length"
    invalidation = sample.get("invalidation")
    error = None
    if sample.get("error"):
        error = str(sample["error"].get("message") or "the sample ended in an error")
    elif output.get("error") and reason != "content_filter":  # where it says what was filtered
        error = str(output["error"])
    elif invalidation:
        reason = invalidation.get("reason") if isinstance(invalidation, dict) else None
        error = f"the sample was invalidated ({reason or 'no reason is given'})"
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
            "thinking": _thinking_in(parts),
            "prompt_tokens": tokens,
            "completion_tokens": usage.get("output_tokens"),
        },
    }


def _thinking_in(parts: Sequence[Row]) -> str | None:
    """The thinking in a reply's parts; of one that is redacted, which is no text, its summary."""
    thoughts = []
    for part in parts:
        if part.get("type") == "reasoning":
            thoughts.append(part.get("summary" if part.get("redacted") else "reasoning"))
    return "\n".join(filter(None, thoughts)) or None


def _sent_and_answered(
    messages: Sequence[Row], *, is_agent: bool
) -> tuple[Sequence[Row], Sequence[Row]]:
    """The messages that were sent first, and those behind them up to the model's last answer.

    The user's last message was sent. Of an agent it is the last that its sample put in: what
    the user says later keeps it going."""
    roles = [message.get("role") for message in messages]
    if "assistant" in roles:
        while roles[-1] != "assistant" and messages[len(roles) - 1].get("source") != "input":
            roles.pop()
    places = [place for place, role in enumerate(roles) if role == "user"]
    inputs = [place for place in places if messages[place].get("source") == "input"]
    chosen = inputs if is_agent and inputs else places
    first = chosen[-1] + 1 if chosen else 0
    return messages[:first], messages[first : len(roles)]


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
