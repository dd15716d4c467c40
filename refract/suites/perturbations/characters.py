"""Control-character injection: one character many times, at the end, start or between words."""

from __future__ import annotations

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
    # Cyrillic and Greek letters that print as Latin ones, and a fullwidth one. To *replace* letters
    # by their look-alikes is another perturbation: the kind ``homoglyphs``.
    "look_alike": ("\u0430", "\u0435", "\u043e", "\u0441", "\u03bf", "\uff41"),
}


def code_point(character: str) -> str:
    """A character's name in the standard's notation, as in ``U+000D``."""
    return f"U+{ord(character):04X}"


def _one_character(entry: str) -> str:
    if len(entry) == 1:
        return entry
    if re.fullmatch(r"U\+[0-9A-Fa-f]{4,6}", entry) and int(entry[2:], 16) <= 0x10FFFF:
        return chr(int(entry[2:], 16))
    raise ValueError(
        "must list characters, code points such as U+000D, or presets: "
        f"{', '.join(PRESETS)}; {entry!r} is none of them"
    )


def read_characters(entries: Sequence[str]) -> list[str]:
    """The characters a definition's list stands for, each once, in its order.

    An entry is one literal character, a code point as text (``U+200B``) or the name of a preset. Raises
    ValueError for anything else, and for NUL and surrogates, which no prompt can hold."""
    characters: list[str] = []
    for entry in entries:
        characters += PRESETS.get(entry) or (_one_character(entry),)
    for character in characters:
        if character == "\0" or "\ud800" <= character <= "\udfff":
            raise ValueError(f"must hold neither NUL nor a surrogate ({code_point(character)})")
    return list(dict.fromkeys(characters))


def fallback_repetitions(most: int) -> list[int]:
    """``most``, its half, quarter and eighth, rounded down, without repeats and zeros."""
    return list(dict.fromkeys(most // part for part in (1, 2, 4, 8) if most // part))


def inject(text: str, character: str, repetitions: int, position: str) -> str:
    """``text`` with ``repetitions`` of the character at ``position``, nothing else changed.

    ``between_words`` spreads them as evenly as they go over the gaps, after the word before each; the
    dose is the total. A text without a gap comes back as it is."""
    if position == "end":
        return text + character * repetitions
    if position == "start":
        return character * repetitions + text
    gaps = [match.start() for match in re.finditer(r"(?<=\S)(?=\s+\S)", text)]
    pieces = []
    done = 0
    for number, gap in enumerate(gaps):
        share = (number + 1) * repetitions // len(gaps) - number * repetitions // len(gaps)
        pieces += [text[done:gap], character * share]
        done = gap
    return "".join([*pieces, text[done:]])


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
        description="how often; falls back to a half, a quarter and an eighth where a model rejects "
        "the prompt as too long",
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
    def _one_of_two(self) -> CharacterSettings:
        if self.repetitions is not None and "max_repetitions" in self.model_fields_set:
            raise ValueError("give either repetitions or max_repetitions, not both")
        return self


def char_injection(features: Features, settings: CharacterSettings, row: RowKey) -> list[Variant]:
    """One character many times: a variant per feature, character, position and dose.

    Without ``repetitions`` a variant has up to four attempts: ``max_repetitions``, then its half,
    quarter and eighth, for models that reject the longer prompt."""
    if settings.repetitions is None:
        series = [("", fallback_repetitions(settings.max_repetitions))]
    else:
        series = [(f"x{dose}", [dose]) for dose in settings.repetitions]
    position = settings.position
    variants = []
    for feature in features_to_perturb(features, settings, row):
        for character in read_characters(settings.characters):
            for place in [position] if isinstance(position, str) else position:
                for suffix, repetitions in series:
                    texts = [inject(features[feature], character, n, place) for n in repetitions]
                    if features[feature] in texts:
                        continue
                    parts = [code_point(character), place, *filter(None, [suffix])]
                    done = {
                        "kind": "char_injection",
                        "feature": feature,
                        "character": code_point(character),
                        "position": place,
                        "repetitions": repetitions,
                    }
                    attempts = tuple({**features, feature: text} for text in texts)
                    label = make_label(features, feature, *parts)
                    variants.append(Variant(label, done, attempts))
    return variants


CHAR_INJECTION = Perturbation(CharacterSettings, char_injection)
