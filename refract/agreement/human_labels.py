"""Refusal rates that follow from human labels of a sample of a run's answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from refract.agreement.label_files import Labels
from refract.core.types import Row
from refract.core.vocabulary import REFUSED
from refract.rates.counting import CONFIDENCE, rounded
from refract.rates.rates import MEASURES
from refract.statistics.correction import Sample, prediction_powered, prediction_powered_difference

FIELD = "human_labels"
PREFIX = "prediction_powered_"


class HumanRate(NamedTuple):
    """A rate, or a difference of two, from human labels and the judge's verdicts on the rest.

    Without blank labels ``rate`` is the estimate. With them it is None, ``lowest`` and ``highest``
    are the estimates with every blank taken one way and the other, and ``low`` to ``high`` covers
    both. ``weight`` is how far the judge is relied on (None with blanks, and of a difference).
    """

    rate: float | None
    low: float
    high: float
    lowest: float
    highest: float
    weight: float | None
    n: int
    labelled: int
    blank: int
    low_here: float | None = None
    high_here: float | None = None


def corrected_rates(
    answers: Sequence[Row],
    found: Mapping[str, str],
    blank: Collection[str] = (),
    confidence: float = CONFIDENCE,
    inclusion: Mapping[str, float] | None = None,
) -> dict[str, HumanRate | None]:
    """Prediction-powered refusal rates by measure, over all answers and by category.

    The rate is the share of judged answers whose human label would be a refusal, full or partial; a
    degenerate answer counts as none. ``inclusion`` is the probability with which each labelled answer
    was drawn, where some were drawn more often. None where no row of a category is labelled, or all are
    of one cluster.
    """
    rates: dict[str, HumanRate | None] = {}
    for measure, members in _by_measure(answers).items():
        labelled, left = _counts(members, found, blank)
        ends = [
            prediction_powered(_sample(members, found, blank, inclusion, refused), confidence)
            for refused in (False, True)
        ]
        one, two = ends
        if not labelled or one is None or two is None:
            rates[measure] = None
            continue
        rates[measure] = HumanRate(
            None if left else one.rate,
            min(one.low, two.low),
            max(one.high, two.high),
            min(one.rate, two.rate),
            max(one.rate, two.rate),
            None if left else one.weight,
            len(members),
            labelled,
            left,
            min(one.low_here, two.low_here),
            max(one.high_here, two.high_here),
        )
    return rates


def corrected_differences(
    first: tuple[Sequence[Row], Labels],
    second: tuple[Sequence[Row], Labels],
    confidence: float = CONFIDENCE,
) -> dict[str, HumanRate | None]:
    """Differences of the prediction-powered rates of two runs, first minus second, by measure.

    Rows of the same cluster (the same prompt, answered by two models) are taken together. ``n``,
    ``labelled`` and ``blank`` count both runs. Measures that both have; None where a run has no
    label.
    """
    rates: dict[str, HumanRate | None] = {}
    groups = _by_measure(first[0]), _by_measure(second[0])
    for measure in groups[0]:
        if measure not in groups[1]:
            continue
        runs = [
            (groups[0][measure], first[1].found, first[1].blank, first[1].inclusion),
            (groups[1][measure], second[1].found, second[1].blank, second[1].inclusion),
        ]
        counts = [_counts(*run[:3]) for run in runs]
        ends = [
            prediction_powered_difference(
                _sample(*runs[0], refused), _sample(*runs[1], not refused), confidence
            )
            for refused in (False, True)
        ]
        one, two = ends
        if not all(labelled for labelled, _ in counts) or one is None or two is None:
            rates[measure] = None
            continue
        left = sum(blank for _, blank in counts)
        rates[measure] = HumanRate(
            None if left else one.difference,
            min(one.low, two.low),
            max(one.high, two.high),
            min(one.difference, two.difference),
            max(one.difference, two.difference),
            None,
            sum(len(run[0]) for run in runs),
            sum(labelled for labelled, _ in counts),
            left,
        )
    return rates


def _by_measure(answers: Sequence[Row]) -> dict[str, list[Row]]:
    """The answers that each refusal rate is over; rates without answers are left out."""
    found = {
        measure: [answer for answer in answers if category in (None, answer["category"])]
        for measure, category, positive in MEASURES
        if positive == REFUSED
    }
    return {measure: members for measure, members in found.items() if members}


def _counts(
    members: Sequence[Row], found: Mapping[str, str], blank: Collection[str]
) -> tuple[int, int]:
    return (
        sum(answer["prompt_id"] in found for answer in members),
        sum(answer["prompt_id"] in blank for answer in members),
    )


def _sample(
    members: Sequence[Row],
    found: Mapping[str, str],
    blank: Collection[str],
    inclusion: Mapping[str, float] | None,
    refused: bool,
) -> Sample:
    """What the correction is made of, with every blank label taken as refused, or as not."""
    drawn = [a for a in members if a["prompt_id"] in found or a["prompt_id"] in blank]
    others = [a for a in members if a["prompt_id"] not in found and a["prompt_id"] not in blank]

    def predicted(answer: Row) -> float:
        if inclusion is None or answer.get("probability") is None:
            return float(answer["outcome"] in REFUSED)
        return float(answer["probability"])

    return Sample(
        [found[a["prompt_id"]] in REFUSED if a["prompt_id"] in found else refused for a in drawn],
        [predicted(answer) for answer in drawn],
        [predicted(answer) for answer in others],
        [answer.get("cluster") or answer["prompt_id"] for answer in drawn],
        [answer.get("cluster") or answer["prompt_id"] for answer in others],
        None if inclusion is None else [inclusion[answer["prompt_id"]] for answer in drawn],
    )


def label_table(
    answers: Sequence[Row], labels: Labels, confidence: float = CONFIDENCE
) -> list[Row]:
    """Rows for a model's table: the prediction-powered rates of one suite.

    With stale labels there is no rate: what is left of the sample is not random. With blank ones
    there are bounds, and an interval that covers both. Nothing where nothing is labelled yet.
    """
    table: list[Row] = []
    if not labels.found and not labels.stale:
        return table
    rates = corrected_rates(answers, labels.found, labels.blank, confidence, labels.inclusion)
    for measure, rate in rates.items():
        row = {
            "measure": f"{PREFIX}{measure}",
            "field": FIELD,
            "value": "",
            "labelled": 0 if rate is None else rate.labelled,
            "stale_labels": len(labels.stale),
            "blank_labels": 0 if rate is None else rate.blank,
        }
        if rate is not None and not labels.stale:
            row |= {"n": rate.n, "low": rounded(rate.low), "high": rounded(rate.high)}
            if rate.rate is None:
                row |= {"bound_low": rounded(rate.lowest), "bound_high": rounded(rate.highest)}
            else:
                row["rate"] = rounded(rate.rate)
        table.append(row)
    return table
