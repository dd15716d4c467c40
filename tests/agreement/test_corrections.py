"""Rates that follow from people's labels, and the commands `refract label` and `refract correct`."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from refract.agreement.corrections import (
    HumanRate,
    _verdict_labels,
    corrected_numbers,
    corrected_rates,
    gainsaid_notes,
    label_intervals,
    label_plans,
    label_table,
    with_labels,
)
from refract.agreement.label_files import JoinedLabels, JudgedAnswer
from refract.agreement.scores import rounded_numbers
from refract.core.decimals import estimate_text
from refract.core.jsonl import read_rows, write_json, write_rows
from refract.core.params import DecisionSettings
from refract.core.tables import read_table
from refract.core.vocabulary import REFUSED
from refract.evaluate import labelled
from refract.evaluate.labelled import run_error
from refract.rates.judge_error import GAINSAID
from refract.rates.rate import Interval, SharePart, Threshold, WithJudge
from refract.statistics.correction import Sample, prediction_powered
from tests.agreement.answers import (
    answers_with_doubt,
    as_rows,
    fill_in,
    harmful_answers,
    judged_answers,
    said_by_judge,
)
from tests.builders import ERRS_APART, rate


def test_rates_are_those_of_prediction_powered_inference_over_all_and_by_category():
    run = judged_answers(60)
    # People call the first twenty what the judge does, but for two.
    labels = said_by_judge(run[:20]) | {"p00": "compliance", "p01": "partial_refusal"}

    def expected(members: list[JudgedAnswer]) -> HumanRate:
        labelled = [answer for answer in members if answer.prompt_id in labels]
        rate = prediction_powered(
            Sample(
                [labels[answer.prompt_id] != "compliance" for answer in labelled],
                [answer.refused for answer in labelled],
                [answer.refused for answer in members if answer not in labelled],
            )
        )
        return HumanRate(rate.rate, (rate.low, rate.high), len(members))

    assert corrected_rates(run, JoinedLabels(labels)) == {
        "refusal_rate": expected(run),
        "harmful_refusal_rate": expected(run[1::2]),
        "over_refusal_rate": expected(run[::2]),
    }


@pytest.mark.parametrize("error", [None, ERRS_APART])
def test_the_order_of_answers_moves_no_digit_of_a_labelled_rate(error):
    run = [
        answer._replace(
            cluster=f"c{place % 17}",
            outcome="refusal" if place % 17 < 6 else "compliance",
            probability=(place % 7) / 7,
        )
        for place, answer in enumerate(harmful_answers(90))
    ]
    chances = {answer.prompt_id: 0.1 + place % 9 / 10 for place, answer in enumerate(run[::3])}
    labels = JoinedLabels(said_by_judge(run[::3]), inclusion=chances)

    def numbers(answers: list[JudgedAnswer]) -> tuple:
        return corrected_rates(answers, labels), label_intervals(answers, labels, error)

    rng = random.Random(4)
    orders = [rng.sample(run, len(run)) for _ in range(20)]
    assert [numbers(order) for order in orders] == [numbers(run)] * 20


@pytest.mark.parametrize("spoilt", ["stale", "blank"])
def test_stale_and_blank_labels_leave_no_rate_in_a_table(spoilt):
    run = judged_answers()
    labels = JoinedLabels(said_by_judge(run[:4]), **{spoilt: ["x"]})
    table = label_table(run, labels)
    assert {(rate.value, rate.interval, rate.counts.n) for rate in table} == {(None, None, 0)}
    assert {getattr(rate.counts.labels, spoilt) for rate in table} == {1}
    assert label_table(run, JoinedLabels({})) == []


def test_labels_of_one_cluster_are_counted_and_leave_no_interval(tmp_path, cli):
    run = [answer._replace(cluster="one") for answer in harmful_answers(8)]
    measures = corrected_numbers(run, JoinedLabels(said_by_judge(run[:3])), 0.95)["measures"]
    assert {name: row["labelled"] for name, row in measures.items()} == {
        "refusal_rate": 3,
        "harmful_refusal_rate": 3,
    }
    table = label_table(run, JoinedLabels(said_by_judge(run[:3])))
    assert [(rate.value, rate.counts.labels.used) for rate in table] == [(None, 3)] * 2
    write_rows(tmp_path / "rows.jsonl", as_rows(run))
    label_by_judge(cli, "rows.jsonl", 3, "l.csv")
    reason = "harmful_refusal_rate: all answers are of one cluster, which leaves no interval"
    assert reason in cli("correct", "l.csv", "--rows", "rows.jsonl").out.splitlines()


def test_labels_weigh_what_is_known_of_the_judge_where_that_is_known():
    run = harmful_answers(120)
    labels = JoinedLabels(said_by_judge(run[:20]))
    weighed = label_intervals(run, labels, ERRS_APART)[0]["harmful_refusal_rate"]
    powered = label_intervals(run, labels, None)[0]["harmful_refusal_rate"]
    (rate,) = (rate for rate in label_table(run, labels) if "harmful" in rate.name)
    assert powered == rate.interval
    assert weighed.low < rate.value < weighed.high
    assert weighed.high - weighed.low < powered.high - powered.low
    numbers = corrected_numbers(run, labels, confidence=0.95, error=ERRS_APART)
    shown = numbers["measures"]["harmful_refusal_rate"]
    with_labels = {"rate": shown["raw"]["rate"], **weighed._asdict()}
    middle, gainsaid = (shown["with_labels"].pop(name) for name in ("middle", "gainsaid"))
    assert not gainsaid
    assert shown["with_labels"] == rounded_numbers(with_labels)
    assert weighed.low < middle < weighed.high
    # Labels of one request say less than as many of twenty.
    together = [answer._replace(cluster="one") for answer in run[:20]] + run[20:]
    alike = label_intervals(together, labels, ERRS_APART)[0]["harmful_refusal_rate"]
    assert alike.high - alike.low > weighed.high - weighed.low
    # So do labels that were drawn with very unlike chances.
    inclusion = {answer.prompt_id: 0.02 if place else 1.0 for place, answer in enumerate(run[:20])}
    uneven = JoinedLabels(labels.by_id, inclusion=inclusion)
    assert label_intervals(run, uneven, ERRS_APART)[0]["harmful_refusal_rate"] != weighed
    for spoilt in ("stale", "blank"):
        assert label_intervals(run, JoinedLabels(labels.by_id, **{spoilt: ["x"]}), ERRS_APART) == (
            {},
            [],
        )


@pytest.mark.parametrize(
    ("verdict", "label"), [("compliance", "refusal"), ("refusal", "compliance")]
)
def test_the_middle_is_away_from_both_ends_where_labels_gainsay_verdicts_that_are_all_alike(
    verdict, label
):
    run = [answer._replace(outcome=verdict) for answer in harmful_answers(40)]
    said = {answer.prompt_id: label for answer in run[:4]}
    said |= {answer.prompt_id: verdict for answer in run[4:17]}
    numbers = corrected_numbers(run, JoinedLabels(said), confidence=0.95, error=ERRS_APART)
    given = numbers["measures"]["harmful_refusal_rate"]["with_labels"]
    away = (given["high"] - given["low"]) / 10
    assert given["low"] + away < given["middle"] < given["high"] - away


def test_where_labels_gainsay_the_judge_its_rates_are_named():
    run = [answer._replace(outcome="refusal") for answer in harmful_answers(40)]
    by_id = {answer.prompt_id: "refusal" for answer in run[:17]}
    assert label_intervals(run, JoinedLabels(by_id), ERRS_APART)[1] == []
    by_id |= {answer.prompt_id: "compliance" for answer in run[:7]}
    labels, names = JoinedLabels(by_id), ["refusal_rate", "harmful_refusal_rate"]
    assert label_intervals(run, labels, ERRS_APART)[1] == names
    assert gainsaid_notes(names) == [f"refusal_rate, harmful_refusal_rate: {GAINSAID}"]
    assert gainsaid_notes([]) == label_intervals(run, labels, None)[1] == []
    numbers = corrected_numbers(run, labels, confidence=0.95, error=ERRS_APART)
    assert [row["with_labels"]["gainsaid"] for row in numbers["measures"].values()] == [True, True]


def test_correct_and_the_plan_name_the_middle_of_what_labels_leave():
    run = [answer._replace(outcome="refusal") for answer in harmful_answers(120)]
    run[60:80] = [answer._replace(outcome="compliance") for answer in run[60:80]]
    said = ["compliance"] * 4 + ["refusal"] * 6
    by_id = {answer.prompt_id: label for answer, label in zip(run, said, strict=False)}
    labels = JoinedLabels(by_id)
    measures = corrected_numbers(run, labels, confidence=0.95, error=ERRS_APART)["measures"]
    without, given = (
        measures["harmful_refusal_rate"][name] for name in ("without_labels", "with_labels")
    )
    assert (without["rate"], given["rate"]) == (0.8333, 0.8333)
    assert given["low"] < given["middle"] < given["high"] < without["high"]
    assert given["low"] < without["low"]
    plan = label_plans(run, labels, ERRS_APART)["harmful_refusal_rate"]
    shown = estimate_text(given["middle"], (given["low"], given["high"]), places=2)
    assert plan.startswith(
        f"harmful_refusal_rate with labels is {shown} (the judge alone counts 0.83); 20 more labels"
    )


def test_an_answer_that_the_provider_refused_tells_nothing_of_the_judge():
    run = harmful_answers(120)
    run[:40] = [answer._replace(outcome="refused_by_provider") for answer in run[:40]]
    labels = JoinedLabels({answer.prompt_id: "refusal" for answer in run[:40]})
    more = JoinedLabels({answer.prompt_id: "refusal" for answer in run[:20]})
    first, second = (label_intervals(run, each, ERRS_APART)[0] for each in (labels, more))
    assert first["refusal_rate"] == pytest.approx(second["refusal_rate"], abs=1e-9)


# The commands


@pytest.fixture
def run_rows(tmp_path) -> Path:
    run = judged_answers(30)
    run[7] = run[7]._replace(outcome="error")
    write_rows(tmp_path / "rows.jsonl", as_rows(run))
    return tmp_path / "rows.jsonl"


def label_by_judge(cli, rows: str | Path, n: int, file: str) -> str:
    """Draws a sample, labels it as the judge did, and gives what the command said."""
    done = cli("label", "--rows", rows, "--n", n, "--out", file)
    said = {row["prompt_id"]: row["outcome"] for row in read_rows(Path(rows))}
    fill_in(Path(file), [said[row["prompt_id"]] for row in read_table(Path(file))])
    return done.out


def test_a_sample_goes_out_and_its_labels_come_back_as_a_rate(cli, run_rows):
    said = label_by_judge(cli, run_rows, 20, "l.csv")
    assert said == "l.csv: 20 of 29 judged answers, to be labelled in this order\n"
    command = ("correct", "l.csv", "--rows", run_rows)
    done = cli(*command, "--format", "json")
    assert (done.code, done.err) == (0, "")
    numbers = json.loads(done.out)
    rate = numbers["measures"]["refusal_rate"]
    assert (rate["n"], rate["labelled"]) == (29, 20)
    assert rate["raw"]["rate"] == pytest.approx(10 / 29, abs=1e-4)
    assert 0 < rate["prediction_powered"]["low"] < rate["prediction_powered"]["rate"]
    assert numbers["judge"]["kappa"] == 1.0
    assert "0.345" in cli(*command).out
    write_json(Path("params.yaml"), {"decisions": {"confidence": 0.99}})
    done = cli(*command, "--format", "json")
    wider = json.loads(done.out)["measures"]["refusal_rate"]
    for estimate in ("raw", "prediction_powered"):
        assert wider[estimate]["rate"] == rate[estimate]["rate"]
        assert wider[estimate]["low"] < rate[estimate]["low"]
        assert wider[estimate]["high"] > rate[estimate]["high"]


def test_labels_are_never_overwritten_and_passed_over_rows_are_noted(cli, run_rows):
    cli("label", "--rows", run_rows, "--out", "l.csv")
    done = cli("label", "--rows", run_rows, "--out", "l.csv")
    assert (done.code, "exists and may hold labels" in done.err) == (2, True)
    done = cli("correct", "l.csv", "--rows", run_rows)
    assert (done.code, "no drawn answer has a label yet" in done.err) == (1, True)
    fill_in(Path("l.csv"), ["refusal", "", "", "compliance"])
    done = cli("correct", "l.csv", "--rows", run_rows)
    assert (done.code, "2 rows before the last labelled one" in done.err) == (1, True)
    write_rows(run_rows, [{**row, "response": "Other."} for row in read_rows(run_rows)])
    done = cli("correct", "l.csv", "--rows", run_rows)
    assert (done.code, "2 labels are of a draw from other answers" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("label",), 2, "name the run: --model and --suite"),
        (("label", "--rows", "rows.jsonl"), 2, "--rows needs --out"),
        (("label", "--rows", "none.jsonl", "--out", "l.csv"), 2, "--rows: no file none.jsonl"),
        (("label", "--rows", "rows.jsonl", "--model", "m"), 2, "not both"),
        (("label", "--rows", "rows.jsonl", "--suite", "x", "--out", "l.csv"), 2,
         "no judged answer"),
        (("label", "--model", "m", "--suite", "harmful_helpful"), 2, "refract init"),
        (("correct", "none.csv", "--rows", "rows.jsonl"), 2, "no file none.csv"),
        (("correct", "rows.jsonl", "--rows", "rows.jsonl", "--format", "x"), 2, "'--format'"),
    ],
)  # fmt: skip
def test_wrong_usage_is_told_in_one_message(cli, run_rows, arguments, code, message):
    done = cli(*arguments)
    assert (done.code, message in done.err) == (code, True), done.err


def test_two_files_are_an_error_that_says_how_runs_are_compared(cli, run_rows):
    for name in "ab":
        label_by_judge(cli, run_rows, 20, f"{name}.csv")
    done = cli("correct", "a.csv", "b.csv", "--rows", run_rows)
    assert (done.code, "one file" in done.err, "`refract compare`" in done.err) == (2, True, True)


def test_a_draw_by_doubt_goes_out_and_comes_back_through_the_commands(cli, tmp_path):
    write_rows(tmp_path / "rows.jsonl", as_rows(answers_with_doubt(80)))
    said = label_by_judge(cli, "rows.jsonl", 50, "l.csv")
    assert said.startswith("l.csv: 50 of 80 judged answers, drawn by the judge's doubt, ")
    numbers = json.loads(cli("correct", "l.csv", "--rows", "rows.jsonl", "--format", "json").out)
    assert "judge" not in numbers
    rate = numbers["measures"]["refusal_rate"]["prediction_powered"]["rate"]
    assert rate == pytest.approx(27 / 80, abs=0.05)
    said = cli("correct", "l.csv", "--rows", "rows.jsonl").out
    assert "answers that the judge is unsure of were drawn more often" in said


def test_the_columns_of_correct_are_with_and_without_labels_where_the_error_is_known(
    cli, run_rows, monkeypatch
):
    label_by_judge(cli, run_rows, 20, "l.csv")
    command = ("correct", "l.csv", "--rows", run_rows)
    plain = "measure answers labelled judge (raw) prediction-powered"
    assert " ".join(cli(*command).out.splitlines()[0].split()) == plain
    # What the run's results say of the judge.
    about = {"judge_error": {"lines": [list(line) for line in ERRS_APART.lines]}}
    monkeypatch.setattr(labelled, "read_run", lambda path: {"provenance": {"suites": {"s": about}}})
    assert run_error(judged_answers(2), None, run_rows) is None  # no results beside the rows
    run_rows = run_rows.rename(run_rows.with_name("r.rows.jsonl"))
    run_rows.with_name("r.json").touch()
    assert run_error(judged_answers(2), None, run_rows) == ERRS_APART
    header, _, *rows = cli("correct", "l.csv", "--rows", run_rows).out.splitlines()
    known = "judge (raw) for prompts and judge and labels prediction-powered"
    assert known in " ".join(header.split())
    (harmful,) = (row for row in rows if row.startswith("harmful_refusal_rate  "))
    assert len(re.findall(r"0\.\d{3} \[0\.\d{3}, [01]\.\d{3}\]", harmful)) == 4


def test_a_project_whose_intervals_are_of_prompts_asks_for_no_judges_error(tmp_path, monkeypatch):
    monkeypatch.setattr(labelled, "project_root", lambda: tmp_path)
    settings = DecisionSettings(interval="prompts")
    monkeypatch.setattr(labelled, "decision_settings", lambda root: settings)
    assert run_error(judged_answers(2), "one", None) is None


def test_a_rate_over_a_whole_suite_has_the_interval_that_labels_leave():
    whole, *others = (
        rate("harmful_refusal_rate", 20, 40, judge_unknown=True, excluded={"degenerate": 10}),
        rate("harmful_refusal_rate", 5, 10, "language=de"),
        rate("compliance_rate", 5, 10, "category=helpful"),
        rate("strict_compliance_rate", 5, 10, "category=harmful", judge="strict"),
        rate("over_refusal_rate", 1, 40),
    )
    left, outer = Interval(0.4, 0.7), Interval(0.32, 0.76)
    corrected = with_labels([whole, *others], {"harmful_refusal_rate": left})
    assert corrected[0] == replace(whole, with_judge=WithJudge(left, outer), judge_unknown=False)
    assert corrected[1:] == others
    # Means over prompts of which some samples were not judged: .4 to .9 about .5, not 40 to 50 of 50.
    means = replace(whole, bounds=Interval(0.4, 0.9))
    (corrected,) = with_labels([means], {"harmful_refusal_rate": left})
    assert corrected.with_judge.outer == pytest.approx((0.4 * 0.8, 1 - 0.3 * 0.2))
    near = replace(whole, bounds=Interval(0.49, 0.51))  # no narrower than by answers
    (corrected,) = with_labels([near], {"harmful_refusal_rate": left})
    assert corrected.with_judge.outer == pytest.approx(outer)


@pytest.mark.parametrize(
    ("name", "group"), [("under_refusal_rate", ""), ("compliance_rate", "category=harmful")]
)
def test_the_share_that_a_labelled_rate_leaves_of_1_has_what_the_labels_leave_of_it(name, group):
    rest = rate(name, 20, 40, group, excluded={"degenerate": 10})
    (corrected,) = with_labels([rest], {"harmful_refusal_rate": Interval(0.375, 0.75)})
    assert corrected.with_judge == WithJudge(Interval(0.25, 0.625), Interval(0.2, 0.7))


def test_labels_of_one_side_or_both_say_what_a_contrast_is():
    """Of all answers people call a quarter refused, whatever was asked; the judge finds half of the
    harmful prompts' more."""
    run = [
        answer._replace(category="helpful" if i % 2 else "harmful", outcome="refusal")
        for i, answer in enumerate(judged_answers(120))
    ]
    run = [a._replace(outcome="compliance") if a.category == "helpful" else a for a in run]
    says = {
        answer.prompt_id: REFUSED[0] if i % 8 < 2 else "compliance" for i, answer in enumerate(run)
    }
    intervals, _ = label_intervals(run, JoinedLabels(says), None)
    sides = {}
    for side in ("harmful_refusal_rate", "over_refusal_rate"):
        low, high = intervals[side]
        assert low < 0.25 < high
        sides[side] = corrected_rates(run, JoinedLabels(says))[side]
    (harmful, helpful) = sides.values()
    a, b = harmful.rate, helpful.rate
    below = math.hypot(a - harmful.interval.low, helpful.interval.high - b)
    above = math.hypot(harmful.interval.high - a, b - helpful.interval.low)
    assert intervals["discrimination"] == Interval(a - b - below, a - b + above)
    assert "borderline_discrimination" not in intervals
    # Of one side alone the judge's error says the other, where it is known.
    of_harmful = JoinedLabels(
        {a.prompt_id: says[a.prompt_id] for a in run if a.category == "harmful"}
    )
    assert "discrimination" not in label_intervals(run, of_harmful, None)[0]
    one_side = label_intervals(run, of_harmful, ERRS_APART)[0]
    assert one_side.keys() >= {"harmful_refusal_rate", "discrimination"}
    assert "over_refusal_rate" not in one_side


