"""The kinds of perturbation a definition in params.yaml can name, and what each may be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from refract.perturbations import noise
from refract.perturbations.characters import (
    MOST_REPETITIONS,
    POSITIONS,
    char_injection,
    read_characters,
)
from refract.perturbations.variants import (
    Definition,
    Features,
    Variant,
    features_to_perturb,
    make_label,
    row_generator,
)

DEFAULT_REPEATS = 3
MOST_REPEATS = 1000


def _noise(
    kind: str,
    add: Callable[..., noise.Noisy],
    features: Features,
    definition: Definition,
    *row: int | str,
    facts: dict[str, Any] | None = None,
) -> list[Variant]:
    """A variant per feature in which the noise found something to change.

    A text that comes out unchanged, or blank, gives none: its answer would be the clean prompt's
    and count as robust against a noise that never happened.
    """
    variants = []
    facts = facts or {}
    for feature in features_to_perturb(features, definition):
        text, edits = add(features[feature], row_generator(*row, feature), definition)
        if text == features[feature] or not text.strip():
            continue
        variants.append(
            Variant(
                make_label(features, feature, kind, *facts.values()),
                {"kind": kind, "feature": feature, **facts, "edits": edits},
                ({**features, feature: text},),
            )
        )
    return variants


def _accents(features: Features, definition: Definition, *row: int | str) -> list[Variant]:
    """Accents removed, accents added, or one variant of each."""
    functions = {"remove": noise.remove_accents, "add": noise.add_accents}
    rest = {key: value for key, value in definition.items() if key != "operations"}
    return [
        variant
        for operation in definition.get("operations", noise.ACCENT_OPERATIONS)
        for variant in _noise(
            "accents", functions[operation], features, rest, *row, facts={"operation": operation}
        )
    ]


def _repeat(features: Features, definition: Definition, *row: int | str) -> list[Variant]:
    """The clean prompt asked again: what a sampling model's answers differ by on their own."""
    return [
        Variant(f"r{number}", {"kind": "repeat", "repeat": number}, (dict(features),))
        for number in range(1, definition.get("repeats", DEFAULT_REPEATS) + 1)
    ]


# kind -> function of (features, definition, seed, suite, source id, perturbation name) that returns
# the variants of one source row, in a fixed order; an empty list where it finds nothing to change.
# Each raises ValueError when the definition names a feature that the row lacks.
KINDS: dict[str, Callable[[Features, Definition, int, str, str, str], list[Variant]]] = {
    "char_injection": char_injection,
    "upper": partial(_noise, "upper", noise.upper),
    "lower": partial(_noise, "lower", noise.lower),
    "title": partial(_noise, "title", noise.title),
    "typos": partial(_noise, "typos", noise.typos),
    "punctuation": partial(_noise, "punctuation", noise.punctuation),
    "accents": _accents,
    "ocr": partial(_noise, "ocr", noise.ocr),
    "homoglyphs": partial(_noise, "homoglyphs", noise.homoglyphs),
    "spelled_numbers": partial(_noise, "spelled_numbers", noise.spelled_numbers),
    "whitespace": partial(_noise, "whitespace", noise.whitespace),
    "repeat": _repeat,
}

# The kinds whose texts are drawn, and differ from seed to seed.
SEEDED = frozenset(noise.DEFAULT_RATES)

OPTIONS: dict[str, tuple[str, ...]] = {
    "char_injection": ("features", "characters", "max_repetitions", "repetitions", "position"),
    "upper": ("features",),
    "lower": ("features",),
    "title": ("features",),
    "typos": ("features", "rate", "operations"),
    "punctuation": ("features",),
    "accents": ("features", "rate", "operations"),
    "ocr": ("features", "rate"),
    "homoglyphs": ("features", "rate"),
    "spelled_numbers": ("features",),
    "whitespace": ("features", "rate", "operations"),
    "repeat": ("repeats",),
}

_OPERATIONS = {
    "typos": noise.TYPO_OPERATIONS,
    "accents": noise.ACCENT_OPERATIONS,
    "whitespace": noise.WHITESPACE_OPERATIONS,
}


def _is_list_of(value: object, allowed: Callable[[object], bool]) -> bool:
    """Whether the value is a list with at least one entry, each allowed and none twice."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(allowed(entry) for entry in value)
        and len(set(value)) == len(value)
    )


def _is_whole(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _problem(kind: str, key: str, value: object) -> str | None:
    """What a value must be, where it is not."""
    if key == "features":
        fine = value is None or _is_list_of(value, lambda name: isinstance(name, str))
        return None if fine else "must be null (all features) or a list of feature names"
    if key == "characters":
        try:
            read_characters(value)
        except ValueError as error:
            return str(error)
        return None
    if key == "rate":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if number and 0 < value <= 1 else "must be a number above 0 and at most 1"
    if key == "operations":
        allowed = _OPERATIONS[kind]
        fine = _is_list_of(value, lambda name: isinstance(name, str) and name in allowed)
        return None if fine else f"must list one or more of {', '.join(allowed)}, none twice"
    if key == "position":
        fine = (isinstance(value, str) and value in POSITIONS) or _is_list_of(
            value, lambda name: isinstance(name, str) and name in POSITIONS
        )
        return None if fine else f"must be one of {', '.join(POSITIONS)}, or a list of them"
    if key == "repetitions":
        fine = _is_list_of(value, lambda dose: _is_whole(dose, MOST_REPETITIONS))
        return None if fine else f"must list whole numbers from 1 to {MOST_REPETITIONS}, none twice"
    most = MOST_REPEATS if key == "repeats" else MOST_REPETITIONS
    return None if _is_whole(value, most) else f"must be a whole number from 1 to {most}"


def check_definition(name: str, definition: Definition) -> None:
    """Raises ValueError, in a full sentence, unless the definition can be used."""
    if not isinstance(definition, Mapping):
        raise ValueError(
            f"perturbation {name!r}: a definition maps settings to values, with at least 'kind' "
            f"(got {definition!r})."
        )
    kind = definition.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(
            f"perturbation {name!r}: 'kind' must be one of {', '.join(KINDS)} (got {kind!r})."
        )
    for key, value in definition.items():
        if key == "kind":
            continue
        if key not in OPTIONS[kind]:
            raise ValueError(
                f"perturbation {name!r}: the kind '{kind}' has no setting {key!r}; "
                f"it has {', '.join(OPTIONS[kind])}."
            )
        problem = _problem(kind, key, value)
        if problem:
            got = "" if "(got" in problem else f" (got {value!r})"
            raise ValueError(f"perturbation {name!r}: '{key}': {problem}{got}.")
    if "repetitions" in definition and "max_repetitions" in definition:
        raise ValueError(
            f"perturbation {name!r}: 'repetitions' asks for each dose, 'max_repetitions' for the "
            "highest that the model accepts; give one of the two."
        )
