"""What people's rate may be where a judge found one share, and what labels of some answers leave of
it."""

from __future__ import annotations

import numpy as np
import pytest

from refract.rates import one_share
from refract.rates.judge_error import (
    DRAWS,
    JudgeError,
    labelled_interval,
    people_by_draw,
    people_interval,
)
from refract.rates.one_share import (
    NO_LABELS,
    PATHS,
    Found,
    Paths,
    VerdictLabels,
    of_labels_alone,
    people_rates,
)
from refract.rates.rate import Interval, SharePart
from refract.statistics.proportions import normal_quantile, wilson
from tests.builders import ERRS_APART
from tests.rates.test_judge_error import VARIED


def found(share, n, *labels, certain=0.0, error=ERRS_APART):
    limits = wilson(share * n, n)
    part = SharePart(share, limits, "harmful", n=n, certain=certain)
    given = tuple(VerdictLabels(*each) for each in labels) or NO_LABELS
    return labelled_interval(error, part, given, 0.95)


def test_what_a_judge_cannot_have_decided_moves_peoples_share_as_much():
    draws = ERRS_APART.draws("harmful")
    least, below = (people_by_draw(draws, share, 0.3) for share in (0.3, 0.1))
    assert below == pytest.approx(least - 0.2)


def test_thousands_of_labels_leave_an_interval():
    interval = found(0.5, 20_000, (0.9, 5_000), (0.1, 5_000))
    assert 0.48 < interval.low < 0.5 < interval.high < 0.52


def width(interval):
    return interval.high - interval.low


@pytest.mark.parametrize(
    ("share", "n", "prompts", "certain"),
    [
        (0.57, 129, "harmful", 0),
        (0.11, 107, "other", 0),
        (0.2, 2000, "", 0),
        (0.3, 80, "other", 0.1),
    ],
)
def test_draws_of_the_error_rates_give_the_same_limits(share, n, prompts, certain):
    # In each draw the share that a judge would find of all prompts, and people's rate with it.
    limits = wilson(share * n, n)
    part = SharePart(share, limits, prompts, n=n, certain=certain)
    interval = people_interval(VARIED, [part], Interval(share, share), limits, 0.95)
    draws = VARIED.draws(prompts)
    normal = np.random.default_rng(1).standard_normal((10, DRAWS))
    for side, chance in zip(("low", "high"), (0.025, 0.975), strict=True):
        away = abs(getattr(limits, side) - share) / normal_quantile(0.95) * normal
        people = np.concatenate([people_by_draw(draws, share + step, certain) for step in away])
        assert getattr(interval, side) == pytest.approx(
            np.clip(np.quantile(people, chance), 0, 1), abs=0.003
        )


def test_finer_steps_move_no_limit_by_more_than_a_thousandth(monkeypatch):
    cases = [(0.57, 129), (0.95, 129), (0.02, 500), (0.5, 2000)]
    labels = [(), ((0.9, 15), (0.1, 5))]
    limits = [found(*case, *each) for case in cases for each in labels]
    for name, finer in (("PATHS", 65), ("STEPS", 256)):
        monkeypatch.setattr(one_share, name, finer)
    caches = (one_share.people_rates, one_share._scores, one_share._pair_weights)
    for cached in caches:
        cached.cache_clear()
    again = JudgeError(ERRS_APART.lines[::-1])  # another one, of which nothing is known yet
    finer = [found(*case, *each, error=again) for case in cases for each in labels]
    monkeypatch.undo()
    for cached in caches:
        cached.cache_clear()
    assert finer == [pytest.approx(each, abs=0.001) for each in limits]


@pytest.mark.parametrize("count", [0, 1, 3, 13, 39, 65, 90, 116, 123, 127, 129])
def test_labels_that_agree_with_the_judge_widen_nothing_but_what_reached_0_or_1(count):
    share, widths = count / 129, []
    alone = found(share, 129)
    for labels in (0, 1, 2, 5, 10, 20, 50, 100):
        refused = round(share * labels)
        widths.append(width(found(share, 129, (1.0, refused), (0.0, labels - refused))))
        # That all of the few answers with the rarer verdict are the judge's errors is what one label
        # of them denies; many such gainsay what is known of it.
        surprising = 0 < refused < labels and (alone.low == 0 or alone.high == 1)
        assert widths[-1] <= widths[0] + (0.045 if surprising else 1e-11)
    assert widths[5] < 0.8 * widths[0] or not 0.2 < share < 0.8


def test_few_labels_that_disagree_move_an_interval_and_keep_its_width():
    alone = found(0.1, 129)
    low, high = found(0.1, 129, (1.0, 5), (0.2, 5))
    assert (low, high) == pytest.approx((0.0970, 0.2778), abs=0.001)
    assert high - low == pytest.approx(width(alone))


