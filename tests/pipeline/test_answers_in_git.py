"""The answers that the project keeps in git stand in for weights that are not here."""

from __future__ import annotations

import json

from refract.core.jsonl import read_rows
from refract.models.answering import ANSWERS
from refract.models.store import known_answers
from tests.builders import ROOT

MODEL = "smollm2_135m"
SUITES = ("harmful_helpful", "jailbreak_styles", "prompt_injection", "refusal_calibration")


def run(cli, *suites: object):
    asked = [argument for suite in suites for argument in ("--suite", suite)]
    asked += ["--judge", "rules", "--out", "r.json", "--rows", "rows.jsonl"]
    return cli("run", "--model", MODEL, *asked)


def test_every_clean_prompt_of_the_default_suites_is_answered_without_weights(cli, tmp_path):
    done = run(cli, *SUITES)
    assert done.code == 0, done.err
    rows = read_rows(tmp_path / "rows.jsonl")
    assert {row["suite"] for row in rows} == set(SUITES)
    assert len(rows) == 309 + 127 + 90 + 260
    assert [row for row in rows if row["finish_reason"] == "error"] == []
    assert all(f"{MODEL} {suite}: " in done.out for suite in SUITES)
    assert done.out.count("0 generated") == len(SUITES)


def test_another_prompt_ends_in_the_command_that_fetches_the_weights(cli, tmp_path):
    row = {"id": "new-1", "category": "helpful", "prompt": "How do I keep basil alive indoors?"}
    (tmp_path / "new.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    done = run(cli, "new.jsonl")
    assert done.code == 1
    assert f"refract models fetch {MODEL}" in done.err


def test_all_rows_kept_are_intact():
    folder = ROOT / ANSWERS / MODEL
    rows = [row for path in sorted(folder.glob("*.jsonl")) for row in read_rows(path)]
    assert {row["request_sha256"] for row in rows} == dict(known_answers(folder)).keys()
    assert {row["finish_reason"] for row in rows} <= {"stop", "length", "loop"}
