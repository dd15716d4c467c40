from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.statistics.clusters import macro_mean
from refract.statistics.proportions import wilson

GROUPS = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 50)), min_size=1, max_size=9)


def test_each_group_counts_the_same_whatever_its_size():
    found = macro_mean([1.0, 0.0], [1, 99])
    assert found is not None
    assert found.value == 0.5


def test_one_group_has_wilsons_interval():
    found = macro_mean([0.3], [10])
    assert found is not None
    assert (found.low, found.high) == pytest.approx(wilson(3, 10))


def test_groups_that_are_alike_have_the_interval_of_all_their_values():
    found = macro_mean([0.4, 0.4, 0.4], [10, 10, 10])
    assert found is not None
    assert found.effective_n == pytest.approx(30)
    assert (found.low, found.high) == pytest.approx(wilson(12, 30))


def test_a_small_group_makes_the_average_as_unsure_as_it_is():
    even, uneven = macro_mean([0.5, 0.0], [500, 500]), macro_mean([0.5, 0.0], [4, 996])
    assert even is not None
    assert uneven is not None
    assert uneven.high - uneven.low > 5 * (even.high - even.low)


@given(GROUPS)
def test_the_interval_holds_the_average_and_stays_between_0_and_1(groups):
    found = macro_mean([mean for mean, _ in groups], [size for _, size in groups])
    assert found is not None
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize("sizes", [[10] * 12, [5, 8, 40, 100, 300], [30, 30]])
@pytest.mark.parametrize("power", [0.3, 1, 4])
def test_the_interval_covers_as_often_as_it_says(sizes, power):
    """Groups whose chances differ, most of them high, evenly spread, or most of them low."""
    draw = random.Random(4)
    covered = 0
    for _ in range(1000):
        chances = [draw.random() ** power for _ in sizes]
        means = [
            sum(draw.random() < chance for _ in range(size)) / size
            for chance, size in zip(chances, sizes, strict=True)
        ]
        found = macro_mean(means, sizes)
        assert found is not None
        covered += found.low <= sum(chances) / len(chances) <= found.high
    assert covered >= 940


def test_nothing_has_no_average():
    assert macro_mean([], []) is None


@pytest.mark.parametrize(("sizes", "says"), [([3], "2 means and 1 sizes"), ([3, 0], "group of 0")])
def test_lists_that_do_not_fit_are_an_error(sizes, says):
    with pytest.raises(ValueError, match=says):
        macro_mean([0.5, 0.5], sizes)
