"""Sample sizes and detectable differences: published examples, exact power, inverses."""

from __future__ import annotations

import pytest

from refract.statistics.sample_sizes import (
    Detectable,
    detectable_independent,
    sample_size_independent,
    sample_size_paired,
)


def test_independent_sample_size_is_that_of_r():
    # ?power.prop.test: power.prop.test(p1 = .50, p2 = .75, power = .90) gives n = 76.7
    assert sample_size_independent(0.5, 0.75, power=0.9) == 77
    assert sample_size_independent(0.75, 0.5, power=0.9) == 77


def test_independent_detectable_difference_is_that_of_r():
    # ?power.prop.test: power.prop.test(n = 50, p1 = .50, p2 = .75) gives power = .740
    assert detectable_independent(0.5, 50, 50, power=0.740167).upper == pytest.approx(
        0.75, abs=1e-5
    )


def test_paired_sample_size_is_the_published_one():
    # Shares .05 and .45, power .8: 22.01 by Connor's formula (22 in the tests of R package MESS)
    assert sample_size_paired(0.05, 0.45) == 23


def test_what_is_detectable_with_a_sample_size_is_what_needed_it():
    n = sample_size_independent(0.9, 0.8)
    found = detectable_independent(0.9, n, n)
    assert found.lower == pytest.approx(0.8, abs=2e-3)
    assert 0.9 < found.upper < 1


def test_detectable_rates_of_opposite_outcomes_mirror_each_other():
    refusing, complying = detectable_independent(0.3, 80, 40), detectable_independent(0.7, 80, 40)
    assert complying == pytest.approx((1 - refusing.upper, 1 - refusing.lower), abs=1e-6)


def test_at_the_ends_a_few_per_cent_are_detectable_and_with_few_prompts_nothing_is():
    lowest, highest = detectable_independent(0.0, 100, 100), detectable_independent(1.0, 100, 100)
    assert lowest == (None, pytest.approx(0.0756, abs=5e-3))
    assert highest == (pytest.approx(0.9244, abs=5e-3), None)
    assert detectable_independent(0.5, 3, 3) == Detectable(None, None)


@pytest.mark.parametrize(("b", "c"), [(0.15, 0.05), (0.3, 0.2), (0.06, 0.01)])
def test_the_paired_sample_size_has_its_power(b, c):
    import numpy as np

    n = sample_size_paired(b, c)
    drawn = np.random.default_rng(53).multinomial(n, (b, c, 1 - b - c), size=2000)
    discordant, times = np.unique(drawn[:, :2], axis=0, return_counts=True)
    found = sum(
        repeats
        for pair, repeats in zip(discordant.tolist(), times.tolist(), strict=True)
        if pair != [0, 0] and (pair[0] - pair[1]) ** 2 / sum(pair) >= 1.96**2  # McNemar's χ²
    )
    assert 0.77 < found / 2000 < 0.86


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sample_size_independent(0.5, 0.5), r"must differ \(got 0.5 twice\)"),
        (lambda: sample_size_independent(0.5, 1.5), r"p_second must be at most 1 \(got 1.5 of 1\)"),
        (lambda: sample_size_independent(0.5, 0.6, power=80), r"power must be .*\(got 80\)"),
        (lambda: sample_size_independent(0.5, 0.6, alpha=0), r"alpha must be .*\(got 0\)"),
        (lambda: sample_size_paired(0.1, 0.1), r"must differ \(got 0.1 twice\)"),
        (lambda: sample_size_paired(0.6, 0.7), r"first_only \+ second_only must be at most 1"),
        (lambda: detectable_independent(0.5, 0, 3), r"at least \(got 0 and 3\)"),
    ],
)
def test_impossible_questions_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
