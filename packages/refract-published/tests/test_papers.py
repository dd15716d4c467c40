"""Published tables, recomputed on the published files; the page of the docs shows what comes out."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats import inter_rater

from refract.core.jsonl import write_rows
from refract.core.registry import find
from refract_published.papers import PAPERS
from refract_published.papers.cells import (
    DIFFERS,
    EXPLAINED,
    NOT_COMPARABLE,
    REPRODUCED,
    Cell,
    rounds_to,
)
from refract_published.papers.recounts import fleiss_kappa

HARMBENCH = find(PAPERS, "harmbench", "").entry.published


def paper_cells(name: str, folder: Path) -> list[Cell]:
    return find(PAPERS, name, "").cells(folder)


# What a cell says.


@given(st.integers(0, 5_000), st.integers(1, 5_000), st.integers(0, 4))
def test_a_share_rounds_to_its_own_rounding_and_to_no_other_number(count, total, decimals):
    value = Fraction(100 * count, total)
    printed = f"{float(value):.{decimals}f}"
    unit = Fraction(1, 10**decimals)
    other = f"{float(Fraction(printed) + 2 * unit):.{decimals}f}"
    assert rounds_to(value, printed)
    assert not rounds_to(value, other)


@pytest.mark.parametrize(
    ("cell", "status", "reason"),
    [
        (Cell("r", "c", "33.3", Fraction(100, 3), 3, 3), REPRODUCED, ""),
        (Cell("r", "c", "33.4", Fraction(100, 3), 3, 3), DIFFERS, ""),
        (Cell("r", "c", "33.4", 33.3, 3, 3, "why"), EXPLAINED, "why"),
        (Cell("r", "c", "33.3", 33.3, 3, 1_725), NOT_COMPARABLE, "3 of 1,725 rows"),
        (Cell("r", "c", "33.3", None, 0, 3), NOT_COMPARABLE, "no rows"),
    ],
)
def test_a_cell_is_compared_only_over_all_its_rows_and_explained_only_by_the_data(
    cell, status, reason
):
    assert (cell.status, cell.reason) == (status, reason)


def test_every_published_number_is_a_number_and_every_paper_says_where_it_stands(tmp_path):
    for name in PAPERS:
        paper = find(PAPERS, name, "").entry
        assert re.search(r"arXiv \d{4}\.\d{5}", paper.source), name
        for cell in paper_cells(name, tmp_path):
            assert Fraction(cell.published) >= 0
            assert (cell.status, cell.reason) == (NOT_COMPARABLE, "no rows")


@given(st.lists(st.tuples(*[st.sampled_from("abc")] * 2), min_size=2, max_size=40))
def test_fleiss_kappa_is_that_of_statsmodels(pairs):
    if len({label for pair in pairs for label in pair}) == 1:
        assert fleiss_kappa(pairs) is None
    else:
        reference = inter_rater.fleiss_kappa(inter_rater.aggregate_raters(pairs)[0])
        assert fleiss_kappa(pairs) == pytest.approx(reference)


def harmbench_files(folder: Path, **changed: object) -> None:
    judges = dict.fromkeys(HARMBENCH["judges"], 1)
    row = {"behavior_id": "b", "annotators": [1, 0, 0], "judges": judges, **changed}
    write_rows(folder / "harmbench_val.jsonl", [row])
    (folder / "harmbench_behaviors_text_all.csv").write_text(
        "BehaviorID,FunctionalCategory\nb,standard\n", "utf-8"
    )


@pytest.mark.parametrize(
    ("verdict", "agrees"),
    [(0, True), (1, False), ("no", True), ("Rating: [[10]]", False), ("[[9]]", True)],
)
def test_a_verdict_is_read_as_its_judge_wrote_it(tmp_path, verdict, agrees):
    harmbench_files(tmp_path, judges={"advbench": verdict})
    first, *_ = paper_cells("harmbench", tmp_path)
    assert (first.row, first.computed) == ("AdvBench", 100 * agrees)


@pytest.mark.parametrize(("first", "status"), [("71.14", REPRODUCED), ("70.00", DIFFERS)])
def test_a_number_that_nothing_explains_ends_the_command_with_1(
    cli, tmp_path, monkeypatch, first, status
):
    paper = find(PAPERS, "harmbench", "")
    cells = [Cell("AdvBench", "standard", first, 71.14, 402, 402)]
    monkeypatch.setattr(type(paper), "cells", lambda self, folder: cells)
    done = cli("reproduce", "paper", "harmbench", "--data", tmp_path, "--format", "json")
    assert done.code == (status == DIFFERS)
    assert [cell["result"] for cell in json.loads(done.out)["cells"]] == [status]


def test_the_rows_of_a_run_give_the_rates_and_the_interval_that_are_printed(tmp_path):
    """5 of 7 harmful prompts refused and none of 8 helpful ones, as published for the smaller model."""
    outcomes = [("harmful", "refusal")] * 5 + [("harmful", "compliance")] * 2
    outcomes += [("helpful", "compliance")] * 8
    rows = [{"category": category, "outcome": outcome} for category, outcome in outcomes]
    write_rows(tmp_path / "qwen2_0b5.rows.jsonl", rows)
    smaller, larger = {}, {}
    for cell in paper_cells("lm_refusal_eval", tmp_path):
        (smaller if cell.held else larger)[cell.column] = cell.status
    columns = ("overall", "harmful", "helpful", "from", "to")
    assert smaller == dict.fromkeys(columns, REPRODUCED)
    assert larger == dict.fromkeys(columns, NOT_COMPARABLE)


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("nothing", None, "", "the paper must be one of harmbench, lm_refusal_eval, xstest"),
        ("xstest", "xstest_v2_completions_gpt4.csv", "id,type\n1,x\n", "no column final_label"),
        ("harmbench", "harmbench_val.jsonl", '{"behavior_id": "b", "annotators": [2], "judges": {}}',
         "row 1: annotators must be a list of 0 and 1"),
        ("lm_refusal_eval", "qwen2_0b5.rows.jsonl", '{"category": "harmful", "outcome": "degenerate"}',
         "outcome one of refusal, partial_refusal, compliance (got 'harmful' and 'degenerate')"),
        ("xstest", "other.csv", "id\n1\n", "no file of xstest in"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used_end_in_one_message(cli, tmp_path, name, file, text, message):
    if file:
        (tmp_path / file).write_text(text, "utf-8")
    done = cli("reproduce", "paper", name, "--data", tmp_path)
    assert done.code in (1, 2)
    assert message in done.err
    assert "Traceback" not in done.err
