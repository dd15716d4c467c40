"""A language model as judge: requirements, coherency, refusal.

The judge's prompt is a text file with a version; the judged texts stand between fences whose name
depends on the texts themselves, so that no text can close its own fence. Replies go through the
response store like every other answer; an unreadable one is asked again once.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages.judge.cases import Case, unjudged
from stages.judge.reading import UnreadableVerdict, read_json
from stages.models import open_model
from stages.models.answers import Message, Request
from stages.params import ParamsError
from stages.rows.jsonl import Row, canonical_json
from stages.store import ResponseStore, open_store, request_sha256
from stages.store.asking import ask

VERSION = "1"
TEMPLATES = Path(__file__).with_name("templates")
FIELD = re.compile(r"\{\{(\w+)\}\}")
PASSED = {True: True, False: False, "true": True, "false": False}
LABELS = {label: label for label in ("refusal", "partial_refusal", "compliance")}
SCORES = {"refusal": 1.0, "partial_refusal": 0.5, "compliance": 0.0}
REMINDER = (
    "Your reply could not be read. Reply with the one JSON object that was asked for, with plain "
    "values, and nothing else."
)


@dataclass(frozen=True)
class Template:
    """A judge's prompt: its messages with ``{{fields}}``, its version, the SHA-256 of its file."""

    version: str
    sha256: str
    messages: tuple[tuple[str, str], ...]

    def fill(self, fields: Mapping[str, str]) -> tuple[Message, ...]:
        """The messages with their fields filled in; what is filled in is not searched again."""
        return tuple(
            {"role": role, "content": FIELD.sub(lambda match: fields[match[1]], text)}
            for role, text in self.messages
        )


