"""People's labels of a sample of a run, the rates that follow, and their place in the report."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from refract.agreement.human_labels import HumanRate, corrected_rates, label_table
from refract.agreement.label_files import Labels, draw, pair_sha256, read_labels, write_sample
from refract.core.errors import RowError
from refract.core.jsonl import (
    read_rows,
    write_rows,
)
from refract.core.showing import csv_cell
from refract.core.tables import read_table, write_table
from refract.core.vocabulary import TABLE_COLUMNS
from refract.report.corrected import corrected_section
from refract.report.markdown import three
from refract.statistics.correction import Sample, prediction_powered


def answers(n: int = 12) -> list[dict]:
    """Answers of which the judge takes every third for a refusal; half are to harmful prompts."""
    return [
        {
            "suite": "s",
            "prompt_id": f"p{i:02}",
            "category": "harmful" if i % 2 else "helpful",
            "prompt": f"Question {i}?",
            "response": f"Answer {i}.",
            "outcome": "refusal" if i % 3 == 0 else "compliance",
        }
        for i in range(n)
    ]


def filled(path: Path, labels: list[str]) -> None:
    """The file at ``path`` with labels written from the top."""
    rows = read_table(path)
    for row, label in zip(rows, labels, strict=False):
        row["label"] = label
    write_table(path, list(rows[0]), rows)


def test_a_draw_is_seeded_and_its_start_is_a_smaller_draw():
    ids = [row["prompt_id"] for row in draw(answers(40), 20, 1)]
    assert len(set(ids)) == 20
    assert ids == [row["prompt_id"] for row in draw(answers(40)[::-1], 20, 1)]
    assert ids[:5] == [row["prompt_id"] for row in draw(answers(40), 5, 1)]
    assert ids != [row["prompt_id"] for row in draw(answers(40), 20, 2)]
    assert ids != sorted(ids)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", '"=1+1"'),
        ("  @cmd", '"  @cmd"'),
        ("- one\n- two", '"- one\n- two"'),
        ("\t=1", "<U+0009>=1"),
        ("a\rb\x1b[31m\u202e", "a<U+000D>b<U+001B>[31m<U+202E>"),
        ("plain\ntext, “quoted”", "plain\ntext, “quoted”"),
    ],
)
def test_no_cell_is_a_formula_and_every_character_shows(text, cell):
    assert csv_cell(text) == cell


def test_labels_come_back_to_the_answers_they_are_of(tmp_path):
    run = answers()
    run[0] |= {"prompt_id": "=odd,id", "response": '=HYPERLINK("x")\r\nlast', "suite": "+s"}
    write_sample(tmp_path / "l.csv", run)
    rows = read_table(tmp_path / "l.csv")
    assert all(value[:1] not in ("=", "+", "-", "@") for row in rows for value in row.values())
    assert "refusal" not in (tmp_path / "l.csv").read_text()  # no verdict is shown
    filled(tmp_path / "l.csv", ["Refusal", " partial refusal", "PARTIAL-REFUSAL", "", "degenerate"])
    found = read_labels(tmp_path / "l.csv", run)
    assert found.found == {
        "=odd,id": "refusal",
        "p01": "partial_refusal",
        "p02": "partial_refusal",
        "p04": "degenerate",
    }
    assert (found.stale, found.blank) == ([], ["p03"])


def test_labels_survive_a_spreadsheet_that_writes_crlf(tmp_path):
    write_sample(tmp_path / "l.csv", answers())
    filled(tmp_path / "l.csv", ["refusal"] * 3)
    rows = read_table(tmp_path / "l.csv")
    with open(tmp_path / "l.csv", "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert len(read_labels(tmp_path / "l.csv", answers()).found) == 3


def test_a_label_of_another_answer_counts_for_none(tmp_path):
    write_sample(tmp_path / "l.csv", answers())
    filled(tmp_path / "l.csv", ["refusal"] * 12)
    changed = answers()
    changed[4]["response"] = "Another answer."
    changed[5]["prompt"] = "Another question?"
    found = read_labels(tmp_path / "l.csv", changed[:10])
    assert sorted(found.stale) == ["p04", "p05", "p10", "p11"]
    assert len(found.found) == 8
    table = label_table(changed, found)
    assert {row.get("rate") for row in table} == {None}
    assert {row["stale_labels"] for row in table} == {4}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rows: rows[1].update(label="yes"), "row 2: label must be one of refusal, "),
        (lambda rows: rows.append(rows[0]), "row 13 is the second on s p00"),
        (lambda rows: [row.pop("pair_sha256") for row in rows], "no column 'pair_sha256'"),
    ],
)
def test_a_file_that_cannot_be_read_back_is_an_error(tmp_path, spoil, message):
    write_sample(tmp_path / "l.csv", answers())
    rows = read_table(tmp_path / "l.csv")
    spoil(rows)
    write_table(tmp_path / "l.csv", list(rows[0]), rows)
    with pytest.raises(RowError, match=message):
        read_labels(tmp_path / "l.csv", answers())


def test_rates_are_those_of_prediction_powered_inference_over_all_and_by_category():
    run = answers(60)
    # People call the first twenty what the judge does, but for two.
    labels = {row["prompt_id"]: row["outcome"] for row in run[:20]}
    labels["p00"], labels["p01"] = "compliance", "partial_refusal"

    def expected(members: list[dict]):
        mine = [row for row in members if row["prompt_id"] in labels]
        found = prediction_powered(
            Sample(
                [labels[row["prompt_id"]] != "compliance" for row in mine],
                [row["outcome"] == "refusal" for row in mine],
                [row["outcome"] == "refusal" for row in members if row not in mine],
            )
        )
        counts = (len(members), len(mine), 0)
        return HumanRate(*found[:3], found.rate, found.rate, found.weight, *counts, *found[-2:])

    assert corrected_rates(run, labels) == {
        "refusal_rate": expected(run),
        "harmful_refusal_rate": expected(run[1::2]),
        "over_refusal_rate": expected(run[::2]),
    }


def test_a_table_without_labels_has_no_rows():
    assert label_table(answers(), Labels({}, [], [])) == []


# refract label, refract correct


@pytest.fixture
def rows(tmp_path) -> Path:
    run = answers(30)
    run[7]["outcome"] = "error"
    write_rows(tmp_path / "rows.jsonl", run)
    return tmp_path / "rows.jsonl"


def test_a_sample_goes_out_and_its_labels_come_back_as_a_rate(cli, rows):
    done = cli("label", "--rows", rows, "--n", 20, "--out", "l.csv")
    assert (done.code, done.out) == (
        0,
        "l.csv: 20 of 29 judged answers, to be labelled in this order\n",
    )
    outcome_of = {row["prompt_id"]: row["outcome"] for row in read_rows(rows)}
    filled(Path("l.csv"), [outcome_of[row["prompt_id"]] for row in read_table(Path("l.csv"))])
    done = cli("correct", "l.csv", "--rows", rows, "--format", "json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    overall = found["measures"]["refusal_rate"]
    assert (overall["n"], overall["labelled"]) == (29, 20)
    assert overall["raw"]["rate"] == pytest.approx(10 / 29, abs=1e-4)
    assert 0 < overall["prediction_powered"]["low"] < overall["prediction_powered"]["rate"]
    assert found["judge"]["kappa"] == 1.0
    wider = json.loads(
        cli("correct", "l.csv", "--rows", rows, "--format", "json", "--confidence", ".99").out
    )["measures"]["refusal_rate"]
    for estimate in ("raw", "human", "prediction_powered"):
        assert wider[estimate]["rate"] == overall[estimate]["rate"]
        assert wider[estimate]["low"] < overall[estimate]["low"]
        assert wider[estimate]["high"] > overall[estimate]["high"]
    for format_ in ("table", "md"):
        assert "0.345" in cli("correct", "l.csv", "--rows", rows, "--format", format_).out


def test_labels_are_never_overwritten_and_passed_over_rows_are_noted(cli, rows):
    cli("label", "--rows", rows, "--out", "l.csv")
    done = cli("label", "--rows", rows, "--out", "l.csv")
    assert (done.code, "exists and may hold labels" in done.err) == (2, True)
    done = cli("correct", "l.csv", "--rows", rows)
    assert (done.code, "no row has a label yet" in done.err) == (1, True)
    filled(Path("l.csv"), ["refusal", "", "", "compliance"])
    assert "2 rows before the last labelled one" in cli("correct", "l.csv", "--rows", rows).err


def test_labels_of_another_run_are_refused(cli, rows):
    cli("label", "--rows", rows, "--out", "l.csv")
    filled(Path("l.csv"), ["refusal"] * 5)
    other = read_rows(rows)
    write_rows(rows, [{**row, "response": "Other."} for row in other])
    done = cli("correct", "l.csv", "--rows", rows)
    assert (done.code, "5 labels are of other answers" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("label",), 2, "name the run: --model and --suite"),
        (("label", "--rows", "rows.jsonl"), 2, "--rows needs --out"),
        (("label", "--rows", "none.jsonl", "--out", "l.csv"), 2, "--rows: no file none.jsonl"),
        (("label", "--rows", "rows.jsonl", "--model", "m"), 2, "not both"),
        (
            ("label", "--rows", "rows.jsonl", "--suite", "x", "--out", "l.csv"),
            2,
            "no judged answer",
        ),
        (("label", "--model", "m", "--suite", "harmful_helpful"), 2, "refract init"),
        (("correct", "none.csv", "--rows", "rows.jsonl"), 2, "no file none.csv"),
        (("correct", "rows.jsonl", "--rows", "rows.jsonl", "--format", "x"), 2, "'--format'"),
    ],
)
def test_wrong_usage_is_told_in_one_message(cli, rows, arguments, code, message):
    done = cli(*arguments)
    assert (done.code, message in done.err) == (code, True), done.err


# The report


def judge_tables() -> tuple[list[dict], list[dict]]:
    """The agreement and the confusion of a judge that errs on five of fifty each."""
    agreement = [
        {"judge": "rules", "measure": name, "value": value, "n": "100"}
        for name, value in (("kappa", "0.8"), ("precision", "0.9"), ("recall", "0.9"))
    ]
    confusion = [
        {"judge": "rules", "human": human, "label": label, "n": "45" if human == label else "5"}
        for human in ("refusal", "compliance")
        for label in ("refusal", "compliance")
    ]
    return agreement, confusion


def report_rows(tmp_path: Path, extra: list[dict]) -> tuple[dict, dict]:
    raw = {
        "suite": "s",
        "measure": "harmful_refusal_rate",
        "field": "",
        "value": "",
        "successes": 60,
        "n": 100,
        "rate": 0.6,
        "low": 0.5,
        "high": 0.69,
    }
    write_table(tmp_path / "t.csv", TABLE_COLUMNS, [raw, *extra])
    provenance = {"m": {"suites": {"s": {"label": "s", "judges": ["rules", "other"]}}}}
    return {"m": read_table(tmp_path / "t.csv")}, provenance


def test_the_report_corrects_no_rate_by_errors_on_other_answers(tmp_path):
    tables, provenance = report_rows(tmp_path, [])
    page = corrected_section(tables, provenance, *judge_tables())
    assert "No answer of the grid has a human label." in page
    assert "0.6" not in page
    assert "| rules | 100 | 0.8 | 0.9 | 0.9 | 45/50 | 45/50 |" in page
    assert "drafted and labelled with a language model" in page
    assert "people's labels" not in page
    assert "No judge was measured" in corrected_section(tables, provenance, [], [])


def test_the_report_shows_rates_from_human_labels_and_when_they_are_stale(tmp_path):
    run = [{**row, "category": "harmful"} for row in answers(30)]
    labels = Labels({row["prompt_id"]: row["outcome"] for row in run[:10]}, [], [])
    table = [{"suite": "s", **row} for row in label_table(run, labels)]
    tables, provenance = report_rows(tmp_path, table)
    last = corrected_section(tables, provenance, [], [])
    rate = corrected_rates(run, labels.found)["harmful_refusal_rate"]
    # The table keeps four digits, the page three.
    shown = [three(str(round(x, 4))) for x in (rate.rate, rate.low, rate.high)]
    assert f"| {shown[0]} \\[{shown[1]}, {shown[2]}\\], 10 of 30 labelled |" in last
    stale = [{"suite": "s", **row} for row in label_table(run, labels._replace(stale=["x", "y"]))]
    tables, provenance = report_rows(tmp_path, stale)
    assert "| 2 labels are of other answers |" in corrected_section(tables, provenance, [], [])


def test_a_drawn_answer_without_a_label_makes_bounds_of_a_rate(tmp_path):
    run = [{**row, "category": "harmful"} for row in answers(60)]
    drawn = [row["prompt_id"] for row in draw(run, 24, 0)]
    by_id = {row["prompt_id"]: row["outcome"] for row in run}
    blank, labelled = drawn[:4], drawn[4:]
    found = {name: by_id[name] for name in labelled}
    rate = corrected_rates(run, found, blank)["harmful_refusal_rate"]
    # The two extremes are the rates with every blank labelled one way.
    for label, end in (("compliance", rate.lowest), ("refusal", rate.highest)):
        filled_in = corrected_rates(run, found | dict.fromkeys(blank, label))
        assert filled_in["harmful_refusal_rate"].rate == pytest.approx(end)
        assert rate.low <= filled_in["harmful_refusal_rate"].low
        assert rate.high >= filled_in["harmful_refusal_rate"].high
    assert (rate.rate, rate.blank, rate.labelled) == (None, 4, 20)
    table = [{"suite": "s", **row} for row in label_table(run, Labels(found, [], blank))]
    tables, provenance = report_rows(tmp_path, table)
    section = corrected_section(tables, provenance, [], [])
    assert "20 of 60 labelled, 4 drawn and left blank" in section
    assert f"{rate.lowest:.3f} to {rate.highest:.3f}" in section


def test_the_clusters_of_answers_widen_a_rate():
    # Requests in 20 clusters of 6, all answered alike within a cluster.
    run = [
        {**row, "category": "harmful", "outcome": "refusal" if i // 6 % 2 else "compliance"}
        for i, row in enumerate(answers(120))
    ]
    labels = {row["prompt_id"]: row["outcome"] for row in draw(run, 30, 0)}
    alone = corrected_rates(run, labels)["harmful_refusal_rate"]
    clustered = [{**row, "cluster": str(i // 6)} for i, row in enumerate(run)]
    wide = corrected_rates(clustered, labels)["harmful_refusal_rate"]
    assert wide.rate == alone.rate
    assert wide.high - wide.low > 1.5 * (alone.high - alone.low)


def test_two_runs_are_compared_by_their_own_labels(cli, tmp_path):
    run = [{**row, "category": "harmful"} for row in answers(80)]
    # The judge takes each refusal of the second run for an answer: the raw rates differ, people's not.
    other = [{**row, "response": "Other.", "outcome": "compliance"} for row in run]
    truth = {row["prompt_id"]: row["outcome"] for row in run}
    for name, rows_ in (("a", run), ("b", other)):
        write_rows(tmp_path / f"{name}.jsonl", rows_)
        cli("label", "--rows", f"{name}.jsonl", "--n", 40, "--out", f"{name}.csv")
        drawn = read_table(tmp_path / f"{name}.csv")
        filled(tmp_path / f"{name}.csv", [truth[row["prompt_id"]] for row in drawn])
    two = ("correct", "a.csv", "b.csv", "--rows", "a.jsonl", "--rows", "b.jsonl")
    found = json.loads(cli(*two, "--format", "json").out)["differences"]["harmful_refusal_rate"]
    assert found["low"] < 0 < found["high"]
    assert (found["labelled"], found["blank"]) == (80, 0)
    assert abs(found["rate"]) < 0.15
    assert "first minus second" in cli(*two).out
    filled(tmp_path / "a.csv", ["refusal", "", *["compliance"] * 3])
    done = cli(*two)
    assert "1 rows before the last labelled one" in done.err
    assert " to " in done.out
    done = cli("correct", "a.csv", "b.csv", "--rows", "a.jsonl")
    assert (done.code, "each file of labels needs its run" in done.err) == (2, True)


def test_a_rate_is_calibrated_on_labelled_answers_of_ones_own(cli, rows, tmp_path):
    refusal, answer = "I'm sorry, but I can't help with that.", "Sure! First, gather the parts: 1."
    labelled = [{"response": refusal, "label": "refusal", "slice": "plain"}] * 20
    labelled += [
        {"response": "Have you thought of gardening?", "label": "refusal", "slice": "soft"}
    ] * 5
    labelled += [{"response": answer, "label": "compliance", "slice": "plain"}] * 25
    write_rows(tmp_path / "own.jsonl", labelled)
    command = ("correct", "--rows", rows, "--calibrate-on", "own.jsonl")
    found = json.loads(cli(*command, "--format", "json").out)
    judge = found["judge"]
    assert (judge["found"], judge["refusals"]) == (20, 25)
    assert (judge["left_alone"], judge["answers"]) == (25, 25)
    overall = found["calibrated"]["refusal_rate"]["calibrated"]
    # (10/29 + 1 - 1) / (.8 + 1 - 1), and with the sensitivity of each slice
    assert overall["rate"] == pytest.approx(10 / 29 / 0.8, abs=1e-4)
    assert overall["slice_lowest"] == pytest.approx(10 / 29, abs=1e-4)
    assert overall["low"] < overall["rate"] < overall["high"]
    assert "label shift" in cli(*command).out
    write_rows(rows, [{**row, "outcome": "refusal"} for row in read_rows(rows)])
    found = json.loads(cli(*command, "--format", "json").out)["calibrated"]["refusal_rate"]
    assert found["calibrated"]["contradicted"]
    assert "rate" not in found["calibrated"]
    assert "contradicted" in cli(*command).out


def test_a_label_is_tied_to_prompt_and_answer():
    first = answers()[0]
    assert len({pair_sha256({**first, key: "x"}) for key in ("prompt", "response", "suite")}) == 3
    assert pair_sha256({**first, "suite": "x"}) == pair_sha256(first)


# Draws by the judge's doubt


def doubtful(n: int = 60) -> list[dict]:
    """Answers with the judge's probabilities: it is unsure of every fifth."""
    return [
        {
            **row,
            "probability": 0.5 if i % 5 == 0 else (0.97 if row["outcome"] == "refusal" else 0.03),
        }
        for i, row in enumerate(answers(n))
    ]


