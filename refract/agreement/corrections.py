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


# The judged answers of a run, and human labels of some of them.
Labelled = tuple[Sequence[JudgedAnswer], JoinedLabels]


class HumanRate(NamedTuple):
    """A rate, or a difference of two, from human labels and the judge's verdicts on the rest.

    Without blank labels ``rate`` is the estimate. With them it is None, ``lowest`` and ``highest``
    are the estimates with every blank taken one way and the other, and ``low`` to ``high`` covers
    both. ``weight`` is how far the judge is relied on (None with blanks, and of a difference);
    ``low_here`` to ``high_here`` is the interval for the run's own answers, of which all could be
    labelled (of a difference, the same as for others). Counts are over both runs of a difference.
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
        """The rate as JSON, without its interval for the run's own answers."""
        interval = {"low": self.low, "high": self.high, "weight": self.weight}
        return {"labelled": self.labelled, "blank": self.blank, **self._estimate_with(interval)}

    @property
    def numbers_here(self) -> Row:
        """The rate with its interval for the run's own answers, as JSON."""
        return self._estimate_with({"low": self.low_here, "high": self.high_here})

    def _estimate_with(self, interval: dict[str, float | None]) -> Row:
        ends = {"lowest": self.lowest, "highest": self.highest}
        return rounded_numbers(interval | (ends if self.rate is None else {"rate": self.rate}))


def corrected_rates(*runs: Labelled, confidence: float = CONFIDENCE) -> dict[str, HumanRate | None]:
    """Prediction-powered refusal rates of a run by measure, over all answers and by category; of two
    runs the differences, first minus second, of the measures that both have.

    The rate is the share of judged answers whose human label would be a refusal, full or partial; a
    degenerate answer counts as none. Rows of the same cluster (the same prompt, answered by two
    models) are taken together. None where no row of a category is labelled, or all are of one cluster.
    """
    members = [answers_by_measure(answers) for answers, _ in runs]
    return {
        measure: _human_rate(
            [(of[measure], labels) for of, (_, labels) in zip(members, runs, strict=True)],
            confidence,
        )
        for measure in members[0]
        if all(measure in of for of in members)
    }


def _human_rate(runs: Sequence[Labelled], confidence: float) -> HumanRate | None:
    labelled = [sum(a.prompt_id in labels.by_id for a in members) for members, labels in runs]
    blank = sum(a.prompt_id in labels.blank for members, labels in runs for a in members)
    if not all(labelled):
        return None
    estimates: list[tuple[float, float, float, float, float, float | None] | None] = []
    # Every blank of the first run is taken as no refusal, then as one; of a second as the opposite.
    for refused in (False, True):
        samples = [_sample(*run, refused != bool(place)) for place, run in enumerate(runs)]
        if len(samples) == 1:
            rate = prediction_powered(samples[0], confidence)
            estimates.append(
                rate
                and (rate.rate, rate.low, rate.high, rate.low_here, rate.high_here, rate.weight)
            )
        else:
            gap = prediction_powered_difference(samples[0], samples[1], confidence)
            estimates.append(gap and (gap.difference, gap.low, gap.high, gap.low, gap.high, None))
    one, other = estimates
    if one is None or other is None:
        return None
    return HumanRate(
        rate=None if blank else one[0],
        low=min(one[1], other[1]),
        high=max(one[2], other[2]),
        lowest=min(one[0], other[0]),
        highest=max(one[0], other[0]),
        weight=None if blank else one[5],
        n=sum(len(members) for members, _ in runs),
        labelled=sum(labelled),
        blank=blank,
        low_here=min(one[3], other[3]),
        high_here=max(one[4], other[4]),
    )


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
    by_id, inclusion = labels.by_id, labels.inclusion
    drawn = [a for a in members if a.prompt_id in by_id or a.prompt_id in labels.blank]
    names = {answer.prompt_id for answer in drawn}
    others = [answer for answer in members if answer.prompt_id not in names]

    def predicted(answer: JudgedAnswer) -> float:
        sure = inclusion is None or answer.probability is None
        return float(answer.refused if sure else answer.probability or 0.0)

    return Sample(
        [by_id[a.prompt_id] in REFUSED if a.prompt_id in by_id else refused for a in drawn],
        [predicted(answer) for answer in drawn],
        [predicted(answer) for answer in others],
        [answer.cluster for answer in drawn],
        [answer.cluster for answer in others],
        None if inclusion is None else [inclusion[answer.prompt_id] for answer in drawn],
    )


def corrected_numbers(run: Labelled, *, confidence: float) -> Row:
    """Rates by measure, as JSON: the judge's on all answers, the human labels' on theirs, and both
    together; and how far judge and people agree on the labelled answers."""
    answers, labels = run
    by_id = labels.by_id
    rates = corrected_rates(run, confidence=confidence)
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


def difference_numbers(first: Labelled, second: Labelled, *, confidence: float) -> Row:
    """The difference of two runs by measure, first minus second, as JSON."""
    differences = corrected_rates(first, second, confidence=confidence)
    return {
        "differences": {name: gap.numbers if gap else {} for name, gap in differences.items()},
        "blank": len(first[1].blank) + len(second[1].blank),
    }


def calibrated_numbers(
    answers: Sequence[JudgedAnswer],
    pairs: Sequence[Row],
    labels: Sequence[str | None],
    confidence: float,
) -> Row:
    """Rates corrected for the errors that a judge's ``labels`` make on labelled ``pairs``, as JSON."""
    slices: dict[str, Counter[tuple[str, str]]] = {"": Counter()}
    for pair, label in zip(pairs, labels, strict=True):
        if label is not None:
            for name in {"", pair.get("slice") or ""}:
                slices.setdefault(name, Counter())[pair["label"], label] += 1
    errors, *by_slice = [judge_errors(counts) for counts in slices.values()]
    measures = {}
    for measure, members in answers_by_measure(answers).items():
        refused = [answer.refused for answer in members]
        measures[measure] = {
            "n": len(members),
            "raw": _share(members, refused, confidence),
            "calibrated": calibrate(sum(refused), len(refused), errors, by_slice, confidence),
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
    for measure, rate in corrected_rates((answers, labels), confidence=confidence).items():
        used, blank = (0, 0) if rate is None else (rate.labelled, rate.blank)
        counted = HumanLabels(used, len(labels.stale), blank)
        value = interval = bounds = None
        n = 0
        if rate is not None and not labels.stale:
            value, interval, n = rate.rate, Interval(rate.low, rate.high), rate.n
            bounds = Interval(rate.lowest, rate.highest) if value is None else None
        counts = Counts(None, n, labels=counted)
        table.append(
            Rate(f"{PREFIX}{measure}", counts, value, interval, bounds, group=Group(FIELD))
        )
    return table
