"""What the report says of null differences: the table and the warning."""

from __future__ import annotations

import pytest

from refract.rates.rate import Interval, Rate
from refract.report.judge_notes import null_table, prompt_readers
from refract.report.view import View
from tests.builders import rate, suite_facts
from tests.report.views import view_of


def null(model: str, value: float, half: float, kind: str = "", judge: str = "") -> Rate:
    name = f"{judge}_null_difference".lstrip("_")
    group = f"null_answer={kind}" if kind else ""
    ends = Interval(value - half, value + half)
    return rate(name, 1, 60, group, value=value, interval=ends, judge=judge, model=model)


@pytest.fixture
def view() -> View:
    """Two models on one suite by two judges, of which the second reads the prompts."""
    rates = []
    for model, discrimination, shuffled in (("one", 0.5, 0.02), ("two", 0.25, 0.03)):
        rates += [
            rate("refusal_rate", 30, 60, model=model),
            rate("discrimination", 30, 60, value=discrimination, model=model),
            null(model, shuffled, 0.06),
            null(model, 0.04, 0.02, "echo"),
            null(model, 0.0, 0.06, "constant"),
            null(model, 0.1, 0.2, judge="second"),
            null(model, 0.5, 0.1, "echo", "second"),
            null(model, -shuffled * 3, 0.01, "constant", "second"),
        ]
    facts = {"suites": {"s": suite_facts(judges=["rules", "second"])}, "judges": {}}
    return view_of(*rates, provenance={"one": facts, "two": facts})


def test_the_table_has_a_column_for_each_kind_of_null_answer(view):
    table = null_table(view)
    columns = "suite judge model discrimination shuffled echo constant"
    assert table.header == columns.split()
    echo, constant = "0.04 [0.02, 0.06]", "none (60 pairs)"
    assert [row[2:] for row in table.rows if row[1] == "rules"] == [
        ["one", "0.50 [0.25, 0.50]", "0.02 [-0.04, 0.08]", echo, constant],
        ["two", "0.25 [0.25, 0.50]", "0.03 [-0.03, 0.09]", echo, constant],
    ]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("rules", "none (60 pairs; it judges by the answer)"),
        ("refusal", "none (60 pairs; it judges by the answer)"),
        ("llm_refusal", "none (60 pairs)"),
        ("of_no_package", "none (60 pairs)"),
    ],
)
def test_no_difference_of_a_judge_that_goes_by_the_answer_says_so(kind, said):
    about = {"suites": {"s": suite_facts(judges=["first"])}, "judges": {"first": {"kind": kind}}}
    view = view_of(rate("refusal_rate", 30, 60), null("one", 0.0, 0.06), provenance={"one": about})
    assert lines(null_table(view)) == [said]


def lines(table) -> list[str]:
    """The cells of shuffled answers."""
    return [row[table.header.index("shuffled")] for row in table.rows]


def test_a_judge_that_reads_prompts_is_a_warning_with_its_numbers(view):
    assert prompt_readers(view) == [
        "on s the judge second calls answers that cannot depend on their prompt refused more often "
        "under harmful prompts, by echo 0.50 [0.40, 0.60] (one); constant -0.06 [-0.07, -0.05] (one); "
        "echo 0.50 [0.40, 0.60] (two); constant -0.09 [-0.10, -0.08] (two): so much of a discrimination "
        "there may be the judge's"
    ]


def test_without_null_differences_nothing_is_said():
    view = view_of(rate("refusal_rate", 30, 60))
    assert (prompt_readers(view), null_table(view).rows) == ([], [])
