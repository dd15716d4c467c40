"""Paired differences against published tables and exact coverage."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from refract.statistics.hypotheses import holm
from refract.statistics.paired import tango, tango_score
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
