"""Rates from labels of rows that were drawn with unequal chances."""

from __future__ import annotations

import numpy as np
import pytest

from refract.statistics.correction import Sample, prediction_powered
from refract.statistics.proportions import wilson
from refract.statistics.weighted import draw_size, weighted_fit


def test_an_estimate_worked_out_by_hand():
    # Weights 2, 4, 4; labels 1, 0, 1 of predictions .8, .2, .6; seven more rows of mean .5.
    fit = weighted_fit(
        [True, False, True], [0.8, 0.2, 0.6], [0.5] * 7, [0.5, 0.25, 0.25], range(3), range(3, 10)
    )
    label, prediction = 0.6, 0.48  # (2 + 4) / 10, (1.6 + .8 + 2.4) / 10
    slope = (2 * 0.32 * 0.4 + 4 * 0.28 * 0.6 + 4 * 0.12 * 0.4) / (
        2 * 0.32**2 + 4 * 0.28**2 + 4 * 0.12**2
    )
    assert slope > 1
    assert fit.weight == 1.0  # held to 1
    assert fit.rate == pytest.approx(label + 0.51 - prediction)
    assert sum(value for _, value in fit.contributions) == pytest.approx(0.0)


def test_a_row_that_counts_twice_moves_the_rate_as_two_rows_would():
    human, predicted, others, drawn = (
        [True, False, True],
        [0.8, 0.2, 0.6],
        [0.3, 0.9],
        [0.5, 0.4, 0.8],
    )
    names, others_names = range(3), range(3, 5)
    twice = weighted_fit(
        human, predicted, others, drawn, names, others_names, counts=[2, 1, 1, 1, 2]
    )
    rows = weighted_fit(
        [True, *human],
        [0.8, *predicted],
        [*others, 0.9],
        [0.5, *drawn],
        [0, *names],
        [*others_names, 4],
    )
    assert (twice.rate, twice.weight) == pytest.approx((rows.rate, rows.weight))
    together = [0.0] * 5
    for name, value in rows.contributions:
        together[name] += value
    assert [value for _, value in twice.contributions] == pytest.approx(together)


def test_rows_that_all_count_alike_are_as_without_counts():
    rows = ([True, False, True], [0.8, 0.2, 0.6], [0.3, 0.9], [0.5, 0.4, 0.8], "abc", "de")
    assert weighted_fit(*rows, counts=[3] * 5) == weighted_fit(*rows)


def test_a_weight_between_0_and_1_is_the_weighted_slope_and_gives_wilsons_interval():
    human, predicted = np.array([1, 0, 1, 0, 0]), np.array([0.9, 0.3, 0.5, 0.8, 0.1])
    others, drawn = np.array([0.2, 0.8, 0.4]), np.array([0.5, 0.25, 1.0, 0.4, 0.8])
    weights = 1 / drawn
    slope, level = np.polyfit(predicted, human, 1, w=weights**0.5)
    assert 0 < slope < 1
    every = np.append(predicted, others).mean()
    rate = level + slope * every
    residuals = human - level - slope * predicted
    parts = slope * (np.append(predicted, others) - every)
    parts[:5] += weights * residuals
    plain = np.square(parts / 8).sum()
    fit = weighted_fit(
        human.tolist(), predicted.tolist(), others.tolist(), drawn.tolist(), range(5), "abc"
    )
    assert (fit.rate, fit.weight, fit.plain) == pytest.approx((rate, slope, plain))
    assert fit.variance == pytest.approx(5 / 3 * plain + 0.5 / 25)
    assert [name for name, _ in fit.contributions] == [0, 1, 2, 3, 4, "a", "b", "c"]
    assert [value for _, value in fit.contributions] == pytest.approx(parts / 8)
    sample = Sample(human.tolist(), predicted.tolist(), others.tolist(), inclusion=drawn.tolist())
    found = prediction_powered(sample, 0.9)
    centre = (rate * 5 + 0.5) / 6
    effective = centre * (1 - centre) / fit.variance
    assert found[1:3] == pytest.approx(wilson(rate * effective, effective, 0.9))


def test_doubt_is_drawn_more_often_and_certainty_still_is():
    sizes = [draw_size(p) for p in (0.0, 0.02, 0.5, 0.98, 1.0)]
    assert sizes[1] == pytest.approx((0.02 * 0.98 + 0.02) ** 0.5)
    assert sizes == pytest.approx(sizes[::-1])
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[2] / sizes[0] == pytest.approx((0.27 / 0.02) ** 0.5)


def test_with_all_rows_labelled_the_rate_is_theirs_whatever_the_draw():
    found = prediction_powered(
        Sample([True, False, False, True], [0.9, 0.9, 0.1, 0.1], [], inclusion=[1, 1, 0.5, 0.2])
    )
    assert found.rate == 0.5
    assert found.low < 0.2
    assert found.high > 0.8
