"""Where thinking stands in what a model wrote.

Markers are balanced, may stand in one another, and several blocks may follow each other. One that
is quoted (between quotes, in inline code, in a code block of the answer) is text. A closing marker
without an opening one ends thinking that was opened out of sight. So :func:`split` reads replies;
:func:`answer_start`, for judges, finds a place in a recorded text by a simpler rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_NAME = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis|seed:think)"
_OPEN = (
    rf"<\|?{_NAME}(?:\s[^<>]*)?\|?>|\[think(?:ing)?\]|◁think▷|<\|begin_of_thought\|>"
    r"|<start_of_thought>"
)
_CLOSE = rf"<\|?/{_NAME}\|?>|\[/think(?:ing)?\]|◁/think▷|<\|end_of_thought\|>|<end_of_thought>"
_THINK_OPEN = re.compile(_OPEN + r"|<\|channel\|>\s{0,4}(?:analysis|commentary)", re.IGNORECASE)
_THINK_CLOSE = re.compile(
    _CLOSE + r"|<\|channel\|>\s{0,4}final(?:<\|message\|>)?|assistantfinal", re.IGNORECASE
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


class Split(NamedTuple):
    """What a model wrote, in two.

    ``answer`` is empty where the thinking does not end (``unfinished``). ``thinking``: None without
    any, blocks one after the other."""

    answer: str
    thinking: str | None
    unfinished: bool = False


def split(
    text: str,
    markers: Sequence[str] | None = None,
    opened: bool = False,
    texts: Sequence[tuple[int, int]] = (),
) -> Split:
    """Splits thinking from the answer; ``markers``: opening and closing one, by default all known.

    ``opened``: the text begins inside thinking. ``texts``: further places whose markers are text."""
    if text.lstrip().startswith(("<|channel|>", "<|start|>assistant<|channel|>")):
        return _of_channels(text)
    # Markers of a definition are as they are written; those of tags are told apart by name.
    opening, closing = map(re.escape, markers) if markers else (f"(?i:{_OPEN})", f"(?i:{_CLOSE})")
    name_of = (lambda marker: "") if markers else _name_of
    found = _walk(text, opening, closing, name_of, opened, texts)
    if found.unfinished:
        # A model may open once more what its template opened.
        again = re.match(rf"\s*(?:{opening})" + ("" if opened else rf"\s*(?={opening})"), text)
        if again:
            start = again.end()
            moved = [(begin - start, end - start) for begin, end in texts]
            return _walk(text[start:], opening, closing, name_of, opened, moved)
    return found


def _walk(
    text: str,
    opening: str,
    closing: str,
    name_of: Callable[[str], str],
    opened: bool,
    texts: Sequence[tuple[int, int]],
) -> Split:
    flags = re.M | re.S
    outside = re.compile(rf"{_FENCE}|(?P<open>{opening})|(?P<close>{closing})", flags)
    inside = re.compile(rf"(?P<close>{closing})|(?P<open>{opening})", flags)
    quoted = [*texts, *(match.span() for match in _CODE.finditer(text))]
    quoted.sort()
    answers: list[str] = []
    thoughts: list[str] = []
    depth, name = int(opened), None
    at = place = upto = 0  # of the part under way, of the search, of the quotations passed
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
                answers.append(text[at : match.start()])
                at, name = match.end(), kind
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
        thoughts.append(text[at : match.start()])
        at, depth, name = match.end(), 0, None
    if depth:
        thoughts.append(text[at:])
        return Split("", _joined(thoughts), unfinished=True)
    if not thoughts:
        return Split(text, None)
    answer = ""
    for part in (*answers, text[at:]):
        answer = answer.rstrip() + part
    return Split(answer.lstrip(), _joined(thoughts))


def _between_quotes(text: str, match: re.Match[str]) -> bool:
    before = text[match.start() - 1 : match.start()]
    return before in _QUOTES and text[match.end() : match.end() + 1] == _QUOTES[before]


def _name_of(marker: str) -> str:
    found = re.search(r"(?:(?:begin|start|end)_of_)?(\w+)", marker.lower())
    return found[1] if found else ""


def _joined(thoughts: Sequence[str]) -> str:
    return "\n\n".join(filter(None, (thought.strip() for thought in thoughts)))


def _of_channels(text: str) -> Split:
    answer, thoughts = None, []
    for match in _CHANNEL.finditer(text):
        end = _CHANNEL_END.search(text, match.end())
        part = text[match.end() : end.start() if end else len(text)]
        if match[1] == "final":
            answer = (answer or "") + part
        else:
            thoughts.append(part)
    return Split(answer or "", _joined(thoughts) if thoughts else None, unfinished=answer is None)


def answer_start(text: str) -> tuple[int, bool]:
    """Where the answer starts after any thinking text, and whether the thinking
    never ends.
    """
    start = 0
    for close in _THINK_CLOSE.finditer(text):
        if not _between_quotes(text, close):
            start = close.end()
    still_open = _THINK_OPEN.search(text, start)
    # Later in an answer a tag is more likely text about tags than thinking.
    if still_open and not text[start : still_open.start()].strip():
        return len(text), True
    return start, False
