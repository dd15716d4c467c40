"""Reading a judge model's reply: a verdict only where it is unambiguous, an error otherwise.
It takes time linear in the reply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from refract.core.thinking import split

# A longer reply is no verdict, and is not read in part: the remainder may
# contradict it.
MOST_CHARACTERS = 20_000
MOST_OBJECTS = 1000
# What JSON does not know and judges write: blanks of other kinds, a comma behind the last member.
BLANKS = dict.fromkeys(map(ord, "\u00a0\u202f\u2007\ufeff\u200b"), " ")
LAST_COMMA = re.compile(r",(\s*[}\]])")

DECODER = json.JSONDecoder(strict=False)  # which takes raw line breaks in texts


class UnreadableVerdict(ValueError):
    """A reply that states no verdict, or more than one; the message says which."""


def unreadable(problem: str, reply: str) -> UnreadableVerdict:
    """The error of a problem in a reply, of which it shows the beginning."""
    return UnreadableVerdict(f"{problem}: {reply[:200]!r}")


def answer_part(reply: str) -> str:
    """A reply without its thinking, which weighs verdicts before it gives one. A marker of
    thinking in a JSON object is a part of its texts.

    Raises :class:`UnreadableVerdict` for one that is too long to be a verdict.
    """
    objects: list[tuple[int, int]] = []
    if len(reply) <= MOST_CHARACTERS:
        with suppress(UnreadableVerdict):
            objects = _decode_objects(reply, DECODER)
    text = split(reply, texts=objects).answer.strip()
    if len(text) > MOST_CHARACTERS:
        raise UnreadableVerdict(
            f"the reply has {len(text)} characters; at most {MOST_CHARACTERS} are read"
        )
    return text


def read_json(reply: str, key: str, values: Mapping[Any, Any]) -> tuple[Any, str | None]:
    """The meaning in ``values`` of what the reply's JSON has under ``key``, at
    any depth, and its ``reason``.

    Text around the JSON is tolerated. Two different meanings under one key, in
    the JSON or in the text beside it, are a contradiction. Raises
    :class:`UnreadableVerdict`.
    """
    text = answer_part(reply)
    stated: list[Any] = []
    reasons: list[Any] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, value in pairs:
            if name == key:
                stated.append(value)
        members = dict(pairs)
        if key in members:
            reasons.append(members.get("reason"))
        return members

    decoder = json.JSONDecoder(object_pairs_hook=collect, strict=False)
    _decode_objects(text, decoder)
    if not stated:
        _decode_objects(LAST_COMMA.sub(r"\1", text.translate(BLANKS)), decoder)
    if not stated:
        raise unreadable(f"no JSON object with {key!r} in", text)
    # 1 == True, but a judge that writes 1 has not written true.
    typed = {(type(spelling), spelling): meaning for spelling, meaning in values.items()}
    meanings = set()
    for value in stated:
        plain = value.strip().lower() if isinstance(value, str) else value
        known = (type(plain), plain)
        if isinstance(plain, list | dict) or known not in typed:
            allowed = ", ".join(map(repr, values))
            raise UnreadableVerdict(f"{key!r} must be one of {allowed} (got {value!r:.80})")
        meanings.add(typed[known])
    spelled = {str(spelling).lower(): meaning for spelling, meaning in values.items()}
    marks = r"[\s\"'*_`]*"  # quotes, and what is bold, italic or code in Markdown
    written = (
        rf"(?<![\\\w])_{{0,2}}{re.escape(key)}{marks}(?:[:=]|(?<=\s)(?:is|should be)){marks}(\w+)"
    )
    for match in re.findall(written, text, re.I):
        word = match.strip("_").lower()
        if word in spelled:
            meanings.add(spelled[word])
    if len(meanings) != 1:
        raise unreadable(f"contradictory values of {key!r} in", text)
    texts = [reason for reason in reasons if isinstance(reason, str)]
    return meanings.pop(), texts[-1] if texts else None


def _decode_objects(text: str, decoder: json.JSONDecoder) -> list[tuple[int, int]]:
    """Decodes every JSON object in a text, and says where they stand."""
    places = []
    index = text.find("{")
    tries = 0
    while index >= 0:
        tries += 1
        if tries > MOST_OBJECTS:
            raise unreadable(f"more than {MOST_OBJECTS} braces in", text)
        try:
            _, end = decoder.raw_decode(text, index)
            places.append((index, end))
        except RecursionError:
            raise unreadable("JSON nested too deeply in", text) from None
        except ValueError:
            end = index + 1
        index = text.find("{", end)
    return places