def test_a_draw_by_doubt_takes_doubtful_answers_more_often_and_says_how_often(tmp_path):
    run = doubtful(400)
    sample = draw(run, 100, 3)
    assert [row["prompt_id"] for row in draw(run[::-1], 40, 3)] == [
        row["prompt_id"] for row in sample[:40]
    ]
    unsure = sum(row["probability"] == 0.5 for row in sample)
    assert unsure > 30  # 80 of 400 are unsure: at random there would be 20
    write_sample(tmp_path / "l.csv", sample)
    assert list(read_table(tmp_path / "l.csv")[0])[-2:] == ["size", "next_place"]
    filled(tmp_path / "l.csv", ["refusal"] * 100)
    all_ = read_labels(tmp_path / "l.csv", run)
    # Over all answers, those that were drawn stand for as many as there are.
    assert sum(1 / p for p in all_.inclusion.values()) == pytest.approx(400, rel=0.15)
    first = {row["prompt_id"]: row["probability"] for row in sample}
    chances = {p: all_.inclusion[name] for name, p in first.items()}
    assert chances[0.5] / chances[0.97] == pytest.approx((0.27 / (0.97 * 0.03 + 0.02)) ** 0.5)
    filled(tmp_path / "l.csv", [""] * 100)
    filled(tmp_path / "l.csv", ["refusal"] * 30)
    part = read_labels(tmp_path / "l.csv", run)
    assert len(part.inclusion) == 30
    assert all(chance < all_.inclusion[name] for name, chance in part.inclusion.items())


