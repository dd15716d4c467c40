"""Texts made safe for a terminal and a spreadsheet, and folded for the search for strings."""

from __future__ import annotations

import io
import json
import string
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO


def printable(text: object, keep: str = "") -> str:
    """A text with every character visible, but for those in ``keep``.

    What moves a cursor, sets a colour, turns the direction of writing or is half a
    character is shown as its escape (``\\x1b``)."""
    shown = ""
    for char in str(text):
        if char not in keep and not char.isprintable():
            char = char.encode("unicode_escape", "surrogatepass").decode("ascii")
        shown += char
    return shown


def say(*values: object, file: TextIO | None = None, flush: bool = False) -> None:
    """Prints as ``print`` does, with nothing in it that a terminal would obey.

    Everything that this package prints goes through here or through a table of Rich's."""
    text = printable(" ".join(map(str, values)), keep="\n\t")
    print(text, file=file, flush=flush)


def print_any_text() -> None:
    """Lets characters that the encoding of a terminal or a pipe lacks be printed as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def text_columns(rows: Sequence[Sequence[str]], columns: int) -> list[bool]:
    """Whether each column of a table holds text (left) and not numbers (right): most of
    its cells that are not empty start with neither a digit nor a sign."""
    are_text = []
    for column in range(columns):
        cells = [row[column] for row in rows if row[column] not in ("", "—")]
        numbers = sum(cell[0].isdigit() or cell[0] in "+-−.$<[" for cell in cells)
        are_text.append(2 * numbers < len(cells))
    return are_text


def json_text(value: Any) -> str:
    """A value as JSON for people: indented, with sorted keys; invisible characters are escapes."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    return "".join(
        char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text
    )


def csv_cell(value: object) -> object:
    """A value as a cell of CSV. In a text every character shows (``<U+000D>``) but for
    line ends, and no spreadsheet runs it."""
    if not isinstance(value, str):
        return value
    shown = ""
    for char in value:
        shown += char if char == "\n" or char.isprintable() else f"<U+{ord(char):04X}>"
    return _no_formula(shown)


def starts_formula(text: str) -> bool:
    """Whether a spreadsheet may take a cell with this text for a formula: it starts with
    ``=``, ``+``, ``-`` or ``@``, or a full-width or small form of these."""
    first = text.lstrip()[:1]
    return unicodedata.normalize("NFKC", first).startswith(("=", "+", "-", "@"))


def _no_formula(text: str) -> str:
    return f'"{text}"' if starts_formula(text) else text


# One character for one, so that offsets stay.
QUOTES = str.maketrans("‘’‚‛´′“”„‟″«»＂＇", '\'\'\'\'\'\'""""""""\'')
_INVISIBLE = frozenset("\u00ad\u200b\u2060\ufe0e\ufe0f\ufeff")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text as it is compared, with a space at each end, and the place of each character in the
    original. ``cuts``: the indices before which deleted punctuation separated two words."""

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
    return Folded(text="".join(chars), starts=starts, ends=ends, cuts=frozenset(cuts))


def core(folded: str, *, exact_matching: bool) -> str:
    """A folded text without what no search looks at: spaces at its ends, and quotes there
    where the whole answer is compared."""
    return folded.strip(" \"'`" if exact_matching else " ")
