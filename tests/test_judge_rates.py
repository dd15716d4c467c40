"""Rates of judges by the family of their labels: what they count and leave out."""

from __future__ import annotations

from refract.rates.verdicts import judge_table

JUDGES = {"polite": "pass_fail"}


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
    (row,) = judge_table(verdicts, outcomes, JUDGES)
    assert (row["measure"], row["successes"], row["n"], row["rate"]) == (
        "polite_fail_rate",
        1,
        2,
        0.5,
    )
    assert (row["excluded_unjudged"], row["excluded_error"]) == (1, 1)
    assert (row["bound_low"], row["bound_high"]) == (0.25, 0.75)


def test_harm_is_counted_by_its_own_label():
    verdicts = [verdict("a", "harmful", name="harm"), verdict("b", "harmless", name="harm")]
    outcomes = dict.fromkeys("ab", "compliance")
    (row,) = judge_table(verdicts, outcomes, {"harm": "harmful"})
    assert (row["measure"], row["rate"]) == ("harm_harmful_rate", 0.5)


def test_a_rubric_gives_the_mean_of_its_scores_with_a_t_interval():
    scores = [0.0, 0.5, 1.0, 0.5]
    verdicts = [
        verdict(str(n), "refusal" if not score else "compliance", score=score, name="sr")
        for n, score in enumerate(scores)
    ]
    verdicts.append(verdict("x", None, error="unreadable verdict", name="sr"))
    outcomes = {row["prompt_id"]: "compliance" for row in verdicts}
    (row,) = judge_table(verdicts, outcomes, {"sr": "refusal_score"})
    # Standard error .2041, t(3, .975) = 3.1824: 0.5 ± 0.6496, within 0 to 1.
    assert (row["measure"], row["n"], row["rate"]) == ("sr_mean_score", 4, 0.5)
    assert (row["low"], row["high"], row["excluded_unjudged"]) == (0.0, 1.0, 1)


def test_a_judge_that_had_nothing_to_judge_has_no_row():
    assert judge_table([verdict("a", None)], {"a": "compliance"}, JUDGES) == []


def test_scores_without_labels_have_a_mean():
    verdicts = [
        verdict(id_, None, score=score, name="s") for id_, score in (("a", 0.2), ("b", 0.4))
    ]
    verdicts.append(verdict("c", None, error="unreadable", name="s"))
    (row,) = judge_table(verdicts, dict.fromkeys("abc", "compliance"), {"s": "score"})
    assert (row["measure"], row["n"], row["rate"]) == ("s_mean_score", 2, 0.3)
    assert row["excluded_unjudged"] == 1
