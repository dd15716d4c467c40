"""Numbers as words: the noise ``spelled_numbers``."""

from __future__ import annotations

import random
import re

from refract.suites.perturbations.variants import (
    FeatureSettings,
    Noisy,
    Perturbation,
    in_each_feature,
)

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_THOUSANDS = ("", "thousand", "million", "billion")
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
# Digits that are part of something else stay: v2, 10:30, 2024-05-01, 1.2.3, 007, $5, #1.
_NUMBER = re.compile(
    r"(?<![\w.,:/$€£¥#@&=+\-−])"
    r"(?P<whole>[1-9][0-9]{0,2}(?:,[0-9]{3}){1,3}|[1-9][0-9]{0,11}|0)(?P<part>\.[0-9]+)?"
    r"(?P<suffix>st|nd|rd|th|%)?(?![\w%]|[.,:/\-−][0-9])"
)


def number_words(number: int) -> str:
    """A whole number from 0 up to twelve digits in English words, American style (no ``and``)."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{_ONES[hundreds]} hundred" + (f" {number_words(rest)}" if rest else "")
    words = []
    for unit in _THOUSANDS:
        number, rest = divmod(number, 1000)
        if rest:
            words.append(f"{number_words(rest)} {unit}".rstrip())
    return " ".join(reversed(words))


def _ordinal(words: str) -> str:
    last = re.split(r"[ -]", words)[-1]
    head = words.removesuffix(last)
    if last in _ORDINALS:
        return head + _ORDINALS[last]
    return head + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


def spelled_numbers(text: str, generator: random.Random, settings: FeatureSettings) -> Noisy:
    """Numbers in English words: 3 as ``three``, 2.5 as ``two point five``, 21st, 40%."""

    def spell(match: re.Match[str]) -> str:
        words = number_words(int(match["whole"].replace(",", "")))
        suffix = match["suffix"]
        if suffix not in (None, "%"):
            return match[0] if match["part"] else _ordinal(words)
        if match["part"]:
            words += " point " + " ".join(_ONES[int(digit)] for digit in match["part"][1:])
        return words + (" percent" if suffix else "")

    return _NUMBER.sub(spell, text), len(_NUMBER.findall(text))


SPELLED_NUMBERS = Perturbation(FeatureSettings, in_each_feature("spelled_numbers", spelled_numbers))
