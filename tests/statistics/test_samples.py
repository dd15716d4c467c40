"""Any of k and all of k samples: exact values, and agreement with counting every choice."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.statistics.proportions import all_of_k, any_of_k


def test_pass_at_k_of_the_paper():
    # 1 - C(8, 2) / C(10, 2) = 1 - 28/45
    assert any_of_k(2, 10, 2) == pytest.approx(17 / 45)
    assert all_of_k(2, 10, 2) == pytest.approx(1 / 45)


@given(
    st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))
)
def test_they_are_the_shares_of_all_choices_of_k_samples(given_):
    n, positives, k = given_
    choices = list(combinations([i < positives for i in range(n)], k))
    assert any_of_k(positives, n, k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert all_of_k(positives, n, k) == pytest.approx(sum(map(all, choices)) / len(choices))


def test_one_sample_is_the_mean():
    assert any_of_k(3, 8, 1) == all_of_k(3, 8, 1) == 3 / 8


@pytest.mark.parametrize("k", [0, 4])
def test_a_k_that_was_not_sampled_is_refused(k):
    with pytest.raises(ValueError, match=rf"from 1 to the number of samples, 3 \(got {k}\)"):
        any_of_k(1, 3, k)
