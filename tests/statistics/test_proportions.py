"""Wilson's interval against published tables and statsmodels; any and all of k."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.statistics.proportions import (
    Interval,
    any_of_k,
    effective_n,
    proportion,
    settled,
    wilson,
)

# x, n, low, high, tolerance
PUBLISHED_WILSON = [
    # Newcombe 1998, Statistics in Medicine 17:857, table I, method 3
    (15, 148, 0.0624, 0.1605, 5e-5),
    (0, 20, 0.0, 0.1611, 5e-5),
    (1, 29, 0.0061, 0.1718, 5e-5),
    # Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables, chapter 2
    (13, 16, 0.5699, 0.9341, 5e-5),
    # A published table of refusal rates (per cent with one decimal)
    (175, 180, 0.937, 0.988, 6e-4),
    (8, 180, 0.023, 0.085, 6e-4),
    (60, 60, 0.94, 1.0, 6e-4),
]


def test_the_width_of_an_interval_is_from_end_to_end():
    assert Interval(0.25, 0.625).width == 0.375


@pytest.mark.parametrize(("x", "n", "low", "high", "tolerance"), PUBLISHED_WILSON)
def test_wilson_gives_the_published_limits(x, n, low, high, tolerance):
    assert wilson(x, n) == pytest.approx((low, high), abs=tolerance)
    assert proportion(x, n) == (x / n, *wilson(x, n))


@given(st.data(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_wilson_equals_statsmodels(data, confidence):
    from statsmodels.stats.proportion import proportion_confint

    n = data.draw(st.integers(1, 100_000))
    x = data.draw(st.integers(0, n))
    expected = proportion_confint(x, n, alpha=1 - confidence, method="wilson")
    assert wilson(x, n, confidence) == pytest.approx(expected, abs=1e-12)


def test_rounding_leaves_no_limit_outside_of_0_to_1():
    # Without a bound the first would be above 1, the second below 0.
    assert wilson(141990.0924121279, 141990.09241218853, 0.99).high == 1.0
    assert wilson(2.0343902387326396e-09, 1.5445386163347143, 0.8).low == 0.0
    ends = {(wilson(0, n).low, wilson(n, n).high) for n in range(1, 300)}
    assert ends == {(0.0, 1.0)}


def test_pass_at_k_of_the_paper():
    # 1 - C(8, 2) / C(10, 2) = 1 - 28/45
    assert any_of_k(2, 10, 2) == pytest.approx(17 / 45)
    assert any_of_k(3, 8, 1) == 3 / 8  # one sample is the mean


@given(
    st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))
)
def test_it_is_the_share_of_all_choices_of_k_samples(given_):
    n, positives, k = given_
    choices = list(combinations([i < positives for i in range(n)], k))
    assert any_of_k(positives, n, k) == pytest.approx(sum(map(any, choices)) / len(choices))


def test_what_differs_behind_the_twelfth_digit_is_one_number():
    assert settled(0.03125000000000001) == 0.03125
    assert settled(0.123456789012) == 0.123456789012


@pytest.mark.parametrize(("positives", "n"), [(0, 40), (7, 40), (40, 40), (65, 129)])
def test_the_effective_number_of_a_wilson_interval_is_its_own(positives, n):
    assert effective_n(positives / n, *wilson(positives, n)) == pytest.approx(n, rel=1e-6)


def test_an_interval_of_all_says_as_much_as_a_thousandth_of_an_answer():
    assert effective_n(0.5, 0.0, 1.0) == 1e-3
