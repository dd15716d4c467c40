"""Rates of outcomes that come in clusters: variants of one prompt, repeats, prompts of one type.

Outcomes of one cluster resemble each other, so that n of them say less than n independent ones. How
much less is the design effect: the variance of the rate over what it would be without clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache
from math import erfc, fsum, gcd, sqrt
from typing import NamedTuple

from refract.statistics.paired import tango
from refract.statistics.proportions import normal_quantile, wilson_at

# Up to so large a sum of changes exchanges are counted exactly: in at most a second.
MOST_EXACT = 100_000


class Clustered(NamedTuple):
    """A mean, or a difference of two paired means, with a cluster-robust interval.

    ``se`` is the cluster-robust standard error, ``design_effect`` its square over the variance of
    independent yes and no (None where they do not vary), ``effective_n`` the number of independent
    outcomes that the interval is built for. A single cluster of several values shows nothing of how
    clusters differ: all of these and the interval are then None. A contrast has no ``effective_n``.
    ``effective_clusters`` is the number of equal clusters that would say as much
    (:func:`effective_count`)."""

    value: float
    n: int
    clusters: int
    effective_clusters: float
    low: float | None = None
    high: float | None = None
    se: float | None = None
    design_effect: float | None = None
    effective_n: float | None = None


def effective_count(sizes: Sequence[float]) -> float:
    """As how many of one size, or of one weight, these count: (Σm)² / Σm².

    Kish 1965, Survey Sampling, section 11.7; as the degrees of freedom of clusters of unequal size
    Carter, Schnepel & Steigerwald 2017, Review of Economics and Statistics 99:698."""
    return fsum(sizes) ** 2 / fsum(size**2 for size in sizes)


def satterthwaite(sizes: Sequence[int], correlation: float) -> float:
    """The degrees of freedom of the variance CR2 of a mean of values in clusters of these sizes, at
    this correlation of two values of one cluster.

    CR2 is that of Bell & McCaffrey 2002, Survey Methodology 28:169: each cluster's residuals are
    divided by √(1 - m/n), so that the variance is unbiased without correlation. The degrees of
    freedom are (tr P)² / tr(P²), with P the covariance of the clusters' residuals so divided
    (Satterthwaite's; Pustejovsky & Tipton 2018, Journal of Business & Economic Statistics 36:672),
    under equal correlations within clusters as Imbens & Kolesár 2016, Review of Economics and
    Statistics 98:701, have it. K equal clusters give K-1, whatever the correlation."""
    n = sum(sizes)
    # P = diag(d) - (c bᵀ + b cᵀ)/n with one entry by cluster in d, b and c. Clusters of one size
    # have the same.
    entries = []
    for size, count in Counter(sizes).items():
        left = 1 - size / n
        variance = size * (1 + (size - 1) * correlation)
        entries.append((count, left, variance, size))
    total = fsum(count * variance for count, _, variance, _ in entries)
    trace = squares = cross = weighted = own = other = 0.0
    for count, left, variance, size in entries:
        d = variance / left
        b = size / sqrt(left)
        c = (variance - total * size / (2 * n)) / sqrt(left)
        trace += count * d
        squares += count * d * d
        cross += count * b * c
        weighted += count * d * b * c
        own += count * b * b
        other += count * c * c
    trace -= 2 * cross / n
    squares += (2 * cross * cross + 2 * own * other) / n**2 - 4 * weighted / n
    return trace**2 / squares


def clustered_mean(
    values: Sequence[float], clusters: Sequence[Hashable], confidence: float = 0.95
) -> Clustered | None:
    """The mean of values in [0, 1] with an interval that allows for clusters; None without any.

    The values are yes and no (1 and 0), scores, or means over several samples of one prompt.
    ``clusters`` names the cluster of each. ``se`` is CR2 (:func:`satterthwaite`), of clusters of
    one size that of a ratio of cluster totals (Cochran 1977, Sampling Techniques, chapter 3). Where
    every cluster is one yes or no, the interval is Wilson's. Elsewhere it is Wilson's at the
    effective sample size n / design effect · (z / t)², and for yes and no at most n: Korn &
    Graubard 1998, Survey Methodology 24:193, with Wilson's limits for those of Clopper & Pearson,
    as compared by Franco, Little, Louis & Slud 2019, Journal of Survey Statistics and Methodology
    7:334. t has the degrees of freedom of :func:`satterthwaite` at the correlation that the values
    show.

    For the interval the design effect is estimated with one imaginary cluster of (1 + m)/2 values,
    m the mean size of a cluster, half of the time all 0 and half of the time all 1. Without it,
    values that do not vary would leave no width, and one positive in 150 would narrow the interval
    of none.

    Simulated with 10 to 60 clusters of 2 to 25 values, rates of .02 to .9 and a correlation within
    clusters of 0 to .4, it covered in 93 to 99.9 %, with one to four clusters of 10 to 60 beside
    single values in 93.9 to 99.6 %; scores from 20 or more prompts, from all but 1 % of them 0 to
    evenly spread, in 94.7 to 99.4 %. ``benchmarks/coverage.md`` has the table. Raises ValueError
    for lists of different length, or values outside [0, 1]."""
    n = _number(values, clusters)
    if n == 0:
        return None
    for value in values:
        if not 0 <= value <= 1:
            raise ValueError(f"values must lie between 0 and 1 (got {value})")
    totals = _totals(values, clusters)
    p = fsum(values) / n
    z = normal_quantile(confidence)
    yes_or_no = {*values} <= {0, 1}
    estimate = _estimate(p, totals, independent=p * (1 - p) / n)
    if estimate.clusters == n and yes_or_no:
        low, high = wilson_at(sum(values), n, z)
        return estimate._replace(low=low, high=high, effective_n=float(n))
    if estimate.clusters == 1:
        return estimate
    squares = fsum(value * value for value in values)
    effective = _effective_n(totals, squares, confidence=confidence)
    if yes_or_no:
        effective = min(float(n), effective)
    low, high = wilson_at(p * effective, effective, z)
    if yes_or_no:
        # One positive must not narrow the interval of none: no limit passes that of all values
        # alike.
        alike = _effective_n(_alike(totals), 0.0, confidence=confidence)
        most = wilson_at(0.0, min(float(n), alike), z).high
        low = min(low, 1 - most)
        high = max(high, most)
    return estimate._replace(low=low, high=high, effective_n=effective)


def _estimate(value: float, totals: Sequence[tuple[float, int]], independent: float) -> Clustered:
    """A mean without its interval: with its cluster-robust standard error, and the design effect
    over the variance of ``independent`` values; without both of a single cluster."""
    sizes = _sizes(totals)
    n = sum(sizes)
    estimate = Clustered(value, n=n, clusters=len(sizes), effective_clusters=effective_count(sizes))
    if len(sizes) == 1:
        return estimate
    se = sqrt(_squared_residuals(totals, value, n)) / n
    effect = se**2 / independent if independent > 0 else None
    return estimate._replace(se=se, design_effect=effect)


def _effective_n(totals: Sequence[tuple[float, int]], squares: float, confidence: float) -> float:
    """The number of independent yes and no that says as much; see :func:`clustered_mean`.
    ``squares`` is the sum of the squared values."""
    n = sum(_sizes(totals))
    imaginary = (1 + n / len(totals)) / 2
    centre = (_sum(totals) + imaginary / 2) / (n + imaginary)
    spread = _squared_residuals(totals, centre, n + imaginary)
    spread += imaginary**2 * (centre**2 + (1 - centre) ** 2) / 2
    share = centre * (1 - centre) * (n + imaginary) / spread
    return n * share * _shrinkage(confidence, _freedom(totals, squares))


def clustered_difference(
    first: Sequence[float],
    second: Sequence[float],
    clusters: Sequence[Hashable],
    confidence: float = 0.95,
) -> Clustered | None:
    """Difference of two paired means, first minus second, with clusters; None without pairs.

    The values are yes and no, or means over several samples of one prompt. The interval is Tango's
    (:func:`refract.statistics.paired.tango`) on the four counts, of means their expected shares,
    scaled to the effective number of pairs; where every cluster is one pair of yes and no, Tango's
    as it is. The effective number is as of :func:`clustered_mean`, with an imaginary cluster of
    which half changes, as often up as down, so that pairs that do not change leave a width and one
    change never brings a limit nearer. Simulated it covered in 93 to 100 %
    (``benchmarks/coverage.md``)."""
    n = _number(first, second, clusters)
    if n == 0:
        return None
    changes = _changes(first, second)
    both = fsum(map(min, first, second))
    up = fsum(change for change in changes if change > 0)
    down = fsum(-change for change in changes if change < 0)
    totals = _totals(changes, clusters)
    value = fsum(changes) / n
    estimate = _estimate(value, totals, independent=(up + down - n * value**2) / n**2)
    yes_or_no = {*first, *second} <= {0, 1}
    unclustered = estimate.clusters == n and yes_or_no
    if estimate.clusters == 1 and not unclustered:
        return estimate
    effective = float(n)
    if not unclustered:
        squares = fsum(change * change for change in changes)
        effective = _effective_pairs(totals, squares, up + down, confidence=confidence)
    if yes_or_no:
        effective = min(float(n), effective)
    scale = effective / n
    neither = max(0.0, n - both - up - down)
    limits = tango(
        both=both * scale,
        first_only=up * scale,
        second_only=down * scale,
        neither=neither * scale,
        confidence=confidence,
    )
    assert limits is not None  # there are pairs
    low, high = limits.low, limits.high
    if yes_or_no and not unclustered:
        alike = _effective_pairs(_alike(totals), 0.0, 0.0, confidence=confidence)
        z = normal_quantile(confidence)
        # Tango's limit where no pair changes.
        most = z**2 / (min(float(n), alike) + z**2)
        if value <= 0:
            low = min(low, -most)
        if value >= 0:
            high = max(high, most)
    return estimate._replace(low=low, high=high, effective_n=effective)


def _effective_pairs(
    totals: Sequence[tuple[float, int]], squares: float, changed: float, confidence: float
) -> float:
    """The number of independent pairs that says as much, of which so many ``changed``; see
    :func:`clustered_difference`. ``squares`` is the sum of the squared changes."""
    n = sum(_sizes(totals))
    k = len(totals)
    imaginary = (1 + n / k) / 2
    mean = _sum(totals) / (n + imaginary)
    spread = _squared_residuals(totals, mean, n + imaginary)
    spread += imaginary**2 * (2 * mean**2 + (1 - mean) ** 2 + (1 + mean) ** 2) / 4
    independent = changed + imaginary / 2 - (n + imaginary) * mean**2
    shrinkage = _shrinkage(confidence, _freedom(totals, squares))
    return n * independent / spread * k / (k + 1) * shrinkage


class ClusteredValues(NamedTuple):
    """Values in [0, 1] and the cluster of each; of changes what came after, and what was
    ``before``."""

    values: Sequence[float]
    clusters: Sequence[Hashable]
    before: Sequence[float] | None = None

    def mean(self, confidence: float) -> Clustered | None:
        """Their mean, or that of the changes, with its interval; None without any."""
        if self.before is None:
            return clustered_mean(self.values, self.clusters, confidence)
        return clustered_difference(
            self.values, self.before, clusters=self.clusters, confidence=confidence
        )


def clustered_contrast(
    sample: ClusteredValues, other: ClusteredValues, confidence: float = 0.95
) -> Clustered | None:
    """Difference of the means, or of the mean changes, of two sets of prompts, one minus the other;
    None where one is empty.

    Of positives and negatives it is Youden's J (Youden 1950, Cancer 3:32). The interval is made of
    those of the two (:func:`clustered_mean`, :func:`clustered_difference`) by MOVER. Without a
    cluster that has values in both that is method 10 of Newcombe 1998, Statistics in Medicine
    17:873, with Wilson's limits; with such clusters the distances of the limits are correlated as
    the means are (Zou 2007, Psychological Methods 12:399; of paired proportions Newcombe 1998,
    Statistics in Medicine 17:2635). The correlation is that of the clusters' residuals, with the
    imaginary cluster of :func:`clustered_mean` on each side. Simulated with 20 or 60 clusters of 1
    to 4 values a side, of which they share all or none of the variation, it covered in 91 to 99 %,
    at rates of .99 and .01 in 89 to 96 %."""
    first = sample.mean(confidence)
    second = other.mean(confidence)
    if first is None or second is None:
        return None
    sizes = Counter([*sample.clusters, *other.clusters])
    estimate = Clustered(
        first.value - second.value,
        n=first.n + second.n,
        clusters=len(sizes),
        effective_clusters=effective_count([*sizes.values()]),
    )
    if len(sizes) == 1 or first.low is None or second.low is None:
        return estimate
    assert first.high is not None  # as its low
    assert second.high is not None
    residuals, spread = _residuals(sample)
    others, spread_of_others = _residuals(other)
    shared = [residual * others[name] for name, residual in residuals.items() if name in others]
    correlation = fsum(shared) / sqrt(spread * spread_of_others)

    def distance(a: float, b: float) -> float:
        return sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b))

    se = effect = None
    if first.se is not None and second.se is not None:
        se = distance(first.se, second.se)
        if first.design_effect and second.design_effect:
            alone = first.se**2 / first.design_effect + second.se**2 / second.design_effect
            effect = se**2 / alone
    return estimate._replace(
        low=estimate.value - distance(first.value - first.low, second.high - second.value),
        high=estimate.value + distance(first.high - first.value, second.value - second.low),
        se=se,
        design_effect=effect,
    )


def _residuals(sample: ClusteredValues) -> tuple[dict[Hashable, float], float]:
    """How far each cluster's values are from their mean in all, and the sum of the squares with the
    imaginary cluster's."""
    values = sample.values
    if sample.before is not None:
        values = _changes(values, sample.before)
    mean = fsum(values) / len(values)
    residuals: dict[Hashable, float] = {}
    for value, cluster in zip(values, sample.clusters, strict=True):
        residuals[cluster] = residuals.get(cluster, 0.0) + value - mean
    imaginary = (1 + len(values) / len(residuals)) / 2
    squares = fsum(residual * residual for residual in residuals.values())
    return residuals, squares + imaginary**2 / 4


def clustered_mcnemar(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[Hashable]
) -> float:
    """Two-sided exact p of McNemar's question for clustered pairs: do the two rates differ?

    If they do not, the two outcomes of a whole cluster could as well have changed places: p is the
    share of all such exchanges (2 to the number of clusters) that differ at least as much as what
    was seen, computed exactly. A randomisation test with the cluster as its unit (Gail, Mark,
    Carroll, Green & Pee 1996, Statistics in Medicine 15:1069). Where every cluster is one pair it
    is the exact test of McNemar 1947, Psychometrika 12:153 (Fagerland, Lydersen & Laake 2013, BMC
    Medical Research Methodology 13:91). The outcomes are yes and no, or means over several samples
    of one prompt; means that have no common denominator up to 60 are rounded to 1/2520."""
    _number(first, second, clusters)
    changes = _changes(first, second)
    scale = _common_denominator(changes)
    return _exchanged([round(total * scale) for total, _ in _totals(changes, clusters)])


def clustered_contrast_test(sample: ClusteredValues, other: ClusteredValues) -> float:
    """Two-sided p of whether the mean changes of two sets of prompts differ; both have what was
    ``before``.

    The test of :func:`clustered_mcnemar` on the difference of the two: p is the share of all
    exchanges of the two outcomes of whole clusters, of which those with prompts in both sets change
    there together. Exact where nothing changed; where both means changed alike it rejects more
    rarely than it says, as each change adds to the spread of the exchanges. Raises ValueError for a
    set without values."""
    if not sample.values or not other.values:
        raise ValueError("both sets need a value")
    changes = _changes(sample.values, sample.before or ())
    others = _changes(other.values, other.before or ())
    scale = _common_denominator([*changes, *others])
    sums: dict[Hashable, int] = {}
    for values, clusters, weight in (
        (changes, sample.clusters, len(others)),
        (others, other.clusters, -len(changes)),
    ):
        for value, cluster in zip(values, clusters, strict=True):
            sums[cluster] = sums.get(cluster, 0) + round(value * scale) * weight
    return _exchanged([*sums.values()])


def _exchanged(sums: Sequence[int]) -> float:
    """The share of all ways to turn the signs of sums of clusters that are at least as far from 0
    as they are; of very many by the normal approximation."""
    divisor = gcd(*sums) or 1
    whole = sorted(total // divisor for total in sums)  # the rounding below goes by the order
    seen = abs(sum(whole))
    most = sum(map(abs, whole))
    if most > MOST_EXACT:
        return erfc(seen / sqrt(2 * sum(total * total for total in whole)))
    import numpy as np

    # chance[i] is that of a sum of i - most, built up cluster by cluster
    chance = np.zeros(2 * most + 1)
    chance[most] = 1.0
    for change in whole:
        if change:
            chance = (np.roll(chance, change) + np.roll(chance, -change)) / 2
    distance = np.abs(np.arange(len(chance)) - most)
    # fsum: in no order that a processor chooses.
    return min(1.0, fsum(chance[distance >= seen]))


def _changes(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """First minus second, pair by pair."""
    return [float(a) - float(b) for a, b in zip(first, second, strict=True)]


def _common_denominator(values: Sequence[float]) -> int:
    """The smallest number up to 60 by which all of them become whole numbers; else 2520."""
    for scale in range(1, 61):
        if all(abs(value * scale - round(value * scale)) < 1e-9 for value in values):
            return scale
    return 2520


def _squared_residuals(totals: Sequence[tuple[float, int]], mean: float, n: float) -> float:
    """How far the clusters' sums are from what the mean of ``n`` values makes of their sizes,
    squared, each divided as CR2 has it (:func:`satterthwaite`)."""
    return fsum((total - mean * size) ** 2 / (1 - size / n) for total, size in totals)


def _freedom(totals: Sequence[tuple[float, int]], squares: float) -> float:
    """The degrees of freedom at the correlation within clusters that is seen: the products of two
    residuals of a cluster, over what they would be were its values alike. ``squares`` is the sum of
    the squared values."""
    sizes = _sizes(totals)
    n = sum(sizes)
    mean = _sum(totals) / n
    spread = squares - n * mean**2
    pairs = fsum(size * (size - 1) for size in sizes)
    together = fsum((total - mean * size) ** 2 for total, size in totals)
    correlation = 0.0
    # Rounding leaves something of a spread of 0.
    if pairs and spread > 1e-9:
        correlation = min(1.0, max(0.0, (together - spread) / pairs / (spread / n)))
    return satterthwaite(sizes, correlation)


def _sum(totals: Sequence[tuple[float, int]]) -> float:
    return fsum(total for total, _ in totals)


def _sizes(totals: Sequence[tuple[float, int]]) -> list[int]:
    return [size for _, size in totals]


def _alike(totals: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """The totals of clusters of the same sizes in which every value is 0."""
    return [(0.0, size) for _, size in totals]


def _shrinkage(confidence: float, freedom: float) -> float:
    """(z / t)², which brings few clusters' own uncertainty into an effective sample size."""
    return (normal_quantile(confidence) / t_quantile(confidence, freedom)) ** 2


@cache
def t_quantile(confidence: float, freedom: float) -> float:
    """The t that leaves ``1 - confidence`` in the two tails."""
    # scipy.stats has it from here, and is slow to import.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def _totals(values: Sequence[float], clusters: Sequence[Hashable]) -> list[tuple[float, int]]:
    """Sum and size of each cluster, in the order of their first appearance."""
    totals: dict[Hashable, tuple[float, int]] = {}
    alone: dict[float, tuple[float, int]] = {}  # the totals of clusters of one, which they share
    for value, cluster in zip(values, clusters, strict=True):
        if cluster in totals:
            total, size = totals[cluster]
            totals[cluster] = (total + value, size + 1)
        else:
            totals[cluster] = alone.setdefault(value, (value + 0.0, 1))
    return list(totals.values())


def _number(*lists: Sequence[Hashable]) -> int:
    n, *others = map(len, lists)
    if {*others} - {n}:
        got = " and ".join(map(str, (n, *others)))
        raise ValueError(f"outcomes and their clusters must be as many (got {got})")
    return n
