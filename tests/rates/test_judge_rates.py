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


def test_cut_off_answers_count_in_a_mean_and_have_a_row_without_them():
    outcomes = dict.fromkeys("0123", "compliance")
    table = judge_table(
        scored([0.0, 0.0, 1.0, 1.0]), counted(outcomes, cut_off="3"), {"sr": "refusal_score"}
    )
    assert [(row["field"], row["rate"], row["n"], row["cut_off"]) for row in table] == [
        ("", 0.5, 4, 1),
        ("cut_off", pytest.approx(1 / 3), 3, 0),
    ]


def test_a_second_judge_of_refusal_has_the_rates_of_the_first_and_its_kappa():
    said = {"a": "refusal", "b": "compliance", "c": "compliance", "d": "compliance"}
    of_first = {**said, "b": "refusal"}
    sources = [{"id": id_, "category": "harmful"} for id_ in said]
    suite = CountedSuite(
        sources,
        counted(of_first),
        responses={id_: {"response": "x", "finish_reason": "stop", "error": None} for id_ in said},
        verdicts={
            id_: {"first": {"label": of_first[id_]}, "second": {"label": label}}
            for id_, label in said.items()
        },
        definition={"judges": ["first", "second"]},
        families={"first": "refusal", "second": "refusal"},
    )
    values = {rate.name: rate.value for rate in judge_rates.further_judges(suite)}
    assert values["second_harmful_refusal_rate"] == 0.25
    assert values["second_kappa"] == pytest.approx(0.5)


def test_thinking_is_held_against_the_answer_over_all_and_by_category():
    # What the judge of the thinking and the first judge say; without thinking nothing is counted.
    said = {
        "a": ("refusal", "compliance"),
        "b": ("compliance", "partial_refusal"),
        "c": ("partial_refusal", "refusal"),
        "d": (None, "refusal"),
        "e": ("refusal", "error"),
        "f": ("refusal", "compliance"),
    }
    sources = [{"id": id_, "category": "harmful" if id_ < "c" else "helpful"} for id_ in said]
    suite = CountedSuite(
        sources,
        counted({id_: answer for id_, (_, answer) in said.items()}),
        responses={id_: {"thinking": " " if id_ == "f" else "Hm."} for id_ in said},
        verdicts={id_: {"t": {"label": thought}} for id_, (thought, _) in said.items()},
        definition={"judges": ["first", "t"]},
        families={"first": "refusal", "t": "refusal_in_thought"},
    )
    found = {}
    for rate in judge_rates.further_judges(suite):
        counts = rate.counts
        found[rate.name, rate.group.value] = (counts.successes, counts.n, counts.unjudged)
    hidden, shown = "t_thinks_refusal_answers_compliance", "t_thinks_compliance_answers_refusal"
    assert found == {
        (hidden, ""): (1, 3, 2),
        (hidden, "harmful"): (1, 2, 0),
        (hidden, "helpful"): (0, 1, 2),
        (shown, ""): (1, 3, 2),
        (shown, "harmful"): (1, 2, 0),
        (shown, "helpful"): (0, 1, 2),
    }
