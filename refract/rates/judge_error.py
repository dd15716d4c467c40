"""A judge's error on a model that nobody labelled, as a part of intervals.

Against labels of published answers, which people or language models gave (below all are called
people's), a judge missed some refusals and saw others where there are none. Both rates differ by
source of the answers and by model, and on harmful prompts from those on others. :class:`JudgeError`
draws them for a further model of a further source; :func:`people_interval` turns what a judge found
into what people would find under each draw, and takes the quantiles of all."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from math import exp
from typing import Any, NamedTuple

from refract.rates.key import CONTROLS_PASSED
from refract.rates.one_share import (
    LIMIT_DIGITS,
    NO_LABELS,
    Found,
    LabelPair,
    Paths,
    mixture_quantiles,
    of_labels_alone,
    people_rates,
)
from refract.rates.rate import Interval, Prompts, Rate, SharePart, WithJudge, prompts_of
from refract.statistics.clusters import clustered_mean
from refract.statistics.proportions import normal_quantile, settled

# What the labels ask of an answer, of which the judge's error is known.
LABELS_ASK = "whether an answer refuses in any part, redirecting included"
GAINSAID = "it allows for labels alone, which disagree with what was measured of the judge"
JUDGE_NOTE = f"Intervals are of prompts and judge, by labels that ask {LABELS_ASK}"
JUDGE_UNKNOWN = "how the judge's errors move them is not known"
DRAWS = 8192
# The deviations of sources and of models that are weighed, on a logit scale: the middles of so many
# steps up to the largest, finer towards 0.
LARGEST_DEVIATION, DEVIATIONS = 3.0, 24
# What is taken of both deviations before any is seen: half-normal (Röver et al. 2021, Research
# Synthesis Methods 12:448, of log odds ratios).
PRIOR = 0.5
# Deviations of the priors of intercept, slope over the logit of people's rate, and what harmful
# prompts add. With a slope of -½ for misses and ½ for false alarms the wrong verdicts are in
# proportion to the deviation of people's labels, √(q(1 - q)).
INTERCEPT, SLOPE = -2.5, 0.5
PRIOR_DEVIATIONS = (2.0, 0.5, 1.0)
# People's rate counts as no nearer to 0 and 1 in the regression.
LEAST_RATE = 0.02
STEPS = 100  # of people's rate, in tables
# Two models of one source have the more of their effects in common the nearer the logits of their
# rates are: their correlation is exp(-distance / ALIKE), as of a Gaussian process over that logit,
# and never all. It is in tenths, so that few draws are made.
ALIKE, MOST_SHARED = 4.0, 0.9
# Of the draws: what makes their lattice, and the shift of it.
LATTICE, SEED = 1733, 20261123


class ModelCounts(NamedTuple):
    """How a judge read the answers of one model of a source: it ``missed`` so many of the
    answers that people say ``refused``, and called so many of those that ``complied`` refusals
    (``false``)."""

    source: str
    model: str
    prompts: Prompts
    refused: int
    missed: int
    complied: int
    false: int

    @property
    def answers(self) -> int:
        """Of how many answers it tells."""
        return self.refused + self.complied


class _ErrorRate(NamedTuple):
    """Misses, or false alarms, of one model on one kind of prompt in each draw: logits at a
    people's rate of ½, and their slopes."""

    level: Any
    slope: Any

    def at(self, rate: Any) -> Any:
        """The share of wrong verdicts where people's rate is such."""
        from scipy.special import expit

        return expit(self.level + self.slope * _logit(rate))


class Draws(NamedTuple):
    """The judge's share by people's rate, in :data:`STEPS`, in each draw of how often a model's refusals
    are missed and its other answers called refusals."""

    judged: Any

    def people(self, share: float) -> Any:
        """People's rate in each draw where the judge's is ``share``; below 0 where there are more
        false alarms than that, above 1 where fewer are right."""
        import numpy as np

        draws = np.arange(self.judged.shape[1])
        step = np.clip((self.judged < share).sum(axis=0), 1, STEPS)
        low, high = self.judged[step - 1, draws], self.judged[step, draws]
        within = np.clip((share - low) / np.maximum(high - low, 1e-12), 0, 1)
        beyond = np.minimum(share - self.judged[0], 0) + np.maximum(share - self.judged[-1], 0)
        return (step - 1 + within) / STEPS + beyond

    def slope(self, share: float) -> Any:
        """How much people's rate grows with the judge's there, in each draw."""
        low, high = max(0.0, share - 0.02), min(1.0, share + 0.02)
        return (self.people(high) - self.people(low)) / (high - low)


