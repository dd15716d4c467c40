"""Paired differences and McNemar's test against published tables and exact coverage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refract.statistics.paired import (
    Pairs,
    count_pairs,
    mcnemar_exact,
    mcnemar_midp,
    newcombe_paired,
    tango,
)

# both, first only, second only, neither, low, high, tolerance
PUBLISHED_METHOD_10 = [
    # Newcombe 1998, Statistics in Medicine 17:2635, table III, method 10 (z = 1.96)
    (36, 12, 2, 0, 0.0569, 0.3404, 1e-4),
    (20, 12, 2, 16, 0.0562, 0.3292, 5e-5),
    (18, 12, 2, 18, 0.0562, 0.3290, 1e-4),
    (36, 14, 0, 0, 0.1528, 0.4167, 1e-4),
    (35, 14, 0, 1, 0.1461, 0.4175, 1e-4),
    (18, 14, 0, 18, 0.1441, 0.3963, 1e-4),
    (2, 97, 1, 0, 0.8721, 0.9854, 1e-4),
    (1, 97, 1, 1, 0.8736, 0.9850, 1e-4),
    (0, 29, 1, 0, 0.6666, 0.9882, 1e-4),
    (2, 98, 0, 0, 0.9178, 0.9945, 1e-4),
    (1, 98, 0, 1, 0.9171, 0.9916, 1e-4),
    (0, 30, 0, 0, 0.8395, 1.0, 1e-4),
    (54, 0, 0, 0, -0.0664, 0.0664, 1e-4),
    (53, 0, 0, 1, -0.0729, 0.0729, 1e-4),
    (30, 0, 0, 24, -0.0358, 0.0358, 1e-4),
    (29, 0, 0, 25, -0.0354, 0.0354, 1e-4),
    (28, 0, 0, 26, -0.0352, 0.0352, 1e-4),
    (27, 0, 0, 27, -0.0351, 0.0351, 1e-4),
    # Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables, chapter 8
    (59, 6, 16, 80, -0.1186, -0.0046, 5e-5),
    (1, 0, 0, 1, -0.5734, 0.5734, 5e-5),
    # Fagerland, Lydersen & Laake 2014, Statistics in Medicine 33:2850 (Bentur et al. 2009)
    (1, 1, 7, 12, -0.507, -0.026, 6e-4),
    # Tang et al. 2010; Chang et al. 2024, as in the tests of R package ratesci
    (8, 3, 1, 2, -0.1574, 0.4136, 5e-5),
    (7, 25, 2, 68, 0.133, 0.318, 6e-4),
]

# Answers of published models and judges to the same prompts: both, first only, second only,
# neither; difference, low, high (method 10); exact McNemar p: all from the publishers' files.
PUBLISHED_ANSWERS = {
    "XSTest safe prompts, full refusal: Llama 2 with and without its system prompt": (
        (32, 63, 3, 152), (0.24, 0.1827482725584568, 0.2965822375243975), 1.3002836654618655e-15,
    ),
    "XSTest safe prompts, full refusal: Mistral with and without its guard prompt": (
        (2, 0, 22, 226), (-0.088, -0.130094749911415, -0.054621150052834), 4.76837158203125e-07,
    ),
    "XSTest, correct: string matching and GPT-4": (
        (397, 24, 25, 4), (-1 / 450, -0.03379913613552393, 0.029290679820275868), 1.0,
    ),
    "HarmBench, correct: its two classifiers": (
        (544, 3, 1, 54), (2 / 602, -0.005371931040548882, 0.012425250538544454), 0.625,
    ),
    "Gemma 2B refusing before and after ablation": (
        (0, 91, 0, 9), (0.91, 0.8288191270749908, 0.9519274599974348), 8.077935669463161e-28,
    ),
    "Llama 3 8B, past and future tense": (
        (9, 18, 2, 71), (0.16, 0.07572313646617786, 0.24709037766205605), 0.0004024505615234375,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("a", "b", "c", "d", "low", "high", "tolerance"), PUBLISHED_METHOD_10)
def test_method_10_gives_the_published_limits(a, b, c, d, low, high, tolerance):
    expected = ((b - c) / (a + b + c + d), low, high)
    assert newcombe_paired(a, b, c, d) == pytest.approx(expected, abs=tolerance)


def test_method_8_is_the_one_without_the_correction():
    result = newcombe_paired(20, 12, 2, 16, corrected=False)
    assert result == pytest.approx((0.2, 0.0618, 0.3242), abs=5e-5)
    assert newcombe_paired(27, 0, 0, 27, corrected=False) == pytest.approx((0, 0, 0), abs=1e-7)


@pytest.mark.parametrize("name", PUBLISHED_ANSWERS)
def test_published_answers_give_their_difference_and_p(name):
    pairs, difference, p = PUBLISHED_ANSWERS[name]
    assert newcombe_paired(*pairs) == pytest.approx(difference, abs=1e-12)
    assert mcnemar_exact(pairs[1], pairs[2]) == pytest.approx(p, rel=1e-9)


counts = st.integers(0, 500)


@settings(deadline=None)
@given(counts, counts, counts, counts)
def test_the_interval_holds_the_difference_and_changes_sign_with_the_order(a, b, c, d):
    result = newcombe_paired(a, b, c, d)
    if a + b + c + d == 0:
        assert result is None
        return
    assert -1 <= result.low <= result.difference <= result.high <= 1
    swapped = newcombe_paired(a, c, b, d)
    assert swapped == pytest.approx((-result.difference, -result.high, -result.low), abs=1e-12)


@settings(deadline=None)
@given(counts, counts, counts, counts)
def test_the_interval_is_the_same_for_refusing_and_for_complying(a, b, c, d):
    if a + b + c + d:
        first = newcombe_paired(a, b, c, d)
        other = newcombe_paired(d, b, c, a)
        assert other == pytest.approx(first, abs=1e-12)


# Probabilities of both, first only, second only, neither
@pytest.mark.parametrize(
    "cells",
    [(0.4, 0.1, 0.1, 0.4), (0.6, 0.2, 0.05, 0.15), (0.85, 0.1, 0.02, 0.03), (0.05, 0.3, 0.1, 0.55)],
)
def test_method_10_covers_nineteen_times_in_twenty(cells):
    import numpy as np

    drawn = np.random.default_rng(7).multinomial(80, cells, size=4000)
    tables, times = np.unique(drawn, axis=0, return_counts=True)
    covered = 0
    for table, repeats in zip(tables.tolist(), times.tolist(), strict=True):
        _, low, high = newcombe_paired(*table)
        covered += repeats * (low <= cells[1] - cells[2] <= high)
    assert 0.94 < covered / 4000 < 0.985  # the continuity correction errs on the wide side


# b, c, p: closed form; vassarstats, as kept in statsmodels' test_nonparametric.py; Fagerland et al.
@pytest.mark.parametrize(
    ("b", "c", "p"),
    [
        (121, 59, 4e-06),
        (70, 59, 0.378688),
        (80, 59, 0.089452),
        (30, 60, 0.00206),
        (10, 30, 0.002221),
        (10, 10, 1.0),
        (6, 16, 0.052479),
        (8, 1, 0.0390625),
        (3, 0, 0.25),
        (0, 0, 1.0),
    ],
)
def test_mcnemar_exact_gives_the_published_p(b, c, p):
    assert mcnemar_exact(b, c) == pytest.approx(p, abs=1e-6)
    assert mcnemar_exact(c, b) == pytest.approx(p, abs=1e-6)


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_exact_equals_statsmodels(b, c):
    from statsmodels.stats.contingency_tables import mcnemar

    assert mcnemar_exact(b, c) == pytest.approx(mcnemar([[5, b], [c, 5]]).pvalue, abs=1e-12)


def test_mcnemar_midp_gives_the_published_p():
    # Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables, chapter 8
    assert mcnemar_midp(6, 16) == pytest.approx(0.03469, abs=5e-6)


def test_mcnemar_midp_of_equal_disagreements_loses_half_their_probability_once():
    assert mcnemar_midp(1, 1) == pytest.approx(1 - 0.5 / 2)
    assert mcnemar_midp(0, 0) == 1.0


@pytest.mark.parametrize("discordant", [0.1, 0.3])
def test_mcnemar_midp_rejects_a_true_null_at_most_about_one_time_in_twenty(discordant):
    from scipy.stats import binom

    n, rejected = 100, 0.0
    for m in range(n + 1):
        weight = binom.pmf(m, n, discordant)
        if weight > 1e-6:
            rejected += weight * sum(
                binom.pmf(b, m, 0.5) for b in range(m + 1) if mcnemar_midp(b, m - b) <= 0.05
            )
    assert 0.02 < rejected < 0.052


def test_pairs_are_counted_in_the_order_both_first_second_neither():
    pairs = count_pairs([True, True, False, False, True], [True, False, True, False, False])
    assert pairs == Pairs(both=1, first_only=2, second_only=1, neither=1)
    assert pairs.n == 5


def test_pairs_of_different_length_are_refused():
    with pytest.raises(ValueError, match=r"of the same length \(got 1 and 2\)"):
        count_pairs([True], [True, False])


def test_a_negative_cell_is_named():
    with pytest.raises(ValueError, match=r"second_only must be a count of 0 or more \(got -1\)"):
        newcombe_paired(1, 1, -1, 1)


@pytest.mark.parametrize("flipped", [0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05, 0.08])
def test_tangos_interval_covers_few_flips_one_way_at_rates_near_one_half(flipped):
    from scipy.stats import binom

    covered = 0.0
    for lost in range(40):
        found = tango(64 - lost, lost, 0, 65)
        covered += binom.pmf(lost, 129, flipped) * (found.low <= flipped <= found.high)
    assert covered > 0.935


def test_the_worst_of_newcombes_there_is_far_below():
    from scipy.stats import binom

    covered = 0.0
    for lost in range(40):
        found = newcombe_paired(64 - lost, lost, 0, 65)
        covered += binom.pmf(lost, 129, 0.015) * (found.low <= 0.015 <= found.high)
    assert covered < 0.87
