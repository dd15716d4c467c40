"""How many prompts a drop needs, and what drop a number of prompts can show."""

from __future__ import annotations

from math import comb

import pytest
from scipy.stats import binom

from refract.statistics.sample_sizes import drop_power, drop_sample_size, smallest_drop


def test_the_power_of_one_way_losses_is_that_of_five():
    # At .05 five losses without a gain are shown (1/32), four are not (1/16).
    for n, drop in ((20, 0.3), (129, 0.05)):
        assert drop_power(n, drop, 0.0) == pytest.approx(binom.sf(4, n, drop))
    assert smallest_drop(4) is None
    assert drop_power(20, 0.0, 0.0) == 0.0
    # What rounding adds to a sum of 1 is none of it.
    assert drop_power(9, 0.6, 0.4 + 5e-10) == pytest.approx(drop_power(9, 0.6, 0.4))


def power_by_counting(n: int, drop: float, churn: float, alpha: float) -> float:
    """The chance of all numbers of losses and gains of which the exact test shows a drop."""
    lost, gained = drop + churn / 2, churn / 2
    power = 0.0
    for losses in range(n + 1):
        for gains in range(n + 1 - losses):
            flips = losses + gains
            p = sum(comb(flips, k) for k in range(losses, flips + 1)) / 2**flips
            if p <= alpha:
                kept = (1 - lost - gained) ** (n - flips)
                ways = comb(n, losses) * comb(n - losses, gains)
                power += ways * lost**losses * gained**gains * kept
    return power


@pytest.mark.parametrize(
    ("n", "drop", "churn", "alpha"),
    [(12, 0.5, 0.2, 0.05), (20, 0.3, 0.3, 0.05), (9, 0.6, 0.0, 0.01), (15, 0.0, 0.8, 0.1)],
)
def test_power_is_the_chance_of_the_counts_that_the_exact_test_rejects(n, drop, churn, alpha):
    assert drop_power(n, drop, churn, alpha) == pytest.approx(
        power_by_counting(n, drop, churn, alpha)
    )


def test_the_smallest_drop_has_the_power_and_a_smaller_one_has_not():
    for n, churn, power, alpha in ((60, 0.0, 0.8, 0.05), (129, 0.1, 0.9, 0.01)):
        drop = smallest_drop(n, churn, power, alpha)
        assert drop_power(n, drop, churn, alpha) >= power
        assert drop_power(n, drop - 1e-6, churn, alpha) < power
    assert smallest_drop(129, 1.0) is None


@pytest.mark.parametrize(
    ("drop", "churn", "power", "alpha"),
    [
        (0.05, 0.0, 0.8, 0.05),
        (0.1, 0.1, 0.8, 0.05),
        (0.03, 0.02, 0.8, 0.05),
        (0.2, 0.3, 0.9, 0.01),
        (1.0, 0.0, 0.8, 0.05),
    ],
)
def test_prompts_for_a_drop_and_the_drop_of_as_many_prompts_agree(drop, churn, power, alpha):
    n = drop_sample_size(drop, churn, power, alpha)
    assert all(drop_power(m, drop, churn, alpha) >= power for m in range(n, n + 11))
    assert drop_power(n - 1, drop, churn, alpha) < power
    assert smallest_drop(n, churn, power, alpha) <= drop


def test_the_first_number_is_taken_from_which_the_next_ten_have_the_power():
    # Of one-way losses the power rises with every prompt: the least number has it.
    least = next(n for n in range(5, 200) if binom.sf(4, n, 0.05) >= 0.8)
    assert drop_sample_size(0.05) == least
    assert drop_sample_size(1.0) == 5
    assert drop_power(32, 0.2, 0.0, 0.05) < 0.8
    assert drop_sample_size(0.2) == 33
