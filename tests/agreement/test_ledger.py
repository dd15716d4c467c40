"""Judges by source and by target model: the ledger, and the commands that write it."""

from __future__ import annotations

import json
import re

import pytest

from refract.agreement.ledger import (
    ALL,
    LEDGER,
    LedgerEntry,
    ledger_entries,
    read_ledger,
    shown_gap,
    write_ledger,
)
from refract.core.jsonl import write_rows
from refract.core.tables import read_table
from refract.judges import SHIPPED, open_judge
from refract.statistics.paired import tango
from tests.outside import outside
from tools.ledger import add_to_ledger, measured

REFUSAL, HELP = "I'm sorry, but I can't help with that.", "Use a sharp knife and cut slowly."


def measured_on(answers: list[dict], *arguments, **settings) -> list[LedgerEntry]:
    """The entries of a judge on answers as :func:`answers` makes them."""
    truth, labels = [row["human"] for row in answers], [row["judge"] for row in answers]
    return ledger_entries("j", "1", answers, truth, labels, *arguments, **settings)


def answers(source: str, model: str, pairs: str) -> list[dict]:
    """Answers by pairs of letters, the human label first: r refusal, p partial, c compliance, - none."""
    labels = {"r": "refusal", "p": "partial_refusal", "c": "compliance", "d": "degenerate"}
    return [
        {
            "source": source, "model": model, "prompt": f"{model} {number}",
            "human": labels[human], "judge": labels.get(judge),
        }
        for number, (human, judge) in enumerate(pairs.split())
    ]  # fmt: skip


def test_the_worst_model_stands_first_and_the_pooled_figure_last():
    of_x = answers("x", "good", "rr cc cc rr") + answers("x", "lenient", "rc rc cc rr")
    found = measured_on(of_x + answers("y", "only", "rr cr"))
    assert [(row.source, row.model, row.gap) for row in found] == [
        ("x", "lenient", -0.5),
        ("y", "only", 0.5),
        ("x", "good", 0.0),
        ("x", ALL, -0.25),
    ]
    worst = found[0]
    assert (worst.n, worst.human_rate, worst.judge_rate) == (4, 0.75, 0.25)
    assert (worst.precision, worst.recall) == (1.0, 0.3333)
    low, high = tango(1, 0, 2, 1)[1:]
    assert (worst.gap_low, worst.gap_high) == (round(low, 4), round(high, 4))
    assert shown_gap(worst) == f"-50.0 [{100 * round(low, 4):+.1f}, {100 * round(high, 4):+.1f}]"


def test_a_model_that_answered_both_kinds_of_prompts_has_an_entry_for_each_besides():
    rows = answers("x", "m", "rc rr cr cc cc")
    for row, kind in zip(rows, ["harmful", "harmful", "other", "other", ""], strict=True):
        row["prompts"] = kind
    assert {(e.prompts, e.n, e.missed, e.false) for e in measured_on(rows)} == {
        ("", 5, 1, 1), ("harmful", 2, 1, 0), ("other", 2, 0, 1),
    }  # fmt: skip


def test_a_ledger_is_read_as_it_was_written_and_entries_replace_their_own(tmp_path):
    path = tmp_path / "l.csv"
    found = measured_on(answers("x", "m", "rr cc cr"), shaped_by=("b", "a"))
    empty = measured_on(answers("y", "m", "r-"))
    write_ledger(path, [*found, *empty])
    assert read_ledger(path) == [*found, *empty]
    assert found[0].shaped_by == "a b"
    newer = [row._replace(version="2", source="x") for row in empty]
    add_to_ledger(path, newer)
    assert read_ledger(path) == [*newer, *empty]
    assert (found[0].gap, empty[0].gap, empty[0].kappa) == (0.3333, None, None)


# The commands, the stage and the file that comes with the package


@pytest.fixture
def labelled(tmp_path):
    answers = [(REFUSAL, "refusal", "m1"), (HELP, "refusal", "m1"), (HELP, "compliance", "m1")]
    answers += [(REFUSAL, "refusal", "m2"), (HELP, "compliance", "m2")]
    rows = [
        {"prompt": f"q{i}", "response": text, "label": label, "model": model}
        for i, (text, label, model) in enumerate(answers)
    ]
    write_rows(tmp_path / "own.jsonl", rows)
    return rows


def test_validate_prints_each_judge_source_and_model_worst_first(cli, labelled, tmp_path):
    write_rows(tmp_path / "two.jsonl", [{**labelled[3], "model": None, "source": "elsewhere"}])
    files = ("--labelled", "own.jsonl", "--labelled", "two.jsonl", "--out", "o.json")
    done = cli("judge", "validate", *files, "--judge", "rules")
    assert done.code == 0, done.err
    assert "A partial refusal counts as refusal (--partial)" in done.out
    lines = [line.strip() for line in done.out.splitlines() if "rules" in line]
    cells = [re.split(" {2,}", line)[1:7] for line in lines[1:5]]
    assert [(*row[:3], row[5].split()[0]) for row in cells] == [
        ("own", "m1", "3", "-33.3"),
        ("elsewhere", "not stated", "1", "+0.0"),
        ("own", "m2", "2", "+0.0"),
        ("own", ALL, "5", "-20.0"),
    ]
    written = json.loads((tmp_path / "o.json").read_text("utf-8"))
    assert written["partial"] == "refusal"
    assert [row["model"] for row in written["by_model"]] == ["m1", "", "m2", ALL]


def test_the_ledger_of_the_package_is_of_the_judges_that_come_with_it_and_holds_names_alone():
    found = {(row.judge, row.version) for row in read_ledger(LEDGER)}
    assert found == {(kind, open_judge(kind, {"kind": kind}).version) for kind in SHIPPED}
    assert all(len(cell) < 200 for row in read_table(LEDGER) for cell in row.values())


def test_the_ledger_of_the_package_is_what_the_rules_say_of_the_published_answers():
    folder = outside("data/labelled")
    known = {row.key: row for row in read_ledger(LEDGER) if row.judge == "rules"}
    found = {row.key: row for row in measured(folder, ["rules"])}
    assert found == known, "run python -m tools.ledger"
