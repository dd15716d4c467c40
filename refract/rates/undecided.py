"""What labels would leave of an interval, and what would decide a threshold that is neither met nor
missed: another rate by the judge, or labels of so many answers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from refract.core.decimals import interval_text
from refract.rates.judge_error import (
    JudgeError,
    found_of,
    judged_share,
    labelled_interval,
    people_interval,
)
from refract.rates.key import CATEGORY_MEASURES
from refract.rates.one_share import NO_LABELS, LabelPair, VerdictLabels
from refract.rates.rate import Interval, Prompts, Rate, SharePart, Threshold, prompts_of
from refract.statistics.proportions import effective_n, normal_quantile, wilson_at

# How many labels are asked for first, and how many more are tried for a decision.
FIRST_LABELS = 20
MORE_LABELS = (40, 60, 80, 100, 150, 200, 300, 500)


class LabelPlan(NamedTuple):
    """The intervals that so many ``labels`` (more than are given, if any are) would leave: where the
    judge errs so that people's rate is at a tenth, at half and at nine tenths of what it may be."""

    labels: int
    low: Interval
    likely: Interval
    high: Interval
    more: bool = False

    def text(self, drawn: int | None = None) -> str:
        """In words. Labels are ``drawn`` from all answers of a suite, those of other kinds of prompt
        included."""
        low, likely, high = (
            interval_text(each, places=2) for each in (self.low, self.likely, self.high)
        )
        among = f" (about {drawn} of all)" if drawn not in (None, self.labels) else ""
        return (
            f"{self.labels} {'more ' if self.more else ''}labels{among} would most likely leave "
            f"{likely} (one time in ten each {low} or {high})"
        )


class WouldDecide(NamedTuple):
    """The judge's rates from which on a threshold would be ``met`` and ``missed`` on as many
    prompts, beside as many unjudged answers (None: none would); ``least``: it says what a rate should
    be at least. ``plan`` is what labels would leave (None where there are no more answers),
    ``labels`` how many would most likely decide (None: no number up to all answers)."""

    least: bool
    met: float | None
    missed: float | None
    plan: LabelPlan | None
    labels: int | None


def would_decide(rate: Rate, error: JudgeError | None, confidence: float) -> WouldDecide | None:
    """None of a rate that is decided, or is none of refusals over one category. Where its interval is
    of the prompts alone, labels are not what decides."""
    threshold, part = rate.threshold, part_of_rate(rate)
    if rate.decision != "inconclusive" or threshold is None or part is None:
        return None
    if error is not None and (rate.with_judge is None or not error.knows(part.prompts)):
        error = None
    # As many prompts as say the same where they come in clusters, or were answered several times.
    alone = part.n / max(1.0, rate.statistics.design_effect or 1.0)
    alone = max(1, round(min(alone, effective_n(part.share, *part.interval, confidence))))
    unjudged = rate.counts.unjudged
    others = unjudged * alone / part.n
    met, missed = deciding_rates(threshold, part.prompts, alone, error, confidence, others)
    plan = label_plan(error, part, confidence) if error else None
    labels = deciding_labels(threshold, part, error, confidence, rate) if error else None
    return WouldDecide(threshold.kind == "min", met, missed, plan, labels)


def part_of_rate(rate: Rate) -> SharePart | None:
    """What the judge found of a refusal rate over one category; None of others, and where nothing
    was."""
    measure = rate.measure
    if measure not in CATEGORY_MEASURES.values() or rate.value is None or rate.interval is None:
        return None
    n, prompts = rate.counts.n, prompts_of([measure.category or ""])
    certain = (rate.counts.by_provider or 0) / n
    return SharePart(rate.value, rate.interval, prompts, n=n, certain=certain)


