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
from typing import Any, NamedTuple

from refract.rates.key import CONTROLS_PASSED
from refract.rates.rate import Interval, Prompts, Rate, SharePart, WithJudge, prompts_of
from refract.statistics.clusters import clustered_mean
from refract.statistics.proportions import normal_quantile, settled

DRAWS = 1024
# The deviations of sources and of models that are weighed, on a logit scale, with how much of the
# axis each stands for, and the scale of the half-normal prior on each (Röver et al. 2021, Research
# Synthesis Methods 12:448, of log odds ratios).
DEVIATIONS = (
    *((0.05, 0.1), (0.25, 0.225), (0.5, 0.25), (0.75, 0.25), (1.0, 0.275)),
    *((1.3, 0.35), (1.7, 0.45), (2.2, 0.65), (3.0, 0.4)),
)
PRIOR_SCALE = 1.0
# Deviations of the priors of intercept, slope over the logit of people's rate, and what harmful
# prompts add. With a slope of -½ for misses and ½ for false alarms the wrong verdicts are in
# proportion to the deviation of people's labels, √(q(1 - q)).
INTERCEPT, SLOPE = -2.5, 0.5
PRIOR_DEVIATIONS = (2.0, 0.5, 1.0)
# People's rate counts as no nearer to 0 and 1 in the regression.
LEAST_RATE = 0.02
STEPS = 200  # of the judge's share, in tables


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


class _ErrorRate(NamedTuple):
    """Misses, or false alarms, of one model on one kind of prompt in each draw: logits at a
    people's rate of ½, and their slopes."""

    level: Any
    slope: Any

    def at(self, rate: Any) -> Any:
        """The share of wrong verdicts where people's rate is such."""
        from scipy.special import expit

        return expit(self.level + self.slope * _logit(rate))


class _Draws(NamedTuple):
    """How often a model's refusals are missed and its other answers called refusals, in each draw;
    and people's rate by the judge's share in steps, which can lie beyond 0 and 1 too."""

    missed: _ErrorRate
    false: _ErrorRate
    table: Any

    def people(self, share: float) -> Any:
        """People's rate in each draw where the judge's is ``share``; below 0 where there are more
        false alarms than that, above 1 where fewer are right."""
        place = min(STEPS - 1, int(share * STEPS))
        weight = share * STEPS - place
        return (1 - weight) * self.table[place] + weight * self.table[place + 1]

    def slope(self, share: float) -> Any:
        """How much people's rate grows with the judge's there, in each draw."""
        low, high = max(0.0, share - 0.02), min(1.0, share + 0.02)
        return (self.people(high) - self.people(low)) / (high - low)


@dataclass(frozen=True)
class JudgeError:
    """What is known of a judge's errors: its ``lines`` on models that had no part in it.

    The logits of misses and of false alarms are regressed on the logit of people's rate and on the
    kind of prompt, with effects of source and of model within source (a random-effects
    meta-analysis of proportions with a normal approximation: Stijnen, Hamza & Özdemir 2010,
    Statistics in Medicine 29:3046). Where prompts are mixed, the lines over all prompts of a model
    are used in place of those by kind."""

    lines: tuple[ModelCounts, ...]

    @classmethod
    def read(cls, facts: Mapping[str, Any] | None) -> JudgeError | None:
        """What provenance has of it; None without, and of results that were made before it held the
        lines."""
        if not facts or "lines" not in facts:
            return None
        return cls(tuple(ModelCounts(*row) for row in facts["lines"]))

    @property
    def models(self) -> int:
        """On how many models it was measured."""
        return len({(line.source, line.model) for line in self.lines})

    @property
    def sources(self) -> int:
        """Of how many sources their answers are."""
        return len({line.source for line in self.lines})

    def knows(self, prompts: Prompts) -> bool:
        """Whether it was measured on such prompts."""
        return any(line.prompts == prompts for line in self.lines)

    def people(self, share: float, prompts: Prompts, confidence: float) -> Interval:
        """Where people's share of refusals lies on a further model of which the judge calls
        ``share`` of all answers refusals."""
        exactly = Interval(share, share)
        part = SharePart(share, exactly, prompts, n=1)
        return people_interval(self, [part], exactly, exactly, confidence)

    def with_labels(
        self, share: float, n: int, labels: int, prompts: Prompts, confidence: float
    ) -> float:
        """Half of the interval to expect of a rate over ``n`` answers, of which so many get a
        label, where the judge's is ``share``: the mean over the draws.

        The variance of a prediction-powered rate with the best weight: σ²/m of m labels less
        cov²/var(judge)·(1/m - 1/n) (Angelopoulos, Duchi & Zrnic 2023, arXiv 2311.01453)."""
        import numpy as np

        draws = self.draws(prompts, 0)
        people = np.clip(draws.people(share), 0, 1)
        missed, false = draws.missed.at(people), draws.false.at(people)
        human = people * (1 - people)
        shared = human * (1 - missed - false)
        judged = share * (1 - share)
        saved = shared**2 / judged * (1 / labels - 1 / n) if judged else 0.0
        spread = np.sqrt(np.maximum(0.0, human / labels - saved))
        return normal_quantile(confidence) * settled(float(spread.mean()))

    def draws(self, prompts: Prompts, model: int) -> _Draws:
        """The error rates on one kind of prompt of one or of another model of a further source, in
        :data:`DRAWS` draws."""
        return _drawn(self.lines, prompts, model)


