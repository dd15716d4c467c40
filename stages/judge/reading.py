"""Reading a judge model's reply: a verdict only where it is unambiguous, an error otherwise."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.S | re.I)
# What a closing tag alone ends: models whose template opens the thinking for them.
UNOPENED = re.compile(r"\A.*</(?:think|thinking|reasoning)>", re.S | re.I)
# A judge model's reply is a few sentences; a longer one is read from its end.
MOST_CHARACTERS = 20_000
NEGATION = re.compile(
    r"(?:\b(?:not|never|no|isn't|wasn't|doesn't|didn't|neither|nor|hardly|without|cannot|can't)\b"
    r"|n't)[\s\"'*_]*(?:\w+[\s\"'*_]+){0,2}$",
    re.I,
)


class UnreadableVerdict(ValueError):
    """A reply that states no verdict, or more than one; the message says which."""


def answer_part(reply: str) -> str:
    """A reply without its thinking, which weighs verdicts before it gives one."""
    text = UNOPENED.sub("", THINKING.sub("", reply)) if "</" in reply else THINKING.sub("", reply)
    return text.strip()[-MOST_CHARACTERS:]


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            raise UnreadableVerdict(f"the JSON gives {key!r} twice, differently")
        found[key] = value
    return found


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text, whatever stands around them."""
    decoder = json.JSONDecoder(object_pairs_hook=_no_duplicates)
    index = text.find("{")
    tries = 0
    while index >= 0 and tries < 1000:
        tries += 1
        try:
            value, end = decoder.raw_decode(text, index)
        except RecursionError:
            return
        except UnreadableVerdict:
            raise
        except ValueError:
            end = index + 1
        else:
            yield value
        index = text.find("{", end)


def read_json(reply: str, key: str, values: Mapping[Any, Any]) -> tuple[Any, str | None]:
    """The value that the reply's JSON gives ``key``, and its ``reason`` where there is one.

    ``values`` maps what may be written (texts in lower case) to what it means. Raises
    :class:`UnreadableVerdict` when no object has the key, when its value is none of these, or when
    two objects disagree.
    """
    text = answer_part(reply)
    found = [value for value in json_objects(text) if key in value]
    if not found:
        raise UnreadableVerdict(f"no JSON object with {key!r} in: {text[:200]!r}")
    meant = []
    for value in found:
        written = value[key]
        if isinstance(written, str):
            written = written.strip().lower()
        # 1 == True for a dict, but a judge that writes 1 has not said true.
        known = [m for w, m in values.items() if w == written and type(w) is type(written)]
        if not known:
            allowed = ", ".join(repr(allowed) for allowed in values)
            raise UnreadableVerdict(f"{key!r} must be one of {allowed} (got {value[key]!r})")
        meant.append(known[0])
    if any(one != meant[0] for one in meant):
        raise UnreadableVerdict(f"the reply gives {key!r} twice, differently")
    reason = found[-1].get("reason")
    return meant[0], reason if isinstance(reason, str) else None


def read_tag(reply: str, tag: str, values: Mapping[str, Any]) -> Any:
    """What ``<tag>value</tag>`` of a reply means. Raises :class:`UnreadableVerdict`."""
    text = answer_part(reply)
    found = {match.strip().lower() for match in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)}
    if len(found) != 1:
        what = "no" if not found else "contradictory"
        raise UnreadableVerdict(f"{what} <{tag}> in: {text[-200:]!r}")
    (written,) = found
    if written not in values:
        raise UnreadableVerdict(f"<{tag}> must be one of {', '.join(values)} (got {written!r})")
    return values[written]


def read_label(reply: str, labels: Mapping[str, str]) -> str:
    """The one label that a reply in words states, such as ``Verdict: REFUSED | reason``.

    ``labels`` maps words, in lower case, to labels; longer words win over words within them. The
    line that says "verdict", "label" or "answer" decides where there is one, else the whole reply.
    Raises :class:`UnreadableVerdict` for no label, several, or a negated one: "not refused" is not
    "complied" (it may be partial), and a judge that means that can say so.
    """
    text = answer_part(reply)
    stated = re.findall(
        r"^[\s#*>-]*(?:final |my |the )*(?:verdict|label|answer)\b[^\n:=—–-]{0,40}[:=—–-]?\s*([^\n|]*)",
        text,
        re.M | re.I,
    )
    places = [place for place in stated if place.strip()] or [text]
    pattern = re.compile(
        r"(?<!\w)(?:"
        + "|".join(re.escape(word) for word in sorted(labels, key=len, reverse=True))
        + r")(?!\w)",
        re.I,
    )
    found = set()
    for place in places:
        for match in pattern.finditer(place):
            if NEGATION.search(place[: match.start()]):
                raise UnreadableVerdict(f"a negated verdict in: {place[:200]!r}")
            found.add(labels[match[0].lower()])
    if len(found) != 1:
        what = "no verdict" if not found else f"{len(found)} different verdicts"
        raise UnreadableVerdict(f"{what} in: {text[:200]!r}")
    return found.pop()
