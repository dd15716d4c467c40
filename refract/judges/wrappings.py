"""An answer without what is wrapped around its words: a JSON object, a code fence, quotes, letters of
another alphabet that look alike.

A judge reads the words. Whoever asks for JSON, or has an answer shown in a code block, changes none of
them, and no verdict should hang on it.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from refract.core.thinking import answer_spans

# Layers that are taken off, one around another.
MOST_LAYERS = 6
# A longer answer is no value in JSON, but a document.
MOST_JSON = 200_000
_NAME = r"(?:final[_ ]?)?(?:answer|response|reply|output|result)"
# Words that head an answer and belong to no sentence of it.
_HEADING = re.compile(
    rf"\s*[*_`\"'>\s-]{{0,6}}(?:assistant|ai|bot|a|(?:here is )?(?:my |the )?{_NAME})"
    r"[ \t]{0,2}(?:\*{1,2}|_{1,2})?[ \t]{0,2}[:：][ \t]{0,2}(?:\*{1,2}|_{1,2})?\s*"
    rf"|\s*#{{1,6}}[ \t]+{_NAME}[ \t]*[:：]?[ \t]*\n\s*",
    re.IGNORECASE,
)
# What stands before a text that is a fence, an element of XML or a key of YAML, and what may stand
# behind it; nothing here looks for its end character by character, which would take quadratic time.
_AROUND: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"(?P<mark>```|~~~)[^\n`]{0,30}\n"), ("{mark}",)),
    (
        re.compile(
            r"(?:<\?xml[^>]{0,80}\?>\s*)?<(?P<mark>[A-Za-z_][\w.-]{0,40})(?:\s[^<>]{0,200})?>"
        ),
        ("</{mark}>",),
    ),
    (re.compile(r"<!\[CDATA\["), ("]]>",)),
    (re.compile(r"\$?\$?\\(?:boxed|text|textbf)\{"), ("}", "}$", "}$$")),
    (
        re.compile(
            rf"(?:---[ \t]*\n)?[ \t]*(?:{_NAME}|text|content|message|completion|assistant)"
            r"[ \t]*:[ \t]*(?:[|>][+-]?\d?[ \t]*\n)?",
            re.IGNORECASE,
        ),
        ("\n---", "\n...", ""),
    ),
)
_QUOTES = (
    ('"""', '"""'), ("'''", "'''"), ('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"), ("„", "“"),
    ("«", "»"), ("「", "」"), ("`", "`"), ("**", "**"), ("__", "__"), ("*", "*"), ("_", "_"), ("(", ")"),
)  # fmt: skip
_QUOTATION = re.compile('["“”„«»「」]')
_JSON_TEXT = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"(?P<key>\s*:)?', re.DOTALL)
# Of JSON and of HTML.
_ESCAPE = re.compile(
    r"\\u([0-9a-fA-F]{4})|\\([nrt\"'/\\])|&(?:#\d{2,7}|#x[0-9a-fA-F]{2,6}|amp|lt|gt|quot|apos|nbsp|[lr][sd]quo);"
)
_BLANKS = {"n": "\n", "r": "\n", "t": " "}
# At a line's beginning: a quotation.
_LINE_MARK = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
# Not seen on a screen.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
# Marks that make one letter with what stands before them.
_MARK = re.compile("[\u0300-\u036f\u1161-\u11ff\u3099\u309a]")
# Eight or more characters with blanks between, and with wider ones between words; or with one
# and the same mark behind each.
_APART = re.compile(r"(?<!\S)\S(?:[ \u00a0]{1,3}\S(?!\S)){7,}")
_MARKED = re.compile(
    r"(?:[^.\n](?=\.)\.){7,}[^.\n]|(?:[^-\n]-){7,}[^-\n]|(?:[^_\n]_){7,}[^_\n]|(?:[^·\n]·){7,}[^·\n]"
)
# Bold, circled and other letters; full-width ones with the marks beside them.
_STYLED = re.compile(
    "[\u2100-\u214f\u2460-\u24ff\U0001d400-\U0001d7ff\U0001f100-\U0001f1ff]"
    "|[\uff01-\uff5e]{0,40}[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a][\uff01-\uff5e]*"
)
_WORD = re.compile(r"[^\W\d_]+")
# Letters of other alphabets that look like Latin ones, by the Latin letter.
_LOOK_ALIKE = {
    "a": "аɑα", "b": "Ьƅ", "c": "сϲᴄ", "d": "ԁ", "e": "еҽ", "f": "ſ", "g": "ɡ", "h": "һ", "i": "іɪι",
    "j": "ј", "k": "κк", "l": "ӏⅼ", "m": "м", "n": "п", "o": "оοᴏօ", "p": "рρ", "q": "ԛ", "r": "г",
    "s": "ѕꜱ", "t": "т", "u": "υս", "v": "νѵᴠ", "w": "ѡԝᴡ", "x": "хχ", "y": "уү", "z": "ᴢ",
    "A": "АΑ", "B": "ВΒ", "C": "СϹ", "D": "Ꭰ", "E": "ЕΕ", "F": "Ϝ", "G": "Ԍ", "H": "НΗ", "I": "ІΙӀ",
    "J": "Ј", "K": "КΚ", "L": "Ꮮ", "M": "МΜ", "N": "Ν", "O": "ОΟ", "P": "РΡ", "Q": "Ԛ", "R": "Ꭱ",
    "S": "Ѕ", "T": "ТΤ", "V": "Ѵ", "W": "Ԝ", "X": "ХΧ", "Y": "УΥҮ", "Z": "Ζ",
}  # fmt: skip
_LATIN = {ord(other): latin for latin, others in _LOOK_ALIKE.items() for other in others}
# Texts, each with its place.
Pieces = Iterable[tuple[str, int]]


@dataclass(frozen=True)
class Words:
    """The words of an answer, and for each character of ``text`` its place in the answer."""

    text: str
    places: Sequence[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where in the answer the characters from ``start`` to ``end`` stand."""
        if start >= end:
            place = self.places[start] if start < len(self.places) else 0
            return place, place
        return self.places[start], self.places[end - 1] + 1

    def evidence(self, answer: str, rule: str, start: int, end: int) -> dict[str, Any]:
        """What a rule found at a place of the words, by its place in the answer."""
        start, end = self.span(start, end)
        while _MARK.match(answer, end):  # of the last letter
            end += 1
        return {"rule": rule, "start": start, "end": end, "text": answer[start:end]}

    def inside(self, spans: Sequence[tuple[int, int]]) -> Words:
        """What stands in some spans, a line end between two."""
        text = "\n".join(self.text[start:end] for start, end in spans)
        places: list[int] = []
        for start, end in spans:
            places += [*([self.places[start]] if places else []), *self.places[start:end]]
        return Words(text, places)

    def replaced(
        self, pattern: re.Pattern[str], meant: Callable[[re.Match[str]], Pieces | None]
    ) -> Words:
        """With other texts for what a pattern finds, by the places in the words for which each of
        them stands; None leaves what was found."""
        parts: list[str] = []
        places: list[int] = []
        at = 0
        for match in pattern.finditer(self.text):
            pieces = meant(match)
            if pieces is None:
                continue
            parts.append(self.text[at : match.start()])
            places += self.places[at : match.start()]
            for piece, place in pieces:
                parts.append(piece)
                places += [self.places[place]] * len(piece)
            at = match.end()
        return (
            Words("".join([*parts, self.text[at:]]), [*places, *self.places[at:]]) if at else self
        )


