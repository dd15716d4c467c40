"""Intervals for one proportion, and the chance that any or all of several samples are positive.

Rates of refusal sit near 0 and 1, where an interval of estimate ± 1.96 standard errors has no width
or leaves [0, 1]; everything here is built on Wilson's score interval, which does neither."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import comb, hypot, sqrt
from statistics import NormalDist
from typing import NamedTuple


class Interval(NamedTuple):
    """A confidence interval, both ends included."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """From one end to the other."""
        return self.high - self.low


class Proportion(NamedTuple):
    """A proportion, or a difference of two, with its interval."""

    value: float
    low: float
    high: float


def settled(value: float) -> float:
    """A number to 12 significant digits, beyond which processors' libraries differ: to be rounded,
    or compared with a number that it may equal (a p of 0.03125 may come as 0.03125000000000001)."""
    return float(f"{value:.12g}")


@cache
def normal_quantile(confidence: float) -> float:
    """The z that leaves ``1 - confidence`` in the two tails of a standard normal (.95 gives 1.96).
    Raises ValueError unless 0 < confidence < 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be above 0 and below 1, such as 0.95 (got {confidence})")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def check_counts(**counts: float) -> None:
    """Raise ValueError if any of the named counts is negative."""
    for name, count in counts.items():
        if not count >= 0:  # also true of NaN
            raise ValueError(f"{name} must be a count of 0 or more (got {count})")


def check_part(successes: float, n: float, name: str = "successes", whole: str = "n") -> None:
    """Raise ValueError unless 0 <= successes <= n."""
    check_counts(**{name: successes, whole: n})
    if successes > n:
        raise ValueError(f"{name} must be at most {whole} (got {successes} of {n})")


def wilson(successes: float, n: float, confidence: float = 0.95) -> Interval | None:
    """Wilson's score interval for a proportion, or None without observations.

    Wilson 1927, JASA 22:209; method 3 of Newcombe 1998, Statistics in Medicine 17:857. ``n`` need
    not be whole (an effective sample size is allowed). No success gives a low end of exactly 0 and
    nothing but successes a high end of exactly 1. Equal to statsmodels' ``proportion_confint``
    (``method="wilson"``); written out because it is called for every cell of every table, and
    importing statsmodels takes longer than a whole report. Raises ValueError for counts that are
    negative or more successes than observations."""
    check_part(successes, n)
    z = normal_quantile(confidence)
    return wilson_at(successes, n, z) if n else None


def proportion(successes: float, n: float, confidence: float = 0.95) -> Proportion | None:
    """The observed proportion with :func:`wilson`'s interval, or None without observations."""
    limits = wilson(successes, n, confidence)
    if limits is None:
        return None
    return Proportion(successes / n, limits.low, limits.high)


def wilson_at(successes: float, n: float, z: float) -> Interval:
    """:func:`wilson` for a normal quantile instead of a confidence; ``n`` above 0."""
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Interval(
        0.0 if successes == 0 else max(0.0, centre - half),
        1.0 if successes == n else min(1.0, centre + half),
    )


def effective_n(rate: float, low: float, high: float, confidence: float = 0.95) -> float:
    """The number of independent answers for which Wilson's interval is as wide as this one: with u
    = 1 / n a root of w²(1 + z²u)² = 4z²(rate(1 - rate)u + z²u²/4)."""
    z2, w2 = normal_quantile(confidence) ** 2, (high - low) ** 2
    b = 2 * z2 * (w2 - 2 * rate * (1 - rate))
    return max(1e-3, (sqrt(b * b + 4 * z2 * z2 * (1 - w2) * w2) - b) / (2 * w2))


