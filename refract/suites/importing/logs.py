"""Logs of other evaluation tools as rows of answers: Inspect's, and lm-evaluation-harness's samples.

A row has ``id``, ``prompt`` (what was sent last), ``response``, what the tool recorded of
``finish_reason`` and ``error``, and under ``LOG`` its ``thinking`` and counts of tokens."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from refract.core.errors import RowError
from refract.core.jsonl import parse_json
from refract.core.secrets import without_secrets
from refract.core.types import Row

LOG = "log"
INSTALL = "reading .eval needs inspect_ai: pip install inspect_ai, or refract-eval[inspect]"
# Why Inspect says that a model stopped. "unknown" is what its providers say that do not know.
FINISH_REASONS = {
    "stop": "stop",
    "unknown": "stop",
    "tool_calls": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
}
# Inspect keeps long texts once, and this where they stood.
ATTACHMENT = "attachment://"
# Inspect's reader takes memory by the square of the depth.
MOST_DEPTH = 200
_STEPS = {ord(mark): step for marks, step in (("[{", 1), ("]}", -1)) for mark in marks}
_NO_BRACKETS = bytes(set(range(256)) - set(_STEPS))


def read_inspect(path: Path) -> dict[str, Any]:
    """An ``.eval`` log of Inspect as its JSON form. Raises :class:`RowError`."""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise RowError(INSTALL) from None
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as file:
                    if name.endswith(".json") and _too_deep(file):
                        raise ValueError(f"{name} is nested too deeply")
        log = read_eval_log(str(path), exclude_fields={"events", "store"})
    except OSError:
        raise
    except Exception as error:  # whatever a damaged archive makes it raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RowError(f"not a log of Inspect ({reason})") from None
    content: dict[str, Any] = log.model_dump(mode="json")
    return content


def _too_deep(file: IO[bytes]) -> bool:
    """Whether JSON is nested beyond ``MOST_DEPTH``, by its brackets outside of texts."""
    depth, in_text, rest = 0, False, b""
    while chunk := file.read(1 << 20):
        chunk = rest + chunk
        whole = chunk.rstrip(b"\\")  # what the last backslash escapes may be in the next piece
        rest = b"\\" * ((len(chunk) - len(whole)) % 2)
        parts = whole.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[in_text::2]).translate(None, _NO_BRACKETS)
        in_text ^= len(parts) % 2 == 0
        depths = list(accumulate(map(_STEPS.__getitem__, outside), initial=depth))
        if max(depths) > MOST_DEPTH:
            return True
        depth = depths[-1]
    return False


def is_inspect(value: Any) -> bool:
    """Whether a JSON value is a log that Inspect wrote."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "status" in value


def inspect_rows(log: dict[str, Any]) -> list[Row]:
    """A row for each sample and epoch of a log of Inspect.

    ``prompt`` is the last message that the model was sent as the user's, ``input`` what the data set
    holds; ``where`` can choose by ``epoch`` and ``model``. A sample that ended in an error, or before
    the model answered, has an ``error``, as has one whose texts the log keeps elsewhere and lacks."""
    samples = log.get("samples") or []
    if not all(isinstance(sample, dict) for sample in samples):
        raise RowError("not a log of Inspect (samples must be objects)")
    wrong = ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError
    try:
        return [_inspect_row(sample, log["eval"]) for sample in samples]
    except wrong as error:
        raise RowError(f"not a log of Inspect ({type(error).__name__}: {error})") from None


def _inspect_row(sample: dict[str, Any], about: dict[str, Any]) -> Row:
    sample = _attached(sample, sample.get("attachments") or {})
    output = sample.get("output") or {}
    choices = output.get("choices") or []
    choice = choices[0] if choices else {}
    content = (choice.get("message") or {}).get("content")
    usage = output.get("usage") or {}
    sent = [usage.get(f"input_tokens{of}") for of in ("", "_cache_read", "_cache_write")]
    asked = sample.get("input")
    given = asked if isinstance(asked, list) else [{"role": "user", "content": asked}]
    messages: list[Row] = sample.get("messages") or given
    answered = [n for n, message in enumerate(messages) if n and message.get("role") == "assistant"]
    reason = choice.get("stop_reason")
    asked_last = max((n for n, x in enumerate(messages) if x.get("role") == "user"), default=-1)
    turns = [x for x in messages[asked_last + 1 :] if x.get("role") == "assistant"]
    calls = [
        {"name": call.get("function"), "arguments": call.get("arguments", {})}
        for turn in turns or [choice.get("message") or {}]
        for call in turn.get("tool_calls") or ()
    ]
    answer = _text(content) or ""
    prompt = _said(messages[: answered[-1]] if answered else messages)
    error = _inspect_error(sample, output, choices, reason)
    if not error and content is not None and not isinstance(content, str | list):
        error = f"the answer is no text (got {content!r:.40})"
    lines = f"{answer}\n{prompt}".split("\n")
    if not error and any(line.startswith(ATTACHMENT) for line in lines):
        error = "the log lacks the attachment that holds the text"
    refused = isinstance(content, list) and any(part.get("refusal") for part in content)
    return {
        "id": str(sample.get("id")),
        "epoch": sample.get("epoch"),
        "model": output.get("model") or about.get("model"),
        "prompt": prompt,
        "input": _said(given),
        "response": None if error else answer,
        "finish_reason": "refusal" if refused else FINISH_REASONS.get(str(reason)),
        **({"tool_calls": calls} if calls and not error else {}),
        LOG: {
            "thinking": _text(content if isinstance(content, list) else [], "reasoning") or None,
            "prompt_tokens": None if sent[0] is None else sum(count or 0 for count in sent),
            "completion_tokens": usage.get("output_tokens"),
        },
        "error": error,
    }