def words_of(answer: str, prompt: str = "") -> Words:
    """The words of an answer, without its thinking (unless that is all) and what is wrapped around
    them. Who is asked with quotation marks ('Translate "No."') may answer with a quotation, which
    stays one."""
    words = Words(answer, range(len(answer)))
    spans = answer_spans(answer)
    if not spans:
        return words if spans is None else Words("", ())
    quotes = not _QUOTATION.search(prompt)
    return _unwrapped(words, quotes)


def _composed(words: Words) -> Words:
    """With each letter and the marks behind it as one character, where there is one."""
    if unicodedata.is_normalized("NFC", words.text):
        return words
    chars: list[str] = []
    places: list[int] = []
    for char, place in zip(words.text, words.places, strict=True):
        both = unicodedata.normalize("NFC", chars[-1] + char) if chars else ""
        if len(both) == 1:
            chars[-1] = both
        else:
            chars.append(char)
            places.append(place)
    return Words("".join(chars), places)


def _unwrapped(words: Words, quotes: bool) -> Words:
    """Taken off: thinking, JSON, YAML and XML around texts, a code fence, quotes (where ``quotes``),
    bold and brackets around the whole, a heading such as "Final answer:", marks of a quotation at the
    beginning of every line, characters that nobody sees. Letters that are set apart are joined, and
    letters of other styles and alphabets that stand in Latin words become Latin ones."""
    if not words.text.isascii():
        words = _composed(words.replaced(_UNSEEN, lambda match: ()))
    of_quotes = (_json_string, _inside_quotes) if quotes else ()
    for _ in range(MOST_LAYERS):
        for layer in (_behind_thinking, _texts_of_json, _inside, *of_quotes, _behind_heading):
            spans = layer(words.text)
            if spans:
                break
        else:
            break
        words = words.inside(spans)
        if layer in (_texts_of_json, _json_string):
            words = words.replaced(_ESCAPE, _decoded)
    words = words.replaced(_ESCAPE, _decoded)
    lines = [line for line in words.text.split("\n") if line.strip()]
    if all(map(_LINE_MARK.match, lines)):
        words = words.replaced(_LINE_MARK, lambda match: ())
    if not words.text.isascii():
        words = _in_latin(words.replaced(_STYLED, _plain))
    words = words.replaced(_APART, _joined)
    return words.replaced(_MARKED, lambda match: _letters(match, range(*match.span(), 2)))