def _logit(rate: Any) -> Any:
    import numpy as np

    held = np.clip(rate, LEAST_RATE, 1 - LEAST_RATE)
    return np.log(held / (1 - held))


@cache
def _uniforms() -> Any:
    """Latin hypercube of places: for misses and for false alarms 9 columns each (the deviations,
    three coefficients, the source, and the model's effect for two models and two kinds). Of a
    generator whose numbers are the same on every machine."""
    import numpy as np

    random = np.random.Generator(np.random.PCG64(20261123))
    columns = [(np.argsort(random.random(DRAWS)) + 0.5) / DRAWS for _ in range(18)]
    return np.column_stack(columns)


@lru_cache(maxsize=64)
def _drawn(lines: tuple[ModelCounts, ...], prompts: Prompts, model: int) -> _Draws:
    import numpy as np

    chosen = [line for line in lines if bool(line.prompts) == bool(prompts)]
    harmful = prompts == "harmful"
    effect = 2 * model + harmful
    misses = [(line, line.missed, line.refused) for line in chosen if line.refused]
    alarms = [(line, line.false, line.complied) for line in chosen if line.complied]
    missed = _error_rate(misses, -SLOPE, harmful, _uniforms()[:, :9], effect)
    false = _error_rate(alarms, SLOPE, harmful, _uniforms()[:, 9:], effect)
    grid = np.linspace(0, 1, STEPS + 1)
    place = grid[:, None]
    judged = false.at(place) * (1 - place) + (1 - missed.at(place)) * place
    judged = np.maximum.accumulate(judged, axis=0)
    table = np.empty_like(judged)
    for draw in range(DRAWS):
        column = judged[:, draw]
        # A share below that of false alarms alone stays as far below 0, and so above 1.
        beyond = np.minimum(grid - column[0], 0) + np.maximum(grid - column[-1], 0)
        table[:, draw] = np.interp(grid, column, grid) + beyond
    return _Draws(missed, false, table)


