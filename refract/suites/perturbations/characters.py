"""Control-character injection: one character many times, at the end, start or between words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from refract.core.settings import Distinct
from refract.suites.perturbations.variants import (
    Features,
    FeatureSettings,
    Perturbation,
    RowKey,
    Variant,
    features_to_perturb,
    make_label,
)

PRESETS: dict[str, tuple[str, ...]] = {
    # Control characters besides the two of the default.
    "control": ("\x01", "\x07", "\x0b", "\x0c", "\x1b", "\x7f", "\x85"),
    "zero_width": ("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff"),
    # Overrides, embeddings and isolates.
    "bidi_override": ("\u202d", "\u202e", "\u202a", "\u202b", "\u2066", "\u2067", "\u2068"),
    "combining": ("\u0301", "\u0308", "\u0336", "\u0338", "\u20dd"),
    # Cyrillic and Greek letters that print as Latin ones, and a fullwidth one. (The kind
    # ``homoglyphs`` *replaces* letters by such look-alikes.)
    "look_alike": ("\u0430", "\u0435", "\u043e", "\u0441", "\u03bf", "\uff41"),
}


def code_point(character: str) -> str:
    """A character's name in the standard's notation, as in ``U+000D``."""
    return f"U+{ord(character):04X}"


def _character(entry: str) -> str:
    if len(entry) == 1:
        return entry
    if re.fullmatch(r"U\+[0-9A-Fa-f]{4,6}", entry) and int(entry[2:], 16) <= 0x10FFFF:
        return chr(int(entry[2:], 16))
    raise ValueError(
        "must list characters, code points such as U+000D, or presets: "
        f"{', '.join(PRESETS)}; {entry!r} is none of them"
    )


def read_characters(entries: Sequence[str]) -> list[str]:
    """The characters of a definition's list, each once, in order.

    An entry is a character, a code point (``U+200B``) or the name of a preset. Raises ValueError
    for anything else, and for NUL and surrogates, which no prompt can hold."""
    characters: list[str] = []
    for entry in entries:
        characters += PRESETS.get(entry) or [_character(entry)]
    for character in characters:
        if character == "\0" or "\ud800" <= character <= "\udfff":
            raise ValueError(f"must hold neither NUL nor a surrogate ({code_point(character)})")
    return list(dict.fromkeys(characters))


def fallback_repetitions(most: int) -> list[int]:
    """``most``, its half, quarter and eighth, rounded down, without repeats and zeros."""
    return list(dict.fromkeys(most // part for part in (1, 2, 4, 8) if most // part))


def inject(text: str, character: str, repetitions: int, position: str) -> str:
    """``text`` with ``repetitions`` of the character at ``position``.

    ``between_words`` spreads them evenly over the gaps, behind the word before each; the
    dose is the total. A text without a gap is returned as it is."""
    if position == "end":
        return text + character * repetitions
    if position == "start":
        return character * repetitions + text
    gaps = [match.start() for match in re.finditer(r"(?<=\S)(?=\s+\S)", text)]
    out = ""
    done = 0
    added = 0
    for number, gap in enumerate(gaps, 1):
        due = number * repetitions // len(gaps)
        out += text[done:gap] + character * (due - added)
        done = gap
        added = due
    return out + text[done:]


# A dose above this makes files of gigabytes, and no model reads it.
Dose = Annotated[int, Field(ge=1, le=100_000)]
Position = Literal["end", "start", "between_words"]


class CharacterSettings(FeatureSettings):
    characters: list[str] = Field(
        ["\r", "\b"],
        min_length=1,
        description="what is added, one character at a time",
        json_schema_extra={
            "allowed": f"a list of characters, code points (`U+200B`) or presets: {', '.join(PRESETS)}"
        },
    )
    max_repetitions: Dose = Field(
        1000,
        description="how often; a half, a quarter or an eighth where a model rejects the prompt as "
        "too long",
    )
    repetitions: Distinct[Dose] | None = Field(
        None, description="doses in place of max_repetitions, a variant of each"
    )
    position: Position | Distinct[Position] = Field(
        "end", description="where; a list gives a variant of each"
    )

    @field_validator("characters")
    @classmethod
    def _known(cls, entries: list[str]) -> list[str]:
        read_characters(entries)
        return entries

    @model_validator(mode="after")
    def _one_dose(self) -> CharacterSettings:
        if self.repetitions is not None and "max_repetitions" in self.model_fields_set:
            raise ValueError("give either repetitions or max_repetitions, not both")
        return self


def char_injection(features: Features, settings: CharacterSettings, row: RowKey) -> list[Variant]:
    """One character many times: a variant per feature, character, position and dose.

    Without ``repetitions`` a variant has up to four attempts: ``max_repetitions``, then
    its half, quarter and eighth, for models that reject the longer prompt."""
    series = [[dose] for dose in settings.repetitions or ()]
    if settings.repetitions is None:
        series = [fallback_repetitions(settings.max_repetitions)]
    positions = settings.position
    if isinstance(positions, str):
        positions = [positions]
    combinations = itertools.product(
        features_to_perturb(features, settings, row),
        read_characters(settings.characters),
        positions,
        series,
    )
    variants = []
    for feature, character, position, doses in combinations:
        text = features[feature]
        texts = [inject(text, character, repetitions=dose, position=position) for dose in doses]
        if text in texts:
            continue
        parts = [code_point(character), position]
        if settings.repetitions is not None:
            parts.append(f"x{doses[0]}")
        perturbation = {
            "kind": "char_injection",
            "feature": feature,
            "character": code_point(character),
            "position": position,
            "repetitions": doses,
        }
        attempts = tuple({**features, feature: changed} for changed in texts)
        variants.append(Variant(make_label(features, feature, *parts), perturbation, attempts))
    return variants


CHAR_INJECTION = Perturbation(CharacterSettings, char_injection)
