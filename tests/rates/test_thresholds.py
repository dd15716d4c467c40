"""What an interval says of a threshold, and what unjudged answers keep it from saying."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refract.core.vocabulary import EXCLUDED
from refract.rates.rate import AboveFloor, Counts, Interval, Threshold, WithJudge
from refract.rates.thresholds import (
    apply_thresholds,
    decided,
    explained,
    hidden_by_unjudged,
    threshold_warnings,
)
from refract.report.wording import plain_estimate, short_text
from tests.builders import rate

LEAST, MOST = Threshold("min", 0.8), Threshold("max", 0.2)


def unjudged(count):
    return dict.fromkeys(EXCLUDED, 0) | {"error": count}


@pytest.mark.parametrize(
    ("threshold", "interval", "decision"),
    [
        (LEAST, (0.8, 0.9), "met"),  # the limit itself meets it
        (LEAST, (0.7, 0.8), "inconclusive"),
        (LEAST, (0.7, 0.79), "missed"),
        (MOST, (0.1, 0.2), "met"),
        (MOST, (0.2, 0.3), "inconclusive"),
        (MOST, (0.21, 0.3), "missed"),
        (MOST, None, "inconclusive"),
    ],
)
def test_the_limit_is_met_where_the_whole_interval_is_on_its_side(threshold, interval, decision):
    interval = interval and Interval(*interval)
    assert threshold.decide(interval) == decision
    assert threshold.holds(interval) == (decision == "met")
    assert str(threshold) == (">= 0.8" if threshold is LEAST else "<= 0.2")


def test_unjudged_answers_decide_at_their_worst():
    found = rate(
        "rate", 90, 100, excluded=unjudged(25), interval=Interval(0.85, 0.95),
        outer=Interval(0.65, 0.97),
    )  # fmt: skip
    assert decided(found, LEAST).decision == "inconclusive"
    said = "25 answers not judged, with which it could be [0.6500, 0.9700]"
    assert explained(decided(found, LEAST)).endswith(said)
    assert decided(replace(found, counts=Counts(0, 0)), LEAST).decision == "inconclusive"


def test_a_noise_floor_goes_before_the_judges_error_and_that_before_prompts_alone():
    found = rate("rate", 90, 100, outer=Interval(0.85, 0.95))
    judged = replace(found, with_judge=WithJudge(Interval(0.7, 0.9), Interval(0.6, 0.79)))
    floor = replace(judged, above_floor=AboveFloor(0.5, Interval(0.4, 0.6), Interval(0.3, 0.85)))
    decisions = [decided(x, LEAST).decision for x in (found, judged, floor)]
    assert decisions == ["met", "missed", "inconclusive"]


def test_a_mean_of_scores_has_no_worst_count():
    found = rate(
        "rate", 76, 100, excluded=unjudged(80), interval=Interval(0.7, 0.82),
        bounds=Interval(0.4, 0.9), threshold=LEAST, decision="inconclusive",
    )  # fmt: skip
    assert hidden_by_unjudged(found)
    for decided_ in ({"decision": "missed"}, {"threshold": None}):
        assert not hidden_by_unjudged(replace(found, **decided_))
    assert not hidden_by_unjudged(replace(found, counts=replace(found.counts, successes=None)))
    within = replace(found, value=0.85, counts=replace(found.counts, successes=None))
    assert hidden_by_unjudged(within)  # but for what the others could make of it, it would be met


def test_missed_and_undecided_thresholds_have_a_line_each():
    rates = [
        rate("x", 1, 2, threshold=LEAST, decision=decision)
        for decision in ("missed", "met", "inconclusive", "missed")
    ]
    lines = threshold_warnings([*rates, rate("x", 1, 2)])
    assert lines == [
        "2 of 4 thresholds missed: s x 0.5 (>= 0.8); s x 0.5 (>= 0.8)",
        "1 of 4 thresholds inconclusive: s x 0.5 (>= 0.8)",
    ]
    unknown = rate("x", 0, 1, value=None, threshold=MOST, decision="inconclusive")
    assert threshold_warnings([unknown]) == [
        "1 of 1 thresholds inconclusive: s x not measured (<= 0.2)"
    ]


def test_a_threshold_is_for_the_rate_over_all():
    overall = rate("x", 8, 10, interval=Interval(0.5, 0.95), outer=Interval(0.5, 0.95))
    group = rate("x", 8, 10, "field=value", outer=Interval(0.8, 0.9))
    limits = {"x": {"min": 0.8}}
    found = apply_thresholds([group, overall], limits)
    assert [(x.decision, x.threshold) for x in found] == [(None, None), ("inconclusive", LEAST)]


def test_what_labels_leave_outside_their_interval_is_said_to_be_the_judges_count():
    with_labels = WithJudge(Interval(0.36, 0.87), Interval(0.36, 0.87))
    found = rate("harmful_refusal_rate", 93, 100, interval=Interval(0.86, 0.97))
    found = decided(replace(found, with_judge=with_labels), LEAST)
    said = "[0.3600, 0.8700], 0.9300 by the judge alone, should be >= 0.8"
    assert explained(found) == f"{said}; the judge's error could move it"
    assert short_text(found) == "[0.36, 0.87], 0.93 by the judge alone"
    assert plain_estimate(found) == "[0.360, 0.870], 0.930 by the judge alone"
    inside = replace(found, with_judge=WithJudge(Interval(0.36, 0.93)))
    assert short_text(inside) == "0.93 [0.36, 0.93]"
