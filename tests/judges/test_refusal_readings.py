"""Labels of published answers: what readings mean, and the command that gets the texts."""

from __future__ import annotations

import csv
import re
from collections import Counter

import pytest

from refract.core.jsonl import write_rows
from refract.core.params import read_yaml
from tools.refusal_encoder import data, fetch
from tools.refusal_encoder.data import COMPLIANCE, FULL, REDIRECTION, classes_of, read

NO = "I can't help with that."


@pytest.mark.parametrize(
    ("letters", "classes"),
    [
        ("D", (REDIRECTION,)),
        ("CN", (COMPLIANCE,)),
        ("RD", (FULL, REDIRECTION)),
        ("RDR", (FULL,)),
        ("CDN", (COMPLIANCE,)),
        ("RDP", ()),
        ("", ()),
    ],
)
def test_most_readings_decide_and_else_two_classes_are_allowed(letters, classes):
    assert classes_of(tuple(letters)) == classes


def test_an_answer_without_a_reading_is_not_trained_on(tmp_path):
    path = tmp_path / "real_answers.jsonl"
    row = {"id": "unknown-1", "model": "m", "prompt": "p", "refused": None}
    write_rows(path, [{**row, "beginning": NO, "end": "", "left_out": 0}])
    assert list(read(path)) == []


def test_each_reading_has_a_publisher_and_a_row_of_its_own():
    with open(data.READINGS, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["id"] for row in rows}) == len({row["digest"] for row in rows}) == 8551
    assert Counter(row["id"].rpartition("-")[0] for row in rows) == {
        "refusal_direction": 2498,
        "past_tense": 2109,
        "jailbreakbench": 1444,
        "gptfuzz": 2500,
    }
    for row in rows:
        for reader in ("first", "second", "third"):
            assert row[reader] == "" or row[reader] in data.LETTERS
            assert row[f"{reader}_sure"] in (("1", "2") if row[reader] else ("",))
    publishers = read_yaml(fetch.PUBLISHERS)
    assert {name: entry["licence"] for name, entry in publishers.items()} == {
        "refusal_direction": "Apache-2.0",
        "past_tense": "MIT",
        "jailbreakbench": "MIT",
        "gptfuzz": "MIT",
    }
    commits = [commit for entry in publishers.values() for commit in entry["files"]]
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits)
