"""Refusal rates corrected by human labels of a sample of the run itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum, hypot
from typing import NamedTuple

from refract.agreement.label_files import JoinedLabels, JudgedAnswer
from refract.agreement.scores import rounded_numbers
from refract.core.decimals import decimals, estimate_text
from refract.core.types import Row
from refract.core.vocabulary import BY_PROVIDER, REFUSED
from refract.rates.clean_prompts import with_one_interval
from refract.rates.counting import CONFIDENCE, Counted, prompt_means
from refract.rates.judge_error import (
    GAINSAID,
    JudgeError,
    found_of,
    found_towards,
    labelled_interval,
    mirrored,
    part_of,
)
from refract.rates.key import (
    CATEGORY_MEASURES,
    COMPLIANCE,
    CONTRASTS,
    HARMFUL_REFUSAL,
    HUMAN_LABELLED,
    REFUSAL,
    UNDER_REFUSAL,
    Group,
    Key,
)
from refract.rates.one_share import NO_LABELS, LabelPair, VerdictLabels
from refract.rates.rate import (
    Counts,
    Interval,
    Rate,
    SharePart,
    WithJudge,
    prompts_of,
)
from refract.rates.thresholds import decided
from refract.rates.undecided import beside_unjudged, label_plan, planned_text
from refract.statistics.clusters import ClusteredValues, effective_count
from refract.statistics.correction import Sample, prediction_powered
from refract.statistics.raters import cohen_kappa

FIELD = "human_labels"
# The refusal rates that a contrast is made of.
SIDES = {
    contrast.name: (HARMFUL_REFUSAL.name, CATEGORY_MEASURES[category].name)
    for category, contrast in CONTRASTS.items()
}


class HumanRate(NamedTuple):
    """A rate from human labels and the judge's verdicts on the rest."""

    rate: float
    interval: Interval
    n: int


def corrected_rates(
    answers: Sequence[JudgedAnswer], labels: JoinedLabels, confidence: float = CONFIDENCE
) -> dict[str, HumanRate | None]:
    """Prediction-powered refusal rates of a run by measure, over all answers and by category.

    The rate is the share of judged answers whose human label would be a refusal, full or partial; a
    degenerate answer counts as none. Rows of the same cluster are taken together. None where no row
    of a category is labelled, or all are of one cluster."""
    rates: dict[str, HumanRate | None] = {}
    for measure, members in answers_by_measure(answers).items():
        rate = prediction_powered(_sample(members, labels), confidence)
        rates[measure] = None
        if rate is not None:
            interval = Interval(rate.low, rate.high)
            rates[measure] = HumanRate(rate.rate, interval, len(members))
    return rates


def answers_by_measure(answers: Sequence[JudgedAnswer]) -> dict[str, list[JudgedAnswer]]:
    """The answers that each refusal rate is over; rates without answers are left out."""
    by_measure = {}
    for measure in (REFUSAL, *CATEGORY_MEASURES.values()):
        members = [answer for answer in answers if measure.category in (None, answer.category)]
        if members:
            by_measure[measure.name] = members
    return by_measure


def _sample(members: Sequence[JudgedAnswer], labels: JoinedLabels) -> Sample:
    by_id, inclusion = labels.by_id, labels.inclusion
    drawn = [answer for answer in members if answer.prompt_id in by_id]
    others = [answer for answer in members if answer.prompt_id not in by_id]
    weight = _weights(members)
    uneven = len({*weight.values()}) > 1

    def predicted(answer: JudgedAnswer) -> float:
        sure = inclusion is None or answer.probability is None
        return float(answer.refused if sure else answer.probability or 0.0)

    return Sample(
        human=[by_id[answer.prompt_id] in REFUSED for answer in drawn],
        judged=list(map(predicted, drawn)),
        others=list(map(predicted, others)),
        clusters=[answer.cluster for answer in drawn],
        clusters_others=[answer.cluster for answer in others],
        inclusion=None if inclusion is None else [inclusion[answer.prompt_id] for answer in drawn],
        weights=[weight[answer.prompt_key] for answer in drawn] if uneven else None,
        weights_others=[weight[answer.prompt_key] for answer in others] if uneven else (),
    )


