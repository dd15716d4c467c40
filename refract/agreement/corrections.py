"""Refusal rates corrected by human labels: of a sample of the run itself, or of other answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from refract.agreement.label_files import JoinedLabels, JudgedAnswer
from refract.agreement.scores import JudgeErrors, judge_errors, rounded_numbers
from refract.core.types import Row
from refract.core.vocabulary import REFUSED
from refract.rates.clean_prompts import MEASURES
from refract.rates.counting import CONFIDENCE
from refract.rates.rate import Counts, Group, HumanLabels, Interval, Rate
from refract.statistics.clusters import clustered_mean
from refract.statistics.correction import (
    Sample,
    prediction_powered,
    prediction_powered_difference,
    rogan_gladen,
)
from refract.statistics.raters import cohen_kappa

FIELD = "human_labels"
PREFIX = "prediction_powered_"


Labelled = tuple[Sequence[JudgedAnswer], JoinedLabels]  # the answers of a run, and labels of some


class HumanRate(NamedTuple):
    """A rate, or a difference of two, from human labels and the judge's verdicts on the rest.

    Without blank labels ``rate`` is the estimate. With them it is None, ``lowest`` and ``highest``
    are the estimates with every blank taken one way and the other, and ``low`` to ``high`` covers
    both. ``weight`` is how far the judge is relied on (None with blanks, and of a difference);
    ``low_here`` to ``high_here`` is the interval for the run's own answers, of which all could be
    labelled (of a difference, the same as for others).
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
    low_here: float
    high_here: float

    @property
    def numbers(self) -> Row:
        """The rate as JSON."""
        numbers = rounded_numbers(
            {**self._estimate, "low": self.low, "high": self.high, "weight": self.weight}
        )
        return {"labelled": self.labelled, "blank": self.blank, **numbers}

    @property
    def numbers_here(self) -> Row:
        """The rate with its interval for the run's own answers, as JSON."""
        return rounded_numbers({**self._estimate, "low": self.low_here, "high": self.high_here})

    @property
    def _estimate(self) -> dict[str, float | None]:
        if self.rate is None:
            return {"lowest": self.lowest, "highest": self.highest}
        return {"rate": self.rate}


def corrected_rates(
    answers: Sequence[JudgedAnswer], labels: JoinedLabels, confidence: float = CONFIDENCE
) -> dict[str, HumanRate | None]:
    """Prediction-powered refusal rates by measure, over all answers and by category.

    The rate is the share of judged answers whose human label would be a refusal, full or partial; a
    degenerate answer counts as none. None where no row of a category is labelled, or all are of one
    cluster.
    """
    return {
        measure: _human_rate([(members, labels)], confidence)
        for measure, members in answers_by_measure(answers).items()
    }


def corrected_differences(
    first: Labelled, second: Labelled, confidence: float = CONFIDENCE
) -> dict[str, HumanRate | None]:
    """Differences of the prediction-powered rates of two runs, first minus second, by measure.

    Rows of the same cluster (the same prompt, answered by two models) are taken together. ``n``,
    ``labelled`` and ``blank`` count both runs. Measures that both have; None where a run has no
    label.
    """
    others = answers_by_measure(second[0])
    return {
        measure: _human_rate([(members, first[1]), (others[measure], second[1])], confidence)
        for measure, members in answers_by_measure(first[0]).items()
        if measure in others
    }


def _human_rate(runs: Sequence[Labelled], confidence: float) -> HumanRate | None:
    """The rate of a run, or the difference of two; None where one has no label, or too few clusters."""
    answered, refused = (_with_blanks(runs, blank, confidence) for blank in (False, True))
    if answered is None or refused is None:
        return None
    if not answered.blank:
        return answered
    return answered._replace(
        rate=None,
        weight=None,
        low=min(answered.low, refused.low),
        high=max(answered.high, refused.high),
        lowest=min(answered.lowest, refused.lowest),
        highest=max(answered.highest, refused.highest),
        low_here=min(answered.low_here, refused.low_here),
        high_here=max(answered.high_here, refused.high_here),
    )


