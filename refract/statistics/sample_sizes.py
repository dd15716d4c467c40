"""How many prompts a paired comparison needs, and what difference a given number can show."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, sqrt
from typing import Any

from refract.statistics.proportions import check_part, normal_quantile


def sample_size_paired(
    first_only: float, second_only: float, power: float = 0.8, alpha: float = 0.05
) -> int:
    """Prompts for McNemar's two-sided test to tell two rates on the same prompts apart.

    ``first_only`` and ``second_only`` are the expected shares of prompts positive in one outcome
    alone; their difference is that of the rates. Miettinen 1968, Biometrics 24:339; Connor 1987,
    Biometrics 43:207. The exact test needs a few prompts more.

    Raises ValueError for shares outside [0, 1], that sum to more than 1, or equal ones.
    """
    _check(power, alpha)
    check_part(first_only, 1, "first_only", "1")
    check_part(second_only, 1, "second_only", "1")
    check_part(first_only + second_only, 1, "first_only + second_only", "1")
    if first_only == second_only:
        raise ValueError(f"two shares to be told apart must differ (got {first_only} twice)")
    discordant, difference = first_only + second_only, abs(first_only - second_only)
    return ceil((_needed(discordant, difference, power, alpha) / difference) ** 2)


def drop_power(n: int, drop: float, churn: float, alpha: float = 0.05) -> float:
    """The power of McNemar's one-sided exact test for a drop on the same ``n`` prompts, exactly.

    ``churn`` is the share of prompts that flip besides, half of them either way: an outcome is lost
    with probability drop + churn / 2 and gained with churn / 2. Raises ValueError for shares that sum
    to more than 1, alpha outside 0 to 1, and no prompts.
    """
    _check(0.8, alpha)
    check_part(drop, 1, "drop", "1")
    check_part(churn, 1, "churn", "1")
    check_part(drop + churn, 1 + 1e-9, "drop + churn", "1")
    if n < 1:
        raise ValueError(f"a comparison needs a prompt at least (got {n})")
    if drop + churn == 0:
        return 0.0
    import numpy as np
    from scipy.stats import binom

    flips = np.arange(n + 1)
    discordant = min(1.0, drop + churn)
    shown = binom.sf(_limits(n, alpha), flips, min(1.0, (drop + churn / 2) / discordant))
    return float((binom.pmf(flips, n, discordant) * shown).sum())


@lru_cache(32)
def _limits(n: int, alpha: float) -> Any:
    """For each number of flips up to n, the losses that must be exceeded for a drop to be shown."""
    import numpy as np
    from scipy.stats import binom

    return binom.isf(alpha, np.arange(n + 1), 0.5)


def smallest_drop(
    n: int, churn: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> float | None:
    """The smallest drop that has this power on ``n`` prompts (:func:`drop_power`).

    None where not even the largest drop has it.
    """
    _check(power, alpha)
    return _nearest(0.0, 1.0 - churn, lambda drop: drop_power(n, drop, churn, alpha) >= power)


def drop_sample_size(
    drop: float, churn: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> int:
    """The number of prompts from which on a drop has this power (:func:`drop_power`).

    The power of an exact test rises in steps with the number of prompts and falls a little between
    them: the number is the first with the power from which the next ten have it too. Raises
    ValueError for a drop of 0.
    """
    n = max(1, sample_size_paired(drop + churn / 2, churn / 2, power, 2 * alpha) * 3 // 4)
    enough = 0
    while enough <= 10:
        enough = enough + 1 if drop_power(n, drop, churn, alpha) >= power else 0
        n += 1
    return n - enough


def _needed(discordant: float, difference: float, power: float, alpha: float) -> float:
    """The difference times the root of the sample size that gives this power."""
    z_alpha, z_power = normal_quantile(1 - alpha), normal_quantile(2 * power - 1)
    return z_alpha * sqrt(discordant) + z_power * sqrt(discordant - difference**2)


def _nearest(start: float, end: float, enough: Callable[[float], bool]) -> float | None:
    """The value nearest to ``start`` on the way to ``end`` that is enough, or None."""
    if start == end or not enough(end):
        return None
    while abs(end - start) > 1e-9:
        middle = (start + end) / 2
        start, end = (start, middle) if enough(middle) else (middle, end)
    return end


def _check(power: float, alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be above 0 and below 1, such as 0.05 (got {alpha})")
    if not 0.5 < power < 1:
        raise ValueError(f"power must be above 0.5 and below 1, such as 0.8 (got {power})")