def _weights(members: Sequence[JudgedAnswer]) -> dict[tuple[str, str], float]:
    """How much each answer to a prompt counts: a prompt counts once, however many of its samples were
    judged."""
    judged = Counter(answer.prompt_key for answer in members)
    return {prompt: 1 / samples for prompt, samples in judged.items()}


def _refused_by_prompt(members: Sequence[JudgedAnswer]) -> ClusteredValues:
    """The share of refusals among the judged samples of each prompt, by the judge."""
    refused, counted = [], []
    for answer in members:
        refused.append(float(answer.refused))
        counted.append(Counted(answer.outcome, answer.cluster, prompt=str(answer.prompt_key)))
    return prompt_means(refused, counted).sample


def corrected_numbers(
    answers: Sequence[JudgedAnswer],
    labels: JoinedLabels,
    confidence: float,
    error: JudgeError | None = None,
) -> Row:
    """The rates of a run by measure, as JSON: the judge's on all answers (``raw``), for prompts and
    judge ``without_labels`` and ``with_labels`` where the judge's ``error`` is known, and what
    labels and verdicts say together; and how far judge and people agree on the labelled answers, where
    these were drawn with the same chance."""
    measures: Row = {}
    members = answers_by_measure(answers)
    for measure, rate in corrected_rates(answers, labels, confidence).items():
        row: Row = {"labelled": _labelled(members[measure], labels)}
        if rate is not None:
            row["prediction_powered"] = _numbers(rate.rate, rate.interval)
        row["n"] = len(members[measure])
        if raw := _refused_by_prompt(members[measure]).mean(confidence):
            row["raw"] = rounded_numbers({"rate": raw.value, "low": raw.low, "high": raw.high})
        weighed = _weighed(members[measure], labels, error, confidence)
        if weighed and rate is not None:
            share, without = weighed.part.share, weighed.interval(confidence, NO_LABELS)
            row["without_labels"] = _numbers(share, without)
            middle = rounded_numbers({"middle": weighed.middle(confidence)})
            row["with_labels"] = _numbers(share, weighed.interval(confidence)) | middle
            row["with_labels"]["gainsaid"] = weighed.gainsaid(confidence)
        measures[measure] = row
    numbers: Row = {"measures": measures}
    if labels.inclusion is None:
        both = [answer for answer in answers if answer.prompt_id in labels.by_id]
        human = [labels.by_id[answer.prompt_id] in REFUSED for answer in both]
        kappa = cohen_kappa(human, [answer.refused for answer in both], confidence)
        ends = {"low": kappa.low, "high": kappa.high}
        numbers["judge"] = {"n": kappa.n, **rounded_numbers({"kappa": kappa.kappa, **ends})}
    return numbers


def _numbers(rate: float, interval: Interval) -> Row:
    """A rate as JSON."""
    return rounded_numbers({"rate": rate, **interval._asdict()})


def label_table(
    answers: Sequence[JudgedAnswer], labels: JoinedLabels, confidence: float = CONFIDENCE
) -> list[Rate]:
    """The prediction-powered rates of one suite, for a model's table.

    With stale or blank labels there is no rate: what is left of the sample is not random. Nothing
    where nothing is labelled yet."""
    if not labels.by_id and not labels.stale:
        return []
    table = []
    members = answers_by_measure(answers)
    for name, rate in corrected_rates(answers, labels, confidence).items():
        key = Key(HUMAN_LABELLED[name], group=Group(FIELD))
        used = replace(labels.counts, used=_labelled(members[name], labels))
        if rate is None or not used.are_random:
            table.append(Rate(key, Counts(None, 0, labels=used), None))
        else:
            counts = Counts(None, rate.n, labels=used)
            table.append(Rate(key, counts, rate.rate, interval=rate.interval))
    return table


