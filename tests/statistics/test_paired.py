"""Paired differences against published tables and exact coverage."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from refract.statistics.clusters import Clustered, unbounded_mean
from refract.statistics.hypotheses import holm
from refract.statistics.paired import Pairs, count_pairs, tango, tango_score
from tests.statistics.test_clusters import mcnemar

# Answers of published models and judges to the same prompts: both, first only, second only,
# neither; difference; exact McNemar p: all from the publishers' files.
PUBLISHED_ANSWERS = {
    "XSTest safe prompts, full refusal: Llama 2 with and without its system prompt": (
        (32, 63, 3, 152), 0.24, 1.3002836654618655e-15,
    ),
    "XSTest safe prompts, full refusal: Mistral with and without its guard prompt": (
        (2, 0, 22, 226), -0.088, 4.76837158203125e-07,
    ),
    "XSTest, correct: string matching and GPT-4": (
        (397, 24, 25, 4), -1 / 450, 1.0,
    ),
    "HarmBench, correct: its two classifiers": (
        (544, 3, 1, 54), 2 / 602, 0.625,
    ),
    "Gemma 2B refusing before and after ablation": (
        (0, 91, 0, 9), 0.91, 8.077935669463161e-28,
    ),
    "Llama 3 8B, past and future tense": (
        (9, 18, 2, 71), 0.16, 0.0004024505615234375,
    ),
}  # fmt: skip


def test_tangos_interval_is_the_published_one():
    # Cavo et al. 2012 in Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables,
    # chapter 8
    assert tango(59, 6, 16, 80) == pytest.approx((-0.0621, -0.1240, -0.0054), abs=5e-5)


def test_pairs_that_never_disagree_have_tangos_closed_form():
    z = 1.6448536269514722
    limit = z * z / (50 + z * z)
    assert tango(30, 0, 0, 20, confidence=0.9) == pytest.approx((0.0, -limit, limit), abs=1e-9)


@pytest.mark.parametrize("name", PUBLISHED_ANSWERS)
def test_published_answers_give_their_difference_and_p(name):
    pairs, difference, p = PUBLISHED_ANSWERS[name]
    found = tango(*pairs)
    assert found.value == pytest.approx(difference)
    assert (found.low > 0 or found.high < 0) == (p < 0.05)
    assert mcnemar(pairs[1], pairs[2]) == pytest.approx(p, rel=1e-9)


def test_a_difference_that_leaves_no_variance_is_infinitely_far():
    # Half a pair without a flip against a true difference of -1 and of 1.
    assert tango_score(0.0, 0.0, n=0.5, difference=-1.0) == inf
    assert tango_score(0.0, 0.0, n=0.5, difference=1.0) == -inf
    assert tango_score(0.0, 0.0, n=0.5, difference=0.0) == 0.0


def test_pairs_are_counted_in_the_order_both_first_second_neither():
    pairs = count_pairs([True, True, False, False, True], [True, False, True, False, False])
    assert pairs == Pairs(both=1, first_only=2, second_only=1, neither=1)


# Adjusted p-values against worked examples


# The fifteen p-values of Benjamini & Hochberg 1995, section 3.2 (thrombolysis trial)
THROMBOLYSIS = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
    0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
]  # fmt: skip


def test_holm_rejects_the_three_hypotheses_that_the_familywise_rule_does():
    assert [p <= 0.05 for p in holm(THROMBOLYSIS)] == [True] * 3 + [False] * 12


@given(st.lists(st.sampled_from(THROMBOLYSIS) | st.floats(0, 1), min_size=1))
def test_holm_is_that_of_statsmodels_to_the_last_digit(p_values):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.collect", lambda: 0)  # it looks through all memory each time
        expected = multipletests(p_values, method="holm")[1].tolist()
    assert holm(p_values) == expected


def test_a_test_that_was_not_made_stays_none_and_does_not_count():
    first, second = holm([0.04, 0.01])
    assert holm([None, 0.04, None, 0.01]) == [None, first, None, second]
    assert holm([None]) == [None]
    assert holm([]) == []


# Means of values of any size, such as lengths: textbook intervals, other software


LENGTHS = [812.0, 37.0, 455.0, 1290.0, 640.0, 88.0]


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_independent_values_have_students_interval(confidence):
    from scipy.stats import sem, t

    found = unbounded_mean(LENGTHS, "abcdef", confidence)
    error = sem(LENGTHS)
    low, high = t.interval(confidence, 5, loc=sum(LENGTHS) / 6, scale=error)
    expected = Clustered(sum(LENGTHS) / 6, 6, 6, 6.0, low, high, error, 1.0)
    assert found == pytest.approx(expected)


def test_clusters_widen_the_interval_by_cr2_and_its_degrees_of_freedom():
    import numpy as np
    from scipy.stats import t

    # Four rows of request 0, and one each of two others: as much as 36 / 18 equal clusters.
    found = unbounded_mean(LENGTHS, [0, 0, 0, 0, 1, 2])
    # The totals' distances from the mean, over √(1 - m/6).
    mean = sum(LENGTHS) / 6
    apart = [sum(LENGTHS[:4]) - 4 * mean, LENGTHS[4] - mean, LENGTHS[5] - mean]
    squares = apart[0] ** 2 / (2 / 6) + apart[1] ** 2 / (5 / 6) + apart[2] ** 2 / (5 / 6)
    assert found.se == pytest.approx(squares**0.5 / 6)
    assert found.design_effect == pytest.approx(found.se**2 / (np.var(LENGTHS, ddof=1) / 6))
    # No two of the four are alike, so that P has 4, 1, 1 in its diagonal; beside it -4/6 and
    # -1/6, over the same roots.
    beside = 4 * (4 / 6) ** 2 / (2 / 6 * 5 / 6) + 2 * (1 / 6) ** 2 / (5 / 6) ** 2
    half = t.ppf(0.975, 36 / (16 + 1 + 1 + beside)) * found.se
    assert (found.low, found.high) == pytest.approx((mean - half, mean + half))
    assert (found.n, found.clusters, found.effective_clusters) == (6, 3, pytest.approx(2.0))
    assert found.effective_n is None


def test_one_cluster_has_no_interval_and_no_value_no_mean():
    assert unbounded_mean([3.0, 5.0], "aa") == Clustered(4.0, 2, 1, 1.0)
    assert unbounded_mean([3.0], "a") == Clustered(3.0, 1, 1, 1.0)
    assert unbounded_mean([], []) is None
    same = unbounded_mean([7.0, 7.0], "ab")
    assert (same.low, same.high, same.se, same.design_effect) == (7.0, 7.0, 0.0, None)
    with pytest.raises(ValueError, match="must be as many"):
        unbounded_mean([1.0], "ab")