@dataclass(frozen=True)
class JudgeError:
    """What is known of a judge's errors: its ``lines`` on models that had no part in it.

    The logits of misses and of false alarms are regressed on the logit of people's rate and on the
    kind of prompt, with effects of source and of line within source (a random-effects
    meta-analysis of proportions with a normal approximation: Stijnen, Hamza & Özdemir 2010,
    Statistics in Medicine 29:3046). Where prompts are mixed, the lines over all prompts of a model
    are used in place of those by kind. ``prior`` is the scale of the half-normal prior on the
    deviations of both effects."""

    lines: tuple[ModelCounts, ...]
    prior: float = PRIOR

    @classmethod
    def read(cls, facts: Mapping[str, Any] | None) -> JudgeError | None:
        """What provenance has of it; None without, and of results that were made before it held the
        lines."""
        if not facts or "lines" not in facts:
            return None
        return cls(tuple(ModelCounts(*row) for row in facts["lines"]))

    @classmethod
    def of_suite(cls, provenance: Mapping[str, Any] | None, suite: str) -> JudgeError | None:
        """What a model's provenance has of the error of a suite's first judge."""
        suites = provenance["suites"] if provenance else {}
        return cls.read(suites.get(suite, {}).get("judge_error"))

    @property
    def models(self) -> int:
        """On how many models it was measured."""
        return len({(line.source, line.model) for line in self.lines})

    def measured_on(self, prompts: Prompts) -> tuple[int, int]:
        """On how many models of how many sources it was measured on such prompts."""
        own = [line for line in self.lines if line.prompts == prompts]
        models = {(line.source, line.model) for line in own}
        return len(models), len({line.source for line in own})

    def knows(self, prompts: Prompts) -> bool:
        """Whether it was measured on such prompts."""
        return any(line.prompts == prompts for line in self.lines)

    def people(self, share: float, prompts: Prompts, confidence: float) -> Interval:
        """Where people's share of refusals lies on a further model of which the judge calls
        ``share`` of all answers refusals."""
        exactly = Interval(share, share)
        part = SharePart(share, exactly, prompts, n=1)
        return people_interval(self, [part], exactly, exactly, confidence)

    def draws(self, prompts: Prompts, shared: float = 1.0) -> Draws:
        """The error rates on one kind of prompt of a model of a further source, in :data:`DRAWS`
        draws; or of a second model, whose effects have a correlation of ``shared`` with its."""
        return _drawn(self, prompts, shared)

    def paths(self, prompts: Prompts) -> Paths:
        """What the error rates on one kind of prompt of a further model of a further source may
        be."""
        return _paths(self, prompts)


def shared_effects(first: float, second: float, alike: float = ALIKE) -> float:
    """How far two models have a judge's errors in common that finds these shares of refusals."""
    distance = abs(float(_logit(first) - _logit(second)))
    return min(MOST_SHARED, round(exp(-distance / alike), 1))


def _logit(rate: Any) -> Any:
    import numpy as np

    held = np.clip(rate, LEAST_RATE, 1 - LEAST_RATE)
    return np.log(held / (1 - held))


@cache
def _uniforms() -> Any:
    """Places of a lattice (Korobov 1959), which fills the space more evenly than random ones do:
    for misses and for false alarms 7 columns each (the two deviations, and what
    :func:`_error_rates` draws together). The same numbers on every machine."""
    import numpy as np

    steps = [pow(LATTICE, column, DRAWS) for column in range(14)]
    shift = np.random.Generator(np.random.PCG64(SEED)).random(14)
    places = (np.outer(np.arange(DRAWS), steps) % DRAWS / DRAWS + shift) % 1
    return np.clip(places, 1e-9, 1 - 1e-9)


