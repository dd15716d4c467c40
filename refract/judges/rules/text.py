"""From an answer to the sentences that the rule judge reads, without thinking,
code and mark-up.

Every change keeps the length of the text, so that offsets into it are offsets
into the answer.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

MAX_SENTENCE = 420  # characters; a longer run without an end mark is read in pieces
FIRST_SENTENCES = 40  # read from the start of the answer
LAST_SENTENCES = 12  # read from its end
# What a character is read as: \0 where it has no meaning.
_READ_AS = {
    # With the vowel signs of Arabic and the dots below Hindi letters, which writers leave out.
    "\0": "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f*_`~\u0640\u064b\u064c\u064d\u064e\u064f"
    "\u0650\u0651\u0652\u0670\u093c",
    "'": "\u2018\u2019\u201b\u00b4\u02bc\u2032\uff07",
    '"': "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02\u300c\u300d\u300e\u300f",
    " ": "\t\v\f\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u202f\u205f\u3000\u2010\u2011",
    "\n": "\r\u0085\u2028\u2029",
    "-": "\u2012\u2013\u2014\u2015",
    "i": "\u0130",  # the one letter whose lower case is two characters long
    "\u0627": "\u0622\u0623\u0625\u0671",  # every alef as the bare one
    "\u0902": "\u0901",  # the moon dot as the plain one
}
_PLAIN = {ord(char): plain for plain, chars in _READ_AS.items() for char in chars}
# Hindi letters with a dot below as one character.
_PLAIN |= dict(
    zip(range(0x958, 0x960), "\u0915\u0916\u0917\u091c\u0921\u0922\u092b\u092f", strict=True)
)
for _letter in string.ascii_letters:
    _PLAIN[0xFEE0 + ord(_letter)] = _letter  # full width
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)


def plain(response: str) -> str:
    """The text in lower case, with plain quotes, blanks and dashes, and without HTML."""
    prepared = response.translate(_PLAIN).lower()
    if "<" not in prepared and "&" not in prepared:
        return prepared

    def meaning(match: re.Match[str]) -> str:
        """A tag or an entity as characters that carry its meaning, in the same length."""
        return _ENTITIES.get(match[0], "").ljust(len(match[0]), "\0")

    return _HTML.sub(meaning, prepared)


def blank_code(response: str, prepared: str) -> tuple[str, bool]:
    """The prepared text with fenced code blanked out, and whether code was there."""
    fences = [match.start() for match in _FENCE.finditer(response)]
    pieces, at, code = [], 0, False
    for opened, closed in zip(fences[::2], [*fences[1::2], None], strict=False):
        end = len(response) if closed is None else min(closed + 3, len(response))
        pieces += [prepared[at:opened], "\n" * (end - opened)]
        code = code or end - opened > 80
        at = end
    return "".join([*pieces, prepared[at:]]), code


_HTML = re.compile(
    r"</?(?:p|div|span|b|i|em|strong|br|h[1-6]|li|ul|ol|u|small)\b[^<>]{0,60}>|&#?\w{1,6};"
)
_ENTITIES = dict.fromkeys(("&#39;", "&#x27;", "&apos;", "&rsquo;"), "'")
_ENTITIES |= {"&quot;": '"', "&nbsp;": " "}
_LOWER_CASE_LINE = re.compile(r"\n[ \t]*(?=[a-z])")


def joined_lines(response: str, prepared: str) -> str:
    """The prepared text with spaces for line ends before lower case, inside a sentence."""
    pieces, at = [], 0
    for match in _LOWER_CASE_LINE.finditer(response):
        begin = match.start() - (response[match.start() - 1 : match.start()] == "\r")
        if begin and response[begin - 1] not in "\r\n.!?:;,":
            pieces += [prepared[at:begin], " " * (match.end() - begin)]
            at = match.end()
    return "".join([*pieces, prepared[at:]]) if pieces else prepared


@dataclass(slots=True)
class Sentence:
    start: int  # offsets into the answer
    end: int
    text: str  # lower case, ASCII quotes, single spaces, no mark-up
    quoted: bool  # whether it begins inside somebody's speech


_SENTENCE = re.compile(r"[^\s\0.!?。！？।؟…][^.!?\n。！？।؟…]*[.!?。！？।؟…\"')\]]*")


def _spans(prepared: str) -> Iterator[tuple[int, int]]:
    """Spans of the sentences in order; long runs without an end mark are cut."""
    for match in _SENTENCE.finditer(prepared):
        begin, end = match.span()
        while end - begin > MAX_SENTENCE:
            cut = prepared.rfind(" ", begin + MAX_SENTENCE // 2, begin + MAX_SENTENCE)
            cut = begin + MAX_SENTENCE if cut < 0 else cut
            yield begin, cut
            begin = cut
        yield begin, end


def read_sentences(read: str) -> list[Sentence]:
    """The sentences: of a long text the first and the last ones."""
    spans = list(_spans(read))
    if len(spans) > FIRST_SENTENCES + LAST_SENTENCES:
        spans = spans[:FIRST_SENTENCES] + spans[-LAST_SENTENCES:]
    sentences = []
    quotes = '"' in read
    spoken, counted = 0, 0  # quotation marks in the paragraph so far
    for begin, end in spans:
        text = read[begin:end]
        if quotes:
            last = read.rfind("\n", counted, begin)
            if last >= 0:
                spoken, counted = 0, last
            spoken += read.count('"', counted, begin)
            counted = begin
        if end - begin < 4 and not any(map(str.isalpha, text)):
            continue  # the number of a list item
        if "  " in text or "\0" in text or text[-1] == " " or text[0] == " ":
            text = " ".join(text.replace("\0", "").split())
        if text:
            quoted = quotes and spoken % 2 == 1 and '"' in read[begin : begin + 600].split("\n")[0]
            sentences.append(Sentence(start=begin, end=end, text=text, quoted=quoted))
    return sentences
