"""Logs of other evaluation tools as rows of answers: Inspect's, and
lm-evaluation-harness's samples.

A row has ``id``, ``prompt`` (what was sent last), ``messages`` (all of them, where there are
earlier turns), ``response``, ``finish_reason`` and ``error`` as far as they are recorded, and
under ``LOG`` the ``thinking``, counts of tokens and an agent's ``steps``. An image stands in a
text as its hash, and ``images`` lists the hashes: judges read texts alone."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from refract.core.errors import RowError
from refract.core.jsonl import parse_json
from refract.core.secrets import without_secrets
from refract.core.types import Row

LOG = "log"
INSTALL = "reading .eval needs zipfile-zstd: pip install zipfile-zstd, or refract-eval[inspect]"
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
# Inspect keeps a long text once, and stands this in its places.
ATTACHMENT = "attachment://"
# What suites of logs leave out.
ANSWER_FIELDS = (
    *("response", "tool_calls", "finish_reason", "stop_details", "error"),
    *("epoch", "repeat", "model", LOG),
)
# What a value that is not a log makes the code below raise.
WRONG = (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError)


def read_inspect(path: Path) -> dict[str, Any]:
    """An ``.eval`` log of Inspect as its JSON form, without events.
    Raises OSError and RowError."""
    with suppress(ImportError):  # it teaches Python below 3.14 the compression of these files
        import zipfile_zstd  # noqa: F401
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            # A run that was stopped has no header yet.
            header = "header.json" if "header.json" in names else "_journal/start.json"
            log: dict[str, Any] = {"status": "started", **parse_json(archive.read(header))}
            log["samples"] = []
            for name in names:
                if name.startswith("samples/"):
                    sample = parse_json(archive.read(name))
                    sample.pop("events", None)
                    log["samples"].append(sample)
    except NotImplementedError:
        raise RowError(INSTALL) from None
    except OSError:
        raise
    except Exception as error:  # whatever a damaged archive makes it raise
        raise RowError(f"not a log of Inspect ({str(error) or type(error).__name__})") from None
    return log


def is_inspect(value: Any) -> bool:
    """Whether a JSON value is a log that Inspect wrote."""
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "status" in value


def rows_of_log(rows: Sequence[Row]) -> list[Row] | None:
    """The answers in a log, of which these are the rows of the file, or the one value in
    it; None for any other file. Raises RowError."""
    if len(rows) == 1 and is_inspect(rows[0]):
        return inspect_rows(rows[0])
    if rows and all({"doc_id", "doc", "arguments", "resps"} <= set(row) for row in rows):
        return lm_eval_rows(rows)
    return None


def inspect_rows(log: dict[str, Any]) -> list[Row]:
    """A row for each sample and epoch of a log of Inspect.

    ``prompt`` is what the user sent last before the model's answers, ``input`` what the data
    set holds; ``where`` can choose by ``epoch`` and ``model``. A sample has an ``error``
    where it ended in one, where the model did not answer, and where the log lacks a text
    that it keeps elsewhere.

    In the log of an agent ``tool_results`` and ``max_steps`` are what the tools returned and
    how often the model answered, ``steps`` (under ``LOG``) each answer with the texts that
    came ``after`` it; ``response`` is the last one, ``tool_calls`` are those of all."""
    samples = log.get("samples") or []
    if not all(isinstance(sample, dict) for sample in samples):
        raise RowError("not a log of Inspect (samples must be objects)")
    try:
        plan = (log.get("plan") or {}).get("steps") or []
        has_tools = any(step.get("solver") in AGENTS for step in plan)
        for sample in samples:
            has_tools |= any(message.get("tool_calls") for message in sample.get("messages") or ())
        return [_inspect_row(sample, log["eval"], has_tools) for sample in samples]
    except WRONG as error:
        raise RowError(f"not a log of Inspect ({type(error).__name__}: {error})") from None


def _inspect_row(sample: dict[str, Any], about: dict[str, Any], has_tools: bool) -> Row:
    sample = _attached(sample, sample.get("attachments") or {})
    asked = sample.get("input")
    if not isinstance(asked, list):
        asked = [{"role": "user", "content": asked}]
    sent, turns = _sent_and_answered(sample.get("messages") or asked, is_agent=has_tools)
    output = sample.get("output") or {}
    choices = output.get("choices") or [{}]
    reply = choices[0].get("message") or {}
    steps, results = _steps(turns or [reply])
    conversation = _conversation(sent)
    last = _last_answer(sample, about, reply)
    texts = [last["response"], conversation["prompt"]]
    for step in steps:
        texts += [step["response"], *step["after"]]
    lines = "\n".join(text or "" for text in texts).split("\n")
    if not last["error"] and any(line.startswith(ATTACHMENT) for line in lines):
        last["error"] = "the log lacks the attachment that holds the text"
    if last["error"]:
        last["response"] = None
    row = {
        "id": str(sample.get("id")),
        "epoch": sample.get("epoch"),
        **conversation,
        "input": _shown(_last_content(asked)),
        **last,
    }
    calls = [call for step in steps for call in step["tool_calls"]]
    if calls and not last["error"]:
        row["tool_calls"] = calls
    if has_tools and last["error"]:
        row["tool_results"] = []
    elif has_tools:
        # What an agent submits is its last answer.
        response = last["response"] or str(output.get("completion") or "")
        steps[-1] |= {**last, "response": response}
        row |= {"tool_results": results, "max_steps": len(steps)}
        row[LOG] = {**last[LOG], "steps": steps}
    images = _images([*sent, *turns])
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
    elif finish is None:
        error = f"the answer is no text (stop_reason {reason!r})"
    elif not isinstance(content, str | list | None):
        error = f"the answer is no text (got {content!r:.40})"
    usage = output.get("usage") or {}
    tokens = usage.get("input_tokens")
    if tokens is not None:
        for cache in ("input_tokens_cache_read", "input_tokens_cache_write"):
            tokens += usage.get(cache) or 0
    return {
        "model": model,
        "response": _text(content) or "",
        "finish_reason": finish,
        "stop_details": choice.get("stop_details"),
        "error": error,
        LOG: {
            "thinking": _text(parts, "reasoning") or None,
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


def _steps(turns: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Each answer of the model's, with the texts that came ``after`` it, and these as a row
    of a suite scripts them (``tool_results``)."""
    steps: list[Row] = []
    results: list[Row] = []
    calls: dict[Any, Row] = {}
    before = ""
    for message in turns:
        role = message.get("role", "assistant")
        content = message.get("content")
        text = _shown(content) or ""
        if role == "assistant":
            calls = {call.get("id"): call for call in message.get("tool_calls") or ()}
            thinking = _text(content, "reasoning") if isinstance(content, list) else None
            steps.append(
                {
                    "response": _text(content) or "",
                    "tool_calls": [_call(call) for call in calls.values()],
                    LOG: {"thinking": thinking or None},
                    "after": [],
                }
            )
        elif role == "tool" and steps:
            text = text or str((message.get("error") or {}).get("message") or "")
            called = _call(calls.get(message.get("tool_call_id"), message))
            results.append({**called, "result": text})
            steps[-1]["after"].append(text)
        elif role == "user" and before == "user":
            results[-1]["user"] += f"\n\n{text}"
            steps[-1]["after"][-1] = results[-1]["user"]
        elif role == "user" and steps:
            if before == "tool":
                results[-1]["user"] = text
            else:
                results.append({"user": text})
            steps[-1]["after"].append(text)
        before = role
    return steps, results