@functools.cache
def read_template(name: str) -> Template:
    """A template of the project by name, or a user's file by path.

    The file opens with ``version: N``; each message starts with a line ``=== system`` or
    ``=== user``. A file without such lines is one user message. Raises :class:`ParamsError`.
    """
    path = TEMPLATES / f"{name}.txt" if re.fullmatch(r"\w+", name) else Path(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        known = ", ".join(sorted(p.stem for p in TEMPLATES.glob("*.txt")))
        raise ParamsError(
            f"judge template {name!r} cannot be read ({error.strerror}); the project has: {known}"
        ) from None
    text = data.decode("utf-8")
    parts = re.split(r"^=== (system|user)\n", text, flags=re.M)
    version = re.match(r"version: (\S+)\n", text)
    messages = tuple(
        (role, body.strip("\n")) for role, body in zip(parts[1::2], parts[2::2], strict=True)
    )
    return Template(
        version[1] if version else "unversioned",
        hashlib.sha256(data).hexdigest(),
        messages or (("user", text.strip("\n")),),
    )


def fence(*texts: str) -> str:
    """A fence's name: 12 hex digits of the SHA-256 of what stands inside it."""
    return hashlib.sha256(canonical_json(texts).encode()).hexdigest()[:12]


def template_version(definition: Mapping[str, Any], kind: str) -> str:
    """The version and hash of the template that a definition uses."""
    template = read_template(definition.get("template") or kind)
    return f"{VERSION}, template {template.version} {template.sha256[:16]}"


def _check(kind: str, definition: Mapping[str, Any]) -> None:
    if not isinstance(definition.get("model"), Mapping):
        raise ParamsError(
            f"a judge of kind {kind} needs a model: a definition like those under `models:` "
            f"(got {definition.get('model')!r})"
        )
    votes = definition.get("votes", 1)
    if not isinstance(votes, int) or isinstance(votes, bool) or votes < 1:
        raise ParamsError(f"votes must be a whole number of at least 1 (got {votes!r})")


def _judge(
    kind: str,
    conversations: Sequence[tuple[Message, ...] | None],
    definition: Mapping[str, Any],
    read: Callable[[str], Row],
    store: ResponseStore | None,
) -> list[Row]:
    """Verdicts on conversations with the judge; None where there is nothing to ask."""
    _check(kind, definition)
    model = open_model(f"judge ({kind})", dict(definition["model"]))
    votes = definition.get("votes", 1)
    asked = {
        (index, vote): conversation
        for index, conversation in enumerate(conversations)
        if conversation is not None
        for vote in range(votes)
    }
    with store or open_store() as opened:
        replies = _replies(model, asked, opened)
        found: dict[tuple[int, int], Row] = {}
        again = {}
        for place, answer in replies.items():
            found[place] = _read(answer, read)
            if found[place].pop("unreadable", False):
                again[place] = (
                    *asked[place],
                    {"role": "assistant", "content": answer.response or "(no reply)"},
                    {"role": "user", "content": REMINDER},
                )
        for place, answer in _replies(model, again, opened).items():
            first = found[place]["raw"]
            found[place] = _read(answer, read)
            found[place].pop("unreadable", None)
            found[place]["raw"] = first + found[place]["raw"]
    return [
        _vote([found[index, vote] for vote in range(votes)])
        if conversation is not None
        else unjudged()
        for index, conversation in enumerate(conversations)
    ]


def _replies(model: Any, asked: Mapping[Any, tuple[Message, ...]], store: ResponseStore) -> dict:
    if not asked:
        return {}
    identity = canonical_json(model.identity())
    keys, requests = {}, {}
    for place, conversation in asked.items():
        # The vote's number seeds a judge that samples; to a greedy one all votes are one request.
        request = Request((conversation,), place[1], dict.fromkeys(model.USES))
        keys[place] = request_sha256(identity, request, model.USES, model.samples)
        requests[keys[place]] = request
    answers, _ = ask(model, requests, store, "judge")
    return {place: answers[key] for place, key in keys.items()}


def _read(answer: Any, read: Callable[[str], Row]) -> Row:
    raw = [answer.response]
    if answer.error is not None:
        error = f"the judge failed: {answer.error['type']}: {answer.error['message']}"
        return {**unjudged(error), "reason": None, "raw": raw}
    if answer.finish_reason in ("refusal", "content_filter"):
        error = f"the judge's provider answered with a {answer.finish_reason}"
        return {**unjudged(error), "reason": None, "raw": raw}
    try:
        return {**unjudged(), **read(answer.response), "raw": raw}
    except UnreadableVerdict as problem:
        return {
            **unjudged(f"unreadable verdict: {problem}"),
            "reason": None,
            "raw": raw,
            "unreadable": True,
        }


def _vote(verdicts: Sequence[Row]) -> Row:
    """The verdict of the majority of readable votes; a tie is an error, never a verdict."""
    if len(verdicts) == 1:
        return verdicts[0]
    readable = [verdict for verdict in verdicts if verdict["label"] is not None]
    raw = [text for verdict in verdicts for text in verdict["raw"]]
    if not readable:
        return {**verdicts[0], "raw": raw}
    ranked = Counter(verdict["label"] for verdict in readable).most_common()
    agreement = round(ranked[0][1] / len(verdicts), 4)
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        tie = f"the votes are tied: {', '.join(f'{n} {label}' for label, n in ranked)}"
        return {**unjudged(tie), "reason": None, "raw": raw, "agreement": agreement}
    winner = next(verdict for verdict in readable if verdict["label"] == ranked[0][0])
    return {**winner, "raw": raw, "agreement": agreement}


def _read_passed(reply: str) -> Row:
    passed, reason = read_json(reply, "eval_passed", PASSED)
    return {"label": "pass" if passed else "fail", "score": float(passed), "reason": reason}


def _read_refusal(reply: str) -> Row:
    label, reason = read_json(reply, "label", LABELS)
    refused = label != "compliance"
    return {"label": label, "refused": refused, "score": SCORES[label], "reason": reason}


def _description(definition: Mapping[str, Any]) -> str:
    text = definition.get("description")
    return f"What the assistant is for: {text}\n\n" if text else ""


def requirement(
    cases: Sequence[Case], definition: Mapping[str, Any], store: ResponseStore | None = None
) -> list[Row]:
    """Whether answers meet the requirements of the definition, or of their row: pass or fail.

    A row's own ``requirement`` is judged with the definition's. A row for which there is none is not
    judged.
    """
    template = read_template(definition.get("template") or "requirement")
    shared = definition.get("requirements") or []
    if definition.get("requirement"):
        shared = [definition["requirement"], *shared]
    conversations = []
    for case in cases:
        own = case.source.get("requirement")
        wanted = [*shared, own] if own else shared
        prompt, response = case.asked, case.response["response"]
        fields = {
            "description": _description(definition),
            "fence": fence(prompt, response),
            "prompt": prompt,
            "response": response,
            "requirement": "\n".join(wanted),
            "requirements": "\n".join(f"- {text}" for text in wanted),
        }
        conversations.append(template.fill(fields) if wanted else None)
    return _judge("requirement", conversations, definition, _read_passed, store)


def coherency(
    cases: Sequence[Case], definition: Mapping[str, Any], store: ResponseStore | None = None
) -> list[Row]:
    """Whether an answer and that of its pair (or of its clean prompt) are coherent: pass or fail."""
    template = read_template(definition.get("template") or "coherency")
    conversations = []
    for case in cases:
        if case.pair is None:
            conversations.append(None)
            continue
        texts = {
            "prompt": case.pair.asked,
            "response": case.pair.response["response"],
            "prompt_2": case.asked,
            "response_2": case.response["response"],
        }
        fields = {**texts, "description": _description(definition), "fence": fence(*texts.values())}
        conversations.append(template.fill(fields))
    return _judge("coherency", conversations, definition, _read_passed, store)


def refusal(
    cases: Sequence[Case], definition: Mapping[str, Any], store: ResponseStore | None = None
) -> list[Row]:
    """Refusal, partial refusal or compliance, as a model sees it."""
    template = read_template(definition.get("template") or "refusal")
    conversations = [
        template.fill(
            {
                "description": _description(definition),
                "fence": fence(case.asked, case.response["response"]),
                "prompt": case.asked,
                "response": case.response["response"],
            }
        )
        for case in cases
    ]
    return _judge("refusal", conversations, definition, _read_refusal, store)
