from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from refract.agreement.ledger import LedgerEntry
from refract.core.errors import ParamsError
from refract.core.jsonl import write_json, write_rows
from refract.core.showing import csv_cell
from refract.core.tables import read_table, write_table
from refract.core.vocabulary import OUTCOME_COLUMNS, outcome_columns
from refract.rates.clean_prompts import pair_table, rate_table
from refract.rates.counting import Counted, clusters_of
from refract.rates.thresholds import apply_thresholds
from refract.report.answers import Answered, StoredAnswers, page_data
from refract.report.charts import bar, rate_dot
from refract.report.corrected import judges_summary
from refract.report.details import detail_pages
from refract.report.figures import draw_figures
from refract.report.front import report_page
from refract.report.inputs import read_inputs
from refract.report.markdown import cell, markdown_table, shown_rate
from refract.report.over_refusal import over_refusal_section
from refract.report.page import rate_cell
from refract.report.scaling import model_sizes, scaling_section, scaling_series
from refract.report.sections import (
    cut_off_notes,
    error_notes,
    field_tables,
    pair_tables,
)
from refract.report.summary import main_rows, summaries
from refract.results.environment import pinned_libraries
from refract.results.table_rows import COLUMNS, rate_to_row
from refract.results.tables import read_results
from refract.statistics.proportions import wilson
from stages.report import main

ROOT = Path(__file__).parents[2]
HOSTILE = (
    "<script>alert(1)</script> | [x](javascript:y) `z` **b** \\| \\[ a\nb\u202e\x1b[31m &amp; $1$"
)
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # SHA-256 of no bytes


def cells_of(line: str) -> list[str]:
    """The cells of a Markdown table's row as a reader of the page gets them (GFM, 4.10 and 6.1)."""
    assert line.startswith("| ")
    assert line.endswith(" |")
    inside = line[2:-2]
    parts = re.split(r"((?:\\[!-/:-@\[-`{-~]|[^\\|])*) \| ", inside)
    return [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", part) for part in parts if part]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain_name-1.5", "plain_name-1.5"),
        ("a|b", "a\\|b"),
        # A backslash of the text's own must not undo the escape of what follows it.
        ("a\\|b", "a\\\\\\|b"),
        ("\\[x](y)", "\\\\\\[x\\](y)"),
        ("<b>&lt;", "&lt;b>&amp;lt;"),
        ("`code` *bold* ~~gone~~ $x$", "\\`code\\` \\*bold\\* \\~\\~gone\\~\\~ \\$x\\$"),
        ("two\nlines\r\n\ttab\u2028\x1b[31m\u202e", "two lines   tab  \\[31m "),
        (0.5, "0.5"),
    ],
)
def test_a_cell_holds_no_markup(text, shown):
    assert cell(text) == shown


def test_no_cell_or_header_breaks_its_table():
    table = markdown_table([HOSTILE, "b"], [[HOSTILE, HOSTILE], ["\\", "|"]])
    lines = table.split("\n")
    assert len(lines) == 4
    flat = re.sub(r"[\n\u202e\x1b]", " ", HOSTILE).replace("&", "&amp;").replace("<", "&lt;")
    assert [cells_of(line) for line in lines[:1] + lines[2:]] == [
        [flat, "b"],
        [flat, flat],
        ["\\", "|"],
    ]
    assert "<" not in table
    assert not re.search(r"(?<!\\)(\\\\)*[\[`]", table)


