"""Rates of outcomes that come in clusters: variants of one prompt, repeats, prompts of one type.

Outcomes of one cluster resemble each other, so that n of them say less than n independent ones. How
much less is the design effect: the variance of the rate over what it would be without clusters.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import sqrt
from typing import NamedTuple

from refract.statistics.paired import count_pairs, newcombe_paired
from refract.statistics.proportions import normal_quantile, wilson_at


class Clustered(NamedTuple):
    """A rate, or a difference of two paired rates, with a cluster-robust interval.

    ``se`` is the cluster-robust standard error, ``design_effect`` its square over the variance of
    independent outcomes (None where they do not vary), ``effective_n`` the number of independent
    outcomes that the interval is built for. A single cluster shows nothing of how clusters differ:
    all of these and the interval are then None.
    """

    value: float
    low: float | None
    high: float | None
    se: float | None
    design_effect: float | None
    effective_n: float | None
    n: int
    clusters: int


def clustered_proportion(
    outcomes: Sequence[bool], clusters: Sequence[Hashable], confidence: float = 0.95
) -> Clustered | None:
    """The share of positive outcomes with an interval that allows for clusters; None without any.

    ``clusters`` names the cluster of each outcome. The variance is that of a ratio of cluster
    totals, with the factor K/(K-1) for K clusters (Cochran 1977, Sampling Techniques, chapter 3,
    proportions in cluster samples; equal to CR1 of a regression on a constant). The interval is
    Wilson's on the effective sample size n / design effect · (z / t)², t with K-1 degrees of
    freedom, and at most n: Korn & Graubard 1998, Survey Methodology 24:193, with Wilson's limits
    for those of Clopper & Pearson, as compared by Franco, Little, Louis & Slud 2019, Journal of
    Survey Statistics and Methodology 7:334. Where outcomes do not vary at all, a cluster counts as
    one outcome.

    It was chosen by simulation: 5 to 100 clusters of 4 to 50, rates .02 to .5, correlation within
    clusters 0 to .3. It covered in 87 to 99 % of samples (91 to 98 % at a rate of .5), where the
    usual rate ± t · se fell to 41 %. It errs on the wide side without correlation, and on the short
    side where clusters are unequal, strongly correlated and rarely positive.
    """
    if len(outcomes) != len(clusters):
        raise ValueError(_unequal(len(outcomes), len(clusters)))
    n = len(outcomes)
    if n == 0:
        return None
    positives = sum(map(bool, outcomes))
    p = positives / n
    spread = _spread([bool(o) for o in outcomes], clusters, p * (1 - p) / n, confidence)
    if spread.effective_n is None:
        return Clustered(p, None, None, *spread, n, 1)
    effective = spread.effective_n
    limits = wilson_at(p * effective, effective, normal_quantile(confidence))
    return Clustered(p, *limits, *spread, n, len(set(clusters)))


def clustered_difference(
    first: Sequence[bool],
    second: Sequence[bool],
    clusters: Sequence[Hashable],
    confidence: float = 0.95,
) -> Clustered | None:
    """Difference of two paired rates, first minus second, with clusters; None without pairs.

    Newcombe's paired interval (method 10) on the four counts scaled to the effective number of
    pairs, found as in :func:`clustered_proportion` from the variance of the difference. In
    simulations of two models on 10 to 100 prompts of 4 to 25 variants it covered in 94 to 98 %.
    """
    if len(first) != len(clusters):
        raise ValueError(_unequal(len(first), len(clusters)))
    pairs = count_pairs(first, second)
    n = pairs.n
    if n == 0:
        return None
    excess = pairs.first_only - pairs.second_only
    independent = (pairs.first_only + pairs.second_only - excess**2 / n) / n**2
    changes = [bool(a) - bool(b) for a, b in zip(first, second, strict=True)]
    spread = _spread(changes, clusters, independent, confidence)
    if spread.effective_n is None:
        return Clustered(excess / n, None, None, *spread, n, 1)
    both, first_only, second_only, neither = (count * spread.effective_n / n for count in pairs)
    limits = newcombe_paired(both, first_only, second_only, neither, confidence)
    assert limits is not None  # there are pairs
    return Clustered(excess / n, limits.low, limits.high, *spread, n, len(set(clusters)))


def clustered_mcnemar(
    first: Sequence[bool], second: Sequence[bool], clusters: Sequence[Hashable]
) -> float:
    """Two-sided exact p of McNemar's question for clustered pairs: do the two rates differ?

    If they do not, the two outcomes of a whole cluster could as well have changed places: p is the
    share of all such exchanges (2 to the number of clusters) that differ at least as much as what
    was seen, computed exactly. A randomisation test with the cluster as its unit (Gail, Mark,
    Carroll, Green & Pee 1996, Statistics in Medicine 15:1069); the same as
    :func:`refract.statistics.paired.mcnemar_exact` where every cluster is one pair.
    """
    if not len(first) == len(second) == len(clusters):
        raise ValueError(
            "both outcomes and their clusters must be of the same length "
            f"(got {len(first)}, {len(second)} and {len(clusters)})"
        )
    changes = [bool(a) - bool(b) for a, b in zip(first, second, strict=True)]
    sums = [abs(total) for total, _ in _totals(changes, clusters) if total]
    seen = abs(sum(changes))
    import numpy as np

    # chance[i] is that of a sum of i - sum(sums), built up cluster by cluster
    chance = np.zeros(2 * sum(sums) + 1)
    chance[sum(sums)] = 1.0
    for change in sums:
        chance = (np.roll(chance, change) + np.roll(chance, -change)) / 2
    distance = np.abs(np.arange(len(chance)) - sum(sums))
    return min(1.0, float(chance[distance >= seen].sum()))


class _Spread(NamedTuple):
    se: float | None
    design_effect: float | None
    effective_n: float | None


def _spread(
    values: Sequence[int], clusters: Sequence[Hashable], independent: float, confidence: float
) -> _Spread:
    """The spread of the mean of ``values``; ``independent`` is its variance without clusters."""
    z = normal_quantile(confidence)
    totals = _totals(values, clusters)
    n, k = len(values), len(totals)
    if k == 1:
        return _Spread(None, None, None)
    mean = sum(values) / n
    variance = k / (k - 1) * sum((total - mean * size) ** 2 for total, size in totals) / n**2
    if independent <= 0:
        return _Spread(0.0, None, float(k))
    from scipy.stats import t

    effect = variance / independent
    shrinkage = (z / float(t.ppf((1 + confidence) / 2, k - 1))) ** 2
    return _Spread(sqrt(variance), effect, n * min(1.0, shrinkage / effect) if effect else float(n))


def _totals(values: Sequence[int], clusters: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Sum and size of each cluster, in the order of their first appearance."""
    totals: dict[Hashable, tuple[int, int]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        total, size = totals.get(cluster, (0, 0))
        totals[cluster] = (total + value, size + 1)
    return list(totals.values())


def _unequal(outcomes: int, clusters: int) -> str:
    return f"each outcome needs the name of its cluster (got {outcomes} and {clusters})"
