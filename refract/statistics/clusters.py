"""Rates of outcomes that come in clusters: variants of one prompt, repeats, prompts of one type.

Outcomes of one cluster resemble each other, so that n of them say less than n independent ones. How much
less is the design effect: the variance of the rate over what it would be without clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache
from math import fsum, sqrt
from typing import NamedTuple

from refract.statistics.paired import tango
from refract.statistics.proportions import Proportion, normal_quantile, settled, wilson, wilson_at


class Clustered(NamedTuple):
    """A mean, or a difference of two paired means, with a cluster-robust interval.

    ``se`` is the cluster-robust standard error, ``design_effect`` its square over the variance of
    independent yes and no (None where they do not vary), ``effective_n`` the number of independent
    outcomes that the interval is built for. A single cluster of several values shows nothing of how
    clusters differ: all of these and the interval are then None. A contrast has no ``effective_n``.
    ``effective_clusters`` is the number of equal clusters that would say as much
    (:func:`effective_clusters`)."""

    value: float
    low: float | None
    high: float | None
    se: float | None
    design_effect: float | None
    effective_n: float | None
    n: int
    clusters: int
    effective_clusters: float


def effective_clusters(sizes: Sequence[int]) -> float:
    """The number of equal clusters whose sizes vary as little as these: (Σm)² / Σm².

    Kish 1965, Survey Sampling, section 11.7; as the degrees of freedom of clusters of unequal size
    Carter, Schnepel & Steigerwald 2017, Review of Economics and Statistics 99:698."""
    return sum(sizes) ** 2 / sum(size**2 for size in sizes)


def clustered_mean(
    values: Sequence[float], clusters: Sequence[Hashable], confidence: float = 0.95
) -> Clustered | None:
    """The mean of values in [0, 1] with an interval that allows for clusters; None without any.

    The values are yes and no (1 and 0), scores, or means over several samples of one prompt.
    ``clusters`` names the cluster of each. ``se`` is that of a ratio of cluster totals, with the factor
    K/(K-1) for K clusters (Cochran 1977, Sampling Techniques, chapter 3; equal to CR1 of a regression on
    a constant). Where every cluster is one yes or no, the interval is Wilson's. Elsewhere it is Wilson's
    at the effective sample size n / design effect · (z / t)², and for yes and no at most n: Korn &
    Graubard 1998, Survey Methodology 24:193, with Wilson's limits for those of Clopper & Pearson, as
    compared by Franco, Little, Louis & Slud 2019, Journal of Survey Statistics and Methodology 7:334. t
    has one degree of freedom less than there are :func:`effective_clusters`, K-1 where all are of one
    size.

    For the interval the design effect is estimated with one imaginary cluster of (1 + m)/2 values, m the
    mean size of a cluster, half of the time all 0 and half of the time all 1. Without it, values that do
    not vary would leave no width, and one positive in 150 would narrow the interval of none.

    Simulated with 10 to 60 clusters of 2 to 25 values, rates of .02 to .9 and a correlation within
    clusters of 0 to .4, it covered in 93 to 99.9 %; scores from 20 or more prompts, from all but 1 % of
    them 0 to evenly spread, in 94.7 to 99.4 %. ``benchmarks/coverage.md`` has the table. Raises
    ValueError for lists of different length, or values outside [0, 1]."""
    n = _number(values, clusters)
    if n == 0:
        return None
    outside = [value for value in values if not 0 <= value <= 1]
    if outside:
        raise ValueError(f"values must lie between 0 and 1 (got {outside[0]})")
    totals = _totals(values, clusters)
    k, p, z = len(totals), sum(values) / n, normal_quantile(confidence)
    kish = effective_clusters([size for _, size in totals])
    yes_or_no = all(value in (0, 1) for value in values)
    se, effect = _cluster_se(totals, p, n, p * (1 - p) / n)
    if k == n and yes_or_no:
        return Clustered(p, *wilson_at(sum(values), n, z), se, effect, float(n), n, k, kish)
    if k == 1:
        return Clustered(p, None, None, None, None, None, n, 1, kish)
    effective = _effective_n(totals, sum(values), n, confidence)
    if yes_or_no:
        effective = min(float(n), effective)
    low, high = wilson_at(p * effective, effective, z)
    if yes_or_no:
        # One positive must not narrow the interval of none: no limit passes that of all values alike.
        alike = _effective_n([(0.0, size) for _, size in totals], 0.0, n, confidence)
        most = wilson_at(0.0, min(float(n), alike), z).high
        low, high = min(low, 1 - most), max(high, most)
    return Clustered(p, low, high, se, effect, effective, n, k, kish)


def unbounded_mean(
    values: Sequence[float], clusters: Sequence[Hashable], confidence: float = 0.95
) -> Clustered | None:
    """The mean of values of any size, such as lengths, with an interval that allows for clusters; None
    without any.

    The interval is mean ± t · se with the cluster-robust standard error of :func:`clustered_mean` and t
    of one degree of freedom less than there are :func:`effective_clusters` (Cochran 1977, Sampling
    Techniques, chapter 3). The design effect compares the variance with that of independent values.
    Raises ValueError for lists of different length."""
    n = _number(values, clusters)
    if n == 0:
        return None
    totals = _totals(values, clusters)
    k, mean = len(totals), fsum(values) / n
    kish = effective_clusters([size for _, size in totals])
    if k == 1:
        return Clustered(mean, None, None, None, None, None, n, 1, kish)
    spread = fsum((value - mean) ** 2 for value in values)
    se, effect = _cluster_se(totals, mean, n, spread / (n - 1) / n)
    assert se is not None  # there are clusters
    half = t_quantile(confidence, max(0.5, kish - 1)) * se
    return Clustered(mean, mean - half, mean + half, se, effect, None, n, k, kish)


def _effective_n(
    totals: Sequence[tuple[float, int]], positives: float, n: int, confidence: float
) -> float:
    """The number of independent yes and no that says as much; see :func:`clustered_mean`."""
    imaginary = (1 + n / len(totals)) / 2
    centre = (positives + imaginary / 2) / (n + imaginary)
    spread = sum((total - centre * size) ** 2 for total, size in totals)
    spread += imaginary**2 * (centre**2 + (1 - centre) ** 2) / 2
    share = centre * (1 - centre) * (n + imaginary) / spread
    return n * share * _shrinkage(confidence, totals)


def clustered_difference(
    first: Sequence[float],
    second: Sequence[float],
    clusters: Sequence[Hashable],
    confidence: float = 0.95,
) -> Clustered | None:
    """Difference of two paired means, first minus second, with clusters; None without pairs.

    The values are yes and no, or means over several samples of one prompt. The interval is Tango's
    (:func:`refract.statistics.paired.tango`) on the four counts, of means their expected shares, scaled
    to the effective number of pairs; where every cluster is one pair of yes and no, Tango's as it is.
    The effective number is as of :func:`clustered_mean`, with an imaginary cluster of which half
    changes, as often up as down, so that pairs that do not change leave a width and one change never
    brings a limit nearer. Simulated it covered in 93 to 100 % (``benchmarks/coverage.md``)."""
    n = _number(first, second, clusters)
    if n == 0:
        return None
    changes = [float(a) - float(b) for a, b in zip(first, second, strict=True)]
    both = sum(map(min, first, second))
    up, down = sum(x for x in changes if x > 0), sum(-x for x in changes if x < 0)
    totals = _totals(changes, clusters)
    k, value = len(totals), sum(changes) / n
    kish = effective_clusters([size for _, size in totals])
    se, effect = _cluster_se(totals, value, n, (up + down - n * value**2) / n**2)
    yes_or_no = {*first, *second} <= {0, 1}
    unclustered = k == n and yes_or_no
    if k == 1 and not unclustered:
        return Clustered(value, None, None, None, None, None, n, 1, kish)
    effective = float(n) if unclustered else _effective_pairs(totals, up, down, confidence)
    if yes_or_no:
        effective = min(float(n), effective)
    scale, neither = effective / n, max(0.0, n - both - up - down)
    limits = tango(both * scale, up * scale, down * scale, neither * scale, confidence)
    assert limits is not None  # there are pairs
    low, high = limits.low, limits.high
    if yes_or_no and not unclustered:
        none = _effective_pairs([(0.0, size) for _, size in totals], 0.0, 0.0, confidence)
        z = normal_quantile(confidence)
        most = z**2 / (min(float(n), none) + z**2)  # Tango's limit where no pair changes
        low, high = min(low, -most) if value <= 0 else low, max(high, most) if value >= 0 else high
    return Clustered(value, low, high, se, effect, effective, n, k, kish)


def _effective_pairs(
    totals: Sequence[tuple[float, int]], up: float, down: float, confidence: float
) -> float:
    """The number of independent pairs that says as much; see :func:`clustered_difference`."""
    n, k = sum(size for _, size in totals), len(totals)
    imaginary = (1 + n / k) / 2
    mean = (up - down) / (n + imaginary)
    spread = sum((total - mean * size) ** 2 for total, size in totals)
    spread += imaginary**2 * (2 * mean**2 + (1 - mean) ** 2 + (1 + mean) ** 2) / 4
    independent = up + down + imaginary / 2 - (n + imaginary) * mean**2
    return n * independent / spread * k / (k + 1) * _shrinkage(confidence, totals)


class ClusteredValues(NamedTuple):
    """Values in [0, 1] and the cluster of each; of changes what came after, and what was ``before``."""

    values: Sequence[float]
    clusters: Sequence[Hashable]
    before: Sequence[float] | None = None

    def mean(self, confidence: float = 0.95) -> Clustered | None:
        """Their mean, or that of the changes, with its interval; None without any."""
        if self.before is None:
            return clustered_mean(self.values, self.clusters, confidence)
        return clustered_difference(self.values, self.before, self.clusters, confidence)


def clustered_contrast(
    one: ClusteredValues, other: ClusteredValues, confidence: float = 0.95
) -> Clustered | None:
    """Difference of the means, or of the mean changes, of two sets of prompts, one minus the other; None
    where one is empty.

    Of positives and negatives it is Youden's J (Youden 1950, Cancer 3:32). The interval is made of those
    of the two (:func:`clustered_mean`, :func:`clustered_difference`) by MOVER. Without a cluster that
    has values in both that is method 10 of Newcombe 1998, Statistics in Medicine 17:873, with Wilson's
    limits; with such clusters the distances of the limits are correlated as the means are (Zou 2007,
    Psychological Methods 12:399; of paired proportions Newcombe 1998, Statistics in Medicine 17:2635).
    The correlation is that of the clusters' residuals, with the imaginary cluster of
    :func:`clustered_mean` on each side. Simulated with 20 or 60 clusters of 1 to 4 values a side, of
    which they share all or none of the variation, it covered in 91 to 99 %, at rates of .99 and .01 in
    89 to 96 %."""
    samples = one, other
    first, second = (sample.mean(confidence) for sample in samples)
    if first is None or second is None:
        return None
    sizes = Counter(cluster for sample in samples for cluster in sample.clusters)
    value, n, k = first.value - second.value, first.n + second.n, len(sizes)
    kish = effective_clusters([*sizes.values()])
    limits = [
        (x.value - x.low, x.high - x.value)
        for x in (first, second)
        if x.low is not None and x.high is not None
    ]
    if k == 1 or len(limits) < 2:
        return Clustered(value, None, None, None, None, None, n, k, kish)
    (below, above), (below_second, above_second) = limits
    r = _correlation(samples)

    def distance(a: float, b: float) -> float:
        return sqrt(max(0.0, a * a + b * b - 2 * r * a * b))

    low, high = value - distance(below, above_second), value + distance(above, below_second)
    se = effect = None
    if first.se is not None and second.se is not None:
        se = distance(first.se, second.se)
        if first.design_effect and second.design_effect:
            alone = first.se**2 / first.design_effect + second.se**2 / second.design_effect
            effect = se**2 / alone
    return Clustered(value, low, high, se, effect, None, n, k, kish)


def _correlation(samples: Sequence[ClusteredValues]) -> float:
    """The correlation of two means whose clusters are partly the same; 0 where none is."""
    residuals: list[dict[Hashable, float]] = []
    spreads = []
    for values, clusters, before in samples:
        if before is not None:
            values = [float(a) - float(b) for a, b in zip(values, before, strict=True)]
        n, mean = len(values), sum(values) / len(values)
        of_cluster: dict[Hashable, float] = {}
        for value, cluster in zip(values, clusters, strict=True):
            of_cluster[cluster] = of_cluster.get(cluster, 0.0) + value - mean
        imaginary = (1 + n / len(of_cluster)) / 2
        residuals.append(of_cluster)
        spreads.append(sum(x * x for x in of_cluster.values()) + imaginary**2 / 4)
    one, other = residuals
    shared = sum(residual * other[cluster] for cluster, residual in one.items() if cluster in other)
    return shared / sqrt(spreads[0] * spreads[1])


def macro_mean(
    means: Sequence[float], sizes: Sequence[int], confidence: float = 0.95
) -> Proportion | None:
    """The mean of means in [0, 1] of groups of so many independent values; None without a group.

    Its variance is that of stratified sampling with equal weights, Σ p_g (1 - p_g) / n_g / G² over G
    groups (Cochran 1977, Sampling Techniques, chapter 5), of scores at most that. The interval is
    Wilson's for the number of values that would have this variance in one group, as of other designs
    (Franco, Little, Louis & Slud 2019, Journal of Survey Statistics and Methodology 7:334). For the
    variance two positives and two negatives are added to each group (Agresti & Coull 1998, The American
    Statistician 52:119), so that groups that do not vary leave a width. One group gives Wilson's
    interval of its mean, and groups that are alike that of all their values. Raises ValueError for lists
    of different length, and for a group without values."""
    if len(means) != len(sizes):
        raise ValueError(f"{len(means)} means and {len(sizes)} sizes; they must be as many")
    if not means:
        return None
    if min(sizes) < 1:
        raise ValueError(f"each group needs a value (got a group of {min(sizes)})")
    value = min(1.0, max(0.0, sum(means) / len(means)))
    added = [(mean * n + 2) / (n + 4) for mean, n in zip(means, sizes, strict=True)]
    spread = sum(p * (1 - p) / n for p, n in zip(added, sizes, strict=True)) / len(means) ** 2
    centre = sum(added) / len(added)
    effective = centre * (1 - centre) / spread
    limits = wilson(value * effective, effective, confidence)
    assert limits is not None
    # rounding must not leave the average outside of its own interval
    return Proportion(value, min(limits.low, value), max(limits.high, value))


def clustered_mcnemar(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[Hashable]
) -> float:
    """Two-sided exact p of McNemar's question for clustered pairs: do the two rates differ?

    If they do not, the two outcomes of a whole cluster could as well have changed places: p is the share
    of all such exchanges (2 to the number of clusters) that differ at least as much as what was seen,
    computed exactly. A randomisation test with the cluster as its unit (Gail, Mark, Carroll, Green & Pee
    1996, Statistics in Medicine 15:1069). Where every cluster is one pair it is the exact test of
    McNemar 1947, Psychometrika 12:153 (Fagerland, Lydersen & Laake 2013, BMC Medical Research
    Methodology 13:91). The outcomes are yes and no, or means over several samples of one prompt; means
    that have no common denominator up to 60 are rounded to 1/2520."""
    _number(first, second, clusters)
    changes = [float(a) - float(b) for a, b in zip(first, second, strict=True)]
    totals = [total for total, _ in _totals(changes, clusters)]
    scale = _common_denominator(changes)
    whole = [round(total * scale) for total in totals]
    sums, seen = [abs(total) for total in whole if total], abs(sum(whole))
    import numpy as np

    # chance[i] is that of a sum of i - sum(sums), built up cluster by cluster
    chance = np.zeros(2 * sum(sums) + 1)
    chance[sum(sums)] = 1.0
    for change in sums:
        chance = (np.roll(chance, change) + np.roll(chance, -change)) / 2
    distance = np.abs(np.arange(len(chance)) - sum(sums))
    return min(1.0, fsum(chance[distance >= seen]))  # in no order that a processor chooses


def _common_denominator(values: Sequence[float]) -> int:
    """The smallest number up to 60 by which all of them become whole numbers; else 2520."""
    for scale in range(1, 61):
        if all(abs(value * scale - round(value * scale)) < 1e-9 for value in values):
            return scale
    return 2520


def _cluster_se(
    totals: Sequence[tuple[float, int]], mean: float, n: int, independent: float
) -> tuple[float | None, float | None]:
    """The cluster-robust standard error of a mean, and its design effect over the variance of
    ``independent`` values; None for a single cluster."""
    k = len(totals)
    if k == 1:
        return None, None
    se = sqrt(k / (k - 1) * sum((total - mean * size) ** 2 for total, size in totals)) / n
    return se, se**2 / independent if independent > 0 else None


def _shrinkage(confidence: float, totals: Sequence[tuple[float, int]]) -> float:
    """(z / t)², which brings few clusters' own uncertainty into an effective sample size."""
    freedom = max(0.5, effective_clusters([size for _, size in totals]) - 1)
    return (normal_quantile(confidence) / t_quantile(confidence, freedom)) ** 2


@cache
def t_quantile(confidence: float, freedom: float) -> float:
    """The t that leaves ``1 - confidence`` in the two tails, to 12 digits as
    :func:`refract.statistics.proportions.normal_quantile`."""
    from scipy.special import stdtrit  # what scipy.stats, slow to import, has it from

    return settled(float(stdtrit(freedom, (1 + confidence) / 2)))


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
    if any(other != n for other in others):
        got = " and ".join(map(str, (n, *others)))
        raise ValueError(f"outcomes and their clusters must be as many (got {got})")
    return n
