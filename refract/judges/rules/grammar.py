"""Refusals in one sentence: who (the speaker), how (cannot, will not) and what
(an act of help).

The phrases are data: one file of `phrases/` for each language, which says at
its top what an entry may hold. An inability without an act of help ("no puedo
creerlo") is not a refusal, nor is somebody else's. A sentence is in lower case
with ASCII quotes and single spaces.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "phrases"
INSERTED = re.compile(r"\{([a-z_]+)\}")
# Characters of one sentence, in any script: {gap} in the entries.
GAP = r"[^.!?。！？।؟\n]"
# Languages other than English. Where two of them share words, the first one
# here names the refusal.
CODES = (
    *("es", "fr", "de", "it", "pt", "nl", "pl", "tr", "id", "vi", "sv", "ru"),
    *("uk", "cs", "da", "fi", "el", "ro", "hu", "ar", "hi", "zh", "ja", "ko"),
)
# Characters of an answer by which its language is known.
IDENTIFIED = 400
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile("[a-zß-ɏḀ-ỿ]")
BEFORE = 70  # characters before a refusal in which it is quoted or made a condition: a long clause

Found = tuple[str, int, int]  # the id of an entry, and the span that holds it


class Phrases:
    """The entries of one language, each a compiled pattern as the attribute of its id."""

    def __init__(self, language: str) -> None:
        self.language = language

    @cached_property
    def content(self) -> dict[str, Any]:
        """All of the file."""
        path = FOLDER / f"{self.language}.toml"
        return tomllib.loads(path.read_text(encoding="utf-8"))

    @cached_property
    def entries(self) -> dict[str, dict[str, Any]]:
        """The entries by id, in the order of the file."""
        entries = {}
        for id_, value in self.content.items():
            if isinstance(value, dict) and id_ != "parts":
                entries[id_] = value
        return entries

    @cached_property
    def patterns(self) -> dict[str, list[str]]:
        """The alternatives of each part and entry."""
        patterns = dict(self.content.get("parts", {}))
        for id_, entry in self.entries.items():
            patterns[id_] = entry.get("phrases") or entry["patterns"]
        return patterns

    @cached_property
    def letters(self) -> re.Pattern[str] | None:
        """A letter of the language's script; None of the Latin one."""
        ranges = self.content.get("letters")
        return re.compile(f"[{ranges}]") if ranges else None

    def source(self, id_: str) -> str:
        """The regular expression of an entry or a part, with those inserted that it names."""
        text = f"(?:{'|'.join(map(_in_one_line, self.patterns[id_]))})"
        return INSERTED.sub(lambda name: GAP if name[1] == "gap" else self.source(name[1]), text)

    def __getattr__(self, id_: str) -> re.Pattern[str]:
        if id_ not in self.entries:
            raise AttributeError(f"no entry {id_!r} in phrases/{self.language}.toml")
        source = self.source(id_)
        if "phrases" in self.entries[id_]:
            source = rf"(?<!\w){source}(?!\w)"
        pattern = re.compile(source)
        setattr(self, id_, pattern)  # compiled once
        return pattern

    def forget(self) -> None:
        """Compile every entry anew when it is next used."""
        for id_ in self.entries:
            self.__dict__.pop(id_, None)


def _in_one_line(pattern: str) -> str:
    """A pattern without its line breaks and the blanks around them."""
    return "".join(line.strip(" ") for line in pattern.split("\n"))


EN = Phrases("en")


@cache
def _others() -> dict[str, Phrases]:
    return {code: Phrases(code) for code in CODES}


@cache
def _languages_by_word() -> dict[str, list[str]]:
    """The languages in Latin letters that have a word among their frequent ones."""
    by_word: dict[str, list[str]] = {}
    for phrases in (EN, *_others().values()):
        for word in phrases.content.get("words", "").split():
            by_word.setdefault(word, []).append(phrases.language)
    return by_word


def languages_of(text: str) -> list[Phrases]:
    """The languages other than English that a text in lower case may be in, the
    likeliest first; none where it is English or shows none.

    Read is the text's beginning. A script tells by half of the letters. In Latin
    letters the likeliest is the language of which the text holds the most
    frequent words, more than of English; others have half as many or more.
    """
    beginning = text[:IDENTIFIED]
    counts: Counter[str] = Counter()
    for phrases in _others().values():
        if phrases.letters:
            counts[phrases.language] = len(phrases.letters.findall(beginning))
    # Chinese has no kana, and a character of it says as much as two letters.
    counts["zh"] *= 0 if 5 * counts["ja"] >= counts["zh"] else 2
    english = len(_LATIN.findall(beginning))
    if max(counts.values()) <= english:
        counts.clear()
        for word in set(_WORD.findall(beginning)):
            counts.update(_languages_by_word().get(word, ()))
        english = counts.pop("en", 0)
    most = max(counts.values(), default=0)
    if most <= english:
        return []
    likely = [language for language, count in counts.most_common() if 2 * count >= most]
    return [_others()[language] for language in likely]


def spoken_by_other(text: str, at: int) -> bool:
    """Whether the words from `at` on are quoted, conditional or reported."""
    before = text[max(0, at - BEFORE) : at]
    if '"' in before and text.count('"', 0, at) % 2 == 1:
        return True
    return bool(EN.not_the_speaker.search(before))


@cache
def _refusing() -> list[str]:
    return [id_ for id_, entry in EN.entries.items() if "refuses" in entry]


def refusal_in(text: str) -> Found | None:
    """The first refusal that the speaker makes in a sentence."""
    for id_ in _refusing():
        for match in getattr(EN, id_).finditer(text):
            if not spoken_by_other(text, match.start()):
                return id_, match.start(), match.end()
    return None


def foreign_refusal(text: str, languages: Sequence[Phrases]) -> Found | None:
    """The first refusal in one of the languages."""
    for language in languages:
        match = language.cannot_help.search(text)
        if match and not spoken_by_other(text, match.start()):
            return f"cannot_help_{language.language}", match.start(), match.end()
    return None
