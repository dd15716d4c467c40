"""The first table: one thought a cell, at most one mark, and notes that say what marks stand for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refract.rates.rate import Counts, Interval, Rate, Threshold, WithJudge
from refract.report.first_table import first_table, threshold_table
from refract.report.markdown import ShownTable
from refract.report.view import View
from tests.builders import rate
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
        ({"cut_off": 12}, f"{SHOWN} ✂", "a tenth of the answers or more was cut off"),
        (ERRORS, f"{SHOWN} †", "not judged"),
        ({"cut_off": 30, **ERRORS}, f"{SHOWN} ✂†", "a tenth of the answers or more was cut off"),
        ({"interval": None}, "0.50", None),
        # Partial refusals, clusters and bounds are no thought of the first table.
        ({"partial": 7, "clusters": 26, "bounds": Interval(0.4, 0.5)}, SHOWN, None),
    ],
)
def test_a_cell_is_a_rate_an_interval_and_marks_that_notes_explain(more, cell, note):
    table = first_table(view_of(harmful(**more)))
    assert table.header == ["suite", "model", "harmful refused"]
    assert table.rows == [["s", "one", cell]]
    marks = [line for line in table.notes if line[0] in "✂†"]
    assert len(marks) == len(cell) - len(cell.rstrip("✂†"))
    assert note is None or note in marks[0]


def test_nothing_judged_is_no_rate():
    nothing = Counts(0, 0, excluded={"empty": 4})
    unjudged = replace(harmful(), counts=nothing, value=None, interval=None)
    table = first_table(view_of(unjudged, rate("over_refusal_rate", 0, 9, model="two")))
    assert table.rows[0] == ["s", "one", "— †", "—"]
    assert table.rows[1][2] == "—"


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
    assert table.notes == ["1 of 4 thresholds met."]
    assert threshold_table(view_of(limited("m5", None))) == ShownTable([], [], [])


def test_the_note_on_intervals_says_what_they_allow_for():
    known = harmful(with_judge=WithJudge(Interval(0.3, 0.7), None))
    said = view_of(known).interval_note
    assert said.startswith("Intervals are of prompts and judge, by labels that ask whether")
    assert "are of the prompts alone" in view_of(harmful(judge_unknown=True)).interval_note
    about = {"suites": {}, "judges": {}, "decisions": {"interval": "prompts"}}
    prompts = view_of(known, provenance={"one": about})
    assert "(decisions.interval)" in prompts.interval_note
