"""Are two rates the same within a margin? That no difference was found does not show it.

Two one-sided tests (TOST; Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics
15:657): two rates are equivalent when their difference is shown to lie above -margin and below
+margin.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

from refract.statistics.paired import crossing, tango, tango_score
from refract.statistics.proportions import (
    check_counts,
    check_part,
    newcombe_at,
    normal_quantile,
)


class Equivalence(NamedTuple):
    """Result of two one-sided tests of a difference, first minus second.

    ``p`` is the larger of the two p-values, ``equivalent`` whether it is at most alpha. That is so
    just when the interval ``low`` to ``high``, of confidence 1 - 2·alpha, lies inside ±margin.
    """

    difference: float
    low: float
    high: float
    p: float
    equivalent: bool


def tost_independent(
    successes_first: int,
    n_first: int,
    successes_second: int,
    n_second: int,
    margin: float,
    alpha: float = 0.05,
) -> Equivalence | None:
    """Equivalence of two independent proportions within ``margin``; None if either is empty.

    By Newcombe's interval (:func:`refract.statistics.proportions.newcombe`); each p-value is the
    level at which a limit meets the margin. Computed exactly for rates of .1 to 1, groups of 60 to
    1,000 and margins of .05 to .2, at most 5.6 % of differences as large as the margin pass at .05.
    With the interval of Agresti & Caffo 2000 it would be 7.1 %, and statsmodels' score test has no
    value where both rates are 0 or 1.

    Raises ValueError unless 0 < margin < 1 and 0 < alpha < 0.5.
    """
    check_part(successes_first, n_first, "successes_first", "n_first")
    check_part(successes_second, n_second, "successes_second", "n_second")
    _check(margin, alpha)
    if n_first == 0 or n_second == 0:
        return None
    counts = (successes_first, n_first, successes_second, n_second)
    reverse = (successes_second, n_second, successes_first, n_first)
    p = max(_p_above(counts, -margin), _p_above(reverse, -margin))
    return Equivalence(*newcombe_at(*counts, normal_quantile(1 - 2 * alpha)), p, p <= alpha)


def _p_above(counts: tuple[int, int, int, int], bound: float) -> float:
    """One-sided p of the difference of two independent proportions lying above ``bound``."""
    difference = newcombe_at(*counts, 0.0).difference
    if difference > bound:
        z = crossing(lambda z: newcombe_at(*counts, z).low > bound, 0.0, 40.0)
        return 1 - NormalDist().cdf(z)
    z = crossing(lambda z: newcombe_at(*counts, z).high < bound, 0.0, 40.0)
    return NormalDist().cdf(z)


def tost_paired(
    both: int,
    first_only: int,
    second_only: int,
    neither: int,
    margin: float,
    alpha: float = 0.05,
) -> Equivalence | None:
    """Equivalence of two paired proportions within ``margin``; None without pairs.

    Score test and interval of Tango 1998, Statistics in Medicine 17:891; as a test of equivalence
    Liu, Hsueh, Hsieh & Chen 2002, Statistics in Medicine 21:231.

    Raises ValueError unless 0 < margin < 1 and 0 < alpha < 0.5.
    """
    check_counts(both=both, first_only=first_only, second_only=second_only, neither=neither)
    _check(margin, alpha)
    n = both + first_only + second_only + neither
    if n == 0:
        return None

    def score(difference: float) -> float:
        return tango_score(first_only, second_only, n, difference)

    normal = NormalDist()
    p = max(1 - normal.cdf(score(-margin)), normal.cdf(score(margin)))
    found = tango(both, first_only, second_only, neither, 1 - 2 * alpha)
    assert found is not None  # there are pairs
    return Equivalence(*found, p, p <= alpha)


def _check(margin: float, alpha: float) -> None:
    if not 0 < margin < 1:
        raise ValueError(f"margin must be above 0 and below 1, such as 0.05 (got {margin})")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must be above 0 and below 0.5, such as 0.05 (got {alpha})")