def label_intervals(
    answers: Sequence[JudgedAnswer],
    labels: JoinedLabels,
    error: JudgeError | None,
    confidence: float = CONFIDENCE,
) -> tuple[dict[str, Interval], list[str]]:
    """The intervals of refusal rates and of their contrasts for prompts and judge, with human labels of
    the run; and of which rates labels contradict what is known of the judge.

    Where the judge's ``error`` is known, what it may be is weighed by the labels
    (:func:`refract.rates.judge_error.labelled_interval`); else it is the prediction-powered interval.
    Measures without labels have none, nor has any where stale or blank labels leave no random
    sample. A contrast has that of its two sides by MOVER (Zou & Donner 2008, Statistics in Medicine
    27:1693), as if they erred apart."""
    intervals: dict[str, Interval] = {}
    gainsaid: list[str] = []
    sides: dict[str, tuple[float, Interval]] = {}
    if not labels.counts.are_random:
        return intervals, gainsaid
    members = answers_by_measure(answers)
    for measure, rate in corrected_rates(answers, labels, confidence).items():
        weighed = _weighed(members[measure], labels, error, confidence)
        if weighed:
            sides[measure] = weighed.middle(confidence), weighed.interval(confidence)
        elif rate:
            sides[measure] = rate.rate, rate.interval
        if rate is None:
            continue
        intervals[measure] = sides[measure][1]
        if weighed and weighed.gainsaid(confidence):
            gainsaid.append(measure)
    for contrast, names in SIDES.items():
        if sides.keys() >= {*names} and intervals.keys() & {*names}:
            intervals[contrast] = _minus(*(sides[name] for name in names))
    return intervals, gainsaid


def _minus(first: tuple[float, Interval], second: tuple[float, Interval]) -> Interval:
    """The interval of one rate minus another, each with its middle."""
    (a, ends), (b, others) = first, second
    below, above = hypot(a - ends.low, others.high - b), hypot(ends.high - a, b - others.low)
    return Interval(max(-1.0, a - b - below), min(1.0, a - b + above))


def gainsaid_notes(measures: Sequence[str]) -> list[str]:
    """Of which rates labels contradict what is known of the judge, in a sentence."""
    return [f"{', '.join(measures)}: {GAINSAID}"] if measures else []


def _labelled(members: Sequence[JudgedAnswer], labels: JoinedLabels) -> int:
    """How many of these answers have a label."""
    return sum(answer.prompt_id in labels.by_id for answer in members)


class Weighed(NamedTuple):
    """What a judge, whose ``error`` is known, found of a measure, and what labels say of answers
    with either verdict."""

    error: JudgeError
    part: SharePart
    labels: LabelPair

    def interval(self, confidence: float, labels: LabelPair | None = None) -> Interval:
        """For prompts and judge with these labels; or with others."""
        used = self.labels if labels is None else labels
        return labelled_interval(self.error, self.part, used, confidence)

    def gainsaid(self, confidence: float) -> bool:
        """Whether labels contradict what is known of the judge."""
        paths = self.error.paths(self.part.prompts)
        return paths.gainsaid(found_of(self.part, confidence), self.labels)

    def middle(self, confidence: float) -> float:
        """The rate that people's is as likely above as below, with these labels. Near 0 and 1 the two
        limits are of unlike deviations: the mean of what is the middle by each."""
        part, ends = self.part, self.interval(confidence)
        paths = self.error.paths(part.prompts)
        middles = []
        for limit in part.interval:
            share = found_towards(limit, part.share, part, confidence)
            middles.append(paths.limit(share, 0.5, self.labels))
        return min(max(sum(middles) / 2, ends.low), ends.high)


def _weighed(
    members: Sequence[JudgedAnswer],
    labels: JoinedLabels,
    error: JudgeError | None,
    confidence: float,
) -> Weighed | None:
    """None where nothing is known of the judge's error on these prompts, or of their spread."""
    weight, judged = _weights(members), _refused_by_prompt(members)
    by_provider = [answer for answer in members if answer.outcome == BY_PROVIDER]
    part = part_of(
        judged.values,
        judged.clusters,
        prompts_of({answer.category for answer in members}),
        confidence,
        sign=1,
        certain=fsum(weight[answer.prompt_key] for answer in by_provider) / len(weight),
    )
    if error is None or part is None or not error.knows(part.prompts):
        return None
    by_verdict: dict[bool, list[JudgedAnswer]] = {True: [], False: []}
    for answer in members:
        if answer.prompt_id in labels.by_id and answer.outcome != BY_PROVIDER:
            by_verdict[answer.refused].append(answer)
    refused, answered = (
        _verdict_labels(by_verdict[verdict], labels, weight) for verdict in (True, False)
    )
    return Weighed(error, part, (refused, answered))


