"""The difference of the rates of two yes/no outcomes of the same prompts.

The four counts are always given in the same order: prompts positive in both, in the first only, in
the second only, in neither."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt

from refract.statistics.proportions import Proportion, check_counts, normal_quantile


def tango(
    both: float, first_only: float, second_only: float, neither: float, confidence: float = 0.95
) -> Proportion | None:
    """Difference of two paired proportions, first minus second, or None without pairs.

    The score interval of Tango 1998, Statistics in Medicine 17:891: the differences that a score
    test does not reject. Counts need not be whole (an effective number of pairs is allowed). Where
    few of 129 prompts flip and all of them one way, at rates near one half, it covers in 93.9 % or
    more (computed exactly), method 10 of Newcombe in 86 to 92 %. Without any flip its half width is
    z²/(n + z²)."""
    check_counts(both=both, first_only=first_only, second_only=second_only, neither=neither)
    n = both + first_only + second_only + neither
    if n == 0:
        return None
    z = normal_quantile(confidence)
    value = (first_only - second_only) / n
    low = crossing(
        lambda d: tango_score(first_only, second_only, n=n, difference=d) > z, -1.0, value
    )
    high = crossing(
        lambda d: tango_score(first_only, second_only, n=n, difference=d) > -z, value, 1.0
    )
    # A limit of exactly -1 or 1 is found to within the bisection's step.
    low = low if low > -1 + 1e-11 else -1.0
    high = high if high < 1 - 1e-11 else 1.0
    return Proportion(value, low, high)


def tango_score(first_only: float, second_only: float, n: float, difference: float) -> float:
    """How far the counts are from this true difference, in standard errors; it falls with it.

    The score of Tango 1998, with the likeliest share of ``second_only`` under the difference."""
    # The likeliest probability of "second only" is the root of 2n·q² + b·q + c.
    b = (2 * n - first_only + second_only) * difference - first_only - second_only
    c = -second_only * difference * (1 - difference)
    q = (sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    variance = n * (2 * q + difference * (1 - difference))
    distance = first_only - second_only - n * difference
    if distance == 0:
        return 0.0
    if variance <= 0:
        return inf if distance > 0 else -inf
    return distance / sqrt(variance)


def crossing(holds: Callable[[float], bool], left: float, right: float) -> float:
    """Where between two numbers a condition that holds on the left stops to hold."""
    while right - left > 1e-12:
        middle = (left + right) / 2
        left, right = (middle, right) if holds(middle) else (left, middle)
    return (left + right) / 2
