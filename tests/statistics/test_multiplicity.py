"""Adjustments of p-values against worked examples and their own definitions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refract.statistics.hypotheses import benjamini_hochberg, holm

# The fifteen p-values of Benjamini & Hochberg 1995, section 3.2 (thrombolysis trial)
THROMBOLYSIS = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
    0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
]  # fmt: skip


def test_holm_rejects_the_three_hypotheses_that_the_familywise_rule_does():
    assert [p <= 0.05 for p in holm(THROMBOLYSIS)] == [True] * 3 + [False] * 12


def test_holm_multiplies_by_the_number_of_tests_left():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_a_test_that_was_not_made_stays_none_and_does_not_count():
    first, second = holm([0.04, 0.01])
    assert holm([None, 0.04, None, 0.01]) == [None, first, None, second]
    assert holm([None]) == [None]
    assert holm([]) == []


p_values = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@settings(max_examples=12, deadline=None)  # statsmodels collects garbage on every call
@given(p_values)
def test_holm_is_its_definition(p):
    order = sorted(range(len(p)), key=lambda i: p[i])
    expected, largest = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, (len(p) - rank) * p[i])
        expected[i] = min(1.0, largest)
    assert holm(p) == pytest.approx(expected)


@settings(max_examples=8, deadline=None)
@given(p_values, st.randoms())
def test_the_order_of_the_tests_does_not_matter(p, random):
    shuffled = list(range(len(p)))
    random.shuffle(shuffled)
    adjusted = holm(p)
    assert holm([p[i] for i in shuffled]) == pytest.approx([adjusted[i] for i in shuffled])


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_number_that_is_not_a_probability_is_refused(p):
    with pytest.raises(ValueError, match=r"a p-value must be between 0 and 1, or None \(got"):
        holm([0.5, p])


def test_benjamini_and_hochbergs_own_example_has_its_four_findings():
    found = benjamini_hochberg(THROMBOLYSIS)
    assert [p <= 0.05 for p in found] == [True] * 4 + [False] * 11
    assert found[:4] == pytest.approx([0.0015, 0.003, 0.0095, 0.0095 * 15 / 4])
    assert benjamini_hochberg([None, 0.5, None]) == [None, 0.5, None]
    assert benjamini_hochberg([]) == []
    with pytest.raises(ValueError, match="between 0 and 1"):
        benjamini_hochberg([1.5])


@settings(deadline=None)  # the first example imports scipy
@given(st.lists(st.floats(0, 1), max_size=30))
def test_benjamini_and_hochbergs_are_those_of_scipy_and_never_above_holms(p_values):
    scipy_stats = pytest.importorskip("scipy.stats")
    found = benjamini_hochberg(p_values)
    if p_values:
        assert found == pytest.approx(list(scipy_stats.false_discovery_control(p_values)))
    assert all(a <= b + 1e-12 for a, b in zip(found, holm(p_values), strict=True))