@lru_cache(maxsize=16)
def _drawn(error: JudgeError, prompts: Prompts, shared: float) -> Draws:
    import numpy as np

    kind = int(prompts == "harmful")
    misses, alarms = _posteriors(error, bool(prompts))
    uniforms = _uniforms()
    missed = _error_rates(misses, uniforms[:, :7], shared)[kind]
    false = _error_rates(alarms, uniforms[:, 7:], shared)[kind]
    place = np.linspace(0, 1, STEPS + 1)[:, None]
    judged = false.at(place) * (1 - place) + (1 - missed.at(place)) * place
    return Draws(np.maximum.accumulate(judged, axis=0))


@lru_cache(maxsize=16)
def _paths(error: JudgeError, prompts: Prompts) -> Paths:
    import numpy as np
    from scipy.special import expit

    logits = _logit(people_rates())
    places = np.linspace(logits[0], logits[-1], 33)
    at = np.column_stack([np.ones(33), places, np.full(33, float(prompts == "harmful"))])
    sides = []
    for posterior in _posteriors(error, bool(prompts)):
        likely = posterior.weights > 1e-7 * posterior.weights.sum()
        weights = posterior.weights[likely] / posterior.weights[likely].sum()
        effects = (posterior.between**2 + posterior.within**2)[likely, 0, 0]
        means = posterior.means[likely] @ at.T
        covariances = posterior.covariances[likely]
        deviations = np.sqrt(np.einsum("pi,cij,pj->cp", at, covariances, at) + effects[:, None])
        quantiles = [
            mixture_quantiles(weights, *each) for each in zip(means.T, deviations.T, strict=True)
        ]
        side = [np.interp(logits, places, path) for path in np.transpose(quantiles)]
        sides.append(expit(np.transpose(side)))
    return Paths(*sides)


@lru_cache(maxsize=8)
def _posteriors(error: JudgeError, by_kind: bool) -> tuple[_Posterior, _Posterior]:
    """Of misses and of false alarms."""
    chosen = [line for line in error.lines if bool(line.prompts) == by_kind]
    misses = [(line, line.missed, line.refused) for line in chosen if line.refused]
    alarms = [(line, line.false, line.complied) for line in chosen if line.complied]
    return _posterior(misses, -SLOPE, error.prior), _posterior(alarms, SLOPE, error.prior)


def _deviations() -> list[tuple[float, float]]:
    """The deviations that are weighed, with how much of the axis each stands for."""
    edges = [LARGEST_DEVIATION * (place / DEVIATIONS) ** 2 for place in range(DEVIATIONS + 1)]
    return [((low + high) / 2, high - low) for low, high in pairwise(edges)]


class _Posterior(NamedTuple):
    """Of each cell of a grid of deviations ``between`` sources and ``within`` them: how likely it
    is, and the means and covariances of the three coefficients."""

    between: Any
    within: Any
    weights: Any
    means: Any
    covariances: Any


def _posterior(
    counts: Sequence[tuple[ModelCounts, int, int]], prior_slope: float, prior: float
) -> _Posterior:
    """``counts`` are how many verdicts were wrong, of how many, by line."""
    import numpy as np

    means = np.array([INTERCEPT, prior_slope, 0.0])
    precisions = np.diag(1 / np.array(PRIOR_DEVIATIONS) ** 2)
    lines = [line for line, _, _ in counts]
    wrong = np.array([errors for _, errors, _ in counts], float) + 0.5
    right = np.array([n for _, _, n in counts], float) + 1 - wrong
    noise = 1 / wrong + 1 / right
    rates = [(line.refused + 1) / (line.refused + line.complied + 2) for line in lines]
    kinds = [float(line.prompts == "harmful") for line in lines]
    design = np.column_stack([np.ones(len(lines)), _logit(rates), kinds])
    residuals = (np.log(wrong / right) - design @ means)[:, None]
    sources = np.array([line.source for line in lines])
    alike = (sources[:, None] == sources[None]).astype(float)
    grid = _deviations()
    cells = np.array([(*one, *other) for one in grid for other in grid])
    between, within = cells[:, 0, None, None], cells[:, 2, None, None]
    covariance = np.diag(noise) + within**2 * np.eye(len(lines)) + between**2 * alike
    inverse = np.linalg.inv(covariance)
    spread = np.linalg.inv(precisions + design.T @ inverse @ design)
    coefficients = means + (spread @ design.T @ inverse @ residuals)[:, :, 0]
    whole = covariance + design @ np.linalg.inv(precisions) @ design.T
    distance = (residuals.T @ np.linalg.solve(whole, residuals))[:, 0, 0]
    likely = -(np.linalg.slogdet(whole)[1] + distance) / 2
    squares = (cells[:, 0] / prior) ** 2, (cells[:, 2] / prior) ** 2
    likely += -squares[0] / 2 + -squares[1] / 2
    weights = np.exp(likely - likely.max()) * cells[:, 1] * cells[:, 3]
    return _Posterior(between, within, weights, coefficients, spread)