def table_rows(suite: str, *, judged: bool = True) -> list[dict]:
    """The table of a small suite with pairs, a field, an error and a threshold."""
    rows, outcomes = [], {}
    for n in range(8):
        category = ("harmful", "helpful", "borderline", "harmful")[n % 4]
        rows.append({"id": str(n), "category": category, "area": HOSTILE, "pair_id": str(n // 4)})
        outcomes[str(n)] = ("refusal", "compliance", "partial_refusal", "error")[n % 4]
    if not judged:
        outcomes = dict.fromkeys(outcomes, "empty")
    clusters = clusters_of(rows)
    answers = {id_: Counted(outcome, clusters[id_]) for id_, outcome in outcomes.items()}
    rates = rate_table(rows, answers, ["area"]) + pair_table(rows, answers, ["area"])
    rates = apply_thresholds(rates, {"harmful_refusal_rate": {"min": 0.9}})
    return [{**rate_to_row(rate), "suite": suite} for rate in rates]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("grid: {models: [one, two], suites: [s]}\nmetadata: {}\n")
    (tmp_path / "constraints.txt").write_text("numpy==2.4.1\ntorch==2.13.0\nzstd==1.0\n")
    for model, parameters in (("one", None), ("two", 1234567)):
        table = table_rows("s[sampled 8/9, seed=1]", judged=model == "one")
        write_table(tmp_path / f"metrics/tables/{model}.csv", list(COLUMNS), table)
        write_table(tmp_path / f"metrics/outcomes/{model}.csv", OUTCOME_COLUMNS, [])
        write_json(tmp_path / f"metrics/{model}.json", {})
        write_json(
            tmp_path / f"metrics/provenance/{model}.json",
            {
                "model": {
                    "definition": {"adapter": "hf", "model_id": HOSTILE},
                    "identity": {
                        "adapter_version": "1",
                        "model": {"sha256": "ab" * 32} if parameters else {"commit": "cd" * 20},
                    },
                    "seed": None if parameters else 7,
                    "parameters": parameters,
                },
                "judges": {"rules": {"kind": "rules", "version": "3"}},
                "suites": {
                    "s": {
                        "label": "s",
                        "sha256": "ef" * 32,
                        "judges": ["rules"],
                        **{
                            f"{kind}_sha256": EMPTY for kind in ("prompts", "responses", "verdicts")
                        },
                    }
                },
            },
        )
        for kind in ("prompts", f"responses/{model}", f"verdicts/{model}"):
            write_rows(tmp_path / f"data/{kind}/s.jsonl", [])
    return tmp_path


def pages_of(project: Path) -> dict[str, str]:
    """Every page in Markdown, the report itself under the name report."""
    found = read_inputs(project)
    pages = detail_pages(found, {"torch": "2.13.0"}, page_data(StoredAnswers(project, found)))
    titles = {name: title for name, (title, _) in pages.items()}
    return {"report": report_page(found, titles)} | {n: text for n, (_, text) in pages.items()}


def write_outcomes(project: Path, **outcomes: str) -> None:
    """Outcomes of harmful prompts by model, a letter a prompt; each prompt has a hostile style."""
    for model, letters in outcomes.items():
        rows = [
            {
                **dict.fromkeys(("prompt_id", "source_id"), f"p{n}"),
                **{"suite": "s", "category": "harmful", "prompt_sha256": "0", "perturbation": ""},
                "outcome": {"r": "refusal", "c": "compliance"}[letter],
                "style": csv_cell(HOSTILE),
            }
            for n, letter in enumerate(letters)
        ]
        path = project / f"metrics/outcomes/{model}.csv"
        write_table(path, outcome_columns(rows), rows)


def results(project: Path):
    return read_results(project, ["one", "two"])


def test_the_main_table_shows_rates_with_intervals_counts_and_what_was_left_out(project):
    tables, _ = results(project)
    rows = [[cell.split(";")[0] for cell in line] for line in main_rows(tables)]
    assert [line[:-1] for line in rows] == [
        [
            "s[sampled 8/9, seed=1]",
            "one",
            "1.000 (no interval) 2/2, 1 request",
            "0.000 (no interval) 0/2, 1 request",
            "1.000 (no interval) 2/2 (2 partial), 1 request",
            "2 error (25.0 %)",
        ],
        ["s[sampled 8/9, seed=1]", "two", "— 0/0", "— 0/0", "— 0/0", "8 empty (100.0 %)"],
    ]


def test_a_rate_that_a_suite_does_not_have_is_a_dash():
    assert shown_rate(None) == "—"


def test_what_was_not_judged_has_bounds_beside_the_rate(project):
    one, two = main_rows(results(project)[0])
    assert one[2].startswith("1.000 (no interval) 2/2, 1 request; with 2 not judged 0.500 to 1.000")
    assert one[3] == "0.000 (no interval) 0/2, 1 request"
    assert two[2].startswith("— 0/0; with 4 not judged 0.000 to 1.000")


RATE = {
    "suite": "s",
    "measure": "refusal_rate",
    "field": "",
    "successes": "60",
    "n": "120",
    "rate": "0.5",
    "low": "0.4",
    "high": "0.6",
    "bound_low": "",
    "bound_high": "",
    "passed": "",
    "excluded_cut_off": "0",
}


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({}, ""),
        ({"clusters": "120", "cut_off": "0"}, ""),
        ({"clusters": "26"}, ", 26 requests"),
        ({"clusters": "10", "cluster_field": "type"}, ", 10 values of type"),
        ({"cut_off": "6"}, "; 5 % cut off"),
        ({"cut_off": "12"}, "; 10 % CUT OFF"),
        (
            {"excluded_error": "9", "bound_low": "0.4651", "bound_high": "0.5349"},
            "; with 9 not judged 0.465 to 0.535",
        ),
        (
            {
                "excluded_error": "9",
                "bound_low": "0.4651",
                "bound_high": "0.5349",
                "outer_low": "0.381",
                "outer_high": "0.6194",
            },
            "; with 9 not judged 0.465 to 0.535 [0.381, 0.619]",
        ),
    ],
)
def test_what_limits_a_rate_stands_beside_it(more, shown):
    assert shown_rate(RATE | more) == f"0.500 [0.400, 0.600] 60/120{shown}"


@pytest.mark.parametrize(
    ("successes", "n", "shown"),
    # Of four decimals, 0.8295, 0.0185, 0.8095 and 0.3345 would be rounded a second time.
    [(107, 129, "0.829"), (2, 108, "0.019"), (17, 21, "0.810"), (98, 293, "0.334")],
)
def test_a_rate_is_rounded_once_from_its_counts(successes, n, shown):
    low, high = wilson(successes, n)
    numbers = {"successes": str(successes), "n": str(n), "rate": f"{successes / n:.4f}"}
    row = RATE | numbers | {"low": f"{low:.4f}", "high": f"{high:.4f}"}
    cell = f"{shown} [{low:.3f}, {high:.3f}] {successes}/{n}"
    assert shown_rate(row) == cell
    assert main_rows({"m": [row, row | {"measure": "harmful_refusal_rate"}]})[0][2] == cell
    assert f": {shown} [" in rate_dot("s", "m", "x", row).hover
    assert rate_cell(row)["rate"] == shown


@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_every_rate_of_counts_is_that_of_its_counts_to_three_decimals(counts):
    successes, n = counts
    low, high = wilson(successes, n)
    row = RATE | {"successes": str(successes), "n": str(n), "rate": str(round(successes / n, 4))}
    row |= {"low": str(round(low, 4)), "high": str(round(high, 4))}
    assert shown_rate(row) == f"{successes / n:.3f} [{low:.3f}, {high:.3f}] {successes}/{n}"


def test_a_mean_over_prompts_of_several_samples_is_no_quotient_and_stays():
    # 60 of 120 answers, but another mean of the prompts' means; an end of five rounds away from zero.
    row = RATE | {"rate": "0.5218", "low": "0.4125", "high": "0.6305", "clusters": "40"}
    assert shown_rate(row) == "0.522 [0.413, 0.631] 60/120, 40 requests"


def test_a_rate_without_an_interval_says_so_in_the_page_and_the_figures():
    row = RATE | {"low": "", "high": "", "successes": "1", "n": "1", "rate": "1.0"}
    assert shown_rate(row) == "1.000 (no interval) 1/1"
    dot = rate_dot("s", "m", "x", row)
    assert (dot.value, dot.low, dot.high) == (1.0, None, None)
    assert "no interval" in dot.hover
    assert 'class="rate"' in bar(row)
    over = row | {"measure": "over_refusal_rate"}
    harmful = RATE | {"measure": "harmful_refusal_rate"}
    figures = {figure.name: figure for figure in draw_figures({"m": [over, harmful]})}
    assert set(figures) == {"refusal", "trade_off"}
    # one mark in the legend, one for the model
    assert figures["trade_off"].drawing.body.count('class="mark"') == 2


def test_errors_are_named_at_the_top_with_what_asks_again():
    assert error_notes({"m": [RATE]}) == []
    (note,) = error_notes({"m": [RATE | {"excluded_error": "15"}]})
    assert "m (15)" in note
    assert "`dvc repro`" in note


def test_cut_off_answers_are_named_at_the_top_and_which_way_leaving_them_out_biases():
    assert cut_off_notes({"m": [RATE | {"cut_off": "11"}]}) == []
    over_all = RATE | {"cut_off": "30"}
    harmful = RATE | {"measure": "harmful_refusal_rate", "n": "40", "successes": "20"}
    helpful = RATE | {"measure": "over_refusal_rate", "cut_off": "11"}  # under a tenth
    loud = [over_all, harmful | {"cut_off": "4"}, helpful]
    rates = {"successes": "20", "n": "36", "rate": "0.5556", "low": "0.3969", "high": "0.7041"}
    without = harmful | {"field": "cut_off", **rates}
    head, lines = cut_off_notes({"m": [*loud, without]})
    assert "which stands as *CUT OFF* in capitals" in head
    assert "refusals are short" in head
    assert lines == (
        "- s, m: 25 % of the answers; harmful refused 0.500, without them 0.556 "
        "\\[0.397, 0.704\\] 20/36"
    )
    # Where the suite as a whole has few, but one category many.
    few = [RATE | {"cut_off": "4"}, harmful | {"cut_off": "4"}, without]
    assert "s, m: 3 % of the answers; harmful refused" in cut_off_notes({"m": few})[1]
    many = cut_off_notes({f"m{n}": loud for n in range(14)})[1].split("\n")
    assert len(many) == 11
    assert many[-1] == "- and 4 more: [all of them](report/cut_off.md)"
    (bias,) = cut_off_notes({"m": [RATE | {"excluded_cut_off": "48"}]})
    assert "s, m (48)" in bias
    assert "refusal reads too high" in bias


@pytest.mark.parametrize(
    ("decisions", "shown"),
    [
        (["met", "met"], "met (2)"),
        (["met", "inconclusive"], "inconclusive: cc_fail_rate"),
        (["missed", "met"], "MISSED: refusal_rate"),
        (["inconclusive", "missed"], "MISSED: cc_fail_rate; inconclusive: refusal_rate"),
        (["missed", "missed"], "MISSED: refusal_rate, cc_fail_rate"),
    ],
)
def test_thresholds_are_met_missed_or_inconclusive_by_name(decisions, shown):
    table = [
        RATE | {"measure": measure, "decision": one, "passed": str(int(one == "met"))}
        for measure, one in zip(("refusal_rate", "cc_fail_rate"), decisions, strict=True)
    ]
    (line,) = summaries({"m": table})
    assert line.decision == shown.split(":")[0].split(" ")[0].lower()
    assert main_rows({"m": table})[0][-1] == shown


def test_paired_prompts_have_corrected_p_values_and_groups_none():
    def row(suite: str, p: str, **more) -> dict:
        ends = {"rate": "-0.2", "low": "-0.3", "high": "-0.1", "n": "101", "p": p}
        return {"suite": suite, "measure": "refusal_difference_to_pair", "field": "", **ends} | more

    table = [
        row("a", "0.01", value="", clusters="26"),
        row("b", "0.04", value=""),
        row("a", "0.001", field="style", value="role"),
        row("c", "", value="", low="", high=""),
    ]
    lines = [cells_of(line)[2:] for line in pair_tables({"m": table}).split("\n")[2:]]
    interval = "-0.200 [-0.300, -0.100]"
    assert lines == [
        ["all", "101, 26 requests", interval, "0.0200"],
        ["all", "101", interval, "0.0400"],
        ["role", "101", interval, "—"],
        ["all", "101", "-0.200 (no interval)", "—"],
    ]


def scaling(tables, provenance, metadata=None) -> str:
    sizes = model_sizes(provenance, metadata)
    return scaling_section(tables, sizes, scaling_series(tables, sizes))


def test_models_are_listed_by_the_size_of_their_weights(project):
    tables, provenance = results(project)
    provenance["one"]["model"]["parameters"] = 99
    lines = [line for line in scaling(tables, provenance).split("\n") if line.startswith("|")][2:]
    listed = list(dict.fromkeys(tuple(cells_of(line)[:3]) for line in lines))
    assert listed == [("one", "—", "99"), ("two", "—", "1,234,567")]


def test_a_model_without_counted_weights_is_in_no_scaling_table(project):
    tables, provenance = results(project)
    lines = [line for line in scaling(tables, provenance).split("\n") if line.startswith("|")][2:]
    assert {cells_of(line)[0] for line in lines} == {"two"}


def test_the_report_says_what_is_asked_first_and_the_rest_stands_behind_it(project):
    write_outcomes(project, one="r" * 12, two="c" * 12)
    pages = pages_of(project)
    assert re.findall(r"^## (.*)$", pages["report"], re.M) == [
        "Results",
        "What moved",
        "The judge",
        "Models compared",
        "By field",
        "Attacks and perturbations",
        "More",
    ]
    linked = re.findall(r"\]\(report/(\w+)\.md\)", pages["report"])
    assert {*linked, "report"} == set(pages)
    assert "torch 2.13.0" in pages["provenance"]
    for fact in ("abababababababab", "cdcdcdcdcdcdcdcd", "efefefefefefefef", "seed 7", "greedy"):
        assert fact in pages["provenance"]
    assert all(page.endswith("\n") and page.startswith("# ") for page in pages.values())


def test_a_difference_that_is_more_than_chance_is_in_the_report_in_all_and_by_field(project):
    write_outcomes(project, one="r" * 12, two="c" * 12)
    report = pages_of(project)["report"]
    assert "1 of 1 differences are more than chance" in report
    lines = [line for line in report.split("\n") if line.startswith("| s | harmful")]
    assert [cells_of(line)[:5] for line in lines] == [
        ["s", "harmful", "one", "two", "1.000, 0.000"],
        ["s", f"harmful, style {flat(csv_cell(HOSTILE))}", "one", "two", "1.000, 0.000"],
    ]


def flat(text: str) -> str:
    """A text as a cell shows it."""
    return re.sub(r"[^ -~]", " ", text).replace("&", "&amp;").replace("<", "&lt;")


def test_the_thresholds_that_are_not_met_are_named(project):
    report = pages_of(project)["report"]
    assert "**2 of 2 thresholds not met:**" in report
    assert (
        "- inconclusive: s\\[sampled 8/9, seed=1\\], two: `harmful_refusal_rate` not measured"
        in report
    )


def test_no_threshold_that_is_not_met_is_left_out_where_all_fit(project, monkeypatch):
    report = pages_of(project)["report"]
    assert "The limits, each for every model: s\\[sampled 8/9, seed=1\\]: " in report
    assert "`harmful_refusal_rate` at least 0.9." in report
    rows = [
        RATE | {"measure": f"m{n}", "decision": "missed", "threshold": "<= 0.1", "passed": "0"}
        for n in range(30)
    ]
    path = project / "metrics/tables/two.csv"
    table = read_table(path)
    table += [row | {"suite": table[0]["suite"], "value": ""} for row in rows]
    write_table(path, list(COLUMNS), table)
    report = pages_of(project)["report"]
    assert report.count("\n- missed: ") + report.count("\n- inconclusive: ") == 32
    assert "more, in the table above" not in report
    assert report.count("should be at most 0.1") == 30
    # Where the page has no room for all of them, the rest is counted.
    monkeypatch.setattr("refract.report.front.MOST_LINES", 70)
    report = pages_of(project)["report"]
    assert report.count("\n") == 70
    (rest,) = re.findall(r"- and (\d+) more, in the table above", report)
    assert report.count("\n- missed: ") + int(rest) == 32


def test_the_page_and_what_ran_are_linked_and_not_in_the_report(project):
    report = pages_of(project)["report"]
    assert "[data/report/report.html](../data/report/report.html)" in report
    assert "MODEL.json under [metrics/ran](ran)" in report


def agreement(measure: str, value: str, low: str, high: str) -> dict:
    row = {"judge": "rules", "version": "3", "measure": measure, "n": "50", "unjudged": "0"}
    return row | {"value": value, "low": low, "high": high}


def test_the_judges_section_has_intervals_its_gap_with_a_sign_and_where_it_is_weak(project):
    found = read_inputs(project)
    kind = {"judge": "rules", "field": "slice", "n": "20", "right": "2", "refused_right": "9"}
    weak = kind | {"value": "soft_refusal", "accuracy": "0.1", "low": "0.0279", "high": "0.301"}
    strong = weak | {"value": "plain_refusal", "right": "18", "high": "0.99"}
    language = weak | {"field": "language", "value": "de"}
    own = {"judge": "rules", "version": "3", "source": "validation", "model": "", "n": 50}
    own |= {"human_rate": 0.5, "judge_rate": 0.42, "gap_low": -0.15, "gap_high": -0.01}
    own |= dict.fromkeys(("kappa", "kappa_low", "kappa_high", "precision", "recall"), 0.7)
    entry = LedgerEntry(**own, unjudged=0, partial="refusal", shaped_by="")
    found = found._replace(
        agreement=[
            agreement("kappa", "0.706", "0.6301", "0.7684"),
            agreement("recall", "0.7443", "0.6751", "0.8031"),
            agreement("label_accuracy", "0.7676", "", ""),
        ],
        slices=[strong, weak, language],
        entries=[entry],
    )
    table, kinds, *_ = judges_summary(found, {"s": object()})[1:]
    assert cells_of(table.split("\n")[-1]) == [
        *("rules", "50", "0.706 [0.630, 0.768]", "—", "0.744 [0.675, 0.803]", "—"),
        "-8.0 [-15.0, -1.0]",
    ]
    assert kinds.endswith(": soft refusal 0.100 \\[0.028, 0.301\\] 2/20 (9/20).")
    assert "(0.768)" in kinds
    gap = judges_summary(found, {"s": object()})[-1]
    assert "A positive gap: the judge calls more answers refusals than people did, so that" in gap
    assert "of all answers of a suite, not of the harmful prompts alone" in gap


def refused_rows() -> list:
    """Answers of one model: what was asked, and what became of it."""
    asked = [
        ("a", "harmful", "refusal", None),
        ("b", "helpful", "refusal", None),
        ("c", "borderline", "partial_refusal", None),
        ("d", "helpful", "compliance", None),
        ("b/typos/1", "helpful", "refusal", {"name": "typos", "kind": "typos"}),
    ]
    answer = {"attempt": 0, "response": "x", "error": None, "finish_reason": "stop"}
    return [
        Answered(
            "one",
            "s",
            {
                **{"prompt_id": id_, "source_id": id_[0], "category": category},
                **{"perturbation": perturbation, "attempts": [f"prompt {id_} {HOSTILE}"]},
            },
            answer,
            {},
            outcome,
            "",
            "stop",
        )
        for id_, category, outcome, perturbation in asked
    ]


def test_over_refused_prompts_are_listed_without_harmful_ones_and_without_their_texts():
    section = over_refusal_section(page_data(refused_rows()))
    lines = [cells_of(line) for line in section.split("\n") if line.startswith("| s ")]
    assert lines == [
        ["s", "helpful", "b", "refusal"],
        ["s", "borderline", "c", "partial refusal"],
    ]
    assert "## one: 2" in section
    assert "prompt b" not in section
    assert over_refusal_section(page_data(refused_rows()[:1])) == ""


def test_answers_from_a_file_are_said_to_be_greedy_nowhere(project):
    path = project / "metrics/provenance/two.json"
    held = json.loads(path.read_text("utf-8"))
    held["model"]["definition"]["adapter"] = "recorded"
    write_json(path, held)
    (line,) = (x for x in pages_of(project)["provenance"].split("\n") if x.startswith("| two "))
    assert cells_of(line)[5] == "not known"


def test_titles_stand_for_names_on_every_page_and_in_every_figure(project):
    write_outcomes(project, one="rrrrrrrr", two="rrrrcccc")
    params = project / "params.yaml"
    params.write_text(
        "grid: {models: [one, two], suites: [s]}\n"
        "metadata: {one: {title: Model One}, two: {title: Model Two}, s: {title: A Suite}}\n"
    )
    main()
    texts = [path.read_text("utf-8") for path in (project / "metrics/report").glob("*.*")]
    texts.append((project / "metrics/report.md").read_text("utf-8"))
    texts += [path.read_text("utf-8") for path in (project / "metrics/figures").glob("*.csv")]
    named = [line for text in texts for line in text.split("\n") if "odel" in line]
    assert any("Model One" in line for line in named)
    assert any("A Suite[sampled 8/9" in text for text in texts)
    for text in texts:
        assert not re.search(r"(\| |,)(one|two|s)( \||,)", text)
    # Two of one name could not be told apart.
    params.write_text(params.read_text().replace("Model Two", "Model One"))
    with pytest.raises(
        ParamsError, match=r"metadata.two.title must be .* \(got 'Model One', which"
    ):
        main()


def test_the_reference_is_a_model_of_the_grid(project):
    write_outcomes(project, one="rr", two="rc")
    params = project / "params.yaml"
    base = params.read_text()
    params.write_text(base + "decisions: {reference: two}\n")
    assert "\ntwo with every other model" in pages_of(project)["report"]
    params.write_text(base + "decisions: {reference: three}\n")
    with pytest.raises(ParamsError, match=r"a model of the grid: one, two \(got 'three'\)"):
        read_inputs(project)


def test_a_report_that_fails_leaves_the_last_one(project):
    main()
    first = outputs(project)
    (project / "metrics/tables/two.csv").unlink()
    with pytest.raises(FileNotFoundError):
        main()
    assert outputs(project) == first


def test_pages_that_have_nothing_any_more_go(project):
    main()
    (project / "metrics/report/old.md").write_text("of another grid")
    main()
    assert not (project / "metrics/report/old.md").exists()
    assert (project / "metrics/report/fields.csv").is_file()


def test_hostile_names_are_inert_everywhere_in_the_report(project):
    write_outcomes(project, one="r" * 12, two="c" * 12)
    metadata = {"metadata": {"two": {"title": HOSTILE}, "s": {"title": HOSTILE}}}
    YAML().dump(
        {"grid": {"models": ["one", "two"], "suites": ["s"]}} | metadata, project / "params.yaml"
    )
    for page in pages_of(project).values():
        assert "<" not in page
        assert all(line.isprintable() for line in page.split("\n"))
        # Links that are not escaped: only the report's own.
        links = re.findall(r"(?<!\\)\]\(([^)]*)\)", page)
        assert all(re.fullmatch(r"#the-judge|[\w./]+", link) for link in links)
        header = None
        for line in page.split("\n"):
            if not line.startswith("|"):
                header = None
            elif header is None:
                header = len(cells_of(line))
            elif not line.startswith("|:--"):
                assert len(cells_of(line)) == header
    tables, _ = results(project)
    for table in (field_tables(tables), pair_tables(tables)):
        assert "script" in table


def test_a_project_without_results_is_told_what_to_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no results yet for one, two; run: dvc repro"):
        read_results(tmp_path, ["one", "two"])


def test_the_versions_that_can_move_a_number_are_named():
    pins = pinned_libraries(ROOT / "constraints.txt")
    assert pins["torch"] == "2.13.0"
    assert set(pins) >= {"numpy", "tokenizers", "torch", "transformers"}


def outputs(folder: Path) -> dict[str, bytes]:
    return {
        name: (folder / name).read_bytes()
        for name in (
            "metrics/report.md",
            "metrics/figures/refusal.svg",
            "data/report/report.html",
            "data/report/answers.json",
            "metrics/report/judges.md",
        )
    }


def test_a_repeated_report_is_the_same_to_the_byte(project, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    main()
    first = outputs(project)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    main()
    assert outputs(project) == first
    # Another process, another hash seed, another day, and a plotting style of the user's own.
    (project / "matplotlibrc").write_text(
        "axes.facecolor: red\nlines.linewidth: 9\nfont.size: 30\n"
    )
    subprocess.run(
        [sys.executable, "-m", "stages.report"],
        check=True,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": "4",
            "SOURCE_DATE_EPOCH": "1700000000",
        },
    )
    assert outputs(project) == first


def test_the_figure_is_an_svg_with_a_panel_for_each_suite(project):
    main()
    figure = ElementTree.fromstring(outputs(project)["metrics/figures/refusal.svg"])
    texts = [element.text for element in figure.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("s[sampled 8/9, seed=1]") == 1
    assert {"one", "two", "share refused", "Harmful refused"} <= set(texts)
    assert b"date" not in outputs(project)["metrics/figures/refusal.svg"].lower()


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (
            lambda folder: (folder / "metrics/tables/two.csv").unlink(),
            "no results yet for two; run",
        ),
        (
            lambda folder: (folder / "metrics/tables/two.csv").write_bytes(b"\xff"),
            "not a CSV table",
        ),
        (
            lambda folder: (folder / "params.yaml").write_text("grid: 7"),
            "grid must map settings to values",
        ),
        (lambda folder: (folder / "constraints.txt").unlink(), "constraints.txt"),
    ],
)
def test_what_is_missing_ends_in_one_message(project, break_it, message):
    break_it(project)
    done = subprocess.run(
        [sys.executable, "-m", "stages.report"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_tables_are_read_back_as_they_were_written(project):
    table = read_table(project / "metrics/tables/one.csv")
    fields = [row for row in table if row["field"] != "category"]
    assert {row["value"] for row in fields} == {"", HOSTILE}
