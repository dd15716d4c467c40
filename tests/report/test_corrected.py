"""Rates from human labels, and each judge's errors, as the report shows them."""

from __future__ import annotations

from pathlib import Path

from refract.agreement.corrections import corrected_rates, label_table
from refract.agreement.label_files import JoinedLabels
from refract.core.tables import read_table, write_table
from refract.report.corrected import corrected_section
from refract.report.markdown import three
from refract.results.table_rows import COLUMNS, rate_to_row
from tests.agreement.answers import harmful_answers, said_by_judge


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
    write_table(tmp_path / "t.csv", list(COLUMNS), [raw, *extra])
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
    run = harmful_answers(60)
    labels = JoinedLabels(said_by_judge(run[:10]))
    table = [{**rate_to_row(rate), "suite": "s"} for rate in label_table(run, labels)]
    tables, provenance = report_rows(tmp_path, table)
    last = corrected_section(tables, provenance, [], [])
    rate = corrected_rates(run, labels)["harmful_refusal_rate"]
    # The table keeps four digits, the page three.
    shown = [three(str(round(x, 4))) for x in (rate.rate, rate.low, rate.high)]
    assert f"| {shown[0]} \\[{shown[1]}, {shown[2]}\\], 10 of 60 labelled |" in last
    for change, says in (
        ({"stale": ["x", "y"]}, "| 2 labels are of other answers |"),
        ({"blank": ["p20", "p21"]}, "10 of 60 labelled, 2 drawn and left blank"),
    ):
        rates = label_table(run, labels._replace(**change))
        table = [{**rate_to_row(rate), "suite": "s"} for rate in rates]
        tables, provenance = report_rows(tmp_path, table)
        assert says in corrected_section(tables, provenance, [], [])
