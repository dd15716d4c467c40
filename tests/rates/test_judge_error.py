"""The judge's error on a model that nobody labelled is a part of intervals."""

from __future__ import annotations

import pytest

from refract.rates.judge_error import JudgeError, widened, with_judge_error
from refract.rates.rate import Interval
from refract.statistics.clusters import t_quantile
from tests.builders import rate

ERROR = JudgeError(4, 0.03, 0.02, 0.1)
T = 3.182446305284263  # of three degrees of freedom at .95


def test_the_error_on_one_more_model_is_predicted_from_the_gaps_of_those_that_were_labelled():
    assert ERROR.half_width(0.95) == pytest.approx(T * 0.02 * (1 + 1 / 4) ** 0.5)
    assert ERROR.between_models(0.95) == pytest.approx(T * 0.02 * 2**0.5)
    assert ERROR.half_width(0.8) == pytest.approx(t_quantile(0.8, 3) * 0.02 * 1.25**0.5)


def test_what_labels_would_narrow_is_the_variance_of_a_prediction_powered_rate():
    # People refuse .8 - .03; the judge's error on one answer has a variance of .1.
    judged, people = 0.16, 0.77 * 0.23
    shared = (judged + people - 0.1) / 2
    variance = people / 50 - shared**2 / judged * (1 / 50 - 1 / 200)
    assert ERROR.with_labels(0.8, 200, 50, 0.95) == pytest.approx(1.959963985 * variance**0.5)
    # A judge that never refuses says nothing of the labels; one that is always right, all.
    assert ERROR.with_labels(0.0, 200, 50, 0.95) == 0.0
    right = JudgeError(4, 0.0, 0.0, 0.0)
    assert right.with_labels(0.5, 200, 50, 0.95) == pytest.approx(1.959963985 * (0.25 / 200) ** 0.5)
    noise = ERROR._replace(variance=1.0)  # no more than nothing is shared
    assert noise.with_labels(0.8, 200, 50, 0.95) == pytest.approx(
        1.959963985 * (people / 50) ** 0.5
    )


def test_distances_add_in_squares_around_the_shifted_ends_and_stop_at_the_range():
    ends, limits = Interval(0.4, 0.5), Interval(0.37, 0.54)
    assert widened(ends, limits, 0.1, 0.04) == pytest.approx((0.3 - 0.05, 0.4 + 0.0032**0.5))
    assert widened(ends, limits, 0.5, 0.04) == pytest.approx((0.0, 0.0032**0.5))
    assert widened(ends, limits, -0.7, 0.04) == (1.0, 1.0)
    assert widened(ends, limits, 1.0, 0.6, -1.0).low == -1.0
    wide = widened(Interval(0.0, 0.0), Interval(-1.5, 1.5), 0.0, 2.0, -2.0)
    assert wide == (-2.0, 2.0)


@pytest.mark.parametrize(("refused", "shift"), [(True, 0.03), (False, -0.03)])
def test_a_rate_of_refusals_moves_against_the_gap_and_the_rest_with_it(refused, shift):
    plain = rate(
        "rate",
        20,
        40,
        bounds=Interval(0.4, 0.6),
        outer=Interval(0.3, 0.7),
        interval=Interval(0.35, 0.65),
        these=Interval(0.45, 0.55),
    )
    found = with_judge_error(plain, ERROR, 0.95, refused=refused).with_judge
    half = ERROR.half_width(0.95)

    def expected(low, high, near_low, near_high):
        below, above = ((near**2 + half**2) ** 0.5 for near in (near_low, near_high))
        return pytest.approx((low - shift - below, high - shift + above))

    assert found.interval == expected(0.5, 0.5, 0.15, 0.15)
    assert found.outer == expected(0.4, 0.6, 0.1, 0.1)
    assert found.these == expected(0.5, 0.5, 0.05, 0.05)
    assert found.these_outer == expected(0.4, 0.6, 0.05, 0.05)


def test_a_difference_of_categories_has_the_error_of_two_sets_of_prompts_and_no_shift():
    plain = rate("rate", 20, 40, interval=Interval(0.35, 0.65))
    found = with_judge_error(plain, ERROR, 0.95, refused=None).with_judge
    half = (0.15**2 + ERROR.between_models(0.95) ** 2) ** 0.5
    assert found.interval == pytest.approx((0.5 - half, 0.5 + half))
    assert (found.outer, found.these) == (None, None)
    low = rate("rate", 0, 40, value=-0.9, interval=Interval(-0.95, -0.8))
    assert with_judge_error(low, ERROR, 0.95, refused=None).with_judge.interval.low < -0.95


def test_a_rate_without_a_value_or_an_interval_stays_as_it_is():
    for plain in (rate("rate", 0, 1, value=None), rate("rate", 1, 2, interval=None)):
        assert with_judge_error(plain, ERROR, 0.95, refused=True) == plain
