"""A judge's error on a model that nobody has labelled, as a part of intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

from refract.rates.rate import Interval, Rate, WithJudge
from refract.statistics.clusters import t_quantile
from refract.statistics.proportions import normal_quantile


class JudgeError(NamedTuple):
    """How far a judge's refusal rate was from people's on so many models, none of
    which shaped it.

    ``mean`` and ``deviation`` are of the models' gaps, the judge's rate minus
    people's; ``variance`` is that of the judge's error (1, 0 or -1) on one answer of
    a model, averaged over the models."""

    models: int
    mean: float
    deviation: float
    variance: float

    def half_width(self, confidence: float) -> float:
        """Half of the prediction interval around ``mean`` for the gap of one more
        model: t·s·√(1 + 1/k), of k gaps of a normal population (Hahn & Meeker 1991,
        Statistical Intervals, chapter 4; of studies Higgins, Thompson & Spiegelhalter
        2009, JRSS A 172:137)."""
        return self._t(confidence) * self.deviation * sqrt(1 + 1 / self.models)

    def between_models(self, confidence: float) -> float:
        """The same for the difference of two further models' gaps, of which 0 is the
        middle: t·s·√2."""
        return self._t(confidence) * self.deviation * sqrt(2)

    def _t(self, confidence: float) -> float:
        return t_quantile(confidence, self.models - 1)

    def with_labels(self, rate: float, n: int, labels: int, confidence: float) -> float:
        """Half of the interval to expect of a rate over ``n`` answers, of which so
        many get a label.

        The variance of a prediction-powered rate with the best weight: σ²/m of m
        labels less cov²/var(judge)·(1/m - 1/n) (Angelopoulos, Duchi & Zrnic 2023,
        arXiv 2311.01453), with the error on one answer that the judge had on other
        models. ``rate`` is the judge's."""
        people = min(1.0, max(0.0, rate - self.mean))
        judged, human = rate * (1 - rate), people * (1 - people)
        shared = min(max(0.0, (judged + human - self.variance) / 2), sqrt(judged * human))
        saved = shared**2 / judged * (1 / labels - 1 / n) if judged else 0.0
        return normal_quantile(confidence) * sqrt(max(0.0, human / labels - saved))


def widened(
    ends: Interval, limits: Interval, shift: float, half: float, least: float = 0.0
) -> Interval:
    """Limits around two ``ends`` (an estimate twice, or bounds) that allow for an
    independent error too.

    The error's prediction interval is ``shift`` ± ``half``; the squares of distances
    add (MOVER: Zou & Donner 2008, Statistics in Medicine 27:1693). Held to ``least``
    to 1, below -1 to as much above 0."""
    low = ends.low - shift - sqrt((ends.low - limits.low) ** 2 + half**2)
    high = ends.high - shift + sqrt((limits.high - ends.high) ** 2 + half**2)
    most = max(1.0, -least)
    return Interval(min(most, max(least, low)), min(most, max(least, high)))


def with_judge_error(
    rate: Rate, error: JudgeError, confidence: float, *, refused: bool | None
) -> Rate:
    """A share of answers that are refused, or are not, with its interval for prompts
    and judge.

    None: a difference of two categories refused. The gaps on their prompts are taken
    as those of two sets of prompts, independent of each other
    (:meth:`JudgeError.between_models`)."""
    shift, half, least = 0.0, error.between_models(confidence), -1.0
    if refused is not None:
        shift, half, least = (
            error.mean if refused else -error.mean,
            error.half_width(confidence),
            0.0,
        )
    if rate.value is None or rate.interval is None:
        return rate
    ends = Interval(rate.value, rate.value)

    def allowing(around: Interval | None, limits: Interval | None) -> Interval | None:
        return around and limits and widened(around, limits, shift=shift, half=half, least=least)

    judged = WithJudge(
        interval=widened(ends, rate.interval, shift=shift, half=half, least=least),
        outer=allowing(rate.bounds, rate.outer),
        these=allowing(ends, rate.these),
        these_outer=allowing(rate.bounds, rate.these_outer),
    )
    return replace(rate, with_judge=judged)


def with_judge_errors(
    rates: Sequence[Rate], deciding: str, errors: Mapping[str, JudgeError], confidence: float
) -> list[Rate]:
    """The rates, those that the error of their judge moves with it in an interval of
    their own.

    ``errors`` are what is known of judges' errors, by name; ``deciding`` is the judge
    of the rates that name none. Whether and how an error applies is what each rate's
    measure says."""
    carried = []
    for rate in rates:
        error = errors.get(rate.key.judge or deciding)
        applies = rate.measure.judge_error
        if error is not None and applies == "difference":
            rate = with_judge_error(rate, error, confidence, refused=None)
        elif error is not None and applies in ("refused", "not_refused"):
            rate = with_judge_error(rate, error, confidence, refused=applies == "refused")
        carried.append(rate)
    return carried