def test_labels_that_disagree_move_it_to_what_they_say():
    agree = found(0.5, 129, (1.0, 25), (0.0, 25))
    missed = found(0.5, 129, (1.0, 25), (0.3, 25))
    false = found(0.5, 129, (0.7, 25), (0.0, 25))
    assert false.high < agree.high < missed.high
    assert false.low < agree.low < missed.low
    assert missed.low < 0.65 < missed.high
    assert false.low < 0.35 < false.high


@pytest.mark.parametrize(("right", "wrong"), [(0.9, 0.1), (0.6, 0.2), (0.5, 0.5), (0.1, 0.9)])
def test_many_labels_leave_nothing_of_what_was_thought_of_the_judge(right, wrong):
    # Also where it errs as none of the ledger does: of two kinds of answers, each labelled.
    low, high = found(0.5, 2000, (right, 250), (wrong, 250))
    people = (right + wrong) / 2
    labels = (right * (1 - right) + wrong * (1 - wrong)) / 1000
    half = 1.96 * np.sqrt(labels + (right - wrong) ** 2 / 8000)
    assert (low, high) == pytest.approx((people - half, people + half), abs=0.01)


@pytest.mark.parametrize(("refused", "certain"), [(10, 0.0), (0, 0.0), (10, 0.5)])
def test_labels_that_gainsay_the_judge_leave_no_less_than_they_say_alone(refused, certain):
    # The judge calls all refused, of which so many of 17 labels are.
    low, high = found(1.0, 40, (refused / 17, 17), (0.0, 0), certain=certain)
    alone = wilson(refused, 17)
    assert low <= certain + (1 - certain) * alone.low
    assert high >= certain + (1 - certain) * alone.high - 1e-9
    assert high < found(1.0, 40, (16 / 17, 17), (0.0, 0), certain=certain).high


def test_labels_alone_of_both_verdicts_are_those_of_all_of_them():
    limits = wilson(60, 120)
    share = Found(0.5, (limits.high - 0.5) / normal_quantile(0.95))
    low, high = of_labels_alone(share, (VerdictLabels(0.8, 40), VerdictLabels(0.4, 40)), 0.95)
    assert (low, high) == pytest.approx(wilson(48, 80), abs=0.02)
    nothing = of_labels_alone(share, NO_LABELS, 0.95)
    assert nothing == (0, pytest.approx(0.5**0.5))


def test_what_the_provider_refused_needs_no_label():
    exact = found(0.4, 129, certain=0.4)
    assert exact.low == pytest.approx(wilson(0.4 * 129, 129).low, abs=0.06)
    assert width(exact) < width(found(0.4, 129))
    assert found(1.0, 129, certain=1.0) == pytest.approx(wilson(129, 129), abs=0.01)


def test_quantiles_of_a_mixture_lie_where_its_parts_say():
    one = one_share.mixture_quantiles(np.ones(1), np.array([-2.0]), np.array([0.5]))
    assert one == pytest.approx(-2 + 0.5 * np.linspace(-4.5, 4.5, 33), abs=1e-3)


def test_what_a_judge_would_find_does_not_fall_where_it_misses_more_at_some_rate():
    missed = np.zeros((len(people_rates()), PATHS))
    middle = len(missed) // 2
    missed[middle : middle + 3] = 0.9
    judged = Paths(missed, np.zeros_like(missed)).judged
    assert np.all(np.diff(judged, axis=0) >= 0)
    assert judged[-1] == pytest.approx(people_rates()[-1])


def test_limits_of_labels_alone_are_those_of_mover_on_wilsons_intervals():
    share, labels = Found(0.4, 0.05), (VerdictLabels(0.9, 20), VerdictLabels(0.1, 30))
    refused, others = wilson(18, 20), wilson(3, 30)
    reach = (normal_quantile(0.95) * 0.05 * 0.8) ** 2
    below = reach + (0.4 * (0.9 - refused.low)) ** 2 + (0.6 * (0.1 - others.low)) ** 2
    above = reach + (0.4 * (refused.high - 0.9)) ** 2 + (0.6 * (others.high - 0.1)) ** 2
    limits = (0.42 - below**0.5, 0.42 + above**0.5)
    assert of_labels_alone(share, labels, 0.95) == pytest.approx(limits)


@pytest.mark.parametrize(("refused", "gainsaid"), [(6, True), (7, False)])
def test_labels_gainsay_a_judge_by_a_bayes_factor_of_jeffreys_prior(refused, gainsaid):
    labels = (VerdictLabels(refused / 8, 8), VerdictLabels(0 / 8, 8))
    assert VARIED.paths("harmful").gainsaid(Found(0.5, 0.05), labels) == gainsaid
