"""Two one-sided tests: published intervals, agreement of test and interval, error rates."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refract.statistics.equivalence import tost_independent, tost_paired
from refract.statistics.proportions import newcombe


def test_the_paired_interval_is_tangos():
    # Cavo et al. 2012 in Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables,
    # chapter 8: a 95 % interval, which is that of two tests at .025
    result = tost_paired(59, 6, 16, 80, margin=0.1, alpha=0.025)
    assert (result.difference, result.low, result.high) == pytest.approx(
        (-0.0621, -0.1240, -0.0054), abs=5e-5
    )
    assert not result.equivalent


def test_pairs_that_never_disagree_have_tangos_closed_form():
    z = 1.6448536269514722
    result = tost_paired(30, 0, 0, 20, margin=0.1)
    limit = z * z / (50 + z * z)
    assert (result.low, result.high) == pytest.approx((-limit, limit))
    assert result.equivalent


def test_the_independent_interval_is_newcombes():
    result = tost_independent(56, 70, 48, 80, margin=0.3, alpha=0.025)
    assert result[:3] == pytest.approx(newcombe(56, 70, 48, 80))
    assert not result.equivalent  # its high end is .3339


def test_the_p_of_a_one_sided_test_is_where_the_limit_meets_the_margin():
    result = tost_independent(56, 70, 48, 80, margin=0.35)
    assert newcombe(56, 70, 48, 80, confidence=1 - 2 * result.p).high == pytest.approx(0.35)
    beyond = tost_independent(56, 70, 48, 80, margin=0.1)
    assert beyond.p > 0.5
    assert newcombe(56, 70, 48, 80, confidence=2 * beyond.p - 1).low == pytest.approx(0.1)


def test_rates_of_0_and_1_can_be_shown_to_be_equivalent():
    assert tost_independent(200, 200, 200, 200, margin=0.05).equivalent
    assert tost_independent(0, 200, 0, 200, margin=0.05).equivalent
    assert not tost_independent(0, 10, 0, 10, margin=0.05).equivalent


margins = st.floats(0.01, 0.5)


@settings(deadline=None)
@given(st.data(), margins)
def test_independent_rates_are_equivalent_just_when_their_interval_is_inside(data, margin):
    n, m = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 300))
    x, y = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    result = tost_independent(x, n, y, m, margin)
    inside = -margin < result.low and result.high < margin
    assert result.equivalent == inside or abs(result.p - 0.05) < 1e-9


counts = st.integers(0, 120)


@settings(deadline=None)
@given(counts, counts, counts, counts, margins)
def test_paired_rates_are_equivalent_just_when_their_interval_is_inside(a, b, c, d, margin):
    result = tost_paired(a, b, c, d, margin)
    if a + b + c + d == 0:
        assert result is None
        return
    assert -1 <= result.low <= result.difference + 1e-9
    assert result.difference <= result.high + 1e-9 <= 1 + 2e-9
    inside = -margin < result.low and result.high < margin
    assert result.equivalent == inside or abs(result.p - 0.05) < 1e-6
    swapped = tost_paired(a, c, b, d, margin)
    assert (swapped.low, swapped.high, swapped.p) == pytest.approx(
        (-result.high, -result.low, result.p), abs=1e-6
    )


@pytest.mark.parametrize("other_only", [0.0, 0.05, 0.2])
def test_paired_rates_at_the_margin_pass_at_most_about_one_time_in_twenty(other_only):
    import numpy as np

    margin, n = 0.1, 250
    cells = (0.5, margin + other_only, other_only, 0.5 - margin - 2 * other_only)
    drawn = np.random.default_rng(41).multinomial(n, cells, size=4000).tolist()
    passed = sum(tost_paired(*table, margin).equivalent for table in drawn)
    assert 0.03 < passed / 4000 < 0.065


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_independent_rates_at_the_margin_pass_at_most_about_one_time_in_twenty(p):
    from scipy.stats import binom

    n, margin, passed = 150, 0.1, 0.0
    first, second = binom.pmf(range(n + 1), n, p), binom.pmf(range(n + 1), n, p - margin)
    for x in range(n + 1):
        for y in range(max(0, x - 15), min(n, x + 15) + 1):  # others differ by the margin or more
            if first[x] * second[y] > 1e-6:
                weight = first[x] * second[y]
                passed += weight * tost_independent(x, n, y, n, margin).equivalent
    assert 0.01 < passed < 0.056


def test_nothing_to_compare_is_none():
    assert tost_independent(0, 0, 1, 2, 0.1) is None
    assert tost_paired(0, 0, 0, 0, 0.1) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tost_paired(1, 0, 0, 1, 0), r"margin must be above 0 and below 1.*\(got 0\)"),
        (lambda: tost_independent(1, 2, 1, 2, 5), r"margin must be .*\(got 5\)"),
        (lambda: tost_independent(1, 2, 1, 2, 0.1, 0.5), r"alpha must be .*\(got 0.5\)"),
        (lambda: tost_independent(3, 2, 1, 2, 0.1), r"successes_first must be at most n_first"),
        (lambda: tost_paired(1, -1, 0, 1, 0.1), r"first_only must be a count of 0 or more"),
    ],
)
def test_impossible_questions_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
