"""Refusals in one sentence: who (the speaker), how (cannot, will not, decline) and what (an act).

The phrases are data: one file of `phrases/` for each language, compiled when first used, which says
at its top what an entry may hold. English has a small grammar around them. In the other languages
the first person, a negated "can" or "will" (or a verb of declining) and an act of help stand in one
entry: an inability without an act of help ("no puedo creerlo") is not a refusal, nor is somebody else's.

A sentence is in lower case with ASCII quotes and single spaces.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache, cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "phrases"
INSERTED = re.compile(r"\{([a-z_]+)\}")
# Characters of one sentence, in any script: {gap} in the entries.
GAP = r"[^.!?。！？।؟\n]"
# Languages other than English. Where two of them share words, the first one here names the refusal.
CODES = (
    *("es", "fr", "de", "it", "pt", "nl", "pl", "tr", "id", "vi", "sv", "ru"),
    *("uk", "cs", "da", "fi", "el", "ro", "hu", "ar", "hi", "zh", "ja", "ko"),
)
BEFORE = 70  # characters before a refusal in which it is quoted or made a condition: a long clause
_JOINED = re.compile(r"(?:and|but|so|therefore|thus)\b")

Found = tuple[str, int, int]  # the id of an entry, and the span that holds it


class Phrases:
    """The entries of one language. Each is an attribute named by its id: a compiled pattern."""

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
        return {id_: entry for id_, entry in self.content.items() if isinstance(entry, dict)}

    @cached_property
    def cues(self) -> frozenset[str]:
        """Words of which a refusal holds one; parts of the text in a language without spaces."""
        return frozenset(self.content["cues"].split())

    @cached_property
    def without_spaces(self) -> bool:
        return not self.content.get("spaces", True)

    @cached_property
    def refusal(self) -> re.Pattern[str]:
        """Any of its refusals."""
        refusing = [id_ for id_, entry in self.entries.items() if "refuses" in entry]
        return re.compile("|".join(map(self.source, refusing)))

    def source(self, id_: str) -> str:
        """The regular expression of an entry, with the others inserted that it names."""
        entry = self.entries[id_]
        patterns = entry.get("phrases") or entry.get("patterns") or [entry["pattern"]]
        text = "|".join(map(_in_one_line, patterns))
        if "pattern" not in entry:
            text = f"(?:{text})"
        return INSERTED.sub(lambda name: GAP if name[1] == "gap" else self.source(name[1]), text)

    def __getattr__(self, id_: str) -> re.Pattern[str]:
        if id_ not in self.entries:
            raise AttributeError(f"no entry {id_!r} in phrases/{self.language}.toml")
        source = self.source(id_)
        if "phrases" in self.entries[id_]:
            source = rf"(?<!\w){source}(?!\w)"
        pattern = re.compile(source)
        setattr(self, id_, pattern)  # found without this function from now on
        return pattern


def _in_one_line(pattern: str) -> str:
    """A pattern without its line breaks and the blanks around them."""
    return "".join(line.strip(" ") for line in pattern.split("\n"))


EN = Phrases("en")


@cache
def _others() -> list[Phrases]:
    return [Phrases(code) for code in CODES]


def languages_in(text: str, words: set[str]) -> tuple[Phrases, ...]:
    """The languages whose refusals may occur in a text, by their cues; `words` are its words."""
    wide = not text.isascii()
    return tuple(
        language
        for language in _others()
        if not language.cues.isdisjoint(words)
        or (wide and language.without_spaces and any(cue in text for cue in language.cues))
    )


def spoken_by_other(text: str, at: int) -> bool:
    """Whether the words from `at` on are quoted, conditional, reported, or a denied refusal."""
    before = text[max(0, at - BEFORE) : at]
    if '"' in before and text.count('"', 0, at) % 2 == 1:
        return True
    return bool(EN.not_the_speaker.search(before)) and not EN.speaker_says.search(before)


def withholds(match: re.Match[str]) -> bool:
    """Whether "I cannot" goes on with an act that is withheld, rather than with a plain limit."""
    text, start = match.string, match.start("verb")
    if EN.inability.match(text, start):
        return False
    if match[0].startswith("we ") and not EN.concerns_asker.search(text, start):
        return False  # the author's "we" of a proof or a report
    passive = match[0].endswith(f" be {match['verb']}")  # or "cannot be certain"
    return not passive or match["verb"].endswith(("ing", "part", "used", "involved", "of"))


@cache
def _refusing() -> list[tuple[str, bool]]:
    """The entries that refuse by themselves, and whether they need no speaker."""
    return [(i, "no_speaker" in e) for i, e in EN.entries.items() if "refuses" in e]


def refusal_in(text: str) -> Found | None:
    """The first refusal that the speaker makes in a sentence."""
    spoken = EN.names_speaker.search(text)
    for id_, no_speaker in _refusing():
        if spoken or no_speaker:
            for match in getattr(EN, id_).finditer(text):
                if not _taken_back(id_, match) and not spoken_by_other(text, match.start()):
                    return id_, match.start(), match.end()
    return None


def _taken_back(id_: str, match: re.Match[str]) -> bool:
    """Whether one of the exceptions of an entry stands at the verb of a match, or behind it."""
    entry = EN.entries[id_]
    text, start = match.string, match.start()
    if (
        id_ in ("cannot_help", "declines", "not_capable")
        and _JOINED.match(text, start)
        and not EN.apologises.search(text, 0, start)
    ):
        return True  # "and must decline" is said of another
    if id_ == "cannot_help" and not withholds(match):
        return True
    named = match.groupdict().get("verb")
    after = match.start("verb") if named else match.end()
    after += text[after : after + 1] == " "
    return any(getattr(EN, each).match(text, after) for each in entry.get("not_before", ()))


def foreign_refusal(text: str, languages: tuple[Phrases, ...]) -> Found | None:
    """The first refusal in one of the languages."""
    for language in languages:
        match = language.refusal.search(text)
        if match and not spoken_by_other(text, match.start()):
            return f"cannot_help_{language.language}", match.start(), match.end()
    return None