def _behind_thinking(text: str) -> list[tuple[int, int]]:
    spans = answer_spans(text) or []
    return [] if spans == [(0, len(text))] else spans


def _in_json(text: str, start: str) -> bool:
    """Whether a text is a value in JSON that starts so."""
    stripped = text.strip()
    if not stripped.startswith(tuple(start)) or len(stripped) > MOST_JSON:
        return False
    try:
        json.loads(stripped, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _json_string(text: str) -> list[tuple[int, int]]:
    return [(text.index('"') + 1, text.rindex('"'))] if _in_json(text, '"') else []


def _texts_of_json(text: str) -> list[tuple[int, int]]:
    """Where the texts of a JSON object or list stand that is the whole text; nowhere where it is
    none."""
    if not _in_json(text, "{["):
        return []
    spans = []
    for match in _JSON_TEXT.finditer(text):
        # A single word is a name such as ``assistant`` or ``stop``.
        prose = re.search(r"\S(?:\s|\\[nrt])+\S|[.!?。！？]\s*$", match["text"])
        if prose and not match["key"]:
            spans.append(match.span("text"))
    return spans


def _inside(text: str) -> list[tuple[int, int]]:
    """Where the text stands inside a fence, an element of XML, or a key of YAML."""
    stripped = text.strip()
    first = text.find(stripped)
    for before, behind in _AROUND:
        match = before.match(stripped)
        if not match:
            continue
        for ending in behind:
            ending = ending.replace("{mark}", match.groupdict().get("mark") or "")
            end = len(stripped) - len(ending)
            if stripped.endswith(ending) and stripped[match.end() : end].strip():
                return [(first + match.end(), first + end)]
    return []


def _inside_quotes(text: str) -> list[tuple[int, int]]:
    """Where the text stands between quotes or marks that are around all of it and nowhere in it."""
    stripped = text.strip()
    for opening, closing in _QUOTES:
        between = stripped[len(opening) : -len(closing)]
        if not (between.strip() and stripped == opening + between + closing):
            continue
        apostrophes = r"(?<!\w)['’]|['’](?!\w)" if closing in "'’" else re.escape(closing)
        if re.search(apostrophes, between) or (opening != closing and opening in between):
            continue
        start = text.index(opening) + len(opening)
        return [(start, start + len(between))]
    return []


def _behind_heading(text: str) -> list[tuple[int, int]]:
    match = _HEADING.match(text)
    return [(match.end(), len(text))] if match and text[match.end() :].strip() else []


def _decoded(match: re.Match[str]) -> Pieces:
    """The character that an escape stands for."""
    code, letter = match.groups()
    if letter:
        meant = _BLANKS.get(letter, letter)
    elif code:
        meant = chr(int(code, 16)) if not 0xD800 <= int(code, 16) < 0xE000 else " "
    else:
        meant = html.unescape(match[0])
    return [(meant, match.start())]


def _plain(match: re.Match[str]) -> Pieces:
    """Bold, circled or full-width letters as plain ones."""
    return [
        (unicodedata.normalize("NFKC", letter), match.start() + n)
        for n, letter in enumerate(match[0])
    ]


def _in_latin(words: Words) -> Words:
    """Look-alikes as Latin letters in words that have Latin letters too, and in all words of a text
    that has many such: whole words of look-alikes ("сору") stand among mixed ones, and Russian has
    none."""
    if _LATIN.keys().isdisjoint(map(ord, set(words.text))):
        return words
    texts = _WORD.findall(words.text)
    mixed = sum(map(_is_mixed, texts))
    if not mixed:
        return words
    many = 10 * mixed >= len(texts)

    def latin(match: re.Match[str]) -> Pieces | None:
        if not (many or _is_mixed(match[0])):
            return None
        return zip(match[0].translate(_LATIN), range(*match.span()), strict=True)

    return words.replaced(_WORD, latin)


def _is_mixed(word: str) -> bool:
    """Whether a word has Latin letters and look-alikes of them."""
    return min(word) < "\u0250" and any(ord(character) in _LATIN for character in word)


def _joined(match: re.Match[str]) -> Pieces | None:
    """Letters set apart ("I  c a n n o t"), one blank for each gap between words."""
    text, (start, end) = match.string, match.span()
    kept = []
    for index in range(start, end):
        blank = text[index] in " \u00a0"
        if not blank or (text[index - 1] in " \u00a0" and text[index + 1] not in " \u00a0"):
            kept.append(index)
    return _letters(match, kept)


def _letters(match: re.Match[str], kept: Sequence[int]) -> Pieces | None:
    """Some characters of what was found, if most are letters."""
    characters = [(match.string[index], index) for index in kept]
    letters = sum(character.isalpha() for character, _ in characters)
    return characters if 2 * letters > len(kept) else None
