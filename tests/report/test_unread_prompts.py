"""What the report says of null differences: the sentence, the table beneath it, the warning."""

from __future__ import annotations

from typing import Any

import pytest

from refract.rates.rate import Interval, Rate
from refract.report.first_table import first_table
from refract.report.judge_notes import null_table, prompt_readers
from refract.report.view import View
from tests.builders import rate, suite_facts


def null(value: float, half: float, kind: str = "", **more: Any) -> Rate:
    name = "null_difference"
    if "judge" in more:
        name = f"{more['judge']}_{name}"
    group = f"null_answer={kind}" if kind else ""
    ends = Interval(value - half, value + half)
    return rate(name, 1, 60, group, value=value, interval=ends, **more)


@pytest.fixture
def view() -> View:
    """Two models on one suite by two judges, of which the second reads the prompts."""
    by_model: dict[str, list[Rate]] = {}
    for model, discrimination, shuffled in (("one", 0.5, 0.02), ("two", 0.25, 0.03)):
        by_model[model] = [
            rate("refusal_rate", 30, 60, model=model),
            rate("discrimination", 30, 60, value=discrimination, model=model),
            null(shuffled, 0.06, model=model),
            null(0.04, 0.02, "echo", model=model),
            null(0.0, 0.06, "constant", model=model),
            null(0.1, 0.2, judge="second", model=model),
            null(0.5, 0.1, "echo", judge="second", model=model),
            null(-shuffled * 3, 0.01, "constant", judge="second", model=model),
        ]
    facts = {"suites": {"s": suite_facts(judges=["rules", "second"])}, "judges": {}}
    return View(by_model, {"one": facts, "two": facts})


def test_the_sentence_has_the_numbers_of_the_table_of_the_judge_that_decides(view):
    assert first_table(view).notes[1] == (
        "discrimination on s: of this, 0.02 [-0.04, 0.08] (one), 0.03 [-0.03, 0.09] (two) would be "
        "there had the model not read the prompt"
    )
    table = null_table(view)
    assert table.header == [
        "suite",
        "judge",
        "model",
        "discrimination",
        "shuffled",
        "echo",
        "constant",
    ]
    echo, constant = "0.04 [0.02, 0.06]", "0.00 [-0.06, 0.06]"
    assert [row[2:] for row in table.rows if row[1] == "rules"] == [
        ["one", "0.50 [0.25, 0.50]", "0.02 [-0.04, 0.08]", echo, constant],
        ["two", "0.25 [0.25, 0.50]", "0.03 [-0.03, 0.09]", echo, constant],
    ]


def test_a_judge_that_reads_prompts_is_a_warning_with_equal_numbers_once(view):
    (warning,) = prompt_readers(view)
    assert warning == (
        "on s the judge second calls answers that cannot depend on their prompt refused more often "
        "under harmful prompts, by echo 0.50 [0.40, 0.60] (one, two); constant -0.06 [-0.07, -0.05] "
        "(one); constant -0.09 [-0.10, -0.08] (two): so much of a discrimination there may be the "
        "judge's"
    )


def test_without_null_differences_nothing_is_said():
    view = View({"one": [rate("refusal_rate", 30, 60)]}, {})
    assert (prompt_readers(view), null_table(view).rows) == ([], [])
    assert not any("read the prompt" in note for note in first_table(view).notes)
