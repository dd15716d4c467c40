"""Intervals for one proportion, and the chance that any or all of several samples are positive.

Rates of refusal sit near 0 and 1, where an interval of estimate ± 1.96 standard errors has no width
or leaves [0, 1]; everything here is built on Wilson's score interval, which does neither."""

from __future__ import annotations

from functools import cache
from math import comb, sqrt
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

    def holding(self, other: Interval) -> Interval:
        """The shortest interval that holds this one and another."""
        return Interval(min(self.low, other.low), max(self.high, other.high))


class Proportion(NamedTuple):
    """A proportion, or a difference of two, with its interval."""

    value: float
    low: float
    high: float


def settled(value: float, digits: int = 12) -> float:
    """A number to so many significant digits, beyond which processors' libraries differ: to be rounded,
    or compared with a number that it may equal (a p of 0.03125 may come as 0.03125000000000001)."""
    return float(f"{value:.{digits}g}")


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


def any_of_k(positives: int, samples: int, k: int) -> float:
    """The chance that at least one of ``k`` fresh samples is positive, unbiased.

    1 - C(n - c, k) / C(n, k) for c positives of n samples: equation 1 of Chen et al. 2021, arXiv
    2107.03374 (pass@k; of attacks, attack success at k). Raises ValueError unless 1 <= k <=
    samples."""
    check_part(positives, samples, name="positives", whole="samples")
    if not 1 <= k <= samples:
        raise ValueError(f"k must be from 1 to the number of samples, {samples} (got {k})")
    return 1 - comb(samples - positives, k) / comb(samples, k)
