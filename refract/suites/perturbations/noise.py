"""Ordinary noise of people, keyboards, scanners and editors; and repeats.

Each function takes a text, the generator of the row's feature and the settings, and
returns the noisy text with the number of places that were changed. A text without such a
place is returned as it is."""

from __future__ import annotations

import random
import re
import unicodedata
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from refract.core.params import read_yaml
from refract.core.settings import Distinct, Number, Settings
from refract.suites.perturbations.variants import (
    Features,
    FeatureSettings,
    Noisy,
    Perturbation,
    RowKey,
    Variant,
    in_each_feature,
    pick,
)

Rate = Annotated[Number, Field(gt=0, le=1)]
T = TypeVar("T")

# Neighbours on a keyboard, look-alikes.
TABLES = read_yaml(Path(__file__).with_suffix(".yaml"))
LOOK_ALIKES = str.maketrans(TABLES["look_alikes"])
_NUMBERS_AND_URLS = re.compile(
    r"(?:https?://|www\.)\S*[^\s.,;:!?'\")\]}>»”’]"  # without the sentence's own punctuation
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?<!\w)[-−]?\d+(?:[.,:/]\d+)*%?"
)


def _shuffled(generator: random.Random, places: list[T]) -> list[T]:
    """The places in a drawn order (``random.shuffle`` may differ between versions of Python)."""
    draws = [(generator.random(), place) for place in places]
    return [place for _, place in sorted(draws, key=lambda draw: draw[0])]


def drawn_places(generator: random.Random, places: list[T], rate: float, total: int) -> list[T]:
    """Drawn places, as many as the rate's share of the total, but at least one."""
    return _shuffled(generator, places)[: max(1, round(rate * total))]


def _is_combining(char: str) -> bool:
    """Whether a character belongs to the letter before it. Vowel signs of Hindi and Thai are marks of
    combining class 0."""
    return unicodedata.category(char).startswith("M")


def letters_of(text: str) -> list[int]:
    """Indices of letters without a combining mark behind them, which an edit would leave behind."""
    letters = []
    for index, char in enumerate(text):
        following = text[index + 1 : index + 2] or " "
        if char.isalpha() and not _is_combining(following):
            letters.append(index)
    return letters


def upper(text: str, generator: random.Random, settings: FeatureSettings) -> Noisy:
    """All letters in upper case."""
    return text.upper(), sum(char != char.upper() for char in text)


def lower(text: str, generator: random.Random, settings: FeatureSettings) -> Noisy:
    """All letters in lower case."""
    return text.lower(), sum(char != char.lower() for char in text)


def title(text: str, generator: random.Random, settings: FeatureSettings) -> Noisy:
    """Every word with a capital first and small letters after (``Can't``, not ``Can'T``)."""
    word = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
    changed = sum(match[0] != match[0].capitalize() for match in word.finditer(text))
    return word.sub(lambda match: match[0].capitalize(), text), changed


class TypoSettings(FeatureSettings):
    rate: Rate = Field(0.05, description="share of the letters, each with one typo")
    operations: Distinct[Literal["keyboard", "swap", "drop", "double"]] = Field(
        ["keyboard", "swap", "drop", "double"], description="the typos that are drawn from"
    )


def typos(text: str, generator: random.Random, settings: TypoSettings) -> Noisy:
    """Slips of the finger in a share ``rate`` of the letters.

    ``keyboard``: a neighbouring key; ``swap``: two letters change places; ``drop``: a letter is
    missing; ``double``: a letter stands there twice. No two edits touch each other."""
    letters = letters_of(text)
    is_letter = set(letters)
    out = list(text)
    taken: set[int] = set()
    done = 0
    most = max(1, round(settings.rate * len(letters)))
    for index in _shuffled(generator, letters):
        if done == most:
            break
        after = index + 1
        possible = {
            "keyboard": text[index].lower() in TABLES["keyboard"],
            "swap": after in is_letter and text[index] != text[after] and after + 1 not in taken,
            "drop": index - 1 in is_letter or after in is_letter,
            "double": True,
        }
        choice = [operation for operation in settings.operations if possible[operation]]
        if not choice or taken & {index - 1, index, after}:
            continue
        operation = choice[pick(generator, len(choice))]
        taken |= {index, after} if operation == "swap" else {index}
        done += 1
        if operation == "keyboard":
            keys = TABLES["keyboard"][text[index].lower()]
            key = keys[pick(generator, len(keys))]
            out[index] = key.upper() if text[index].isupper() else key
        elif operation == "swap":
            out[index], out[after] = text[after], text[index]
        else:
            out[index] = "" if operation == "drop" else text[index] * 2
    return "".join(out), done


def punctuation(text: str, generator: random.Random, settings: FeatureSettings) -> Noisy:
    """All punctuation removed, except within URLs, e-mail addresses and numbers."""
    kept: set[int] = set()
    for match in _NUMBERS_AND_URLS.finditer(text):
        kept.update(range(match.start(), match.end()))

    def is_mark(index: int) -> bool:
        is_removed = unicodedata.category(text[index]).startswith("P") or text[index] in "`^~|"
        return is_removed and index not in kept

    def in_word(index: int) -> bool:
        char = text[index : index + 1]
        return index in kept or char.isalnum() or any(map(_is_combining, char))

    changed = 0
    out = []
    for are_marks, places in groupby(range(len(text)), is_mark):
        indices = [*places]
        first, last = indices[0], indices[-1]
        run = text[first : last + 1]
        if not are_marks:
            out.append(run)
            continue
        changed += len(run)
        # don't becomes dont, but either/or and yes--no stay two words.
        if in_word(first - 1) and in_word(last + 1) and run not in ("'", "’"):
            out.append(" ")
    if not changed:
        return text, 0
    return re.sub(r"(?<=\S) {2,}(?=\S)", " ", "".join(out)).rstrip(" "), changed


class HomoglyphSettings(FeatureSettings):
    rate: Rate = Field(0.1, description="share of the letters")


def homoglyphs(text: str, generator: random.Random, settings: HomoglyphSettings) -> Noisy:
    """Latin letters replaced by Cyrillic or Greek look-alikes, a share ``rate`` of all letters."""
    places = [index for index in letters_of(text) if ord(text[index]) in LOOK_ALIKES]
    chosen = drawn_places(generator, places, rate=settings.rate, total=sum(map(str.isalpha, text)))
    chars = list(text)
    for index in chosen:
        chars[index] = chars[index].translate(LOOK_ALIKES)
    return "".join(chars), len(chosen)


class RepeatSettings(Settings):
    repeats: int = Field(3, ge=1, le=1000, description="how often each prompt is repeated")


def repeat(features: Features, settings: RepeatSettings, row: RowKey) -> list[Variant]:
    """The clean prompt again, unchanged: the noise floor of a model that samples, or of a server."""
    return [
        Variant(f"r{number}", {"kind": "repeat", "repeat": number}, (dict(features),))
        for number in range(1, settings.repeats + 1)
    ]


UPPER = Perturbation(FeatureSettings, in_each_feature("upper", upper))
LOWER = Perturbation(FeatureSettings, in_each_feature("lower", lower))
TITLE = Perturbation(FeatureSettings, in_each_feature("title", title))
TYPOS = Perturbation(TypoSettings, in_each_feature("typos", typos), drawn=True)
PUNCTUATION = Perturbation(FeatureSettings, in_each_feature("punctuation", punctuation))
HOMOGLYPHS = Perturbation(HomoglyphSettings, in_each_feature("homoglyphs", homoglyphs), drawn=True)
REPEAT = Perturbation(RepeatSettings, repeat, repeats=True)
