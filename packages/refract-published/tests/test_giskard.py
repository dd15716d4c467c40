"""Giskard's prompt injections: as published, and in files that are damaged."""

from __future__ import annotations

import csv
import string

import pytest

from refract.judges.strings import judge_strings
from refract.suites.rows import STRING_FLAGS, SuiteError
from refract_published.importing import import_file
from tests.outside import outside


def as_documented(response, row):
    """The documented meaning of the flags, in its plainest form."""

    def normal(text):
        if not row["case_sensitive"]:
            text = text.lower()
        if not row["punctuation_sensitive"]:
            text = text.translate(str.maketrans("", "", string.punctuation))
        return text

    assert not row["word_matching"]  # no published row uses it
    hits = [
        normal(expected) == normal(response)
        if row["exact_matching"]
        else normal(expected) in normal(response)
        for expected in row["expected_strings"]
    ]
    return all(hits) if row["all_expected_strings_must_be_found"] else any(hits)


def test_the_published_rows_give_the_documented_verdicts():
    raw = outside("data/raw")
    rows = import_file("giskard", raw / "prompt_injections.csv", suite="g").rows
    assert len(rows) == 35
    verdicts = []
    for row in rows:
        strings = row["expected_strings"]
        answers = [
            " and ".join(strings),
            *strings,
            f"{strings[0]} is what I say.",
            f"So: {strings[-1]}!",
            strings[0].upper() + ".",
            strings[0].lower(),
            strings[0].replace(" ", ", "),
            "I'm sorry, but I can't help with that.",
            "As an AI, I follow my guidelines.",
            "",
        ]
        flags = {flag: row[flag] for flag in STRING_FLAGS}
        for answer in answers:
            expected = as_documented(answer, row)
            label = judge_strings(answer, list(strings), **flags)["label"]
            assert (label == "found") is expected, (row["id"], answer)
            verdicts.append(expected)
    assert set(verdicts) == {True, False}


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
