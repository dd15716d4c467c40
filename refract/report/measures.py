"""What a rate is of. Where a name of a measure has to be put together or read, it is
done here."""

from __future__ import annotations

from collections.abc import Iterable

from refract.core.vocabulary import FAMILIES
from refract.rates.rate import Rate

HEADLINES = {
    "harmful_refusal_rate": "Harmful refused",
    "over_refusal_rate": "Helpful refused (over-refusal)",
    "borderline_refusal_rate": "Borderline refused",
}
CATEGORY_OF = dict(zip(HEADLINES, ("harmful", "helpful", "borderline"), strict=True))
# What a column or a panel of a measure is called.
MEASURES = {measure: f"{category} refused" for measure, category in CATEGORY_OF.items()}
MEASURES["attack_success_rate"] = "attack success"
PAIR_DIFFERENCE = "refusal_difference_to_pair"
ATTACKS = ("attack_success_rate", "injection_success_rate", "task_done_rate")
CHANGED, LOOPHOLE = "fail_rate", "loophole_rate"
_CONTROL, _DIFFERS, _POWERED = "control_pass_rate", "_differs_rate", "prediction_powered_"


def title_of(measure: str) -> str:
    """A measure in words."""
    return MEASURES.get(measure, measure.replace("_", " "))


def by_judge(measure: str, judge: str) -> str:
    """The name of a measure by a judge; by a suite's first judge (empty) it is the
    measure's own."""
    return f"{judge}_{measure}" if judge else measure


def control_judge(rate: Rate) -> str:
    """Which judge a control was judged by; empty: the first."""
    return rate.measure.removesuffix(_CONTROL).removesuffix("_")


def perturbation_of(rate: Rate, measure: str) -> str:
    """Of which perturbation a rate is this measure; empty where it is another
    measure."""
    ending = f"_{measure}"
    return rate.measure.removesuffix(ending) if rate.measure.endswith(ending) else ""


def is_of_repeats(rate: Rate) -> bool:
    """Whether it says how often a repeat has another text."""
    return rate.measure.endswith(_DIFFERS)


def is_powered(rate: Rate) -> bool:
    """Whether human labels of the run correct it."""
    return rate.measure.startswith(_POWERED)


def without_labels(rate: Rate) -> str:
    """The measure that a prediction-powered rate corrects."""
    return rate.measure.removeprefix(_POWERED)


def of_other_families(judges: Iterable[str]) -> set[str]:
    """The measures of these judges, where they judge other things than refusal."""
    endings = {family.measure for family in FAMILIES.values()} - {FAMILIES["refusal"].measure}
    return {by_judge(ending, judge) for judge in judges for ending in endings}


def first_in_turn(measure: str) -> str:
    """What a measure of turns says that happened there for the first time: refusal or
    compliance."""
    return measure.split("_")[-2]