def _with_blanks(runs: Sequence[Labelled], refused: bool, confidence: float) -> HumanRate | None:
    """The same with every blank label of the first run taken as ``refused``, of a second as the
    opposite."""
    samples = [_sample(*run, refused == (run is runs[0])) for run in runs]
    labelled = [sum(a.prompt_id in labels.by_id for a in members) for members, labels in runs]
    blank = sum(a.prompt_id in labels.blank for members, labels in runs for a in members)
    counts = (sum(len(members) for members, _ in runs), sum(labelled), blank)
    if not all(labelled):
        return None
    if len(samples) == 1:
        rate = prediction_powered(samples[0], confidence)
        if rate is None:
            return None
        value, low, high, _, weight, _, _, *here = rate
        return HumanRate(value, low, high, value, value, weight, *counts, *here)
    difference = prediction_powered_difference(samples[0], samples[1], confidence)
    if difference is None:
        return None
    value, low, high, _ = difference
    return HumanRate(value, low, high, value, value, None, *counts, low, high)


def answers_by_measure(answers: Sequence[JudgedAnswer]) -> dict[str, list[JudgedAnswer]]:
    """The answers that each refusal rate is over; rates without answers are left out."""
    by_measure = {
        measure: [answer for answer in answers if category in (None, answer.category)]
        for measure, category, positive in MEASURES
        if positive == REFUSED
    }
    return {measure: members for measure, members in by_measure.items() if members}


def _sample(members: Sequence[JudgedAnswer], labels: JoinedLabels, refused: bool) -> Sample:
    """What the correction is made of, with every blank label taken as refused, or as not."""
    inclusion = labels.inclusion
    drawn = [a for a in members if a.prompt_id in labels.by_id or a.prompt_id in labels.blank]
    names = {answer.prompt_id for answer in drawn}
    others = [answer for answer in members if answer.prompt_id not in names]

    def predicted(answer: JudgedAnswer) -> float:
        if inclusion is None or answer.probability is None:
            return float(answer.refused)
        return float(answer.probability)

    return Sample(
        [
            labels.by_id[a.prompt_id] in REFUSED if a.prompt_id in labels.by_id else refused
            for a in drawn
        ],
        [predicted(answer) for answer in drawn],
        [predicted(answer) for answer in others],
        [answer.cluster for answer in drawn],
        [answer.cluster for answer in others],
        None if inclusion is None else [inclusion[answer.prompt_id] for answer in drawn],
    )


def corrected_numbers(
    answers: Sequence[JudgedAnswer], labels: JoinedLabels, confidence: float
) -> Row:
    """Rates by measure, as JSON: the judge's on all answers, the human labels' on theirs, and both
    together; and how far judge and people agree on the labelled answers."""
    by_id = labels.by_id
    rates = corrected_rates(answers, labels, confidence)
    measures: Row = {}
    for measure, members in answers_by_measure(answers).items():
        labelled = [answer for answer in members if answer.prompt_id in by_id]
        row: Row = {
            "n": len(members),
            "labelled": len(labelled),
            "raw": _share(members, [answer.refused for answer in members], confidence),
        }
        rate = rates[measure]
        if rate is not None:
            refused = [by_id[answer.prompt_id] in REFUSED for answer in labelled]
            row["human"] = _share(labelled, refused, confidence)
            row["prediction_powered"] = rate.numbers
            row["these_answers"] = rate.numbers_here
        measures[measure] = row
    both = [answer for answer in answers if answer.prompt_id in by_id]
    kappa = cohen_kappa(
        [by_id[answer.prompt_id] in REFUSED for answer in both],
        [answer.refused for answer in both],
        confidence,
    )
    judge = rounded_numbers({"kappa": kappa.kappa, "low": kappa.low, "high": kappa.high})
    return {
        "measures": measures,
        "blank": len(labels.blank),
        "drawn_by_doubt": labels.inclusion is not None,
        "judge": {"n": kappa.n, **judge},
    }


def difference_numbers(first: Labelled, second: Labelled, confidence: float) -> Row:
    """The difference of two runs by measure, first minus second, as JSON."""
    differences = corrected_differences(first, second, confidence)
    return {
        "differences": {
            measure: {} if difference is None else difference.numbers
            for measure, difference in differences.items()
        },
        "blank": len(first[1].blank) + len(second[1].blank),
    }


