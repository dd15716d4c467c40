"""Texts made safe for a terminal and for a spreadsheet, and folded for the search for strings."""

from __future__ import annotations

import json
import string
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TextIO


def printable(text: object, keep: str = "") -> str:
    """A text with every character visible, but for those in ``keep``.

    What moves a cursor, sets a colour, turns the direction of writing or stands alone as half a
    character is shown as its escape (``\\x1b``)."""
    return "".join(
        char
        if char in keep or char.isprintable()
        else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in str(text)
    )


def say(*values: object, end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Prints as ``print`` does, with nothing in it that a terminal would obey.

    Everything that this package prints goes through here or through a table of Rich's."""
    print(*(printable(value, keep="\n\t") for value in values), end=end, file=file, flush=flush)


def text_columns(rows: Sequence[Sequence[str]], columns: int) -> list[bool]:
    """Which columns of a table hold text (left) rather than numbers (right): those in which most cells
    that hold anything start with neither a digit nor a sign."""

    def is_text(column: int) -> bool:
        cells = [row[column] for row in rows if row[column] not in ("", "—")]
        numbers = sum(cell[0].isdigit() or cell[0] in "+-−.$<[" for cell in cells)
        return bool(cells) and 2 * numbers < len(cells)

    return [is_text(column) for column in range(columns)]


def json_text(value: Any) -> str:
    """A value as JSON for people: indented, keys sorted, characters that do not show as escapes."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    return "".join(
        char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text
    )


def csv_cell(value: object) -> object:
    """A value as a cell of CSV: of a text, every character shows, and no spreadsheet runs it.

    Line ends stay, others that do not show become ``<U+000D>``."""
    if not isinstance(value, str):
        return value
    return _no_formula(
        "".join(c if c in "\n " or c.isprintable() else f"<U+{ord(c):04X}>" for c in value)
    )


def visible(text: str) -> str:
    """A text in one line in which every character shows and runs of one that does not are counted:
    ``<U+000D x1000>``. As a cell, no spreadsheet runs it."""
    shown = []
    for char, run in groupby(text):
        count = sum(1 for _ in run)
        if char.isprintable():
            shown.append(char * count)
        else:
            shown.append(f"<U+{ord(char):04X}{f' x{count}' if count > 1 else ''}>")
    return _no_formula("".join(shown))


def starts_formula(text: str) -> bool:
    """Whether a spreadsheet may take a cell with this text for a formula: it starts with one of
    ``= + - @``, or with a full-width or small form of them."""
    first = text.lstrip()[:1]
    return unicodedata.normalize("NFKC", first).startswith(("=", "+", "-", "@"))


def _no_formula(text: str) -> str:
    return f'"{text}"' if starts_formula(text) else text


# One character for one, so that offsets stay.
QUOTES = str.maketrans("‘’‚‛´′“”„‟″«»＂＇", '\'\'\'\'\'\'""""""""\'')
_INVISIBLE = frozenset("\u00ad\u200b\u2060\ufe0e\ufe0f\ufeff")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text as it is compared, one space at each end, with each character's place in the original.

    ``cuts`` holds the indices before which deleted punctuation separated two words."""

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
