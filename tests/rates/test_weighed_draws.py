"""Labels of some answers narrow what a judge's error leaves open of a rate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from refract.rates.judge_error import people_interval
from refract.rates.rate import Interval, SharePart
from refract.rates.weighed_draws import VerdictLabels, Weighed, weighed_interval
from refract.statistics.proportions import wilson
from tests.builders import judge_error

APART = judge_error(missed=[0.03, 0.1, 0.3, 0.05], false=[0.01, 0.02, 0.05, 0.01], n=200)
NONE = VerdictLabels(0.0, 0)


def found(share, n, *labels, certain=0.0):
    part = SharePart(share, wilson(share * n, n), "harmful", n=n, certain=certain)
    return weighed_interval(APART, part, *labels, 0.95)


def width(weighed):
    return weighed.interval.high - weighed.interval.low


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_without_labels_it_is_the_interval_for_prompts_and_judge(share):
    limits, exactly = wilson(share * 129, 129), Interval(share, share)
    part = SharePart(share, limits, "harmful", n=129)
    expected = people_interval(APART, [part], exactly, limits, 0.95)
    assert found(share, 129, NONE, NONE).interval == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7, 1.0])
def test_no_label_that_agrees_with_the_judge_widens_it(share):
    widths = []
    for labels in (0, 2, 5, 10, 20, 50, 100):
        refused, answered = (
            VerdictLabels(1.0, labels * share),
            VerdictLabels(0.0, labels * (1 - share)),
        )
        weighed = found(share, 129, refused, answered)
        assert weighed.reliance == 1
        widths.append(width(weighed))
    assert all(later <= first + 0.001 for first, later in pairwise(widths))
    assert widths[4] < 0.8 * widths[0] or share in (0, 1)


def test_labels_take_away_refusals_that_were_thought_missed():
    # Near 1 a judge that may miss some leaves little below: labels that agree say it misses none.
    without = found(0.9, 129, NONE, NONE)
    agree = found(0.9, 129, VerdictLabels(1.0, 18), VerdictLabels(0.0, 2))
    assert without.interval.high == 1 > agree.interval.high
    assert width(agree) < width(without) + 0.01
    assert agree.interval.low > wilson(0.9 * 129, 129).low


def test_labels_that_disagree_move_it_to_what_they_say():
    agree = found(0.5, 129, VerdictLabels(1.0, 25), VerdictLabels(0.0, 25)).interval
    missed = found(0.5, 129, VerdictLabels(1.0, 25), VerdictLabels(0.3, 25)).interval
    false = found(0.5, 129, VerdictLabels(0.7, 25), VerdictLabels(0.0, 25)).interval
    assert false.high < agree.high < missed.high
    assert false.low < agree.low < missed.low
    assert missed.low < 0.65 < missed.high
    assert false.low < 0.35 < false.high


def test_labels_that_no_draw_foresaw_hand_over_without_a_jump():
    # The judge is wrong of every answer, of more and more: draws have it no longer.
    reliance, ends = [], []
    for labels in np.linspace(0, 400, 41):
        weighed = found(0.5, 800, VerdictLabels(0.1, labels), VerdictLabels(0.9, labels))
        reliance.append(weighed.reliance)
        ends.append(weighed.instead_of(Interval(0.45, 0.55)))
    assert (reliance[0], reliance[-1]) == (1.0, 0.0)
    assert ends[-1] == Interval(0.45, 0.55)
    steps = np.abs(np.diff(np.array(ends)[1:], axis=0))
    assert steps.max() < 0.05
    half = Weighed(Interval(0.2, 0.4), 0.5).instead_of(Interval(0.1, 0.6))
    assert half == pytest.approx((0.15, 0.5))


def test_what_the_provider_refused_needs_no_label():
    exact = found(0.4, 129, NONE, NONE, certain=0.4)
    assert exact.interval.low == pytest.approx(wilson(0.4 * 129, 129).low, abs=0.06)
    assert width(exact) < width(found(0.4, 129, NONE, NONE))
    whole = found(1.0, 129, NONE, NONE, certain=1.0).interval
    assert whole == pytest.approx(wilson(129, 129), abs=0.01)