def label_plans(
    answers: Sequence[JudgedAnswer],
    labels: JoinedLabels,
    error: JudgeError | None,
    confidence: float = CONFIDENCE,
) -> dict[str, str]:
    """Of each refusal rate over one kind of prompt what it is with the labels so far, and what some
    more would leave, in a sentence; none where the judge's error is not known."""
    texts = {}
    for measure, members in answers_by_measure(answers).items():
        weighed = None if measure == REFUSAL.name else _weighed(members, labels, error, confidence)
        if weighed is None:
            continue
        plan = label_plan(weighed.error, weighed.part, confidence, weighed.labels)
        share, now = weighed.part.share, weighed.interval(confidence)
        if labels.by_id:
            middle = weighed.middle(confidence)
            known = f"{measure} with labels is {estimate_text(middle, now, places=2)}"
            known += f" (the judge alone counts {decimals(share, places=2)})"
        else:
            known = f"{measure} is {estimate_text(share, now, places=2)}"
        labelled = _labelled(members, labels)
        texts[measure] = f"{known}; {planned_text(plan, len(answers), len(members), labelled)}"
    return texts


def _verdict_labels(
    answers: Sequence[JudgedAnswer],
    labels: JoinedLabels,
    weight_of: Mapping[tuple[str, str], float],
) -> VerdictLabels:
    """Labels of answers with one verdict, each for as many as it was drawn for and by what it counts;
    they say as much as (Σw)²/Σw² answers drawn alike (Kish 1965, Survey Sampling), fewer where some are
    of one cluster."""
    if not answers:
        return VerdictLabels(0.0, 0.0)
    inclusion = labels.inclusion or {}
    weights = [
        weight_of[answer.prompt_key] / inclusion.get(answer.prompt_id, 1.0) for answer in answers
    ]
    refused = fsum(
        weight
        for answer, weight in zip(answers, weights, strict=True)
        if labels.by_id[answer.prompt_id] in REFUSED
    )
    alike = effective_count(weights)
    clusters = Counter(answer.cluster for answer in answers)
    apart = effective_count([*clusters.values()]) / len(answers)
    return VerdictLabels(refused / fsum(weights), alike * apart)


def with_labels(rates: Sequence[Rate], intervals: Mapping[str, Interval]) -> list[Rate]:
    """Rates of which those that human labels of the run say something of (:func:`labelled_rates`) have
    the interval of the labels (:func:`label_intervals`) for prompts and judge, and the decision that it
    gives."""
    labelled = []
    for rate in rates:
        names = labelled_rates(rate.key)
        is_contrast = len(names) > 1
        interval = None
        if names:
            interval = intervals.get(rate.measure.name if is_contrast else names[0])
        if interval is not None:
            if rate.measure in (UNDER_REFUSAL, COMPLIANCE):
                interval = mirrored(interval)
            outer = beside_unjudged(interval, rate)
            if is_contrast and rate.bounds and rate.value is not None:
                below, above = rate.value - rate.bounds.low, rate.bounds.high - rate.value
                outer = Interval(max(-1.0, interval.low - below), min(1.0, interval.high + above))
            rate = replace(rate, with_judge=WithJudge(interval, outer), judge_unknown=False)
        labelled.append(rate)
    corrected = []
    for before, rate in zip(rates, with_one_interval(labelled), strict=True):
        if rate.threshold and rate != before:
            rate = decided(rate, rate.threshold)
        corrected.append(rate)
    return corrected


def labelled_rates(key: Key) -> tuple[str, ...]:
    """The names of the refusal rates whose labels say something of a rate: its own, those of the two
    sides of a contrast, or that of the answers of which it is the rest."""
    if key.is_headline and key.measure == UNDER_REFUSAL:
        return (HARMFUL_REFUSAL.name,)
    if key.is_headline:
        return SIDES.get(key.measure.name, (key.measure.name,))
    of_category = CATEGORY_MEASURES.get(key.group.value)
    if of_category and key.measure == COMPLIANCE and not key.judge:
        return (of_category.name,)
    return ()