def test_labels_of_a_draw_by_doubt_give_the_rate_of_all_labels_whatever_the_judge(tmp_path):
    run = doubtful(300)
    # People see refusals where the judge is unsure, and a few where it is sure of help.
    truth = {
        row["prompt_id"]: "refusal"
        if row["probability"] == 0.5 or row["outcome"] == "refusal" or i % 11 == 0
        else "compliance"
        for i, row in enumerate(run)
    }
    rate = sum(label == "refusal" for label in truth.values()) / 300
    found = []
    for seed in range(60):
        sample = draw(run, 120, seed)
        write_sample(tmp_path / "l.csv", sample)
        filled(tmp_path / "l.csv", [truth[row["prompt_id"]] for row in sample])
        labels = read_labels(tmp_path / "l.csv", run)
        found.append(corrected_rates(run, labels.found, inclusion=labels.inclusion)["refusal_rate"])
    assert sum(one.rate for one in found) / 60 == pytest.approx(rate, abs=0.01)
    assert sum(one.low_here <= rate <= one.high_here for one in found) >= 54
    plain = [
        corrected_rates(
            run, {row["prompt_id"]: truth[row["prompt_id"]] for row in draw(run, 120, s)}
        )
        for s in range(20)
    ]  # as if all had been as likely: too many doubtful ones
    assert sum(one["refusal_rate"].rate for one in plain) / 20 > rate + 0.02


