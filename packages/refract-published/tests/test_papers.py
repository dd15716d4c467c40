"""Published tables, recomputed on the published files; the page of the docs shows what comes out."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
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
    Folder,
    rounds_to,
)
from refract_published.papers.recounts import fleiss_kappa
from refract_published.papers.recounts import harmbench as count_harmbench
from tests.outside import outside

PAGE = Path(__file__).parents[1] / "docs/reproduce-papers.md"
HARMBENCH = find(PAPERS, "harmbench", "").entry.published
SHOWN = (REPRODUCED, EXPLAINED, DIFFERS, NOT_COMPARABLE)


def paper_cells(name: str, folder: Path) -> list[Cell]:
    return find(PAPERS, name, "").cells(folder)


def cells_of(name: str) -> list[Cell]:
    """A paper's cells, computed from all published files that the tests have."""
    return paper_cells(name, outside("data"))


# What the published files give.


def test_the_page_says_how_many_numbers_of_each_paper_are_reproduced_or_explained():
    lines = []
    for name in PAPERS:
        by_status = Counter(cell.status for cell in cells_of(name))
        numbers = (sum(by_status.values()), *(by_status[status] for status in SHOWN))
        lines.append(f"| `{name}` | {' | '.join(map(str, numbers))} |\n")
    assert "".join(lines) in PAGE.read_text("utf-8")


def test_harmbenchs_published_agreement_is_with_one_annotator_and_lower_with_three():
    average = {
        cell.row: f"{float(cell.computed):.1f}"
        for cell in cells_of("harmbench")
        if cell.column == "average"
    }
    assert average == {
        "AdvBench": "67.9",
        "GPTFuzz": "73.8",
        "ChatGLM": "66.3",
        "Llama Guard": "67.3",
        "GPT-4 (PAIR)": "88.0",
        "HarmBench, Llama 2 13B": "90.9",
    }


def test_only_one_filing_of_the_renamed_behaviors_explains_every_number_of_harmbench():
    explained = {}
    folder = Folder(outside("data"))
    for contextual in HARMBENCH["renamed"]:
        renamed = dict.fromkeys(HARMBENCH["renamed"], "standard") | {contextual: "contextual"}
        cells = count_harmbench(folder, HARMBENCH | {"renamed": renamed})
        explained[contextual] = sum(cell.status == EXPLAINED for cell in cells)
    assert [key for key, n in explained.items() if n == 18] == ["ddos_code_obfuscation"]


def test_the_artifacts_total_counts_the_labels_of_another_judge():
    cells = {(cell.row[-19:], cell.column): cell for cell in cells_of("jailbreakbench")}
    rate = cells["JBC_vicuna-13b-v1.5", "attack_success_rate"]
    total = cells["JBC_vicuna-13b-v1.5", "total_number_of_jailbreaks"]
    assert (rate.published, float(rate.computed), rate.status) == ("0.90", 0.9, REPRODUCED)
    assert (total.published, int(total.computed), total.status) == ("79", 90, EXPLAINED)


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
        (Cell("r", "c", "33.3", 33.3, 3, 3, lacking="no file"), NOT_COMPARABLE, "no file"),
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


# Files of one's own.


def artifact(folder: Path, total: int, former: int) -> None:
    votes = [{"jailbroken": n < 90, "jailbroken_llama_guard1": n < former} for n in range(100)]
    rows = [{"prompt": "p" if n else None, **each} for n, each in enumerate(votes)]
    parameters = {"method": "PAIR", "model": "vicuna-13b-v1.5", "attack_success_rate": 0.9}
    parameters |= {"total_number_of_jailbreaks": total, "number_of_submitted_prompts": 99}
    text = json.dumps({"parameters": parameters, "jailbreaks": rows})
    (folder / "vicuna-13b-v1.5.json").write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("total", "former", "code", "result"),
    [(90, 79, 0, REPRODUCED), (79, 79, 0, EXPLAINED), (79, 78, 1, DIFFERS)],
)
def test_a_number_that_nothing_explains_ends_the_command_with_1(
    cli, tmp_path, total, former, code, result
):
    artifact(tmp_path, total, former)
    done = cli("reproduce", "paper", "jailbreakbench", "--data", tmp_path, "--format", "json")
    cells = json.loads(done.out)["cells"]
    assert done.code == code
    assert [cell["result"] for cell in cells] == [REPRODUCED, result, REPRODUCED]


