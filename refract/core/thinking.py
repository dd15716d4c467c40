"""Where thinking stands in what a model wrote.

Markers are balanced, may stand in one another, and several blocks may follow each other. One that
is quoted (between quotes, in inline code, in a code block of the answer) is text. A closing marker
without an opening one ends thinking that was opened out of sight. So :func:`split` reads replies,
and :func:`answer_spans`, for judges, a recorded text of which nobody says how it is marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_NAME = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think)"
_OPEN = (
    rf"<\|?{_NAME}(?:\s[^<>]*)?\|?>|\[think(?:ing)?\]|◁think▷|<\|begin_of_thought\|>"
    r"|<start_of_thought>"
)
_CLOSE = (
    rf"<\|?/{_NAME}\|?>|\[/think(?:ing)?\]|◁/think▷|<\|end_of_thought\|>|<end_of_thought>"
    # Of channels whose beginning is out of sight, or without their markers.
    r"|<\|channel\|>\s{0,4}final(?:<\|message\|>)?|assistantfinal"
)
_CODE = re.compile(r"`[^`\n]+`")
_FENCE = r"(?P<fence>^ {0,3}(?P<kind>```|~~~).*?^ {0,3}(?P=kind))"
_QUOTES = {"`": "`", '"': '"', "'": "'", "“": "”", "‘": "’", "«": "»"}
# What gpt-oss writes around the parts of its turn: each has a channel, and its answer is "final".
CHANNEL_TOKENS = (
    "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>",
)  # fmt: skip
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)([^<]*(?:<\|constrain\|>[^<]*)?)<\|message\|>")
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")


Span = tuple[int, int]


class Split(NamedTuple):
    """What a model wrote, in two.

    ``answer`` is empty where the thinking does not end (``unfinished``). ``thinking``: None without
    any, blocks one after the other."""

    answer: str
    thinking: str | None
    unfinished: bool = False


class _Places(NamedTuple):
    """Where answer and thinking stand; ``open_at``: where thinking begins that does not end."""

    answer: list[Span]
    thinking: list[Span]
    open_at: int | None = None


def split(
    text: str,
    markers: Sequence[str] | None = None,
    opened: bool = False,
    texts: Sequence[Span] = (),
) -> Split:
    """Splits thinking from the answer; ``markers``: opening and closing one, by default all known.

    ``opened``: the text begins inside thinking. ``texts``: further places whose markers are text."""
    places = _places(text, markers, opened, texts)
    blocks = (text[start:end].strip() for start, end in places.thinking)
    thinking = "\n\n".join(filter(None, blocks)) if places.thinking else None
    if places.open_at is not None:
        return Split("", thinking, unfinished=True)
    return Split("".join(text[start:end] for start, end in places.answer), thinking)


def answer_spans(text: str) -> list[Span] | None:
    """Where the answer stands in a recorded text; None where all of it is thinking without an end. A
    marker that opens such thinking behind words of the answer is rather a text about markers."""
    if not any(mark in text for mark in ("<", "[", "◁", "assistantfinal")):
        return [(0, len(text))]
    places = _places(text, None, False, ())
    if places.open_at is None:
        return places.answer
    if any(text[start:end].strip() for start, end in places.answer):
        return [*places.answer, (places.open_at, len(text))]
    return None


def _places(
    text: str, markers: Sequence[str] | None, opened: bool, texts: Sequence[Span]
) -> _Places:
    if text.lstrip().startswith(("<|channel|>", "<|start|>assistant<|channel|>")):
        return _of_channels(text)
    # Markers of a definition are as they are written; those of tags are told apart by name.
    opening, closing = map(re.escape, markers) if markers else (f"(?i:{_OPEN})", f"(?i:{_CLOSE})")
    name_of = (lambda marker: "") if markers else _name_of
    places = _walk(text, opening, closing, name_of, opened, texts)
    if places.open_at is not None:
        # A model may open once more what its template opened.
        again = re.match(rf"\s*(?:{opening})" + ("" if opened else rf"\s*(?={opening})"), text)
        if again:
            return _walk(text, opening, closing, name_of, opened, texts, again.end())
    return places


def _walk(
    text: str,
    opening: str,
    closing: str,
    name_of: Callable[[str], str],
    opened: bool,
    texts: Sequence[Span],
    at: int = 0,
) -> _Places:
    flags = re.M | re.S
    outside = re.compile(rf"{_FENCE}|(?P<open>{opening})|(?P<close>{closing})", flags)
    inside = re.compile(rf"(?P<close>{closing})|(?P<open>{opening})", flags)
    quoted = [*texts, *(match.span() for match in _CODE.finditer(text))]
    quoted.sort()
    answers: list[Span] = []
    thoughts: list[Span] = []
    depth, name = int(opened), None
    place = open_at = at  # of the search, and of the marker that opened
    upto = 0  # of the quotations passed
    while True:
        match = (inside if depth else outside).search(text, place)
        if match is None:
            break
        place = match.end()
        while upto < len(quoted) and quoted[upto][1] <= match.start():
            upto += 1
        within = upto < len(quoted) and quoted[upto][0] <= match.start()
        if match.lastgroup == "fence" or within or _between_quotes(text, match):
            continue
        kind = name_of(match[0])
        if match.lastgroup == "open":
            if not depth:
                answers.append((at, match.start()))
                at, open_at, name = match.end(), match.start(), kind
            depth += name in (None, kind)
            continue
        if depth and name not in (None, kind):
            continue
        if depth > 1:
            depth -= 1
            continue
        if not depth:  # opened out of sight
            thoughts += answers
            answers = []
        thoughts.append((at, match.start()))
        at, depth, name = match.end(), 0, None
    if depth:
        return _Places(answers, [*thoughts, (at, len(text))], open_at)
    answers.append((at, len(text)))
    return _Places(_trimmed(text, answers) if thoughts else answers, thoughts)


def _trimmed(text: str, spans: Sequence[Span]) -> list[Span]:
    """The parts of an answer without blanks before it, and between a part and thinking."""
    trimmed: list[Span] = []
    for number, (start, end) in enumerate(spans, 1):
        part = text[start:end]
        if not trimmed:
            start = end - len(part.lstrip())
        if number < len(spans):
            end = start + len(text[start:end].rstrip())
        if start < end:
            trimmed.append((start, end))
    return trimmed


def _between_quotes(text: str, match: re.Match[str]) -> bool:
    before = text[match.start() - 1 : match.start()]
    return before in _QUOTES and text[match.end() : match.end() + 1] == _QUOTES[before]


def _name_of(marker: str) -> str:
    word = re.search(r"(?:(?:begin|start|end)_of_)?(\w+)", marker.lower())
    return word[1] if word else ""


def _of_channels(text: str) -> _Places:
    answers: list[Span] = []
    thoughts: list[Span] = []
    begin = 0
    for match in _CHANNEL.finditer(text):
        end = _CHANNEL_END.search(text, match.end())
        begin = match.start()
        part = match.end(), end.start() if end else len(text)
        (answers if match[1] == "final" else thoughts).append(part)
    return _Places(answers, thoughts, None if answers else begin)