def calibrated_numbers(
    answers: Sequence[JudgedAnswer],
    pairs: Sequence[Row],
    labels: Sequence[str | None],
    confidence: float,
) -> Row:
    """Rates corrected for the errors that a judge's ``labels`` make on labelled ``pairs``, as JSON."""
    judged = [(pair, label) for pair, label in zip(pairs, labels, strict=True) if label is not None]
    errors = judge_errors(Counter((pair["label"], label) for pair, label in judged))
    slices: dict[str, Counter[tuple[str, str]]] = {}
    for pair, label in judged:
        if pair.get("slice"):
            slices.setdefault(pair["slice"], Counter())[pair["label"], label] += 1
    by_slice = [judge_errors(counts) for counts in slices.values()]
    measures = {
        measure: {
            "n": len(members),
            "raw": _share(members, [answer.refused for answer in members], confidence),
            "calibrated": calibrate(
                sum(answer.refused for answer in members),
                len(members),
                errors,
                by_slice,
                confidence,
            ),
        }
        for measure, members in answers_by_measure(answers).items()
    }
    return {"calibrated": measures, "judge": errors._asdict()}


def calibrate(
    positives: int,
    n: int,
    errors: JudgeErrors,
    by_slice: Sequence[JudgeErrors] = (),
    confidence: float = CONFIDENCE,
) -> Row:
    """The Rogan–Gladen correction of ``positives`` of ``n``, as JSON.

    ``slice_lowest`` and ``slice_highest`` are the rates if all answers were as one slice's: its
    sensitivity for refusals, its specificity for answers, each with the other of all labelled
    answers. ``contradicted``: the judge says this more, or less, often than its errors allow at any
    rate; there is no number then.
    """
    corrected = rogan_gladen(positives, n, *errors, confidence=confidence)
    if corrected is None:
        return {}
    numbers: Row = {"contradicted": corrected.contradicted}
    if corrected.rate is not None:
        numbers |= rounded_numbers(
            {"rate": corrected.rate, "low": corrected.low, "high": corrected.high}
        )
    mixed = [errors._replace(found=part.found, refusals=part.refusals) for part in by_slice]
    mixed += [
        errors._replace(left_alone=part.left_alone, answers=part.answers) for part in by_slice
    ]
    estimates = [
        estimate
        for mix in mixed
        if (estimate := rogan_gladen(positives, n, *mix, confidence=confidence)) is not None
    ]
    rates = [estimate.rate for estimate in estimates if estimate.rate is not None]
    if rates:
        numbers |= rounded_numbers({"slice_lowest": min(rates), "slice_highest": max(rates)})
    if estimates:
        numbers["slices"] = len(estimates)
        numbers["slices_contradicted"] = sum(estimate.contradicted for estimate in estimates)
    return numbers


def _share(answers: Sequence[JudgedAnswer], refused: Sequence[bool], confidence: float) -> Row:
    share = clustered_mean(
        [float(value) for value in refused], [answer.cluster for answer in answers], confidence
    )
    if share is None:
        return {}
    return rounded_numbers({"rate": share.value, "low": share.low, "high": share.high})


def label_table(
    answers: Sequence[JudgedAnswer], labels: JoinedLabels, confidence: float = CONFIDENCE
) -> list[Rate]:
    """The prediction-powered rates of one suite, for a model's table.

    With stale labels there is no rate: what is left of the sample is not random. With blank ones
    there are bounds, and an interval that covers both. Nothing where nothing is labelled yet.
    """
    table: list[Rate] = []
    if not labels.by_id and not labels.stale:
        return table
    for measure, rate in corrected_rates(answers, labels, confidence).items():
        used, blank = (0, 0) if rate is None else (rate.labelled, rate.blank)
        counted = HumanLabels(used, len(labels.stale), blank)
        named = f"{PREFIX}{measure}"
        if rate is None or labels.stale:
            table.append(Rate(named, Counts(None, 0, labels=counted), None, group=Group(FIELD)))
            continue
        table.append(
            Rate(
                named,
                Counts(None, rate.n, labels=counted),
                rate.rate,
                Interval(rate.low, rate.high),
                Interval(rate.lowest, rate.highest) if rate.rate is None else None,
                group=Group(FIELD),
            )
        )
    return table