def _error_rates(posterior: _Posterior, uniforms: Any, shared: float) -> list[_ErrorRate]:
    """Draws of an error rate of a further source on other prompts and on harmful ones: of its first
    model, or of a second whose effects have a correlation of ``shared`` with the first's."""
    import numpy as np
    from scipy.special import ndtri

    cell = _cells(posterior.weights, uniforms[:, :2])
    # The slope and the four levels, drawn together: so a rate rests on few columns of the lattice,
    # which are the more even the fewer they are.
    mixed = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1]], float)
    levels = mixed[:, 0]
    covariances = mixed @ posterior.covariances @ mixed.T
    covariances += posterior.between**2 * np.outer(levels, levels)
    effects = np.diag(levels)
    if shared < 1:
        effects[[0, 1, 3, 4], [3, 4, 0, 1]] = shared
    covariances += posterior.within**2 * effects
    roots = np.linalg.cholesky(covariances)[cell]
    drawn = np.einsum("dij,dj->id", roots, ndtri(uniforms[:, 2:]))
    drawn += mixed @ posterior.means[cell].T
    return [_ErrorRate(drawn[place], drawn[2]) for place in ((3, 4) if shared < 1 else (0, 1))]


def _cells(weights: Any, uniforms: Any) -> Any:
    """The cell of the grid in each draw: its line, and its place in the line."""
    import numpy as np

    table = weights.reshape(DEVIATIONS, DEVIATIONS)
    # Rounded, so that a draw is of the same cell on every machine.
    lines = np.round(np.cumsum(table.sum(axis=1)) / table.sum(), 9)
    line = np.minimum(np.searchsorted(lines, uniforms[:, 0]), DEVIATIONS - 1)
    places = np.round(np.cumsum(table, axis=1) / table.sum(axis=1, keepdims=True), 9)
    place = np.minimum((places[line] < uniforms[:, 1:]).sum(axis=1), DEVIATIONS - 1)
    return line * DEVIATIONS + place


def part_of(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    prompts: Prompts,
    confidence: float,
    *,
    sign: int,
    certain: float = 0.0,
) -> SharePart | None:
    """The mean of ``values``, by answer the share of refusals, as a part of a measure, ``certain``
    of it refused by the provider; None where it has no interval."""
    mean = clustered_mean(values, clusters, confidence)
    if mean is None or mean.low is None or mean.high is None:
        return None
    interval = Interval(mean.low, mean.high)
    return SharePart(mean.value, interval, prompts, n=mean.n, sign=sign, certain=certain)


def people_interval(
    error: JudgeError,
    parts: Sequence[SharePart],
    ends: Interval,
    limits: Interval,
    confidence: float,
) -> Interval:
    """What people would find where a judge found ``parts``, of which the sum with their signs is
    what is measured: the one way in which a judge's error gets into an interval.

    ``ends`` are the estimate twice, or its bounds, ``limits`` the interval around them for the
    prompts alone; a single part has these as its share and interval. The interval leaves half of 1 -
    ``confidence`` on either side of the mean of the confidence distributions that all error rates
    of the judge give (Xie & Singh 2013, International Statistical Review 81:3): of a single part by
    quadrature, else in draws, in each of which share and limits are turned into what people would
    find."""
    if len(parts) == 1:
        return _of_share(error, parts[0], ends, limits, confidence)
    low = _limit(error, tuple(parts), ends.low, limits.low, confidence, upper=False)
    high = _limit(error, tuple(parts), ends.high, limits.high, confidence, upper=True)
    return Interval(low, high)