def _call(call: Row) -> Row:
    return {"name": call.get("function"), "arguments": call.get("arguments", {})}


def _attached(value: Any, texts: dict[str, str]) -> Any:
    """A value with its attachments in their places."""
    if isinstance(value, dict):
        return {k: v if k == "attachments" else _attached(v, texts) for k, v in value.items()}
    if isinstance(value, list):
        return [_attached(part, texts) for part in value]
    if isinstance(value, str) and value.startswith(ATTACHMENT):
        return texts.get(value.removeprefix(ATTACHMENT), value)
    return value


def _text(content: Any, kind: str = "text") -> str | None:
    """The text of a message's content, or of its parts of one kind."""
    if isinstance(content, list):
        return "\n".join(part.get(kind) or "" for part in content if part.get("type") == kind)
    return content if isinstance(content, str) else None


def _last_content(messages: Sequence[Row]) -> Any:
    """The content of the user's last message: a text or parts; None without one."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return message.get("content")
    return None


def _shown(content: Any) -> str | None:
    """The text of a message's content, with the hashes of images in their places."""
    if not isinstance(content, list):
        return _text(content)
    lines = []
    for part in content:
        hashes = _images([{"content": [part]}])
        if hashes:
            lines.append(f"[image sha256:{hashes[0][:12]}]")
        elif part.get("type") == "text":
            lines.append(part.get("text") or "")
    return "\n".join(lines)


def _conversation(sent: Sequence[Row]) -> Row:
    """What was sent: the user's last text (``prompt``) and, where answers stand before it,
    all ``messages``."""
    row: Row = {"prompt": _shown(_last_content(sent))}
    messages = [{"role": x.get("role"), "content": _shown(x.get("content"))} for x in sent]
    roles = [message["role"] for message in messages]
    if roles[:1] == ["system"]:
        del roles[0]
    alternate = roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    has_texts = all((message["content"] or "").strip() for message in messages)
    if len(roles) > 1 and alternate and has_texts:
        row["messages"] = messages
    return row