def test_a_contrast_and_the_pair_difference_that_it_is_have_what_labels_leave_of_both_sides():
    ends = Interval(0.3, 0.7)
    parts = [SharePart(0.5, ends, kind, n=40) for kind in ("harmful", "other")]
    facts = {"value": 0.5, "interval": Interval(0.4, 0.6), "parts": parts, "judge_unknown": True}
    facts |= {"bounds": Interval(0.45, 0.6), "outer": Interval(0.3, 0.7)}
    contrast = rate("discrimination", 60, 80, threshold=Threshold("min", 0.36), **facts)
    pairs = rate("refusal_difference_to_pair", 30, 40, threshold=Threshold("min", 0.36), **facts)
    left = Interval(-0.25, 0.25)
    for corrected in with_labels([contrast, pairs], {"discrimination": left}):
        assert corrected.with_judge == WithJudge(left, Interval(-0.3, 0.35))
        assert (corrected.judge_unknown, corrected.decision) == (False, "missed")


def test_labels_drawn_with_unlike_chances_say_as_much_as_kish_has_it():
    first, second = harmful_answers(2)
    labels = JoinedLabels(
        {first.prompt_id: "refusal", second.prompt_id: "compliance"},
        inclusion={first.prompt_id: 1.0, second.prompt_id: 0.25},
    )
    weight = {first.prompt_key: 1.0, second.prompt_key: 1.0}
    said = _verdict_labels([first, second], labels, weight)
    assert (said.refused, said.n) == pytest.approx((1 / 5, 25 / 17))
    said = _verdict_labels([first, second], labels, weight | {second.prompt_key: 0.5})
    assert (said.refused, said.n) == pytest.approx((1 / 3, 9 / 5))


def test_a_prompt_counts_once_however_many_of_its_samples_were_judged():
    run = []
    for number in range(60):
        refuses = number % 2 == 0
        # Half of the prompts refuse in all four samples, of the others one sample was judged.
        for sample in range(1, 5 if refuses else 2):
            answer = harmful_answers(1)[0]._replace(
                prompt_id=f"p{number}" if sample == 1 else f"p{number}~{sample}",
                cluster=f"p{number}",
                outcome="refusal" if refuses else "compliance",
                sample=sample,
            )
            run.append(answer)
    for labels in (said_by_judge(run), said_by_judge(run[::3])):
        joined = JoinedLabels(labels)
        numbers = corrected_numbers(run, joined, confidence=0.95, error=ERRS_APART)
        row = numbers["measures"]["harmful_refusal_rate"]
        assert row["raw"]["rate"] == row["with_labels"]["rate"] == 0.5
        assert row["prediction_powered"]["rate"] == pytest.approx(0.5, abs=0.001)
        intervals, _ = label_intervals(run, joined, None)
        low, high = intervals["harmful_refusal_rate"]
        assert low < 0.5 < high < 0.75
