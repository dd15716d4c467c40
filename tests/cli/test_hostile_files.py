"""What lint and import-suite accept can be run, and what they refuse ends in a message."""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.api import judge_rows
from refract.core.errors import RefractError
from refract.core.jsonl import read_rows
from refract.core.published_text import names_in
from refract.core.showing import csv_cell, visible
from refract.judges import judge_suite, open_judges
from refract.models.protocol import Answer
from refract.models.store import answer_row
from refract.suites.importing import IMPORTERS, PUBLISHED, import_file, write_suite
from refract.suites.perturbations import prompt_rows
from refract.suites.rows import CATEGORIES, STRING_FLAGS, SuiteError, check_suite
from tests.fuzz import fuzzed

TEXT = (
    st.text(st.characters(codec=None), max_size=12)
    | st.lists(
        st.sampled_from(
            [" ", "\t", "\u200b", "\ufeff", "\u00ad", "\u00a0", "!", "?", "'", '"', "`", "\u2019",
             "\u0301", "a", "é", "\0", "\ud800", "，", "\ufe0f"]
        ),
        max_size=4,
    ).map("".join)
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ROW = st.fixed_dictionaries(
    {
        "id": st.uuids().map(str),
        "category": st.sampled_from(CATEGORIES),
        "prompt": st.text(min_size=1, max_size=9),
    },
    optional={
        "expected_strings": JSON | st.lists(TEXT, min_size=1, max_size=2),
        "task_strings": JSON | st.lists(TEXT, max_size=2),
        "behavior": JSON,
        "requirement": JSON,
        **{flag: st.booleans() | JSON for flag in STRING_FLAGS},
    },
)


@fuzzed(50)
@given(st.lists(ROW, min_size=1, max_size=2, unique_by=lambda row: row["id"]), TEXT)
def test_a_suite_that_lint_accepts_can_be_judged(tmp_path_factory, rows, answer):
    path = tmp_path_factory.mktemp("suite") / "s.jsonl"
    path.write_bytes(b"\n".join(json.dumps(row).encode() for row in rows))
    good, problems = check_suite(path)
    if any(not problem.harmless for problem in problems):
        return
    prompts = list(prompt_rows(good, "s", 1))
    responses = [answer_row("key", Answer(answer or "x"), row["prompt_id"]) for row in prompts]
    judges = open_judges({"rules": {"kind": "rules"}, "strings": {"kind": "strings"}})
    verdicts = judge_suite(prompts, responses, {row["id"]: row for row in good}, judges)
    assert len(verdicts) == len(good)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"expected_strings": ["ok", " \t"]}, "'expected_strings' holds ' .t'"),
        ({"expected_strings": ["!?"], "punctuation_sensitive": False}, "nothing to look for"),
        ({"expected_strings": ["x"], "task_strings": None}, "'task_strings' must be .* .got null"),
        ({"expected_strings": ["!?"]}, None),
    ],
)
def test_strings_that_no_search_can_find_are_problems(tmp_path, fields, message):
    row = {"id": "a", "category": "helpful", "prompt": "x", **fields}
    (tmp_path / "s.jsonl").write_text(json.dumps(row), "utf-8")
    messages = [problem.message for problem in check_suite(tmp_path / "s.jsonl")[1]]
    assert (
        [bool(re.search(message, text)) for text in messages] == [True] if message else not messages
    )


@fuzzed(50)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": st.text(max_size=3) | JSON, "response": TEXT | JSON},
            optional={
                "prompt": JSON | TEXT,
                "finish_reason": JSON,
                "expected_strings": JSON | st.lists(TEXT, max_size=2),
                "task_strings": JSON,
                "model": JSON,
                **dict.fromkeys(STRING_FLAGS, JSON),
            },
        ),
        max_size=3,
    )
)
def test_any_rows_are_judged_or_refused_in_a_message(rows):
    for kind in ("rules", "strings"):
        with suppress(RefractError):
            assert len(judge_rows(rows, kind, {"kind": kind})) == len(rows)


def as_csv(rows: list[list[str]]) -> bytes:
    lines = io.StringIO()
    csv.writer(lines).writerows(rows)
    return lines.getvalue().encode("utf-8", "surrogatepass")


FILES = (
    st.binary(max_size=120)
    | st.lists(st.lists(TEXT, min_size=1, max_size=3), max_size=4).map(as_csv)
    | st.lists(JSON.map(json.dumps), max_size=4).map(lambda lines: "\n".join(lines).encode())
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.lists(st.dictionaries(TEXT | st.just("prompt"), JSON, max_size=3), max_size=3).map(
        lambda rows: json.dumps(rows).encode()
    )
)
ENCODINGS = ("utf-8", "cp1252", "utf-16", "utf-7", "punycode", "idna", "hex", "rot13", "undefined",
             "unicode_escape", "zip", "", "\0", "no-such")  # fmt: skip


@fuzzed(50)
@given(
    FILES,
    st.sampled_from([".csv", ".json", ".jsonl", ".tsv", ".parquet", ".xlsx"]),
    st.sampled_from(ENCODINGS) | st.just("utf-8"),
    st.sampled_from([*names_in(PUBLISHED), *IMPORTERS]),
)
def test_any_published_file_is_imported_or_refused_in_a_message(
    tmp_path_factory, data, suffix, encoding, kind
):
    folder = tmp_path_factory.mktemp("published")
    path = folder / f"file{suffix}"
    path.write_bytes(data)
    with suppress(RefractError):
        made = import_file(kind, path, suite="s", category="harmful", encoding=encoding)
        write_suite(made, folder / "s.jsonl")
        assert read_rows(folder / "s.jsonl") == made.rows


def test_a_nul_in_a_columns_or_a_files_name_is_read_or_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"prompt,a\0b\nhello there,1\n")
    (row,) = import_file("generic", path, suite="s", category="helpful").rows
    assert row["prompt"] == "hello there"
    with pytest.raises(SuiteError, match="cannot be read"):
        import_file("generic", tmp_path / "a\0b.csv", suite="s", category="helpful")


@fuzzed(50)
@given(
    TEXT
    | st.lists(
        st.sampled_from([*"=+-@1|%'\"", "\t", "\r", "\n", " ", "\u00a0", "\u3000", "\u200b", "\ufeff",
                         "\0", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66", "\ufe62", "\u207a"]),
        max_size=5,
    ).map("".join)
)  # fmt: skip
def test_no_cell_starts_like_a_formula_in_any_width(text):
    for cell in (csv_cell(text), visible(text)):
        begins = str(cell).strip(" \t\r\n\u00a0\u3000\u200b\ufeff\0")[:1]
        assert begins not in tuple("=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"), cell
