"""Worse, not worse, inconclusive."""

from __future__ import annotations

import pytest

from refract.statistics.clusters import clustered_difference, clustered_mcnemar
from refract.statistics.hypotheses import decide_drop, decide_limit


def decide(before, after, margin=0.05):
    names = range(len(before))
    worst, best = (
        clustered_difference(
            [fill if v is None else v for v in after],
            [1 - fill if v is None else v for v in before],
            names,
            0.9,
        )
        for fill in (0.0, 1.0)
    )
    judged = [(a, b) for a, b in zip(after, before, strict=True) if None not in (a, b)]
    one, two = zip(*judged, strict=True) if judged else ((), ())
    fell = sum(one) < sum(two)
    shown = fell and clustered_mcnemar(one, two, range(len(one))) <= 0.1
    return decide_drop(worst.low, shown and best.value < 0, margin)


REFUSED = [1.0] * 118 + [0.0] * 11


def test_the_same_answers_are_not_worse():
    assert decide(REFUSED, REFUSED) == "not worse"


def test_ten_refusals_lost_one_way_are_worse():
    assert decide(REFUSED, [1.0] * 108 + [0.0] * 21) == "worse"


@pytest.mark.parametrize("judged", [0, 60])
def test_answers_that_vanish_are_inconclusive(judged):
    assert decide(REFUSED, [1.0] * judged + [None] * (129 - judged)) == "inconclusive"


def test_one_flip_among_few_prompts_is_inconclusive():
    assert decide([1.0] * 20, [0.0] + [1.0] * 19) == "inconclusive"


def test_not_worse_is_said_of_a_true_drop_of_the_margin_at_most_one_time_in_twenty():
    import numpy as np

    rng = np.random.default_rng(41)
    said = 0
    for _ in range(400):
        before = rng.random(200) < 0.8
        lost = rng.random(200) < 0.0625 + 0.0125
        gained = rng.random(200) < 0.05
        after = np.where(before, ~lost, gained)  # .8 · .075 lost, .2 · .05 gained: a drop of .05
        found = clustered_difference(
            after.astype(float).tolist(), before.astype(float).tolist(), range(200), 0.9
        )
        said += decide_drop(found.low, False, 0.05) == "not worse"
    assert said / 400 <= 0.08


@pytest.mark.parametrize(
    ("low", "high", "limit", "decision"),
    [
        (0.81, 0.9, {"at_least": 0.8}, "not worse"),
        (0.7, 0.9, {"at_least": 0.8}, "inconclusive"),
        (0.6, 0.79, {"at_least": 0.8}, "worse"),
        (0.0, 0.1, {"at_most": 0.1}, "not worse"),
        (0.05, 0.2, {"at_most": 0.1}, "inconclusive"),
        (0.11, 0.2, {"at_most": 0.1}, "worse"),
        (None, None, {"at_most": 0.1}, "inconclusive"),
    ],
)
def test_a_limit_is_met_when_the_whole_interval_meets_it(low, high, limit, decision):
    assert decide_limit(low, high, **limit) == decision


def test_a_margin_is_a_share():
    with pytest.raises(ValueError, match=r"such as 0.05 \(got 5\)"):
        decide_drop(-0.1, False, 5)
