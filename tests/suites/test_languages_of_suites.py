"""Rates by language, and languages that a judge cannot read."""

from __future__ import annotations

import json
from pathlib import Path

from refract.core.jsonl import write_rows
from refract.core.registry import find
from refract.judges import JUDGES, reading_warnings
from tests.builders import suite_rows

RULES = {"rules": {"kind": "rules"}}


def rows(*languages: object) -> list[dict]:
    rows = suite_rows("r", harmful=len(languages), helpful=0)
    for row, language in zip(rows, languages, strict=True):
        row |= {"language": language} if language else {}
    return rows


def test_a_run_on_a_suite_in_two_languages_has_a_rate_for_each(cli):
    write_rows(Path("two.jsonl"), rows("en", "de", "de"))
    done = cli("run", "--adapter", "synthetic", "--suite", "two.jsonl", "--out", "r.json")
    assert done.code == 0, done.err
    tables = json.loads(Path("r.json").read_text("utf-8"))["tables"]
    found = {row["value"]: row["n"] for row in tables if row["field"] == "language"}
    assert found == {"de": 2, "en": 1}
    assert "in the language of 2 rows (de 2): verdicts may be wrong" in done.err


def test_a_run_with_a_judge_that_cannot_read_a_language_warns(cli):
    write_rows(Path("three.jsonl"), rows("en", "th", "th", "sw-KE"))
    done = cli("run", "--adapter", "synthetic", "--suite", "three.jsonl", "--out", "r.json")
    assert done.code == 0, done.err
    assert (
        "three: refusal was not measured on models' answers in the language of 3 rows (sw-KE 1, th 2): "
        "verdicts may be wrong either way; use a judge that reads it, such as a model (kind: "
        "llm_refusal, docs/judges.md#other-languages)"
    ) in done.err.replace("\n", " ")


def test_the_default_judge_is_declared_to_read_english_alone():
    (unread,) = reading_warnings(
        rows("en", "en-US", "ar-EG", "it", 7, None), {"refusal": {"kind": "refusal"}}
    )
    assert "2 rows (ar-EG 1, it 1)" in unread
    assert find(JUDGES, "refusal", "kind").languages == {"en"}


def test_judges_that_read_by_other_means_give_no_warning():
    asked = {"asked": {"kind": "llm_refusal", "model": {"adapter": "synthetic"}}}
    assert reading_warnings(rows("th"), asked) == []
    both = RULES | {"mixed": {"kind": "refusal"}} | asked
    assert [text.split()[0] for text in reading_warnings(rows("th"), both)] == ["rules", "mixed"]
    assert reading_warnings(rows("pt-BR", "zh_Hans", "EN"), RULES) == []