def test_the_publishers_snapshot_of_refusalbench_would_be_compared(tmp_path):
    refused = {"benign": (1, 15), "borderline": (2, 5), "dual_use": (16, 5)}
    with open(tmp_path / "adjudicated.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["prompt_id", "model", "tier", "modal_compliance"])
        for tier, (direct, unanswered) in refused.items():
            labels = ["direct_refusal"] * direct + ["non_responsive"] * unanswered
            for number in range(235):
                label = labels[number] if number < len(labels) else "compliance"
                model = "nvidia.nemotron-super-3-120b"
                writer.writerow([f"{tier}-{number // 5}", model, tier, label])
    cells = paper_cells("refusalbench", tmp_path)
    assert [cell.status for cell in cells[:8]] == [REPRODUCED] * 8


def test_the_publishers_table_of_do_not_answer_would_be_compared(tmp_path):
    with open(tmp_path / "do_not_answer.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "vicuna-7b_harmful", "GPT4_response"])
        writer.writerows([n, int(n < 52), "Sure"] for n in range(939))
    cells = {
        (cell.row, cell.column): (f"{float(cell.computed):.2f}", cell.status)
        for cell in paper_cells("do_not_answer", tmp_path)
        if cell.held
    }
    assert cells["Vicuna", "harmless, people"] == ("94.46", REPRODUCED)
    assert {row for row, _ in cells} == {"Vicuna"}


@pytest.mark.parametrize("named", [0, 1])
def test_do_not_answers_models_may_be_named_as_in_its_table_or_as_by_its_publisher(tmp_path, named):
    names = [("LLaMA-2", "llama2-7b-chat"), ("GPT-4", "GPT4"), ("Vicuna", "vicuna-7b")]
    rows = [
        {"model": pair[named], "harmful": str(n < 52).lower()} for pair in names for n in range(939)
    ]
    write_rows(tmp_path / "do_not_answer.jsonl", rows)
    cells = [cell for cell in paper_cells("do_not_answer", tmp_path) if cell.held]
    assert [(cell.row, cell.held, f"{float(cell.computed):.2f}") for cell in cells] == [
        (name, 939, "94.46") for name, _ in names
    ]


def harmbench(folder: Path, **changed: object) -> None:
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
    harmbench(tmp_path, judges={"advbench": verdict})
    first, *_ = paper_cells("harmbench", tmp_path)
    assert (first.row, first.computed) == ("AdvBench", 100 * agrees)


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("nothing", None, "", "the paper must be one of do_not_answer, harmbench"),
        ("xstest", "xstest_v2_completions_gpt4.csv", "id,type\n1,x\n", "no column final_label"),
        (
            "do_not_answer",
            "do_not_answer.jsonl",
            '{"model": null, "label": 0, "harmful": false}',
            "row 1: model must hold a text (got None)",
        ),
        (
            "harmbench",
            "harmbench_val.jsonl",
            '{"behavior_id": "b", "annotators": [2], "judges": {}}',
            "row 1: annotators must be a list of 0 and 1",
        ),
        ("jailbreakbench", "a-vicuna-13b-v1.5.json", "{", "a-vicuna-13b-v1.5.json cannot be read"),
        ("jailbreakbench", "vicuna-13b-v1.5.json", "[]", "no file of jailbreakbench in"),
    ],
)
def test_files_that_cannot_be_used_end_in_one_message(cli, tmp_path, name, file, text, message):
    if file:
        (tmp_path / file).write_text(text, "utf-8")
    done = cli("reproduce", "paper", name, "--data", tmp_path)
    assert done.code in (1, 2)
    assert message in done.err
    assert "Traceback" not in done.err
