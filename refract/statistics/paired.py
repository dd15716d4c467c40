"""Two yes/no outcomes of the same prompts: the difference of their rates, and McNemar's test.

The four counts are always given in the same order: prompts positive in both, in the first only, in
the second only, in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import NamedTuple

from refract.statistics.proportions import Difference, check_counts, normal_quantile, wilson


class Pairs(NamedTuple):
    """How many prompts are positive in both outcomes, in one of them, in neither."""

    both: int
    first_only: int
    second_only: int
    neither: int

    @property
    def n(self) -> int:
        """Number of pairs."""
        return sum(self)


def count_pairs(first: Sequence[bool], second: Sequence[bool]) -> Pairs:
    """Count the pairs of two outcomes listed in the same order of prompts.

    Raises ValueError if the two differ in length.
    """
    if len(first) != len(second):
        raise ValueError(
            f"paired outcomes must be of the same length (got {len(first)} and {len(second)})"
        )
    cells = [(bool(a), bool(b)) for a, b in zip(first, second, strict=True)]
    return Pairs(
        *(cells.count(c) for c in ((True, True), (True, False), (False, True), (False, False)))
    )


def newcombe_paired(
    both: float,
    first_only: float,
    second_only: float,
    neither: float,
    confidence: float = 0.95,
    *,
    corrected: bool = True,
) -> Difference | None:
    """Difference of two paired proportions, first minus second, or None without pairs.

    Method 10 of Newcombe 1998, Statistics in Medicine 17:2635: Wilson's limits of the two rates,
    combined with the correlation φ of the pairs, whose numerator is brought towards 0 by n/2 where
    it is positive. ``corrected=False`` gives method 8, with φ as observed: it has no width at all
    where the pairs never disagree and are balanced. Counts need not be whole (an effective number
    of pairs is allowed).
    """
    check_counts(both=both, first_only=first_only, second_only=second_only, neither=neither)
    n = both + first_only + second_only + neither
    first, second = both + first_only, both + second_only
    limits_first, limits_second = wilson(first, n, confidence), wilson(second, n, confidence)
    if limits_first is None or limits_second is None:
        return None
    p_first, p_second = first / n, second / n
    down_first, up_first = p_first - limits_first.low, limits_first.high - p_first
    down_second, up_second = p_second - limits_second.low, limits_second.high - p_second

    margins = first * (n - first) * second * (n - second)
    excess = both * neither - first_only * second_only
    if corrected and excess > 0:
        excess = max(0.0, excess - n / 2)
    phi = excess / sqrt(margins) if margins else 0.0

    # Rounding can take a square that is 0 just below it (φ = 1 with equal margins).
    below = sqrt(max(0.0, down_first**2 - 2 * phi * down_first * up_second + up_second**2))
    above = sqrt(max(0.0, up_first**2 - 2 * phi * up_first * down_second + down_second**2))
    difference = (first_only - second_only) / n
    return Difference(difference, max(-1.0, difference - below), min(1.0, difference + above))


def tango(
    both: float, first_only: float, second_only: float, neither: float, confidence: float = 0.95
) -> Difference | None:
    """Difference of two paired proportions, first minus second, or None without pairs.

    The score interval of Tango 1998, Statistics in Medicine 17:891: the differences that a score
    test does not reject. Counts need not be whole (an effective number of pairs is allowed).
    Where few of 129 prompts flip and all of them one way, at rates near one half, it covers in 93.9 %
    or more (computed exactly), method 10 of Newcombe in 86 to 92 %. Without any flip its half width
    is z²/(n + z²).
    """
    check_counts(both=both, first_only=first_only, second_only=second_only, neither=neither)
    n = both + first_only + second_only + neither
    if n == 0:
        return None
    z = normal_quantile(confidence)
    value = (first_only - second_only) / n
    low = crossing(lambda d: tango_score(first_only, second_only, n, d) > z, -1.0, value)
    high = crossing(lambda d: tango_score(first_only, second_only, n, d) > -z, value, 1.0)
    # A limit of exactly -1 or 1 is found to within the bisection's step.
    return Difference(value, low if low > -1 + 1e-11 else -1.0, high if high < 1 - 1e-11 else 1.0)


def tango_score(first_only: float, second_only: float, n: float, difference: float) -> float:
    """How far the counts are from this true difference, in standard errors; it falls with it.

    The score of Tango 1998, with the likeliest share of ``second_only`` under the difference.
    """
    # The likeliest probability of "second only" is the root of 2n·q² + b·q + c.
    b = (2 * n - first_only + second_only) * difference - first_only - second_only
    c = -second_only * difference * (1 - difference)
    q = (sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    variance = n * (2 * q + difference * (1 - difference))
    distance = first_only - second_only - n * difference
    if variance <= 0 or distance == 0:
        return 0.0 if distance == 0 else inf if distance > 0 else -inf
    return distance / sqrt(variance)


def crossing(holds: Callable[[float], bool], left: float, right: float) -> float:
    """Where between two numbers a condition that holds on the left stops to hold."""
    while right - left > 1e-12:
        middle = (left + right) / 2
        left, right = (middle, right) if holds(middle) else (left, middle)
    return (left + right) / 2


def mcnemar_exact(first_only: int, second_only: int) -> float:
    """Two-sided exact p of McNemar's test: are the two kinds of disagreement equally likely?

    The binomial test of ``first_only`` in all disagreements at one half: McNemar 1947,
    Psychometrika 12:153; the exact conditional test of Fagerland, Lydersen & Laake 2013, BMC
    Medical Research Methodology 13:91. 1 where the pairs never disagree.
    """
    check_counts(first_only=first_only, second_only=second_only)
    if first_only + second_only == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(first_only, first_only + second_only, 0.5).pvalue)


def mcnemar_midp(first_only: int, second_only: int) -> float:
    """Two-sided mid-p of McNemar's test: the exact p less half the probability of what was seen.

    Fagerland, Lydersen & Laake 2013, BMC Medical Research Methodology 13:91: the exact test is
    conservative, the mid-p test keeps close to the nominal level and hardly ever above it.
    """
    exact = mcnemar_exact(first_only, second_only)
    discordant = first_only + second_only
    if discordant == 0:
        return 1.0
    from scipy.stats import binom

    # Half of both equally unlikely outcomes, b:c and c:b; when b = c they are one and the same.
    seen = float(binom.pmf(first_only, discordant, 0.5))
    return exact - (seen / 2 if first_only == second_only else seen)
