"""Texts as the search for expected strings compares them: what nobody sees does not decide."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

# One character for one, so that offsets stay.
QUOTES = str.maketrans("‘’‚‛´′“”„‟″«»＂＇", '\'\'\'\'\'\'""""""""\'')
_INVISIBLE = frozenset("\u00ad\u200b\u2060\ufe0e\ufe0f\ufeff")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text as it is compared, one space at each end, with each character's place in the original.

    ``cuts`` holds the indices before which deleted punctuation separated two words.
    """

    text: str
    starts: list[int]
    ends: list[int]
    cuts: frozenset[int]


def _is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char).startswith("P")


def _segments(text: str) -> Iterator[tuple[int, int]]:
    """Each character with the combining marks that belong to it, as (start, end)."""
    start = 0
    for index in range(1, len(text) + 1):
        if index == len(text) or not unicodedata.combining(text[index]):
            yield start, index
            start = index


def fold(text: str, *, case_sensitive: bool, punctuation_sensitive: bool) -> Folded:
    """A text as it is compared."""
    chars = [" "]
    starts = [0]
    ends = [0]
    cuts = set()

    def add(char: str, start: int, end: int) -> None:
        if char == " " and chars[-1] == " ":
            ends[-1] = end
            return
        chars.append(char)
        starts.append(start)
        ends.append(end)

    for start, end in _segments(text):
        if text[start].isspace():
            add(" ", start, end)
            continue
        for char in unicodedata.normalize("NFC", text[start:end]).translate(QUOTES):
            if char in _INVISIBLE:
                continue
            if not punctuation_sensitive and _is_punctuation(char):
                if char != "'":
                    cuts.add(len(chars))
                continue
            for folded in char if case_sensitive else char.casefold():
                add(folded, start, end)
    add(" ", len(text), len(text))
    return Folded("".join(chars), starts, ends, frozenset(cuts))


def core(folded: str, *, exact_matching: bool) -> str:
    """A folded text without its edges that no search looks at: spaces, and quotes where the whole
    answer is compared."""
    return folded.strip(" \"'`" if exact_matching else " ")
