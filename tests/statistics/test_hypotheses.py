"""Adjusted p-values against worked examples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from refract.statistics.hypotheses import holm

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
