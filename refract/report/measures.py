"""How reports call measures, and which of them stand in which table."""

from __future__ import annotations

from refract.core.vocabulary import REFUSED
from refract.rates.key import (
    ATTACK_SUCCESS,
    BORDERLINE_REFUSAL,
    CATEGORY_MEASURES,
    HARMFUL_REFUSAL,
    INJECTION_SUCCESS,
    OVER_REFUSAL,
    TASK_DONE,
    Measure,
    measure_called,
)
from refract.rates.rate import Rate

# The columns of the first table, with their long titles.
HEADLINES = {
    HARMFUL_REFUSAL.name: "Harmful refused",
    OVER_REFUSAL.name: "Helpful refused (over-refusal)",
    BORDERLINE_REFUSAL.name: "Borderline refused",
}
CATEGORY_OF = {measure.name: category for category, measure in CATEGORY_MEASURES.items()}
# What a column or a panel of a measure is called.
MEASURES = {name: measure_called(name).title for name in HEADLINES}
MEASURES[ATTACK_SUCCESS.name] = "attack success"
ATTACKS = (ATTACK_SUCCESS.name, INJECTION_SUCCESS.name, TASK_DONE.name)


def title_of(measure: Measure) -> str:
    """A measure in words."""
    return measure.title or measure.name.replace("_", " ")


def perturbation_of(rate: Rate, measure: Measure) -> str:
    """Of which perturbation a rate is this measure; empty where it is another
    measure."""
    return rate.key.perturbation if rate.measure == measure else ""


def is_powered(rate: Rate) -> bool:
    """Whether human labels of the run correct it."""
    return bool(rate.measure.corrects)


def first_in_turn(measure: Measure) -> str:
    """What a measure of turns says that happened there for the first time: refusal or
    compliance."""
    return "refusal" if measure.counted == REFUSED else "compliance"