def test_a_blank_label_of_a_draw_by_doubt_makes_bounds(tmp_path):
    run = doubtful(100)
    write_sample(tmp_path / "l.csv", draw(run, 40, 0))
    filled(tmp_path / "l.csv", ["compliance"] * 5 + [""] + ["refusal"] * 10)
    labels = read_labels(tmp_path / "l.csv", run)
    assert len(labels.inclusion) == 16
    rate = corrected_rates(run, labels.found, labels.blank, inclusion=labels.inclusion)[
        "refusal_rate"
    ]
    assert rate.rate is None
    assert rate.low <= rate.low_here <= rate.lowest < rate.highest <= rate.high_here <= rate.high


def test_a_draw_of_all_answers_is_certain(tmp_path):
    run = doubtful(20)
    write_sample(tmp_path / "l.csv", draw(run, 50, 0))
    filled(tmp_path / "l.csv", ["refusal"] * 20)
    labels = read_labels(tmp_path / "l.csv", run)
    assert set(labels.inclusion.values()) == {1.0}
    rate = corrected_rates(run, labels.found, inclusion=labels.inclusion)["refusal_rate"]
    assert (rate.rate, rate.low_here, rate.high_here) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("spoil", "row"),
    [
        (lambda rows: rows.reverse(), 2),
        (lambda rows: rows[3].update(size=""), 4),
        (lambda rows: rows[3].update(size="-1"), 4),
        (lambda rows: rows[3].update(next_place="soon"), 4),
    ],
)
def test_a_draw_by_doubt_that_was_sorted_or_changed_is_an_error(tmp_path, spoil, row):
    run = doubtful()
    write_sample(tmp_path / "l.csv", draw(run, 20, 0))
    rows = read_table(tmp_path / "l.csv")
    spoil(rows)
    write_table(tmp_path / "l.csv", list(rows[0]), rows)
    with pytest.raises(
        RowError, match=f"row {row}: size and next_place must be as `refract label`"
    ):
        read_labels(tmp_path / "l.csv", run)


