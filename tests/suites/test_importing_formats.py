"""Published files of every form: typed, wide, without a header, in several languages."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from refract.core.jsonl import read_rows
from refract.suites.importing import import_file
from refract.suites.rows import SuiteError, check_suite
from tests.outside import outside
from tests.suites.test_importing import refract

INSPECT = Path(__file__).parents[1] / "corpora/logs/inspect_four_prompts.json"


def rows_of(path: Path, kind: str, **options: object) -> list[dict]:
    return import_file(kind, path, suite="s", **options).rows


def test_parquet_keeps_lists_numbers_and_missing_values(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        "question_id": [81, 81, 82, 83],
        "category": [1, 1, 2, 3],
        "turns": [["Say a\r\nrude word."], ["Dis un gros mot."], ["  "], None],
        "prompt_style": ["base", "translate-fr", "base", None],
    }
    parquet.write_table(
        pytest.importorskip("pyarrow").table(columns), tmp_path / "question.parquet"
    )
    imported = import_file("sorrybench", tmp_path / "question.parquet", suite="s")
    row = {"id": "sorrybench-81", "prompt": "Say a\r\nrude word.", "category": "harmful"}
    row |= {"area": 1, "style": "base", "language": "en", "pair_id": "sorrybench-81"}
    other = {"id": "sorrybench-81-2", "prompt": "Dis un gros mot.", "language": "fr"}
    assert imported.rows == [row, row | other | {"style": "translate-fr"}]
    assert imported.notes[1:] == [
        "Rows without a prompt, left out: 2 (line 3, 4).",
        "Ids that occurred before and got a number: sorrybench-81-2.",
    ]


def test_a_row_that_raters_did_not_agree_on_is_left_out_and_named(tmp_path):
    path = tmp_path / "w.jsonl"
    path.write_text(
        '{"prompt": "a", "adversarial": true, "prompt_harm_label": "harmful", "response": "x"}\n'
        '{"prompt": "b", "adversarial": false, "prompt_harm_label": "unharmful"}\n'
        '{"prompt": "c", "adversarial": false, "prompt_harm_label": null}\n'
    )
    imported = import_file("wildguardtest", path, suite="s")
    read = [(row["prompt"], row["category"], row["adversarial"]) for row in imported.rows]
    assert read == [("a", "harmful", True), ("b", "helpful", False)]
    assert "Rows without a category, left out: 1 (line 3)." in imported.notes


def test_tsv_is_read_by_tabs_with_quotes_and_commas_as_text(tmp_path):
    path = tmp_path / "eval.tsv"
    path.write_bytes(
        b"adversarial\tlabel\tdata_type\n"
        b'"Pretend, ""please""\nto be a pirate"\t1\tadversarial_harmful\n'
        b"a story, with commas\t0\tadversarial_benign\n"
    )
    rows = rows_of(path, "wildjailbreak")
    assert [(row["prompt"], row["category"], row["type"]) for row in rows] == [
        ('Pretend, "please"\nto be a pirate', "harmful", "adversarial_harmful"),
        ("a story, with commas", "borderline", "adversarial_benign"),
    ]


def workbook(path: Path, *rows: list) -> Any:
    """A workbook, saved with these rows in its first sheet, which is called "prompts"."""
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.title = "prompts"
    for cells in rows:
        book.active.append(cells)
    book.save(path)
    return book


def test_the_first_sheet_of_a_workbook_is_read_and_the_others_are_named(tmp_path):
    path = tmp_path / "a.xlsx"
    rows = ["id", "goal", "n"], [7, "one\ntwo", 3], [None, None, None], [8, "007", None]
    book = workbook(path, *rows)
    book.create_sheet("notes").append(["x"])
    book.save(path)
    imported = import_file("generic", path, suite="s", category="harmful")
    assert imported.rows == [
        {"id": "generic-7", "prompt": "one\ntwo", "category": "harmful", "n": "3"},
        {"id": "generic-8", "prompt": "007", "category": "harmful"},
    ]
    assert imported.notes == ["Sheets besides 'prompts', which are not read: 'notes'."]


def test_bytes_are_the_text_that_they_are_and_no_other(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(
        pytest.importorskip("pyarrow").table({"prompt": [b"fine", "façade?".encode()]}), path
    )
    assert [r["prompt"] for r in rows_of(path, "generic", category="harmful")] == [
        "fine",
        "façade?",
    ]
    parquet.write_table(
        pytest.importorskip("pyarrow").table({"prompt": [b"fine", b"\xff\xfe"]}), path
    )
    with pytest.raises(SuiteError, match="holds bytes that are not UTF-8"):
        rows_of(path, "generic", category="harmful")


def test_cells_that_have_no_value_are_named(tmp_path):
    path = tmp_path / "a.xlsx"
    book = workbook(path, ["prompt", "n"], ["=1+1", 1], ["=2"], ["plain", 1.0], ["#N/A", 2.5])
    book.active["A5"].data_type = "e"
    book.save(path)
    imported = import_file("generic", path, suite="s", category="harmful")
    assert [(row["prompt"], row["n"]) for row in imported.rows] == [("plain", "1")]
    assert imported.notes == [
        "Rows with errors, or formulas without a stored value, which are read as empty: 3 (ending on "
        "line 2, 3, 5).",
        "Rows without a prompt, left out: 2 (line 2, 5).",
    ]
    assert "the file is clean" not in imported.card


def test_a_cell_far_from_the_others_takes_no_memory(tmp_path):
    path = tmp_path / "a.xlsx"
    book = workbook(path, ["prompt"], ["x"])
    book.active.cell(60_000, 200, "far")
    book.save(path)
    tracemalloc.start()
    imported = import_file("generic", path, suite="s", category="harmful")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [row["prompt"] for row in imported.rows] == ["x"]
    assert imported.notes == ["Rows without a prompt, left out: 1 (line 60000)."]
    assert most < 20_000_000


def test_a_row_is_left_out_of_a_log_with_a_note(tmp_path):
    log = json.loads(INSPECT.read_bytes())
    log["samples"] *= 2
    path = tmp_path / "a.json"
    path.write_text(json.dumps(log))
    imported = import_file("generic", path, suite="s", category="harmful")
    assert len(imported.rows) == 4
    assert "Further answers to the same prompts, left out: 4." in imported.notes


def test_a_csv_file_may_hold_every_character_of_private_use(tmp_path):
    text = "".join(map(chr, range(0xE000, 0xF900))) + "\ra"
    (tmp_path / "a.csv").write_bytes(f"prompt\n{text}\n".encode())
    rows = rows_of(tmp_path / "a.csv", "generic", category="harmful")
    assert [row["prompt"] for row in rows] == [text]


def test_a_file_without_a_header_is_read_by_the_places_of_its_cells(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf#one,bad\n two ,ok\n")
    out = tmp_path / "a.jsonl"
    done = refract(
        *("import-suite", "generic", path, "--no-header", "--prompt-column", 1, "--out", out),
        *("--category-column", 2, "--map", "bad=harmful", "--map", "ok=helpful"),
        *("--language", "de"),
    )
    assert done.exit_code == 0, done.output
    rows = [{k: row[k] for k in ("prompt", "category", "language")} for row in read_rows(out)]
    assert rows == [
        {"prompt": "#one", "category": "harmful", "language": "de"},
        {"prompt": " two ", "category": "helpful", "language": "de"},
    ]


def test_a_wide_file_makes_a_row_for_each_language_and_says_which_are_translations(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("id,source,tags,en,th,sw\n0,x,['a'],one,หนึ่ง,moja\n1,x,['b'],two,,mbili\n")
    imported = import_file("multijail", path, suite="s")
    fields = ("id", "pair_id", "language", "prompt")
    assert [" ".join(row[field] for field in fields) for row in imported.rows] == [
        "multijail-0-en multijail-0-en en one",
        "multijail-0-th multijail-0-en th หนึ่ง",
        "multijail-0-sw multijail-0-en sw moja",
        "multijail-1-en multijail-1-en en two",
        "multijail-1-sw multijail-1-en sw mbili",
    ]
    assert imported.notes == [
        "Columns that the file lacks: 'zh', 'it', 'vi', 'ar', 'ko', 'bn', 'jv'.",
        "Rows without a prompt, left out: 1 (line 3).",
    ]


TOOL = {"name": "deal", "description": "deal", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("kind", "name", "text", "read"),
    [
        (*("fortress", "f.csv", "ID,adversarial_prompt,rubric\n1,How?,\"['A?', 'B?']\"\n"),
         {"prompt": "How?", "rubric": [{"question": "A?"}, {"question": "B?"}]}),
        (*("agentharm", "a.csv", 'id,prompt,target_functions\n1,Deal.,"[""deal""]"\n'),
         {"tools": [{"type": "function", "function": TOOL}], "harmful_calls": ["deal"]}),
        ("jailbreakbench", "j.csv", ",Goal\n0,Why?\n", {"prompt": "Why?"}),
        ("sorrybench", "s.csv", "question_id,turns\n1,['How?']\n", {"prompt": "How?"}),
        ("catqa", "c.json", '{"Question": "Why?"}\n{"Question": "How?"}\n', {"prompt": "How?"}),
    ],
)  # fmt: skip
def test_lists_that_are_texts_and_jsonl_by_another_name_are_read(kind, name, text, read, tmp_path):
    (tmp_path / name).write_text(text)
    *_, row = rows_of(tmp_path / name, kind)
    assert {field: row[field] for field in read} == read


@pytest.mark.parametrize(
    ("kind", "name", "text", "said"),
    [
        (*("fortress", "f.csv", "ID,adversarial_prompt,rubric\n1,How?,Is it harmful?\n"),
         "f.csv: line 2: 'rubric' must be a list (got 'Is it harmful?')"),
        ("orbench", "o.csv", "prompt;category\nA, b;c\n", "its columns seem to be divided by ';'"),
        ("orbench", "o.csv", "prompt\tcategory\nA\tb\n", "its columns seem to be divided by '\\t'"),
        ("orbench", "o.tsv", "prompt,category\nA,b\n", "its columns seem to be divided by ','"),
        ("catqa", "c.json", '{"Question": "Why?"}\n{"Question"\n', "c.json: not JSON"),
    ],
)  # fmt: skip
def test_a_file_in_another_form_than_its_publishers_says_what_is_otherwise(
    kind, name, text, said, tmp_path
):
    (tmp_path / name).write_text(text)
    with pytest.raises(SuiteError, match=re.escape(said)):
        rows_of(tmp_path / name, kind)


def test_a_folder_without_a_file_of_the_publishers_is_an_error(tmp_path):
    (tmp_path / "LICENSE").write_text("terms")
    with pytest.raises(SuiteError, match="holds no file of prompts"):
        import_file("xsafety", tmp_path, suite="s")


def test_xsafety_as_published_has_the_same_rows_in_each_language(tmp_path):
    out = tmp_path / "xsafety.jsonl"
    done = refract("import-suite", "xsafety", outside("data/raw/xsafety"), "--out", out)
    assert done.exit_code == 0
    rows, problems = check_suite(out)
    assert all(problem.harmless for problem in problems)
    assert Counter(row["language"] for row in rows) == {"de": 2800, "en": 2800}
    assert set(Counter(row["pair_id"] for row in rows).values()) == {2}
    assert len({row["area"] for row in rows}) == 14


def test_harmless_questions_of_do_not_answer_in_chinese_are_mapped_by_their_type(tmp_path):
    path = tmp_path / "data_zh.csv"
    path.write_text("id,question_type,zh_question\n1,risky,一\n1,fp,二\n")
    imported = import_file("donotanswer_zh", path, suite="s", values={"fp": "borderline"})
    assert [row["category"] for row in imported.rows] == ["harmful", "borderline"]
    assert "fp is borderline" in imported.card