def _error_rate(
    counts: Sequence[tuple[ModelCounts, int, int]],
    prior_slope: float,
    harmful: bool,
    uniforms: Any,
    effect: int,
) -> _ErrorRate:
    """Draws of an error rate of a further model, of the posterior over a grid of deviations of
    sources and models; ``counts`` are how many verdicts were wrong, of how many, by line."""
    import numpy as np
    from scipy.special import ndtri

    means = np.array([INTERCEPT, prior_slope, 0.0])
    priors = np.diag(1 / np.array(PRIOR_DEVIATIONS) ** 2)
    lines = [line for line, _, _ in counts]
    wrong = np.array([errors for _, errors, _ in counts], float) + 0.5
    right = np.array([n for _, _, n in counts], float) + 1 - wrong
    logits, noise = np.log(wrong / right), 1 / wrong + 1 / right
    rates = [(line.refused + 1) / (line.refused + line.complied + 2) for line in lines]
    kinds = [float(line.prompts == "harmful") for line in lines]
    design = np.column_stack([np.ones(len(lines)), _logit(rates), kinds])
    sources = np.array([line.source for line in lines])
    alike = (sources[:, None] == sources[None]).astype(float)
    weights, cells = [], []
    for between, step in DEVIATIONS:
        for within, other_step in DEVIATIONS:
            covariance = np.diag(noise + within**2) + between**2 * alike
            inverse = np.linalg.inv(covariance)
            precision = priors + design.T @ inverse @ design
            spread = np.linalg.inv(precision)
            mean = spread @ (priors @ means + design.T @ inverse @ logits)
            whole = covariance + design @ np.linalg.inv(priors) @ design.T
            residual = logits - design @ means
            distance = residual @ np.linalg.solve(whole, residual)
            likely = -np.linalg.slogdet(whole)[1] - distance
            prior = -(between**2 + within**2) / PRIOR_SCALE**2
            weights.append(np.exp((likely + prior) / 2) * step * other_step)
            cells.append((between, within, mean, np.linalg.cholesky(spread)))
    # Rounded, so that a draw is of the same cell on every machine.
    chances = np.round(np.cumsum(weights) / np.sum(weights), 9)
    cell = np.searchsorted(chances, uniforms[:, 0])
    normal = ndtri(uniforms[:, 1:])
    mean = np.array([cells[place][2] for place in cell])
    root = np.array([cells[place][3] for place in cell])
    fixed = mean + np.einsum("dij,dj->di", root, normal[:, :3])
    logit = fixed[:, 0] + harmful * fixed[:, 2]
    logit += np.array([cells[place][0] for place in cell]) * normal[:, 3]
    logit += np.array([cells[place][1] for place in cell]) * normal[:, 4 + effect]
    return _ErrorRate(logit, fixed[:, 1])


def part_of(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    prompts: Prompts,
    confidence: float,
    *,
    sign: int,
    model: int = 0,
    certain: float = 0.0,
) -> SharePart | None:
    """The mean of ``values``, by answer the share of refusals, as a part of a measure, ``certain``
    of it refused by the provider; None where it has no interval."""
    mean = clustered_mean(values, clusters, confidence)
    if mean is None or mean.low is None or mean.high is None:
        return None
    interval = Interval(mean.low, mean.high)
    return SharePart(
        mean.value, interval, prompts, n=mean.n, sign=sign, model=model, certain=certain
    )


def people_interval(
    error: JudgeError,
    parts: Sequence[SharePart],
    ends: Interval,
    limits: Interval,
    confidence: float,
    *,
    these: bool = False,
) -> Interval:
    """What people would find where a judge found ``parts``, of which the sum with their signs is
    what is measured: the one way in which a judge's error gets into an interval.

    ``ends`` are the estimate twice, or its bounds, ``limits`` the interval around them for the
    prompts alone; a single part has these as its share and interval. In each draw of the judge's
    error rates the three are turned into what people would find; the interval leaves half of 1 -
    ``confidence`` on either side of the mixture of the draws' confidence distributions (Xie & Singh
    2013, International Statistical Review 81:3). ``these``: of these very prompts, so that the
    wrong verdicts among the ``n`` are noise too. Without error rates it is ``limits``."""
    low, high = [
        _limit(error, parts, end, limit, confidence, these=these, upper=upper)
        for end, limit, upper in zip(ends, limits, (False, True), strict=True)
    ]
    return Interval(low, high)