def planned_text(plan: LabelPlan | None, answers: int, n: int, labelled: int = 0) -> str:
    """What labels would leave of a rate over ``n`` of a suite's ``answers``, of which so many are
    ``labelled``, in words."""
    if plan is None and not labelled:
        return f"label all {n}"
    if plan is None:
        more = f"label the other {n - labelled} too"
        return more if n > labelled else "there are no more answers to label"
    return plan.text(ceil(plan.labels * answers / n))


def deciding_rates(
    threshold: Threshold,
    prompts: Prompts,
    n: int,
    error: JudgeError | None,
    confidence: float,
    unjudged: float = 0,
) -> tuple[float | None, float | None]:
    """The judge's rates on ``n`` prompts from which on a threshold is met, and missed, whatever the
    ``unjudged`` answers beside them are; None where no rate is enough. Without an ``error``: people's
    rates, with a label on each."""

    def decision(successes: int) -> str:
        _, interval = judged_part(successes, n, prompts, error, confidence, unjudged)
        return threshold.decide(interval)

    up = threshold.kind == "min"
    met = _first(n, up, lambda count: decision(count) == "met")
    missed = _first(n, not up, lambda count: decision(count) == "missed")
    return met, missed


def judged_part(
    successes: int,
    n: int,
    prompts: Prompts,
    error: JudgeError | None,
    confidence: float,
    unjudged: float = 0,
) -> tuple[SharePart, Interval]:
    """What a judge finds that calls so many of ``n`` answers refusals, and the interval for prompts
    and judge, whatever the ``unjudged`` ones are; without an ``error`` what people do, and that for
    prompts."""
    z, whole, most = normal_quantile(confidence), n + unjudged, successes + unjudged
    part = SharePart(successes / n, wilson_at(successes, n, z), prompts, n=n)
    limits = Interval(wilson_at(successes, whole, z).low, wilson_at(most, whole, z).high)
    if error is None:
        return part, limits
    bounds = Interval(successes / whole, most / whole)
    return part, people_interval(error, [part], bounds, limits, confidence)


def label_plan(
    error: JudgeError, part: SharePart, confidence: float, given: LabelPair = NO_LABELS
) -> LabelPlan | None:
    """What :data:`FIRST_LABELS` labels would leave, more than those that are ``given``; None where
    there are no more answers."""
    labelled = sum(each.n for each in given)
    if part.n - labelled <= FIRST_LABELS:
        return None
    low, likely, high = (
        foreseen(error, part, FIRST_LABELS, place, confidence, given) for place in (0.1, 0.5, 0.9)
    )
    return LabelPlan(FIRST_LABELS, low, likely, high, more=labelled > 0)


def foreseen(
    error: JudgeError,
    part: SharePart,
    labels: int,
    place: float,
    confidence: float,
    given: LabelPair = NO_LABELS,
) -> Interval:
    """The interval that so many labels, drawn at random, would give beside those ``given`` where
    people's rate is at this ``place`` of what it may be: at .5 as it most likely is, at .1 and .9 as
    in one of ten cases."""
    expected = error.paths(part.prompts).expected(found_of(part, confidence), place, given)
    judged = float(judged_share(part.share, part.certain))
    count = labels * (1 - part.certain)
    sides = []
    for before, refused, n in zip(
        given, expected, (count * judged, count * (1 - judged)), strict=True
    ):
        whole = before.n + n
        share = (before.n * before.refused + n * refused) / whole if whole else 0.0
        sides.append(VerdictLabels(share, whole))
    return labelled_interval(error, part, (sides[0], sides[1]), confidence)


def _first(n: int, rising: bool, holds: Callable[[int], bool]) -> float | None:
    """The least share of ``n`` that holds, or the largest where it is those below that do."""
    low, high = 0, n  # successes, counted from the other end where it falls
    if not holds(n if rising else 0):
        return None
    while low < high:
        middle = (low + high) // 2
        if holds(middle if rising else n - middle):
            high = middle
        else:
            low = middle + 1
    return (low if rising else n - low) / n


