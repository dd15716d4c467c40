"""Refusal rates corrected by human labels of a sample of the run itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refract.agreement.label_files import JoinedLabels, JudgedAnswer
from refract.agreement.scores import rounded_numbers
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
)
from refract.statistics.raters import cohen_kappa

FIELD = "human_labels"
PREFIX = "prediction_powered_"


# The judged answers of a run, and human labels of some of them.
Labelled = tuple[Sequence[JudgedAnswer], JoinedLabels]


class HumanRate(NamedTuple):
    """A rate, or a difference of two, from human labels and the judge's verdicts on the rest.

    Without blank labels ``rate`` is the estimate. With them it is None, ``bounds`` are the estimates
    with every blank taken one way and the other, and ``interval`` covers both. ``here`` is the interval
    for the run's own answers, of which all could be labelled (of a difference, the same as for others).
    Counts are over both runs of a difference.
    """

    rate: float | None
    interval: Interval
    bounds: Interval
    here: Interval
    n: int
    labelled: int
    blank: int

    def numbers(self, interval: Interval) -> Row:
        """The rate or its bounds as JSON, with one of the intervals."""
        ends = {"lowest": self.bounds.low, "highest": self.bounds.high}
        value = ends if self.rate is None else {"rate": self.rate}
        return rounded_numbers(value | interval._asdict())


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
    values: list[float] = []
    intervals: list[Interval] = []
    here: list[Interval] = []
    # Every blank of the first run is taken as no refusal, then as one; of a second as the opposite.
    for refused in (False, True):
        samples = [_sample(*run, refused != bool(place)) for place, run in enumerate(runs)]
        if len(samples) == 1:
            rate = prediction_powered(samples[0], confidence)
            if rate is None:
                return None
            values.append(rate.rate)
            here.append(Interval(rate.low_here, rate.high_here))
            intervals.append(Interval(rate.low, rate.high))
        else:
            gap = prediction_powered_difference(samples[0], samples[1], confidence)
            if gap is None:
                return None
            values.append(gap.difference)
            here.append(Interval(gap.low, gap.high))
            intervals.append(Interval(gap.low, gap.high))
    return HumanRate(
        None if blank else values[0],
        _covering(intervals),
        Interval(min(values), max(values)),
        _covering(here),
        n=sum(len(members) for members, _ in runs),
        labelled=sum(labelled),
        blank=blank,
    )


def _covering(intervals: Sequence[Interval]) -> Interval:
    return Interval(min(low for low, _ in intervals), max(high for _, high in intervals))


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
        human = [answer for answer in members if answer.prompt_id in by_id]
        raw = _share(members, [answer.refused for answer in members], confidence)
        row: Row = {"n": len(members), "labelled": len(human), "blank": 0, "raw": raw}
        rate = rates[measure]
        if rate is not None:
            refused = [by_id[answer.prompt_id] in REFUSED for answer in human]
            row["blank"] = rate.blank
            row["human"] = _share(human, refused, confidence)
            row["prediction_powered"] = rate.numbers(rate.interval)
            row["these_answers"] = rate.numbers(rate.here)
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
    differences: Row = {}
    for measure, gap in corrected_rates(first, second, confidence=confidence).items():
        counts = {} if gap is None else {"labelled": gap.labelled, "blank": gap.blank}
        differences[measure] = counts | (gap.numbers(gap.interval) if gap else {})
    return {"differences": differences}


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
            value, interval, n = rate.rate, rate.interval, rate.n
            bounds = rate.bounds if value is None else None
        counts = Counts(None, n, labels=counted)
        table.append(
            Rate(f"{PREFIX}{measure}", counts, value, interval, bounds, group=Group(FIELD))
        )
    return table
