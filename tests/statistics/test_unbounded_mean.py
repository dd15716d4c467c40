"""Means of values of any size, such as lengths: textbook intervals, other software."""

from __future__ import annotations

import pytest

from refract.statistics.clusters import Clustered, unbounded_mean

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
