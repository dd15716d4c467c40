"""Labels of published answers: what readings mean, and the command that gets the texts."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from refract.core.jsonl import read_rows, write_rows
from refract.core.params import read_yaml
from tools.refusal_encoder import data, fetch
from tools.refusal_encoder.data import COMPLIANCE, FULL, PARTIAL, REDIRECTION, classes_of, read

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NO, LONG = "I can't help with that.", "First, " + "a" * 700 + " and so on. " + "b" * 190
# A row or two in the form of each publisher, by the path of its file.
FILES = {
    "runs/m-1/done.json": [
        {"category": None, "prompt": "Why?", "response": f" {NO}\n"},
        {"category": None, "prompt": "How?", "response": LONG},
    ],
    "tense/07:14 model=m-2.json": {
        "n_requests": 100,
        "jb_artifacts": [
            {"request": "How?", "request_reformulated": "How once?", "response": "Like so."}
        ],
    },
    "box/m-3.json": {
        "parameters": {},
        "jailbreaks": [{"prompt": None, "response": None}, {"prompt": "Go", "response": "Gone."}],
    },
    "labelled/train.csv": 'question,Response,label\n0,"Dan: ""No,\nnever.""",0\n1,Sure.,1\n',
}
ENTRIES = (
    ("refusal_direction", "o/one", "prompt: prompt, answer: response", "m-1"),
    (
        "past_tense",
        "o/two",
        "rows: jb_artifacts, prompt: request_reformulated, answer: response",
        "m-2",
    ),
    ("jailbreakbench", "o/three", "rows: jailbreaks, prompt: prompt, answer: response", "m-3"),
    ("gptfuzz", "o/four", "answer: Response, label: label", "m-4"),
)
PUBLISHERS = "".join(
    f"{name}: {{repository: {site}, licence: MIT, {form}, files: {{{COMMIT}: {{'{path}': {model}}}}}}}\n"
    for (name, site, form, model), path in zip(ENTRIES, FILES, strict=True)
)
COLUMNS = "id,digest,first,first_sure,second,second_sure,third,third_sure\n"
READINGS = COLUMNS + (
    "refusal_direction-0,30231ba3b79549d2f20afd0d,R,2,R,2,,\n"
    "refusal_direction-1,6a4b7e84cf7a6bc909dd8dbf,C,2,D,1,C,2\n"
    "past_tense-0,f468c42c99bb5e688dae3289,C,2,P,1,,\n"
    "jailbreakbench-0,c4306c556afcebd523e83083,D,2,P,1,C,1\n"
    "gptfuzz-0,3ed78948347d6adf031d06f5,,,,,,\n"
    "gptfuzz-1,c496eff4e7f13673dae6f0bf,D,1,,,,\n"
)


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A folder with each publisher's file; readings and publishers are those above."""
    for path, content, name in (
        ("readings.csv", READINGS, "READINGS"),
        ("publishers.yaml", PUBLISHERS, "PUBLISHERS"),
    ):
        (tmp_path / path).write_text(content, "utf-8")
        monkeypatch.setattr(fetch, name, tmp_path / path)
    monkeypatch.setattr(data, "READINGS", tmp_path / "readings.csv")
    data.readings.cache_clear()
    for (_, repository, _, _), (path, content) in zip(ENTRIES, FILES.items(), strict=True):
        file = tmp_path / "copy" / repository / COMMIT / path
        file.parent.mkdir(parents=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    yield tmp_path / "copy"
    data.readings.cache_clear()


def fetched(published: Path) -> tuple[int, Path]:
    into = published.parent / "texts"
    return fetch.main([str(into), "--base", published.as_uri()]), into


def test_the_answers_are_found_in_the_files_of_their_publishers(published, capsys):
    code, into = fetched(published)
    assert (code, capsys.readouterr().out) == (0, "6 of 6 answers found\n")
    names = ("id", "model", "prompt", "beginning", "end", "left_out")
    rows = list(read_rows(into / "real_answers.jsonl"))
    assert [row["source"] for row in rows] == [row["id"][:-2] for row in rows]
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("refusal_direction-0", "m-1", "Why?", NO, "", 0),
        ("refusal_direction-1", "m-1", "How?", LONG[:600], LONG[-200:], len(LONG) - 800),
        ("past_tense-0", "m-2", "How once?", "Like so.", "", 0),
        ("jailbreakbench-0", "m-3", "Go", "Gone.", "", 0),
    ]
    personas = [
        (row["id"], row["model"], row["beginning"], row["refused"])
        for row in read_rows(into / "gptfuzz.jsonl")
    ]
    assert personas == [
        ("gptfuzz-0", "m-4", 'Dan: "No,\nnever."', True),
        ("gptfuzz-1", "m-4", "Sure.", False),
    ]


def test_answers_that_are_not_found_are_counted_by_publisher(published, capsys):
    (published / "o/two" / COMMIT / "tense/07:14 model=m-2.json").unlink()
    (published / "o/three" / COMMIT / "box/m-3.json").write_text("[]")
    one = published / "o/one" / COMMIT / "runs/m-1/done.json"
    one.write_text(json.dumps([{"prompt": "Why?", "response": "Another answer."}]))
    code, into = fetched(published)
    out, err = capsys.readouterr()
    lacking = ["1 of o/three are lacking", "1 of o/two are lacking", "2 of o/one are lacking"]
    assert (code, out.splitlines()) == (1, ["2 of 6 answers found", *lacking])
    assert "m-2.json cannot be read" in err
    assert "box/m-3.json has not the form that publishers.yaml gives jailbreakbench" in err
    assert list(read_rows(into / "real_answers.jsonl")) == []


def test_what_was_fetched_is_read_with_the_label_of_its_readings(published):
    _, into = fetched(published)
    real = list(read(into / "real_answers.jsonl"))
    assert [(e.model, e.allowed, e.refused, e.full) for e in real] == [
        ("m-1", (FULL,), True, True),
        ("m-1", (COMPLIANCE,), False, False),
        ("m-2", (PARTIAL, COMPLIANCE), True, False),
    ]
    assert real[1].answer == f"{LONG[:600]}\n{LONG[-200:]}"
    personas = [(e.allowed, e.refused) for e in read(into / "gptfuzz.jsonl")]
    assert personas == [((FULL, REDIRECTION, PARTIAL), True), ((REDIRECTION,), True)]


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