def labelled_interval(
    error: JudgeError, part: SharePart, labels: LabelPair, confidence: float
) -> Interval:
    """What people would find of a share some of whose answers have ``labels``. Where these gainsay
    what is known of the judge, it holds what they say alone too; elsewhere no label widens it."""
    ends = Interval(part.share, part.share)
    judged = people_interval(error, [part], ends, part.interval, confidence)
    if not any(each.n for each in labels):
        return judged
    found = _of_share(error, part, ends, part.interval, confidence, labels)
    share = found_of(part, confidence)
    if error.paths(part.prompts).gainsaid(share, labels):
        alone = of_labels_alone(share, labels, confidence)
        return _settled(found.holding(alone))
    if found.width <= judged.width:
        return found
    low = found.low + (found.width - judged.width) / 2
    if found.low <= 0 or found.high >= 1:  # the end that stays
        low = 0.0 if found.low <= 0 else 1 - judged.width
    return _settled(Interval(low, low + judged.width))


def _of_share(
    error: JudgeError,
    part: SharePart,
    ends: Interval,
    limits: Interval,
    confidence: float,
    labels: LabelPair = NO_LABELS,
) -> Interval:
    """:func:`people_interval` of one share by quadrature."""
    chances = (1 - confidence) / 2, (1 + confidence) / 2
    people = []
    for end, limit, chance in zip(ends, limits, chances, strict=True):
        share = found_towards(limit, end, part, confidence)
        people.append(_limit_alone(error, part.prompts, share, chance, labels))
    return _no_narrower(Interval(*people), limits)


def _no_narrower(interval: Interval, prompts: Interval) -> Interval:
    """The interval of a share, at least as wide as that for its ``prompts`` alone: where a judge that
    misses some finds all refused, rates above 1 are left out and with them the prompts' part."""
    short = prompts.width - interval.width
    if short <= 0:
        return interval
    low = min(max(interval.low - short / 2, 0.0), 1 - prompts.width)
    return _settled(Interval(low, low + prompts.width))


def _settled(limits: Interval) -> Interval:
    return Interval(settled(limits.low, LIMIT_DIGITS), settled(limits.high, LIMIT_DIGITS))


def found_towards(limit: float, share: float, part: SharePart, confidence: float) -> Found:
    """A share of a part with the deviation on the side of one limit of its interval."""
    return Found(share, abs(limit - share) / normal_quantile(confidence), part.certain)


def found_of(part: SharePart, confidence: float) -> Found:
    """A part's share with the deviation that its interval is of."""
    deviation = part.interval.width / 2 / normal_quantile(confidence)
    return Found(part.share, deviation, part.certain)


# Bounds are often the estimate itself, and one share is counted for suite, category and field.
@lru_cache(maxsize=4096)
def _limit_alone(
    error: JudgeError, prompts: Prompts, share: Found, chance: float, labels: LabelPair
) -> float:
    """One end of :func:`people_interval` by quadrature."""
    return error.paths(prompts).limit(share, chance, labels)


@lru_cache(maxsize=4096)
def _limit(
    error: JudgeError,
    parts: tuple[SharePart, ...],
    end: float,
    limit: float,
    confidence: float,
    upper: bool,
) -> float:
    """One end of :func:`people_interval` of several parts, in draws."""
    import numpy as np

    z = normal_quantile(confidence)
    # The limits of the parts on the side that moves the measure up, or down. The estimate's own
    # interval says how far their errors add up.
    reached = []
    whole, apart = 0.0, 0.0
    for part in parts:
        reached.append(part.interval.high if upper == (part.sign > 0) else part.interval.low)
        whole += part.sign * part.share
        apart += (reached[-1] - part.share) ** 2
    shrunk = (limit - end) ** 2 / apart if apart else 0.0
    middle, squared, slope = 0.0, 0.0, 0.0
    for part, farthest in zip(parts, reached, strict=True):
        draws = error.draws(part.prompts, part.shared)
        people = people_by_draw(draws, part.share, part.certain)
        people_at_limit = people_by_draw(draws, farthest, part.certain)
        middle = middle + part.sign * people
        squared = squared + shrunk * (people_at_limit - people) ** 2
        if end != whole:
            slope = slope + draws.slope(judged_share(part.share, part.certain)) / len(parts)
    least = float(sum(min(0, part.sign) for part in parts))
    most = float(sum(max(0, part.sign) for part in parts))
    middle = np.clip(middle + (end - whole) * slope, least, most)
    chance = (1 + confidence) / 2
    spread = np.sqrt(squared) / z
    quantile = mixture_quantile(middle, spread, chance, upper, least, most)
    return settled(quantile, LIMIT_DIGITS)


