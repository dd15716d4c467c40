"""The first table: one thought a cell, at most one mark, and notes that say what marks stand for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from refract.rates.rate import Counts, Interval, Rate, Threshold
from refract.report.first_table import first_table, threshold_lines, threshold_table
from refract.report.markdown import ShownTable
from refract.report.view import View
from tests.builders import judge_error, rate
from tests.report import views

ENDS = {"interval": Interval(0.4, 0.6)}
SHOWN = "0.50 [0.40, 0.60]"


def view_of(*rates: Rate, **more: object) -> View:
    """A view of some rates, with a rate over all clean prompts of each suite and model."""
    whole = {}
    for each in rates:
        key = {"suite": each.suite, "model": each.model}
        overall = rate("refusal_rate", 100, 200, excluded={"error": 9}, **key)
        whole.setdefault(tuple(key.values()), overall)
    return views.view_of(*whole.values(), *rates, **more)


def harmful(**more: object) -> Rate:
    return rate("harmful_refusal_rate", 60, 120, **ENDS | more)


ERRORS = {"excluded": {"error": 4}}


@pytest.mark.parametrize(
    ("more", "cell", "note"),
    [
        ({}, SHOWN, None),
        ({"cut_off": 11}, SHOWN, None),
        ({"cut_off": 12}, f"{SHOWN} ✂", r"✂ .*: 12 of 120 of one"),
        # Of all clean prompts of the suite, of any category.
        (ERRORS, f"{SHOWN} †", "† not judged: 9 of 209 of one"),
        ({"cut_off": 30, **ERRORS}, f"{SHOWN} ‡", r"‡ .* 4 not judged of one"),
        ({"interval": None}, "0.50 ‡", r"‡ .*: answers to one request alone of one"),
        # Partial refusals, clusters and bounds are no thought of the first table.
        ({"partial": 7, "clusters": 26, "bounds": Interval(0.4, 0.5)}, SHOWN, None),
    ],
)
def test_a_cell_is_a_rate_an_interval_and_at_most_one_mark_that_a_note_explains(more, cell, note):
    table = first_table(view_of(harmful(**more)))
    assert table.header == ["suite", "model", "harmful refused"]
    assert table.rows == [["s", "one", cell]]
    marks = [line for line in table.notes if line[0] in "✂†‡"]
    assert len(marks) == (note is not None)
    assert note is None or re.fullmatch(note, marks[0])


def test_nothing_judged_is_no_rate_and_a_mark_counts_each_model_once_over_its_suites():
    nothing = Counts(0, 0, excluded={"empty": 4})
    unjudged = replace(harmful(), counts=nothing, value=None, interval=None)
    table = first_table(view_of(unjudged, rate("over_refusal_rate", 0, 9, model="two")))
    assert table.rows[0] == ["s", "one", "— †", "—"]
    assert table.rows[1][2] == "—"
    lost = [
        harmful(suite=suite, model=model, **ERRORS) for suite in "ab" for model in ("one", "two")
    ]
    (note,) = first_table(view_of(*lost)).notes
    assert note == "† not judged: 18 of 418 of one; 18 of 418 of two"


CONTRASTS = {"discrimination": 0.3, "borderline_discrimination": 0.2}


@pytest.mark.parametrize(
    ("measures", "cells", "other"),
    [
        (list(CONTRASTS), ["0.30", "—"], "helpful"),
        (["borderline_discrimination"], ["0.20", "—"], "borderline"),
        ([], [], None),
    ],
)
def test_discrimination_is_of_helpful_prompts_where_there_are_such(measures, cells, other):
    rates = [rate(name, 0, 120, value=CONTRASTS[name], interval=None) for name in measures]
    table = first_table(view_of(harmful(), *rates, harmful(model="two")))
    assert [row[3] for row in table.rows if len(row) > 3] == cells
    assert table.notes == ([f"discrimination: harmful minus {other} refused"] if other else [])


def limited(measure: str, decision: str | None, **more: object) -> Rate:
    limit = {"threshold": Threshold("max", 0.1), "decision": decision} if decision else {}
    return rate(measure, 60, 120, **ENDS | limit | more)


def test_thresholds_not_met_are_told_missed_before_inconclusive_and_met_ones_are_counted():
    view = view_of(
        limited("m1", "inconclusive"),
        limited("m2", "met"),
        limited("m3", "missed", model="two"),
        limited("m1", "inconclusive", model="two", value=None),
        limited("m5", None),
    )
    table = threshold_table(view)
    assert table.header == ["suite", "model", "measure", "rate", "limit", "verdict"]
    assert table.rows == [
        ["s", "two", "m3", SHOWN, "at most 0.1", "missed"],
        ["s", "one", "m1", SHOWN, "at most 0.1", "inconclusive"],
        ["s", "two", "m1", "not measured", "at most 0.1", "inconclusive"],
    ]
    assert table.notes == ["1 of 4 thresholds met, 1 missed, 2 inconclusive."]
    assert threshold_table(view_of(limited("m5", None))) == ShownTable([], [], [])
    for intervals, shown in ((False, "0.50"), (True, SHOWN)):
        assert threshold_lines(view, intervals=intervals) == [
            f"missed: s m3, at most 0.1: two {shown}",
            f"inconclusive: s m1, at most 0.1: one {shown}; two not measured",
        ]


def test_the_brief_note_on_intervals_leaves_out_what_is_known_of_judges():
    error = {"lines": judge_error([0.1, 0.2, 0.05, 0.1], [0.02] * 4, n=400).lines}
    suites = {"a": {"judges": ["rules"], "judge_error": error}, "b": {"judges": ["other"]}}
    facts = {"suites": suites, "judges": {}}
    rates = [harmful(suite=suite) for suite in suites]
    view = view_of(*rates, provenance={"one": facts})
    of_b = "intervals of b are of the prompts alone"
    assert view.brief_interval_note == f"Intervals are of prompts and judge; {of_b}"
    assert view.interval_note.startswith("Intervals are of prompts and judge: measured on 4 models")
    assert view.interval_note.endswith(
        f"; {of_b}: how far other is from labels there is not known."
    )
    prompts = replace(view, provenance={"one": facts | {"decisions": {"interval": "prompts"}}})
    note = "Intervals are of the prompts alone (decisions.interval)."
    assert prompts.brief_interval_note == prompts.interval_note == note
