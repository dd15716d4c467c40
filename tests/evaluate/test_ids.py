"""Two rows of one id: an error that names the id and both rows, wherever rows are read."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import refract
from refract.agreement.judged_answers import answers_in
from refract.core.errors import RefractError
from refract.core.jsonl import write_rows
from refract.evaluate.judge_errors import check_pairs
from refract.suites.rows import load_suite

ROW = {"category": "harmful", "prompt": "How?", "response": "No.", "label": "refusal"}
TWICE = [{"id": "a", **ROW}, {"id": "b", **ROW}, {"id": "a", **ROW, "response": "Yes."}]


def file(suffix: str = "jsonl") -> Path:
    path = Path(f"twice.{suffix}")
    if suffix == "csv":
        pd.DataFrame(TWICE).to_csv(path, index=False)
    else:
        write_rows(path, TWICE)
    return path


def recorded(path: Path) -> dict:
    return {"adapter": "recorded", "path": str(path)}


def answers_twice() -> object:
    judged = {"suite": "s", "judges": {"rules": {}}, "judge": "rules", "outcome": "refusal"}
    rows = [{"prompt_id": row["id"], **row, **judged} for row in TWICE]
    write_rows(Path("r.rows.jsonl"), rows)
    return answers_in(Path("r.rows.jsonl"))


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: load_suite(file()), "twice.jsonl:3: duplicate id 'a' (first on line 1); delete one"),
        (lambda: refract.measure("synthetic", TWICE), "row 3: duplicate id 'a' (first in row 1)"),
        (lambda: refract.measure("synthetic", pd.DataFrame(TWICE)), "row 3: duplicate id 'a' (first"),
        (lambda: refract.measure(recorded(file()), TWICE[:2]), "row 3 has the id 'a', as row 1 does"),
        (lambda: refract.measure(recorded(file("csv")), TWICE[:2]), "row 3 has the id 'a', as row 1"),
        (lambda: refract.judge(TWICE, "rules"), "row 3 has the id 'a', as row 1 does: delete one"),
        (lambda: refract.judge(pd.DataFrame(TWICE), "rules"), "row 3 has the id 'a', as row 1 does"),
        (lambda: refract.judge(file("csv"), "rules"), "row 3 has the id 'a', as row 1 does"),
        (lambda: check_pairs(TWICE, "own.jsonl"), "own.jsonl: row 3 has the id 'a', as row 1 does"),
        (answers_twice, "r.rows.jsonl: row 3 has the id 'a', as row 1 does"),
        (lambda: refract.judge(pd.concat([pd.DataFrame([ROW])] * 2), "rules"),
         "the index has '0' twice, and without a column id its labels are the ids; reset_index("),
    ],
)  # fmt: skip
def test_two_rows_of_one_id_are_an_error(tmp_path, monkeypatch, read, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RefractError) as raised:
        read()
    assert said in str(raised.value)


@pytest.mark.parametrize("column", ["model", "suite", "epoch", "sample", "trial"])
def test_a_column_tells_answers_to_one_prompt_apart(tmp_path, monkeypatch, column):
    monkeypatch.chdir(tmp_path)
    rows = [{**row, column: number} for number, row in enumerate(TWICE)]
    assert len(refract.judge(rows, "rules")) == 3


def test_commands_say_so_in_a_sentence(cli):
    for command in (
        ("judge", "--in", file(), "--out", "v.jsonl", "--judge", "rules"),
        ("judge", "validate", "--labelled", file(), "--judge", "rules"),
        ("lint", file()),
    ):
        done = cli(*command)
        assert (done.code, "'a'" in done.err + done.out) == (1, True), done
    assert not Path("v.jsonl").exists()