def _inspect_error(
    sample: dict[str, Any], output: dict[str, Any], choices: Sequence[Any], reason: Any
) -> str | None:
    error = sample.get("error") or {}
    if error:
        return str(error.get("message") or "the sample ended in an error")
    if output.get("error"):
        return str(output["error"])
    if not choices:
        limit = (sample.get("limit") or {}).get("type")
        return f"the sample reached its {limit} limit" if limit else "the model was not asked"
    if reason not in FINISH_REASONS:
        return f"the answer is no text (stop_reason {reason!r})"
    return None


def _attached(value: Any, texts: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {k: v if k == "attachments" else _attached(v, texts) for k, v in value.items()}
    if isinstance(value, list):
        return [_attached(part, texts) for part in value]
    if isinstance(value, str) and value.startswith(ATTACHMENT):
        return texts.get(value.removeprefix(ATTACHMENT), value)
    return value


def _text(content: Any, kind: str = "text") -> str | None:
    """The text of a message's content, of its parts of one kind where it has parts."""
    if isinstance(content, list):
        return "\n".join(part.get(kind) or "" for part in content if part.get("type") == kind)
    return content if isinstance(content, str) else None


def _said(messages: Sequence[dict[str, Any]]) -> str | None:
    """The text of the user's last message."""
    contents = [message.get("content") for message in messages if message.get("role") == "user"]
    return _text(contents[-1]) if contents else None


def asked_rows(rows: Sequence[Row], notes: list[str]) -> list[tuple[int, Row]]:
    """What was asked in a log, once for each id and prompt and numbered: its rows without the answers.
    How many asked the same again is added to ``notes``."""
    left_out = {"response", "tool_calls", "finish_reason", "error", "epoch", "repeat", "model", LOG}
    kept = {(row["id"], row.get("prompt")): row for row in reversed(rows)}
    asked = [row for row in rows if kept[row["id"], row.get("prompt")] is row]
    if again := len(rows) - len(asked):
        notes.append(f"Further answers to the same prompts, left out: {again}.")
    return [
        (number, {name: value for name, value in row.items() if name not in left_out})
        for number, row in enumerate(asked, 1)
    ]


def is_lm_eval(rows: Sequence[Row]) -> bool:
    """Whether rows are the samples that lm-evaluation-harness logs."""
    return bool(rows) and all({"doc_id", "doc", "arguments", "resps"} <= set(row) for row in rows)


def lm_eval_rows(rows: Sequence[Row]) -> list[Row]:
    """A row for each answer of lm-evaluation-harness's samples, before its filters.

    ``prompt`` is what was sent: with a chat template, the rendered text. The fields of the task's data
    are ``doc.NAME``. ``repeat`` counts the answers to one prompt. Why an answer ended is not in these
    files, nor how many tokens it has. Raises :class:`RowError` for a task that generates no text."""
    answers: dict[tuple[str, int], Row] = {}  # a file has a row for each of the task's filters
    for row in rows:
        id_, doc, responses = str(row["doc_id"]), row["doc"], row["resps"]
        if not isinstance(responses, list):
            raise RowError(f"doc_id {id_}: resps must be a list (got {responses!r:.40})")
        texts = responses[0] if responses else []
        for repeat, text in enumerate(texts if isinstance(texts, list) else [texts], 1):
            if not isinstance(text, str):
                raise RowError(
                    f"doc_id {id_}: no generated text (got {text!r:.40}); tasks that compare "
                    "likelihoods have nothing to judge"
                )
            fields = doc.items() if isinstance(doc, dict) else ()
            answer = {
                "id": id_,
                "repeat": repeat,
                "prompt": _sent(row["arguments"]),
                "response": text,
                LOG: {},
                **{f"doc.{name}": value for name, value in fields},
            }
            answers.setdefault((id_, repeat), answer)
    return list(answers.values())


def _sent(arguments: Any) -> str | None:
    first = next(iter(arguments.values()), None) if isinstance(arguments, dict) else None
    text = first.get("arg_0") if isinstance(first, dict) else None
    if isinstance(text, list) and len(text) == 1:
        text = text[0]
    if isinstance(text, str) and text.startswith("[{"):  # messages, for a chat API
        try:
            return _said(parse_json(text))
        except (ValueError, AttributeError):
            return text
    return text if isinstance(text, str) else None


def about_log(path: Path) -> dict[str, Any] | None:
    """What a log of Inspect says of the run that it is of: model, task and settings. None for any other
    file. Raises OSError and :class:`RowError`."""
    log: dict[str, Any] = {}
    if path.suffix in (".eval", ".json"):
        log = read_inspect(path) if path.suffix == ".eval" else parse_json(path.read_bytes())
    if not is_inspect(log):
        return None
    about, settings = log["eval"], (log.get("plan") or {}).get("config") or {}
    arguments = about.get("model_args")
    told = {
        "tool": "inspect_ai",
        "version": (about.get("packages") or {}).get("inspect_ai"),
        "status": log.get("status"),
        "task": about.get("task"),
        "task_version": about.get("task_version"),
        "model": about.get("model"),
        "model_args": arguments if isinstance(arguments, dict) else {},
        "generation": {name: value for name, value in settings.items() if value is not None},
    }
    return dict(without_secrets(told)[0])  # provenance is committed