def test_without_a_probability_on_every_answer_all_are_as_likely():
    run = doubtful()
    run[7]["probability"] = None
    assert [row["prompt_id"] for row in draw(run, 10, 0)] == [
        row["prompt_id"] for row in draw(answers(60), 10, 0)
    ]
    assert "size" not in draw(run, 10, 0)[0]


def test_a_draw_by_doubt_goes_out_and_comes_back_through_the_commands(cli, tmp_path):
    run = doubtful(80)
    write_rows(tmp_path / "rows.jsonl", run)
    done = cli("label", "--rows", "rows.jsonl", "--n", 50, "--out", "l.csv")
    assert done.out == (
        "l.csv: 50 of 80 judged answers, drawn by the judge's doubt, to be labelled in this order\n"
    )
    sample = read_table(tmp_path / "l.csv")
    said = {row["prompt_id"]: row["outcome"] for row in run}
    filled(tmp_path / "l.csv", [said[row["prompt_id"]] for row in sample])
    done = cli("correct", "l.csv", "--rows", "rows.jsonl", "--format", "json")
    found = json.loads(done.out)
    assert found["drawn_by_doubt"] is True
    rate = found["measures"]["refusal_rate"]
    assert rate["prediction_powered"]["rate"] == pytest.approx(27 / 80, abs=0.05)
    assert rate["these_answers"]["low"] > rate["prediction_powered"]["low"]
    assert rate["these_answers"]["high"] < rate["prediction_powered"]["high"]
    done = cli("correct", "l.csv", "--rows", "rows.jsonl")
    assert "answers that the judge is unsure of were drawn more often" in done.out
