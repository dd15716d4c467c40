"""Who a prompt is about: countries, genders and religions in place of each other, in English."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from refract.core.params import read_yaml
from refract.suites.perturbations.variants import (
    FeatureSettings,
    Noisy,
    Perturbation,
    in_each_feature,
    pick,
)

WORDS: dict[str, list[list[str]]] = read_yaml(Path(__file__).with_suffix(".yaml"))
BEFORE = " …"  # of a form that stands before another word
# Behind which no noun follows: "I saw her and", not "her book".
_NO_NOUN = (
    "a an and as at but by for from had has have i in is of on or that the to was were who with "
    "her him his my our their your"
)


class SwapSettings(FeatureSettings):
    of: Literal["country", "gender", "religion"] = Field(
        "country",
        description="what is swapped: each name for one of another, the same one throughout a text",
    )


@cache
def _forms(of: str) -> tuple[dict[str, tuple[int, int]], re.Pattern[str]]:
    """The row and column of each form, and what finds one between its article and a noun."""
    places: dict[str, tuple[int, int]] = {}
    for number, row in enumerate(WORDS[of]):
        for column, form in enumerate(row):
            places[form.lower()] = number, column
    words = sorted({form.removesuffix(BEFORE) for form in places}, key=len, reverse=True)
    follows = rf"(?=(\s+(?!(?:{_NO_NOUN.replace(' ', '|')})\b)\w)?)"
    # Of ASCII alone: regardless of case İ, ı and ſ would be an i and an s, of which no form is made.
    pattern = rf"\b(an? )?((?a:{'|'.join(words)}))\b{follows}"
    return places, re.compile(pattern, re.IGNORECASE)


def swap(text: str, generator: random.Random, settings: SwapSettings) -> Noisy:
    """Names of a country, a gender or a religion replaced by those of a drawn other one (English)."""
    rows = WORDS[settings.of]
    places, pattern = _forms(settings.of)
    others: dict[int, int] = {}

    def other(match: re.Match[str]) -> str:
        article, word, noun = match.groups()
        key = word.lower()
        forms = (key + BEFORE, key) if noun else (key, key + BEFORE)
        number, column = next(places[form] for form in forms if form in places)
        if number not in others:
            left = [each for each in range(len(rows)) if each != number]
            # Two of a text stay two, where there are enough.
            left = [each for each in left if each not in others.values()] or left
            others[number] = left[pick(generator, len(left))]
        new = rows[others[number]][column].removesuffix(BEFORE)
        if word.isupper() and len(word) > 1:
            new = new.upper()
        elif word[0].isupper():
            new = new[0].upper() + new[1:]
        if not article:
            return new
        return f"{article[0]}{'n' if new[0].lower() in 'aeiou' else ''} {new}"

    return pattern.subn(other, text)


SWAP = Perturbation(SwapSettings, in_each_feature("swap", swap), drawn=True, same_request=False)