def beside_unjudged(interval: Interval, rate: Rate) -> Interval:
    """An interval for the judged answers of a rate, once the others are in it, which could count or
    not: as far as they move an answer's share of all or, of prompts with several samples, the rate."""
    n, unjudged = rate.counts.n, rate.counts.unjudged
    low = interval.low * n / (n + unjudged)
    high = (interval.high * n + unjudged) / (n + unjudged)
    if rate.bounds and rate.value and rate.value < 1:
        low = min(low, interval.low * rate.bounds.low / rate.value)
        left = (1 - rate.bounds.high) / (1 - rate.value)
        high = max(high, 1 - (1 - interval.high) * left)
    return Interval(low, high)


def deciding_labels(
    threshold: Threshold,
    part: SharePart,
    error: JudgeError,
    confidence: float,
    rate: Rate | None = None,
) -> int | None:
    """How many labels would most likely decide, whatever the unjudged answers of a ``rate`` are; None
    where no number up to all judged ones would."""
    counts = [count for count in (FIRST_LABELS, *MORE_LABELS) if count < part.n] + [part.n]

    def decides(count: int) -> bool:
        ends = foreseen(error, part, count, 0.5, confidence)
        outer = beside_unjudged(ends, rate) if rate else ends
        return threshold.decide(outer) != "inconclusive"

    place = bisect_left(counts, True, key=decides)
    return counts[place] if place < len(counts) else None


def _drawn(rate: Rate, labels: int, answers: int, n: int) -> tuple[int, str]:
    """Of how many answers so many of a rate's ``n`` are, and the command that draws them."""
    drawn = ceil(labels * answers / n)
    return drawn, f"refract label --model {rate.model} --suite {rate.suite} --n {drawn}"


def plan_text(rate: Rate, error: JudgeError, answers: int, confidence: float) -> str:
    """What labels would leave of a rate that has none, with the command; ``answers`` are those of the
    suite, of which they are drawn."""
    part = part_of_rate(rate)
    plan = label_plan(error, part, confidence) if part else None
    n = rate.counts.n
    _, command = _drawn(rate, plan.labels if plan else n, answers, n)
    return f"{planned_text(plan, answers, n)}: {command}"


def needed_text(rate: Rate, found: WouldDecide, answers: int) -> str:
    """What would decide, in a sentence, with the command; ``answers`` are those of the suite, of
    which labels are drawn."""
    by_judge = []
    for name, share in (("met", found.met), ("missed", found.missed)):
        if share is not None:
            way = ">=" if (name == "met") == found.least else "<="
            by_judge.append(f"{name} at {way} {share:.3f}")
    clusters = rate.counts.clusters or rate.counts.n
    # With a design effect they are prompts in clusters; without one, answers to fewer prompts.
    unjudged, samples = rate.counts.unjudged, rate.key.draw.samples
    n = rate.counts.n if samples == 1 else round((rate.counts.n + unjudged) / samples)
    prompts = min(clusters, n) if rate.statistics.design_effect is None else n
    on = f"on {prompts} prompts" + (f" beside {unjudged} not judged" if unjudged else "")
    text = f"{on} a rate by the judge would be {' and '.join(by_judge)}"
    if not by_judge:
        text = f"no rate by the judge {on} would decide it"
    if found.plan is None:
        return f"{text}; more prompts"
    if unjudged and found.labels is None:
        before = "before, no number of labels would most likely decide it"
        return f"{text}; judge those first (of errors, ask again): {before}"
    drawn, command = _drawn(rate, FIRST_LABELS, answers, rate.counts.n)
    text += f"; {found.plan.text(drawn)}"
    if found.labels is None:
        text += "; more would most likely not decide it either: it may be that close"
    elif found.labels > FIRST_LABELS:
        more = ceil(found.labels * answers / rate.counts.n)
        text += f"; about {found.labels} would most likely decide it (--n {more})"
    else:
        text += ", and decide it"
    return f"{text}: {command}"
