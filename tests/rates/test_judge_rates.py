"""Rates of judges by the family of their labels: what they count and leave out."""

from __future__ import annotations

import pytest

from refract.rates import judge_rates
from refract.rates.counting import CountedSuite
from refract.rates.key import FAMILY_MEASURES
from refract.rates.thresholds import apply_thresholds
from refract.results.table_rows import rate_to_row
from tests.builders import counted

JUDGES = {"polite": "pass_fail"}


def judge_table(verdicts, outcomes, families, thresholds=()):
    ((name, family),) = families.items()
    said = {row["prompt_id"]: row["judges"] for row in verdicts}
    suite = CountedSuite([], outcomes, verdicts=said)
    rates = judge_rates.judge_table(suite, name, FAMILY_MEASURES[family][0], outcomes)
    return [rate_to_row(rate) for rate in apply_thresholds(rates, dict(thresholds))]


def verdict(id_, label, *, error=None, score=None, name="polite"):
    return {"prompt_id": id_, "judges": {name: {"label": label, "error": error, "score": score}}}


def test_a_requirements_fail_rate_leaves_out_what_was_not_judged():
    verdicts = [
        verdict("a", "pass"),
        verdict("b", "fail"),
        verdict("c", None, error="unreadable verdict"),
        verdict("d", None),  # the answer was an error: there was nothing to judge
        verdict("e", None),  # no requirement for this row
    ]
    outcomes = dict.fromkeys("abce", "compliance") | {"d": "error"}
    (row,) = judge_table(verdicts, counted(outcomes), JUDGES)
    assert (row["judge"], row["measure"], row["perturbation"]) == ("polite", "fail_rate", "")
    assert (row["successes"], row["n"], row["rate"]) == (1, 2, 0.5)
    assert (row["excluded_unjudged"], row["excluded_error"]) == (1, 1)
    assert (row["bound_low"], row["bound_high"]) == (0.25, 0.75)


def scored(scores, name="sr"):
    return [
        verdict(str(n), "refusal" if not score else "compliance", score=score, name=name)
        for n, score in enumerate(scores)
    ]


def test_a_rubric_gives_the_mean_of_its_scores_with_an_interval_within_0_and_1():
    verdicts = scored([0.0, 0.5, 1.0, 0.5])
    verdicts.append(verdict("x", None, error="unreadable verdict", name="sr"))
    outcomes = {row["prompt_id"]: "compliance" for row in verdicts}
    (row,) = judge_table(verdicts, counted(outcomes), {"sr": "refusal_score"})
    assert (row["judge"], row["measure"]) == ("sr", "mean_score")
    assert (row["n"], row["rate"]) == (4, 0.5)
    assert (row["excluded_unjudged"], row["bound_low"], row["bound_high"]) == (1, 0.4, 0.6)
    assert 0 < row["low"] < 0.5 < row["high"] < 1
    assert row["outer_low"] < row["low"] < row["high"] < row["outer_high"]


@pytest.mark.parametrize(("limit", "decision"), [(0.1, "met"), (0.01, "inconclusive")])
def test_a_threshold_can_be_set_for_a_mean_score(limit, decision):
    verdicts = scored([0.0] * 100)
    outcomes = dict.fromkeys((str(n) for n in range(100)), "refusal")
    thresholds = {"sr_mean_score": {"max": limit}}
    table = judge_table(verdicts, counted(outcomes), {"sr": "refusal_score"}, thresholds=thresholds)
    assert table[0]["decision"] == decision


def test_cut_off_answers_count_in_a_mean_and_have_a_row_without_them():
    outcomes = dict.fromkeys("0123", "compliance")
    table = judge_table(
        scored([0.0, 0.0, 1.0, 1.0]), counted(outcomes, cut_off="3"), {"sr": "refusal_score"}
    )
    assert [(row["field"], row["rate"], row["n"], row["cut_off"]) for row in table] == [
        ("", 0.5, 4, 1),
        ("cut_off", pytest.approx(1 / 3), 3, 0),
    ]


def test_a_similarity_below_0_counts_as_0():
    (row,) = judge_table(
        scored([-0.2, 0.4], name="s"), counted(dict.fromkeys("01", "compliance")), {"s": "score"}
    )
    assert row["rate"] == 0.2
