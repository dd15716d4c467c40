"""How many prompts a paired comparison needs, and what difference a given number can show."""

from __future__ import annotations

from functools import lru_cache
from math import ceil, sqrt
from typing import Any

from refract.statistics.proportions import check_part, normal_quantile


def drop_power(n: int, drop: float, churn: float, alpha: float = 0.05) -> float:
    """The power of McNemar's one-sided exact test for a drop on the same ``n`` prompts, exactly.

    ``churn`` is the share of prompts that flip besides, half of them either way: an outcome is lost
    with probability drop + churn / 2 and gained with churn / 2. Raises ValueError for shares that
    sum to more than 1, alpha outside 0 to 1, and no prompts."""
    _check(0.8, alpha)
    check_part(drop, 1, name="drop", whole="1")
    check_part(churn, 1, name="churn", whole="1")
    check_part(drop + churn, 1 + 1e-9, name="drop + churn", whole="1")
    if n < 1:
        raise ValueError(f"a comparison needs a prompt at least (got {n})")
    if drop + churn == 0:
        return 0.0
    import numpy as np
    from scipy.stats import binom

    discordant = min(1.0, drop + churn)
    # Numbers of flips that are rarer than this change no digit of the sum.
    rare = 1e-18
    fewest, most = binom.ppf(rare, n, discordant), binom.isf(rare, n, discordant)
    flips = np.arange(int(fewest), int(most) + 1)
    limits = _limits(1 << n.bit_length(), alpha)[flips]
    shown = binom.sf(limits, flips, min(1.0, (drop + churn / 2) / discordant))
    return float((binom.pmf(flips, n, discordant) * shown).sum())


@lru_cache(32)
def _limits(size: int, alpha: float) -> Any:
    """For each number of flips below ``size``, the losses that must be exceeded for a drop to be
    shown. Asked for powers of two, so that neighbouring numbers of prompts share one."""
    import numpy as np
    from scipy.stats import binom

    return binom.isf(alpha, np.arange(size), 0.5)


def smallest_drop(
    n: int, churn: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> float | None:
    """The smallest drop that has this power on ``n`` prompts (:func:`drop_power`).

    None where not even the largest drop has it."""
    _check(power, alpha)
    low, high = 0.0, 1.0 - churn
    if high == 0 or drop_power(n, high, churn=churn, alpha=alpha) < power:
        return None
    while high - low > 1e-9:
        middle = (low + high) / 2
        enough = drop_power(n, middle, churn=churn, alpha=alpha) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def drop_sample_size(
    drop: float, churn: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> int:
    """The number of prompts from which on a drop has this power (:func:`drop_power`).

    The power of an exact test rises in steps with the number of prompts and falls a little
    between them: the number is the first with the power from which the next ten have it too,
    sought from three quarters of that of McNemar's test on (Miettinen 1968, Biometrics 24:339;
    Connor 1987, Biometrics 43:207). Raises ValueError for a drop of 0, and for shares that sum
    to more than 1."""
    _check(power, alpha)
    check_part(drop + churn, 1, name="drop + churn", whole="1")
    if drop <= 0:
        raise ValueError(f"a drop must be above 0 to be told from none (got {drop})")
    z_alpha, z_power = normal_quantile(1 - 2 * alpha), normal_quantile(2 * power - 1)
    needed = z_alpha * sqrt(drop + churn) + z_power * sqrt(drop + churn - drop**2)
    n = max(1, ceil((needed / drop) ** 2) * 3 // 4)
    while True:
        # From the last of them back: where it lacks the power, none of those before is the number.
        for later in range(n + 10, n - 1, -1):
            if drop_power(later, drop, churn=churn, alpha=alpha) < power:
                n = later + 1
                break
        else:
            return n


def _check(power: float, alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be above 0 and below 1, such as 0.05 (got {alpha})")
    if not 0.5 < power < 1:
        raise ValueError(f"power must be above 0.5 and below 1, such as 0.8 (got {power})")
