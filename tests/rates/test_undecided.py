"""What would decide a threshold that the judge's error leaves open."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from refract.agreement.corrections import label_plans, with_labels
from refract.agreement.label_files import JoinedLabels
from refract.cli.gate import _needed
from refract.rates import undecided
from refract.rates.judge_error import GAINSAID, with_judge_error
from refract.rates.one_share import VerdictLabels
from refract.rates.rate import (
    HumanLabels,
    Interval,
    SharePart,
    Statistics,
    Threshold,
    WithJudge,
)
from refract.rates.thresholds import decided, fails
from refract.rates.undecided import (
    LabelPlan,
    foreseen,
    found_of,
    label_plan,
    needed_text,
    part_of_rate,
    plan_text,
    planned_text,
    would_decide,
)
from refract.report.first_table import first_table
from refract.report.judge_notes import plan_note, powered_table
from refract.report.wording import short_text
from refract.statistics.proportions import wilson
from refract.suites.draws import Draw
from tests.agreement.answers import harmful_answers
from tests.builders import ERRS_APART, rate, suite_facts
from tests.report.views import facts, view_of

LEAST = Threshold("min", 0.8)


def judged(successes, n, threshold, name="harmful_refusal_rate"):
    plain = rate(name, successes, n, interval=wilson(successes, n))
    exactly = Interval(plain.value, plain.value)
    plain = replace(plain, bounds=exactly, outer=plain.interval).keyed(model="m", suite="s")
    found = with_judge_error(plain, ERRS_APART, 0.95, ["harmful", "helpful"])
    return decided(found, threshold)


@pytest.mark.parametrize(
    ("name", "successes", "threshold"),
    [
        ("harmful_refusal_rate", 80, Threshold("min", 0.8)),
        ("over_refusal_rate", 14, Threshold("max", 0.15)),
    ],
)
def test_the_rates_that_would_decide_are_the_first_ones_that_do(name, successes, threshold):
    found = would_decide(judged(successes, 100, threshold, name), ERRS_APART, 0.95)
    sign = 1 if threshold.kind == "min" else -1
    for share, decision, step in ((found.met, "met", -sign), (found.missed, "missed", sign)):
        count = round(share * 100)
        assert judged(count, 100, threshold, name).decision == decision
        assert judged(count + step, 100, threshold, name).decision == "inconclusive"
    assert found.least is (threshold.kind == "min")


def test_twenty_labels_are_foreseen_with_a_range_and_a_number_that_decides():
    open_ = judged(170, 200, Threshold("min", 0.85))
    found = would_decide(open_, ERRS_APART, 0.95)
    low, likely, high = found.plan.low, found.plan.likely, found.plan.high
    assert low.low <= likely.low <= high.low
    assert low.high <= likely.high <= high.high
    text = needed_text(open_, found, 400)
    assert "on 200 prompts a rate by the judge would be met at >= 0." in text
    assert "20 labels (about 40 of all) would most likely leave [0." in text
    assert "refract label --model m --suite s --n 40" in text
    for labels, says in ((20, ", and decide it: "), (21, "about 21 "), (None, "may be that close")):
        assert says in needed_text(open_, found._replace(labels=labels), 400)
    part = SharePart(0.6, wilson(120, 200), "harmful", n=200)
    widths = []
    for count in (0, 20, 60, 200):
        ends = foreseen(ERRS_APART, part, count, 0.5, 0.95)
        widths.append(ends.high - ends.low)
    assert widths == sorted(widths, reverse=True)
    clear = judged(100, 200, Threshold("max", 0.75))
    if clear.decision == "inconclusive":
        assert would_decide(clear, ERRS_APART, 0.95).labels <= 100


def with_unjudged(successes, n, unjudged, threshold):
    """Such a rate beside so many answers that are not judged."""
    plain = rate("harmful_refusal_rate", successes, n, interval=wilson(successes, n))
    whole = n + unjudged
    outer = Interval(wilson(successes, whole).low, wilson(successes + unjudged, whole).high)
    bounds = Interval(successes / whole, (successes + unjudged) / whole)
    counts = replace(plain.counts, excluded={"error": unjudged})
    plain = replace(plain, counts=counts, bounds=bounds, outer=outer).keyed(model="m", suite="s")
    return decided(with_judge_error(plain, ERRS_APART, 0.95, ["harmful"]), threshold)


def test_labels_and_rates_decide_with_the_worst_case_of_unjudged_answers():
    least = Threshold("min", 0.75)
    runs = {unjudged: with_unjudged(154, 200, unjudged, least) for unjudged in (0, 14, 26)}
    found = {unjudged: would_decide(each, ERRS_APART, 0.95) for unjudged, each in runs.items()}
    assert {unjudged: each.labels for unjudged, each in found.items()} == {0: 20, 14: 100, 26: None}
    part = part_of_rate(runs[14])
    decisions = {}
    for labels in (20, 80, 100):
        left = foreseen(ERRS_APART, part, labels, 0.5, 0.95)
        (each,) = with_labels([runs[14]], {"harmful_refusal_rate": left})
        decisions[labels] = each.decision
    assert decisions == {20: "inconclusive", 80: "inconclusive", 100: "met"}
    for decision, share, step in (("met", found[14].met, -1), ("missed", found[14].missed, 1)):
        count = round(200 * share)
        assert with_unjudged(count, 200, 14, least).decision == decision
        assert with_unjudged(count + step, 200, 14, least).decision == "inconclusive"
    assert needed_text(runs[14], found[14], 200).startswith(
        f"on 200 prompts beside 14 not judged a rate by the judge would be met at >= "
        f"{found[14].met:.3f} and missed at "
    )
    assert needed_text(runs[26], found[26], 200).endswith(
        "; judge those first (of errors, ask again): before, no number of labels would most likely "
        "decide it"
    )


def test_labels_of_what_the_provider_refused_say_nothing_of_the_judge(monkeypatch):
    monkeypatch.setattr(undecided, "labelled_interval", lambda *given: given[2])
    part = SharePart(0.6, wilson(120, 200), "harmful", certain=0.25, n=200)
    refused, answered = foreseen(ERRS_APART, part, 20, 0.5, 0.95)
    assert (refused.n, answered.n) == pytest.approx((7, 8))  # 20 · (.6 - .25), 20 · (1 - .6)
    # Beside as many that there are, what people say is the mean of what they said and will say.
    labels = VerdictLabels(0.5, 7.0), VerdictLabels(0.25, 8.0)
    to_come = ERRS_APART.paths("harmful").expected(found_of(part, 0.95), 0.5, labels)
    both = foreseen(ERRS_APART, part, 20, 0.5, 0.95, labels)
    for before, more, after in zip(labels, to_come, both, strict=True):
        assert after == pytest.approx(((before.refused + more) / 2, 2 * before.n))


def test_answers_to_one_prompt_that_are_alike_do_not_decide_as_more_prompts():
    threshold = Threshold("min", 0.8)
    once = judged(32, 40, threshold)
    thrice = replace(once, counts=replace(once.counts, successes=96, n=120, clusters=40))
    few, many = (would_decide(each, ERRS_APART, 0.95) for each in (once, thrice))
    assert (many.met, many.missed) == (few.met, few.missed)
    assert "on 40 prompts a rate" in needed_text(thrice, many, 120)


def test_clusters_that_say_little_need_a_rate_that_their_own_one_does_not_contradict():
    """.85 of 40 prompts in 4 clusters is [.40, .97]: the design effect is not all that widens it."""
    threshold = Threshold("min", 0.5)
    plain = rate("harmful_refusal_rate", 34, 40, interval=Interval(0.4, 0.97))
    plain = replace(plain, bounds=Interval(0.85, 0.85), outer=plain.interval)
    plain = replace(plain, statistics=Statistics(design_effect=1.2)).keyed(model="m", suite="s")
    found = would_decide(decided(plain, threshold), None, 0.95)
    assert found.met > plain.value
    counts = replace(plain.counts, n=70, clusters=4, excluded={"error": 10})
    twice = replace(plain, counts=counts).keyed(draw=Draw(samples=2))
    said = needed_text(decided(twice, threshold), found, 80)
    assert said.startswith("on 40 prompts beside 10 not judged a rate")


def test_nothing_is_said_where_the_judge_is_not_what_leaves_it_open():
    threshold = Threshold("min", 0.8)
    assert would_decide(judged(100, 100, threshold), ERRS_APART, 0.95) is None  # met
    plain = rate("refusal_rate", 80, 100, interval=wilson(80, 100))
    assert would_decide(decided(plain, threshold), ERRS_APART, 0.95) is None
    few = would_decide(judged(8, 10, threshold), ERRS_APART, 0.95)
    assert few.plan is None
    assert needed_text(judged(8, 10, threshold), few, 10).endswith("; more prompts")


@pytest.mark.parametrize("error", [None, ERRS_APART])
def test_an_interval_of_prompts_alone_is_said_to_be_decided_by_other_rates_or_more_prompts(error):
    threshold = Threshold("min", 0.8)
    plain = rate("harmful_refusal_rate", 80, 100, interval=wilson(80, 100))
    found = would_decide(decided(plain, threshold), error, 0.95)
    deciding = {"met": found.met, "missed": found.missed}
    for name, share in deciding.items():
        assert threshold.decide(wilson(round(share * 100), 100)) == name
    assert (found.plan, found.labels) == (None, None)
    text = needed_text(decided(plain, threshold), found, 100)
    assert text.endswith(
        f"met at >= {found.met:.3f} and missed at <= {found.missed:.3f}; more prompts"
    )


def test_a_build_fails_by_what_it_is_asked_to():
    open_, missed = (judged(count, 100, Threshold("min", 0.8)) for count in (80, 10))
    assert (open_.decision, missed.decision) == ("inconclusive", "missed")
    asked = ("missed", "regression", "inconclusive")
    assert [fails(open_, each) for each in asked] == [False, False, True]
    assert [fails(missed, each) for each in asked] == [True] * 3


def test_a_plan_says_its_intervals_with_two_digits():
    ends = ((0.104, 0.296), (0.406, 0.604), (0.704, 0.896))
    plan = LabelPlan(20, *(Interval(*each) for each in ends), more=True)
    said = (
        "20 more labels (about 45 of all) would most likely leave [0.41, 0.60] (one time in ten "
        "each [0.10, 0.30] or [0.70, 0.90])"
    )
    assert plan.text(45) == said


def test_what_labels_would_leave_is_said_in_the_same_words_everywhere():
    run = harmful_answers(200)  # the judge calls 67 of them refused
    error = replace(
        ERRS_APART,
        lines=(*ERRS_APART.lines, *(line._replace(prompts="") for line in ERRS_APART.lines)),
    )
    (said,) = label_plans(run, JoinedLabels({}), error).values()
    found = judged(67, 200, Threshold("min", 0.3)).keyed(model="one")
    plan = label_plan(ERRS_APART, part_of_rate(found), 0.95)
    text = f"harmful_refusal_rate is {short_text(found)}; {plan.text()}"
    assert said == text
    whole = rate("refusal_rate", 67, 200, interval=wilson(67, 200))
    suites = {"s": suite_facts(judge_error={"lines": [list(line) for line in ERRS_APART.lines]})}
    view = view_of(whole, found, provenance={"one": facts(suites=suites)})
    command = "refract label --model one --suite s --n 20"
    assert plan_note(view) == f"Widest interval of a refusal rate: s, one: {text}: {command}"
    assert plan_note(view) in first_table(view).notes
    needed = needed_text(found, would_decide(found, ERRS_APART, 0.95), 200)
    assert f"; {plan.text()}" in needed
    assert needed.endswith(command)
    # A rate that labels narrow already is not the widest.
    labels = {"labels": HumanLabels(20, 0, 0)}
    powered = rate("prediction_powered_harmful_refusal_rate", 67, 200, **labels)
    labelled = view_of(whole, found, powered, provenance={"one": facts(suites=suites)})
    assert plan_note(labelled) == ""
    # The gate says what counts what more would leave.
    powered = powered.keyed(model="one", suite="s")
    run_of_one = SimpleNamespace(rates=[whole, found, powered], provenance=facts(suites=suites))
    correct = "refract correct data/labels/one/s.csv --model one --suite s"
    assert _needed(found, run_of_one, 0.95).endswith(f": {correct}")


def test_the_report_says_that_labels_widened_an_interval():
    found = judged(40, 40, Threshold("min", 0.8)).keyed(model="one")
    labels = HumanLabels(17, 0, 0)
    powered = rate("prediction_powered_harmful_refusal_rate", 24, 40, labels=labels)
    provenance = {"one": facts(suites={"s": suite_facts(judge_error={"lines": ERRS_APART.lines})})}
    wide = replace(found, with_judge=WithJudge(Interval(0.36, 0.78), Interval(0.36, 0.78)))
    said = []
    for each in (found, wide):
        (row,) = powered_table(view_of(each, powered, provenance=provenance)).rows
        said.append(row[-1].endswith(f"17 of 40 labelled; {GAINSAID}"))
    assert said == [False, True]


def test_of_few_answers_all_are_to_be_labelled():
    few = judged(8, 10, Threshold("min", 0.8))
    said = plan_text(few, ERRS_APART, 24, 0.95)
    assert said.startswith("label all 10: refract label ")
    assert said.endswith(" --n 24")
    for n, is_plan in ((20, False), (21, True)):
        part = part_of_rate(judged(n // 2, n, Threshold("min", 0.8)))
        assert (label_plan(ERRS_APART, part, 0.95) is not None) is is_plan
    assert planned_text(None, 24, 10, 7) == "label the other 3 too"
    assert planned_text(None, 24, 10, 10) == "there are no more answers to label"