def mean_of_samples(
    prompts: Sequence[Sequence[float]], confidence: float = 0.95
) -> Proportion | None:
    """The mean over these very prompts of the mean of each one's samples; None without a prompt.

    Its interval is of the samples' noise alone: that of stratified sampling with the prompts as
    strata, Σ s²/m / N² over N prompts of m samples (Cochran 1977, Sampling Techniques, chapter 5;
    of evaluations Miller 2024, arXiv 2411.00640), as Wilson's at the effective number of samples
    (Franco, Little, Louis & Slud 2019, Journal of Survey Statistics and Methodology 7:334). An
    imaginary prompt with the variance 1/2 leaves samples that all agree a width. A prompt with one
    sample has the mean variance of the others; with one for each there is nothing to estimate, and
    no width: the mean is exact given the answers. Simulated with 10 to 100 prompts of 2 to 10
    samples it covered in 92 to 100 %."""
    if not prompts:
        return None
    n = len(prompts)
    means = [sum(samples) / len(samples) for samples in prompts]
    value = min(1.0, max(0.0, sum(means) / n))
    sizes = []
    variances = []
    variances_of_one = []
    for mean, samples in zip(means, prompts, strict=True):
        size = len(samples)
        if size > 1:
            squares = sum((x - mean) ** 2 for x in samples)
            variance = squares / (size - 1) / size
            sizes.append(size)
            variances.append(variance)
            variances_of_one.append(variance * size)
    several = len(sizes)
    if not several:
        return Proportion(value, value, value)
    single = sum(variances_of_one) / several
    noise = sum(variances) + (n - several) * single + several / sum(sizes) / 2
    centre = (sum(means) + 0.5) / (n + 1)
    effective = centre * (1 - centre) * n * n / noise
    low, high = wilson_at(value * effective, effective, normal_quantile(confidence))
    return Proportion(value, min(low, value), max(high, value))


def difference_of_means(first: Proportion, second: Proportion) -> Proportion:
    """First minus second of two independent means, its interval by MOVER (Zou & Donner 2008,
    Statistics in Medicine 27:1693)."""
    value = first.value - second.value
    low = value - hypot(first.value - first.low, second.high - second.value)
    high = value + hypot(first.high - first.value, second.value - second.low)
    return Proportion(value, low, high)


def hypergeometric_limits(
    positives: int, drawn: int, size: int, confidence: float = 0.95
) -> Interval:
    """Exact limits for the share of positives of ``size`` items, of which so many were drawn at
    random.

    The numbers of positives that neither one-sided test at half of 1 - ``confidence`` rejects
    (Buonaccorsi 1987, The American Statistician 41:215); nothing is left open once all are
    drawn."""
    import numpy as np
    from scipy.stats import hypergeom

    check_part(positives, drawn, name="positives", whole="drawn")
    check_part(drawn, size, name="drawn", whole="size")
    tail = settled((1 - confidence) / 2)
    totals = np.arange(positives, size - drawn + positives + 1)
    as_many = hypergeom.sf(positives - 1, size, totals, drawn)
    as_few = hypergeom.cdf(positives, size, totals, drawn)
    # Neither test rejects a total whose less likely side is above the tail.
    sides = map(settled, np.minimum(as_many, as_few))
    possible = [int(total) for total, side in zip(totals, sides, strict=True) if side > tail]
    return Interval(possible[0] / size, possible[-1] / size)


def any_of_k(positives: int, samples: int, k: int) -> float:
    """The chance that at least one of ``k`` fresh samples is positive, unbiased.

    1 - C(n - c, k) / C(n, k) for c positives of n samples: equation 1 of Chen et al. 2021, arXiv
    2107.03374 (pass@k; of attacks, attack success at k). Raises ValueError unless 1 <= k <=
    samples."""
    _check_samples(positives, samples, k)
    return 1 - comb(samples - positives, k) / comb(samples, k)


def all_of_k(positives: int, samples: int, k: int) -> float:
    """The chance that all of ``k`` fresh samples are positive, unbiased: C(c, k) / C(n, k).

    The same counting as :func:`any_of_k`, of the other outcome. Raises ValueError as there."""
    _check_samples(positives, samples, k)
    return comb(positives, k) / comb(samples, k)


def changes_in_k(positives: int, samples: int, k: int) -> float:
    """The chance that ``k`` fresh samples are not all alike, unbiased: any is positive and not
    all."""
    return any_of_k(positives, samples, k) - all_of_k(positives, samples, k)


def _check_samples(positives: int, samples: int, k: int) -> None:
    check_part(positives, samples, name="positives", whole="samples")
    if not 1 <= k <= samples:
        raise ValueError(f"k must be from 1 to the number of samples, {samples} (got {k})")
