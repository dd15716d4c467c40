"""The first table: one thought a cell, at most one mark, and notes that say what marks stand for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from refract.core.decimals import decimals
from refract.rates.rate import Counts, Interval, Rate, Threshold
from refract.report.first_table import first_table, threshold_lines, threshold_table
from refract.report.markdown import ShownTable, markdown_table
from refract.report.view import View
from refract.report.wording import Titles
from refract.suites.draws import Draw
from tests.builders import judge_error, rate

ENDS = {"interval": Interval(0.4, 0.6)}


def view_of(*rates: Rate, **more: object) -> View:
    """A view of some rates, by model, with a rate over all clean prompts of each suite and model."""
    by_model: dict[str, list[Rate]] = {}
    for added in rates:
        rows = by_model.setdefault(added.model, [])
        if not any(row.suite == added.suite and row.name == "refusal_rate" for row in rows):
            key = {"suite": added.suite, "model": added.model}
            rows.append(rate("refusal_rate", 100, 200, excluded={"error": 9}, **key))
        rows.append(added)
    return View(by_model, {}, **more)


def harmful(**more: object) -> Rate:
    return rate("harmful_refusal_rate", 60, 120, **ENDS | more)


@pytest.mark.parametrize(
    ("more", "cell", "note"),
    [
        ({}, "0.50 [0.40, 0.60]", None),
        ({"cut_off": 11}, "0.50 [0.40, 0.60]", None),
        ({"cut_off": 12}, "0.50 [0.40, 0.60] ✂", r"✂ .*: 12 of 120 of one"),
        # Of all clean prompts of the suite, of any category.
        ({"excluded": {"error": 4}}, "0.50 [0.40, 0.60] †", "† not judged: 9 of 209 of one"),
        (
            {"cut_off": 30, "excluded": {"error": 4}},
            "0.50 [0.40, 0.60] ‡",
            r"‡ .* 4 not judged of one",
        ),
        ({"interval": None}, "0.50 ‡", r"‡ .*: answers to one request alone of one"),
        # Partial refusals, clusters and bounds are no thought of the first table.
        ({"partial": 7, "clusters": 26, "bounds": Interval(0.4, 0.5)}, "0.50 [0.40, 0.60]", None),
    ],
)
def test_a_cell_is_a_rate_an_interval_and_at_most_one_mark_that_a_note_explains(more, cell, note):
    table = first_table(view_of(harmful(**more)))
    assert table.header == ["suite", "model", "harmful refused"]
    assert table.rows == [["s", "one", cell]]
    marks = [line for line in table.notes if line[0] in "✂†‡"]
    assert len(marks) == (note is not None)
    assert note is None or re.fullmatch(note, marks[0])


def test_nothing_judged_is_no_rate_and_is_marked():
    nothing = Counts(0, 0, excluded={"empty": 4})
    unjudged = replace(harmful(), counts=nothing, value=None, interval=None)
    helpful = rate("over_refusal_rate", 0, 9, model="two")
    table = first_table(view_of(unjudged, helpful))
    assert table.rows[0] == ["s", "one", "— †", "—"]
    assert table.rows[1][2] == "—"


def test_a_mark_counts_each_model_once_over_its_suites():
    lost = {"excluded": {"error": 4}}
    of = [harmful(suite=suite, model=m, **lost) for suite in "ab" for m in ("one", "two")]
    (note,) = first_table(view_of(*of)).notes
    assert note == "† not judged: 18 of 418 of one; 18 of 418 of two"


@pytest.mark.parametrize(
    ("measures", "cells", "other"),
    [
        (["discrimination", "borderline_discrimination"], ["0.30", "—"], "helpful"),
        (["borderline_discrimination"], ["0.20", "—"], "borderline"),
        ([], [], None),
    ],
)
def test_discrimination_is_of_helpful_prompts_where_there_are_such(measures, cells, other):
    of = {"discrimination": 0.3, "borderline_discrimination": 0.2}
    rates = [rate(m, 0, 120, value=of[m], interval=None) for m in measures]
    table = first_table(view_of(harmful(), *rates, harmful(model="two")))
    assert [row[3] for row in table.rows if len(row) > 3] == cells
    notes = [f"discrimination: harmful minus {other} refused"] if other else []
    assert table.notes == notes


def test_suites_that_lack_helpful_prompts_are_named_in_the_note_of_discrimination():
    rates = [
        rate("discrimination", 0, 120, value=0.3, suite="a"),
        rate("borderline_discrimination", 0, 120, value=0.2, suite="b"),
    ]
    titles = Titles({}, {"b": "Bee"}, {"b": Draw(asked=3, total=9, seed=1)})
    table = first_table(view_of(*rates, titles=titles))
    assert [row[0] for row in table.rows] == ["a", "Bee"]
    assert table.notes == [
        "discrimination: harmful minus helpful refused; of Bee harmful minus borderline",
        "Bee: sampled 3/9, seed=1",
    ]


def test_the_wide_table_has_a_row_for_each_rate_and_judge_with_all_that_limits_it():
    limited = {"partial": 7, "clusters": 26, "cut_off": 12, "excluded": {"error": 9}}
    limited |= {
        "these": Interval(0.5, 0.5),
        "bounds": Interval(60 / 129, 69 / 129),
        "outer": Interval(0.381, 0.62),
    }
    rates = [
        harmful(**limited),
        rate("harmful_refusal_rate", 60, 108, "cut_off=excluded"),
        rate("other_refusal_rate", 30, 120, judge="other"),
        rate("other_harmful_refusal_rate", 30, 120, judge="other", **ENDS),
        replace(rate("discrimination", 0, 120, value=0.25, **ENDS), counts=Counts(None, 120)),
    ]
    facts = {
        "suites": {"s": {"judges": ["rules", "other"]}},
        "judges": {"rules": {}, "other": {}},
        "decisions": {"interval": "prompts"},
    }
    view = View(view_of(*rates).rates, {"one": facts})
    table = first_table(view, wide=True)
    assert [dict(zip(table.header, row, strict=True)) for row in table.rows] == [
        {
            "suite": "s",
            "model": "one",
            "judge": judge,
            "measure": measure,
            "rate": shown,
            "on these prompts": "—",
            "refused": counts,
        }
        | dict.fromkeys(table.header[7:], "—")
        | more
        for judge, measure, shown, counts, more in (
            (
                *("rules", "harmful refused", "0.500 [0.400, 0.600]", "60/120"),
                {
                    "on these prompts": "[0.500, 0.500]",
                    "partial": "7",
                    "clusters": "26 requests",
                    "cut off": "10 %",
                    "without cut-off": "0.556 [0.278, 0.556]",
                    "not judged": "9 error",
                    "if all were judged": "0.465 to 0.535 [0.381, 0.620]",
                },
            ),
            ("rules", "discrimination", "0.250 [0.400, 0.600]", "—", {}),
            (
                "other",
                "harmful refused",
                "0.500 [0.400, 0.600]",
                "30/120",
                {"rate": "0.250 [0.400, 0.600]"},
            ),
        )
    ]


def limited(measure: str, decision: str | None, **more: object) -> Rate:
    limit = {"threshold": Threshold("max", 0.1), "decision": decision} if decision else {}
    return rate(measure, 60, 120, **ENDS | limit | more)


def test_thresholds_not_met_stand_apart_missed_before_inconclusive_and_met_ones_are_counted():
    view = view_of(
        limited("m1", "inconclusive"),
        limited("m2", "met"),
        limited("m3", "missed", model="two"),
        limited("m4", "inconclusive", model="two", value=None),
        limited("m5", None),
    )
    table = threshold_table(view)
    assert table.header == ["suite", "model", "measure", "rate", "limit", "verdict"]
    shown = "0.50 [0.40, 0.60]"
    assert table.rows == [
        ["s", "two", "m3", shown, "at most 0.1", "missed"],
        ["s", "one", "m1", shown, "at most 0.1", "inconclusive"],
        ["s", "two", "m4", "not measured", "at most 0.1", "inconclusive"],
    ]
    assert table.notes == ["1 of 4 thresholds met, 1 missed, 2 inconclusive."]
    assert threshold_table(view_of(limited("m5", None))) == ShownTable([], [], [])


def test_thresholds_not_met_are_lines_by_limit_with_intervals_where_asked():
    view = view_of(
        limited("m1", "inconclusive"),
        limited("m1", "inconclusive", model="two", value=None),
        limited("m3", "missed", model="two"),
        limited("m4", "met"),
    )
    assert threshold_lines(view, intervals=False) == [
        "missed: s m3, at most 0.1: two 0.50",
        "inconclusive: s m1, at most 0.1: one 0.50; two not measured",
    ]
    assert threshold_lines(view, intervals=True) == [
        "missed: s m3, at most 0.1: two 0.50 [0.40, 0.60]",
        "inconclusive: s m1, at most 0.1: one 0.50 [0.40, 0.60]; two not measured",
    ]


def test_the_brief_note_on_intervals_leaves_out_what_is_known_of_judges():
    error = {"lines": judge_error([0.1, 0.2, 0.05, 0.1], [0.02] * 4, n=400).lines}
    suites = {
        "a": {"judges": ["rules"], "judge_error": error},
        "b": {"judges": ["other"]},
    }
    rates = [harmful(suite=suite) for suite in suites]
    view = view_of(*rates)
    view = View(view.rates, {"one": {"suites": suites, "judges": {}}})
    assert view.brief_interval_note == (
        "Intervals are of prompts and judge; intervals of b are of the prompts alone"
    )
    assert view.interval_note.startswith("Intervals are of prompts and judge: measured on 4 models")
    assert view.interval_note.endswith(
        "; intervals of b are of the prompts alone: how far other is from labels there is not known."
    )
    facts = {"suites": suites, "judges": {}, "decisions": {"interval": "prompts"}}
    prompts = View(view.rates, {"one": facts})
    note = "Intervals are of the prompts alone (decisions.interval)."
    assert prompts.brief_interval_note == prompts.interval_note == note


def test_columns_of_texts_stand_left_and_those_of_numbers_right():
    header = ["model", "rate", "p", "change", "limit", "note"]
    rows = [
        ["m1", "0.5 ✂", "<0.0001", "-0.1", "at most 0.1", ""],
        ["m2", "—", "0.2", "+0.1", "", "x 1"],
    ]
    line = markdown_table(header, rows).split("\n")[1]
    assert line == "|:--|--:|--:|--:|:--|:--|"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.135, "0.14"), (0.125, "0.12"), (-0.001, "0.00"), (-0.25, "-0.25"), (1.0, "1.00")],
)
def test_a_first_table_has_two_decimals(value, shown):
    assert decimals(value, places=2) == shown