def _images(messages: Sequence[Row]) -> list[str]:
    """The SHA-256 of each image in messages: of its bytes, or of its address where the log
    has no more than that.

    Inspect writes ``{"type": "image", "image": …}`` and chat APIs ``{"type": "image_url",
    "image_url": {"url": …}}``; each value is an address or a ``data:`` URL."""
    hashes = []
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type")
            if kind not in ("image", "image_url"):
                continue
            value = part.get(kind)
            address = str(value.get("url") if isinstance(value, dict) else value)
            head, _, data = address.partition(";base64,")
            image = address.encode("utf-8", "surrogatepass")
            if head.startswith("data:"):
                with suppress(ValueError):  # cut off, say: a hash of what there is
                    image = base64.b64decode(data)
            hashes.append(hashlib.sha256(image).hexdigest())
    return hashes


def asked_rows(rows: Sequence[Row], notes: list[str]) -> list[tuple[int, Row]]:
    """The prompts of a log, numbered, once for each id and text: rows without the
    answers, with whole conversations as prompts. A note says how many asked the same
    again."""
    asked: dict[tuple[Any, Any], Row] = {}
    for row in rows:
        kept = {name: value for name, value in row.items() if name not in ANSWER_FIELDS}
        if "messages" in kept:
            kept["prompt"] = kept.pop("messages")
        asked.setdefault((row["id"], row.get("prompt")), kept)
    if len(asked) < len(rows):
        again = len(rows) - len(asked)
        notes.append(f"Further answers to the same prompts, left out: {again}.")
    return list(enumerate(asked.values(), 1))


def lm_eval_rows(rows: Sequence[Row]) -> list[Row]:
    """A row for each answer in lm-evaluation-harness's samples, before its filters.

    ``prompt`` is what was sent: with a chat template, the rendered text. The fields of the
    task's data are ``doc.NAME``; ``repeat`` numbers the answers to a prompt. These files
    state neither why an answer ended nor its tokens.
    Raises RowError for a task that generates no text."""
    answers: dict[tuple[str, int], Row] = {}  # a file has a row for each of the task's filters
    for row in rows:
        id_ = str(row["doc_id"])
        responses = row["resps"]
        if not isinstance(responses, list):
            raise RowError(f"doc_id {id_}: resps must be a list (got {responses!r:.40})")
        texts = responses[0] if responses else []
        for repeat, text in enumerate(texts if isinstance(texts, list) else [texts], 1):
            if not isinstance(text, str | None):
                raise RowError(
                    f"doc_id {id_}: no generated text (got {text!r:.40}); tasks that compare "
                    "likelihoods have nothing to judge"
                )
            # null: a refusal or a filter of the provider, or an error; the file does not say.
            answer = {"id": id_, "repeat": repeat, "response": text, LOG: {}}
            answer |= _sent(row["arguments"])
            if isinstance(row["doc"], dict):
                answer |= {f"doc.{name}": value for name, value in row["doc"].items()}
            answers.setdefault((id_, repeat), answer)
    return list(answers.values())


def _sent(arguments: Any) -> Row:
    """What was sent, and its ``images`` where it has any."""
    first = next(iter(arguments.values()), None) if isinstance(arguments, dict) else None
    text = first.get("arg_0") if isinstance(first, dict) else None
    if isinstance(text, list) and len(text) == 1:
        text = text[0]
    if not isinstance(text, str):
        return {"prompt": None}
    if text.startswith("[{"):  # messages, for a chat API
        with suppress(ValueError, AttributeError):
            messages = parse_json(text)
            images = _images(messages)
            return _conversation(messages) | ({"images": images} if images else {})
    return {"prompt": text}


def about_log(path: Path) -> dict[str, Any] | None:
    """The model, task and settings of the run that a log of Inspect is of. None for any
    other file.
    Raises OSError and RowError."""
    log: dict[str, Any] = {}
    if path.suffix == ".eval":
        log = read_inspect(path)
    elif path.suffix == ".json":
        log = parse_json(path.read_bytes())
    if not is_inspect(log):
        return None
    about = log["eval"]
    settings = (log.get("plan") or {}).get("config") or {}
    arguments = about.get("model_args")
    run = {
        "tool": "inspect_ai",
        "version": (about.get("packages") or {}).get("inspect_ai"),
        "status": log.get("status"),
        "task": about.get("task"),
        "task_version": about.get("task_version"),
        "model": about.get("model"),
        "model_args": arguments if isinstance(arguments, dict) else {},
        "generation": {name: value for name, value in settings.items() if value is not None},
    }
    return dict(without_secrets(run)[0])  # provenance is committed
