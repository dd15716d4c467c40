"""Reading a judge model's reply: a verdict only where it is unambiguous, an error otherwise.

A *reading* says in which form a reply states its verdict, and what each spelling of it means:
``json`` for models that follow instructions, ``line`` and ``field`` for classifiers that generate a
fixed form. Each reading takes time linear in the reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_MARKER = r"(?:think(?:ing)?|thought|reasoning|analysis|reflection|scratchpad)"
THINKING = re.compile(
    rf"<({_MARKER})\b[^<>]*>.*?(?:</\1>|\Z)|\[THINK\].*?(?:\[/THINK\]|\Z)", re.S | re.I
)
# What a closing tag alone ends: models whose template opens the thinking for them.
UNOPENED = re.compile(rf"\A.*(?:</{_MARKER}>|\[/THINK\])", re.S | re.I)
# A verdict takes a few sentences. What is longer is not read in part: the rest may contradict it.
MOST_CHARACTERS = 20_000
MOST_OBJECTS = 1000


class UnreadableVerdict(ValueError):
    """A reply that states no verdict, or more than one; the message says which."""


class Reading(NamedTuple):
    """How a reply is read: its ``form``, the ``name`` of its key or field (empty for ``line``), and
    what each spelling, in lower case, means."""

    form: str
    name: str
    values: Mapping[Any, str]

    def __call__(self, reply: str) -> tuple[str, str | None]:
        """What the reply means, and the reason it gives. Raises :class:`UnreadableVerdict`."""
        return FORMS[self.form](reply, self.name, self.values)


def answer_part(reply: str) -> str:
    """A reply without its thinking, which weighs verdicts before it gives one.

    Raises :class:`UnreadableVerdict` for one that is too long to be a verdict.
    """
    text = UNOPENED.sub("", THINKING.sub("", reply)).strip()
    if len(text) > MOST_CHARACTERS:
        raise UnreadableVerdict(
            f"the reply has {len(text)} characters; at most {MOST_CHARACTERS} are read"
        )
    return text


def _only(meant: set[Any], what: str, text: str) -> Any:
    if len(meant) != 1:
        raise UnreadableVerdict(f"contradictory {what} in: {text[:200]!r}")
    return meant.pop()


def _meaning(written: Any, values: Mapping[Any, Any], name: str) -> Any:
    plain = written.strip().lower() if isinstance(written, str) else written
    for spelling, meaning in values.items():
        # 1 == True, but a judge that writes 1 has not written true.
        if spelling == plain and type(spelling) is type(plain):
            return meaning
    allowed = ", ".join(map(repr, values))
    raise UnreadableVerdict(f"{name!r} must be one of {allowed} (got {written!r:.80})")


def read_json(reply: str, key: str, values: Mapping[Any, Any]) -> tuple[Any, str | None]:
    """What the reply's JSON says under ``key``, at any depth, and its ``reason``.

    Text around the JSON is tolerated. A key that is given twice with different meanings, in one
    object, in two, or in the text beside them, is a contradiction.
    """
    text = answer_part(reply)
    stated: list[Any] = []
    reasons: list[Any] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        stated.extend(value for name, value in pairs if name == key)
        members = dict(pairs)
        if key in members:
            reasons.append(members.get("reason"))
        return members

    decoder = json.JSONDecoder(object_pairs_hook=collect)
    index = text.find("{")
    tries = 0
    while index >= 0:
        tries += 1
        if tries > MOST_OBJECTS:
            raise UnreadableVerdict(f"more than {MOST_OBJECTS} braces in: {text[:200]!r}")
        try:
            _, end = decoder.raw_decode(text, index)
        except RecursionError:
            raise UnreadableVerdict(f"JSON nested too deeply in: {text[:200]!r}") from None
        except ValueError:
            end = index + 1
        index = text.find("{", end)
    if not stated:
        raise UnreadableVerdict(f"no JSON object with {key!r} in: {text[:200]!r}")
    meant = {_meaning(value, values, key) for value in stated}
    spelled = {str(spelling).lower(): meaning for spelling, meaning in values.items()}
    beside = re.findall(
        rf"(?<![\\\w])[\"']?{re.escape(key)}[\"']?\s*[:=]\s*[\"']?(\w+)", text, re.I
    )
    meant |= {spelled[word.lower()] for word in beside if word.lower() in spelled}
    reason = next((reason for reason in reversed(reasons) if isinstance(reason, str)), None)
    return _only(meant, f"values of {key!r}", text), reason


def read_line(reply: str, _: str, values: Mapping[str, str]) -> tuple[str, str | None]:
    """A classifier's first line, which is one of the spellings and nothing else; what follows it
    (Llama Guard's categories) is the reason."""
    first, _, rest = answer_part(reply).partition("\n")
    lines = [line.strip(" \t.*\"'").lower() for line in (first, *rest.splitlines())]
    label = _meaning(lines[0], values, "the first line")
    meant = {label, *(values[line] for line in lines[1:] if line in values)}
    return _only(meant, "lines", reply), rest.strip() or None


def read_field(reply: str, name: str, values: Mapping[str, str]) -> tuple[str, str]:
    """The line ``name: value`` of a classifier that answers several questions at once."""
    text = answer_part(reply)
    pattern = rf"^[ \t*-]*{re.escape(name)}[*]*:[ \t*]*([^\n]*)"
    said = re.findall(pattern, text, re.M | re.I)
    if not said:
        raise UnreadableVerdict(f"no line {name!r} in: {text[:200]!r}")
    meant = {_meaning(value.strip(" \t.*"), values, name) for value in said}
    return _only(meant, f"lines {name!r}", text), text


FORMS: dict[str, Callable[[str, str, Mapping[Any, str]], tuple[str, str | None]]] = {
    "field": read_field,
    "json": read_json,
    "line": read_line,
}
# The fixed forms of classifiers, which take no instructions, so that a reminder tells them nothing.
FIXED = ("field", "line")


def parse_reading(line: str) -> Reading:
    """A reading as a template writes it: the form, its name, then ``spelling=label`` for each.

    ``field Response_refusal yes=refusal no=compliance``. An underscore stands for a space in a field's
    name, and in the spellings of ``line`` and ``field``. Raises ValueError.
    """
    form, *rest = line.split() or [""]
    if form not in FORMS:
        raise ValueError(f"a reading is one of {', '.join(FORMS)} (got {line!r})")
    name = rest.pop(0) if form != "line" and rest and "=" not in rest[0] else ""
    pairs = [part.partition("=") for part in rest]
    if (form != "line" and not name) or not pairs or not all(a and b for a, _, b in pairs):
        named = "" if form == "line" else " NAME"
        raise ValueError(f"a reading is '{form}{named} spelling=label …' (got {line!r})")
    values: dict[Any, str] = {}
    for spelling, _, label in pairs:
        plain = spelling.lower() if form == "json" else spelling.lower().replace("_", " ")
        values[plain] = label
        if form == "json" and plain in ("true", "false"):
            values[plain == "true"] = label
    return Reading(form, name.replace("_", " ") if form == "field" else name, values)
