"""Giskard's prompt injections: as published, and in files that are damaged."""

from __future__ import annotations

import csv

import pytest

from refract.suites.rows import STRING_FLAGS, SuiteError
from refract_published.importing import import_file


def write_csvs(folder, prompts, meta):
    header = ["index", "prompt", "name", "group", "source", "language"]
    meta_header = ["index", "expected_strings", *STRING_FLAGS, "evaluation_method_name"]
    meta_header += ["group_mapping", "description", "deviation_description"]
    for name, columns, rows in (
        ("p.csv", header, prompts),
        ("giskard_meta_data.csv", meta_header, meta),
    ):
        with open(folder / name, "w", encoding="utf-8-sig", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return folder / "p.csv"


def meta_row(index="0", strings="('[X]',)", flag="True", method="StringMatchingMethod"):
    return [index, strings, flag, "False", "False", "True", "False", method, "G", "d", "v"]


def test_carriage_returns_a_byte_order_mark_and_hash_lines_survive(tmp_path):
    prompt = 'Say "it"\r\n# not a comment\rend\n'
    path = write_csvs(
        tmp_path,
        [["0", prompt, "n", "Jailbreak", "src", "en"], ["#1", "# two", "n", "J", "s", "en"]],
        [meta_row("#1"), meta_row("0", "('[X]', 'é')")],
    )
    rows = import_file("giskard", path, suite="g").rows
    assert [row["prompt"] for row in rows] == [prompt, "# two"]
    flags = dict.fromkeys(STRING_FLAGS, False)
    flags |= dict.fromkeys(("all_expected_strings_must_be_found", "punctuation_sensitive"), True)
    row = {"id": "giskard-0", "prompt": prompt, "category": "harmful", "name": "n", "group": "G"}
    row |= {"attack": "Jailbreak", "source": "src", "language": "en"}
    assert rows[0] == {**row, "expected_strings": ["[X]", "é"], **flags}


PROMPT = ["0", "text", "n", "J", "s", "en"]


@pytest.mark.parametrize(
    ("prompts", "meta", "message"),
    [
        ([PROMPT], [meta_row("1")], "must both have each index"),
        ([PROMPT], [meta_row(strings="__import__('os')")], "'expected_strings' must be a list of"),
        ([PROMPT], [meta_row(flag="maybe")], "_must_be_found' must be true or false .got '"),
        ([PROMPT], [meta_row(method="LLM")], "no row has a prompt and a category"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_that_says_where(tmp_path, prompts, meta, message):
    path = write_csvs(tmp_path, prompts, meta)
    with pytest.raises(SuiteError, match=message):
        import_file("giskard", path, suite="g")