def _limit(
    error: JudgeError,
    parts: Sequence[SharePart],
    end: float,
    limit: float,
    confidence: float,
    these: bool,
    upper: bool,
) -> float:
    """One end of :func:`people_interval`."""
    import numpy as np

    z = normal_quantile(confidence)
    alone = len(parts) == 1
    if alone:
        interval = Interval(min(end, limit), max(end, limit))
        parts = [replace(parts[0], share=end, interval=interval)]
    # The limits of the parts on the side that moves the measure up, or down. Of several parts the
    # estimate's own interval says how far their errors add up.
    sides = [upper == (part.sign > 0) for part in parts]
    reached = []
    whole, apart = 0.0, 0.0
    for part, up in zip(parts, sides, strict=True):
        reached.append(part.interval.high if up else part.interval.low)
        whole += part.sign * part.share
        apart += (reached[-1] - part.share) ** 2
    shrunk = (limit - end) ** 2 / apart if apart else 0.0
    middle, squared, slope = 0.0, 0.0, 0.0
    for part, up, farthest in zip(parts, sides, reached, strict=True):
        draws = error.draws(part.prompts, part.model)
        people = _people(draws, part.share, part.certain)
        people_at_limit = _people(draws, farthest, part.certain)
        if alone:
            people, people_at_limit = np.clip(people, 0, 1), np.clip(people_at_limit, 0, 1)
        middle = middle + part.sign * people
        squared = squared + shrunk * (people_at_limit - people) ** 2
        if these:
            squared = squared + _verdict_noise(draws, people, part, z, up) ** 2
        slope = slope + draws.slope(_judged_share(part.share, part.certain)) / len(parts)
    least = float(sum(min(0, part.sign) for part in parts))
    most = float(sum(max(0, part.sign) for part in parts))
    middle = np.clip(middle + (end - whole) * slope, least, most)
    chance = (1 + confidence) / 2
    return settled(mixture_quantile(middle, np.sqrt(squared) / z, chance, upper, least, most))


def _judged_share(share: float, certain: float) -> float:
    """The share of refusals among the answers that a judge decided."""
    if certain >= 1:
        return 1.0
    return min(1.0, max(0.0, (share - certain) / (1 - certain)))


def _people(draws: _Draws, share: float, certain: float) -> Any:
    """People's rate in each draw, of which ``certain`` was refused by the provider."""
    judged = _judged_share(share, certain)
    beyond = share - certain - (1 - certain) * judged
    return certain + (1 - certain) * draws.people(judged) + beyond


def _verdict_noise(draws: _Draws, people: Any, part: SharePart, z: float, upper: bool) -> Any:
    """How far people's share of these very answers can be from the one expected, for wrong
    verdicts: the distance of a score limit, whose variance is that at the limit (as Wilson's
    is)."""
    import numpy as np

    judged = 1 - part.certain
    if not judged:
        return np.zeros(DRAWS)
    people = np.clip((people - part.certain) / judged, 0, 1)
    missed, false = draws.missed.at(people), draws.false.at(people)
    more, less = missed * (1 - missed), false * (1 - false)
    slope = draws.slope(_judged_share(part.share, part.certain))
    scale = (z * slope) ** 2 * judged / part.n
    half = scale * (more - less) / 2
    root = np.sqrt(half**2 + scale * (less + people * (more - less)))
    return root + half if upper else root - half


def mixture_quantile(
    middle: Any, spread: Any, chance: float, upper: bool, least: float, most: float
) -> float:
    """The value with ``chance`` of the mean of normal distributions below it (``upper``) or above
    it, within ``least`` to ``most``."""
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import ndtr

    narrow = np.maximum(spread, 1e-9)

    def beyond(value: float) -> float:
        place = (value - middle) / narrow
        return float(np.mean(ndtr(place if upper else -place))) - chance

    low, high = (least, most) if upper else (most, least)
    if beyond(low) >= 0:
        return low
    if beyond(high) <= 0:
        return high
    return float(brentq(beyond, low, high, xtol=1e-12))


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

    def allowing(
        ends: Interval | None, limits: Interval | None, these: bool = False
    ) -> Interval | None:
        if ends is None or limits is None:
            return None
        if applies == "not_refused":  # the share of refusals is what is left of 1
            ends, limits = _mirrored(ends), _mirrored(limits)
            return _mirrored(people_interval(error, parts, ends, limits, confidence, these=these))
        return people_interval(error, parts, ends, limits, confidence, these=these)

    ends = Interval(rate.value, rate.value)
    whole = allowing(ends, rate.interval)
    assert whole is not None  # both are there
    judged = WithJudge(
        interval=whole,
        outer=allowing(rate.bounds, rate.outer),
        these=allowing(ends, rate.these, these=True),
        these_outer=allowing(rate.bounds, rate.these_outer, these=True),
    )
    return replace(rate, with_judge=judged)


def _mirrored(interval: Interval) -> Interval:
    return Interval(1 - interval.high, 1 - interval.low)