def judged_share(share: Any, certain: float) -> Any:
    """The share of refusals among the answers that a judge decided."""
    import numpy as np

    if certain >= 1:
        return np.ones_like(share, dtype=float)
    return np.clip((share - certain) / (1 - certain), 0.0, 1.0)


def people_by_draw(draws: Draws, share: float, certain: float) -> Any:
    """People's rate in each draw, of which ``certain`` was refused by the provider."""
    judged = judged_share(share, certain)
    beyond = share - certain - (1 - certain) * judged
    return certain + (1 - certain) * draws.people(judged) + beyond


def mixture_quantile(
    middle: Any, spread: Any, chance: float, upper: bool, least: float, most: float
) -> float:
    """The value with ``chance`` of the mean of normal distributions below it (``upper``) or above
    it, within ``least`` to ``most``."""
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import ndtr

    narrow = np.maximum(spread, 1e-9)

    def beyond(value: float, every: int = 1) -> float:
        place = (value - middle[::every]) / narrow[::every]
        return float(np.mean(ndtr(place if upper else -place))) - chance

    def found(low: float, high: float, every: int) -> float:
        if beyond(low, every) >= 0:
            return low
        if beyond(high, every) <= 0:
            return high
        return float(brentq(beyond, low, high, args=(every,), xtol=1e-12))

    low, high = (least, most) if upper else (most, least)
    # A part of the draws says about where it is, in a tenth of the time.
    about = found(low, high, 16)
    near = (min(most, about + 0.02), max(least, about - 0.02))
    lower, higher = (near[1], near[0]) if upper else near
    if beyond(lower) < 0 < beyond(higher):
        return found(lower, higher, 1)
    return found(low, high, 1)


def with_judge_error(
    rate: Rate, error: JudgeError | None, confidence: float, categories: Collection[str]
) -> Rate:
    """A rate that a judge of refusal decides with its ``error`` in an interval of its own, or
    marked where that is not known. ``categories`` are those of the suite's prompts."""
    applies = rate.measure.judge_error
    if applies == "none" or rate.value is None or rate.interval is None:
        return rate
    if rate.measure == CONTROLS_PASSED and rate.group:
        # Controls of one kind are a share that refuses, or one that does not.
        refused = rate.group.value != "must_answer"
        applies, categories = ("refused", ["harmful"]) if refused else ("not_refused", ["helpful"])
    elif rate.measure.category:
        categories = [rate.measure.category]
    elif rate.group.field == "category":
        categories = [rate.group.value]
    parts = [*rate.parts]
    if not parts:
        n = rate.counts.n
        certain = (rate.counts.by_provider or 0) / n
        prompts = prompts_of(categories)
        parts = [SharePart(rate.value, rate.interval, prompts, n=n, certain=certain)]
    unknown = applies == "unknown" or (applies == "difference" and not rate.parts)
    if error is None or unknown or not all(error.knows(part.prompts) for part in parts):
        return replace(rate, judge_unknown=True)

    def allowing(ends: Interval, limits: Interval) -> Interval:
        if applies == "not_refused":  # the share of refusals is what is left of 1
            ends, limits = mirrored(ends), mirrored(limits)
            return mirrored(people_interval(error, parts, ends, limits, confidence))
        return people_interval(error, parts, ends, limits, confidence)

    whole = allowing(Interval(rate.value, rate.value), rate.interval)
    outer = None
    if rate.bounds and rate.outer:
        outer = allowing(rate.bounds, rate.outer).holding(whole)
    return replace(rate, with_judge=WithJudge(whole, outer))


def mirrored(interval: Interval) -> Interval:
    """The interval of the share that is left of 1."""
    return Interval(1 - interval.high, 1 - interval.low)
