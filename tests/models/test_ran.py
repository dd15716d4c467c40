"""What made each answer is noted, kept beside it, and compared: never part of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from refract.core.environment import this_run
from refract.core.jsonl import sha256_file, write_rows
from refract.core.progress import read_object
from refract.models.answering import answer_model
from refract.models.origins import (
    arithmetic_line,
    learn_origins,
    made_by,
    made_rows,
    note_answers,
)
from refract.models.protocol import Answer, Certificate
from refract.models.store import ResponseStore, answer_row
from tests.builders import prompt_row

RUN = {"started_at": "2026-01-02T03:04:05Z", "device": "cpu", "runtime": {"load_seconds": 2.0}}
LATER = {**RUN, "started_at": "2026-02-02T03:04:05Z"}
KEYS = ["a" * 64, "b" * 64, "c" * 64]


def row(key: str, tokens: int | None = 10) -> dict:
    return answer_row(key, Answer(f"answer {key[0]}", completion_tokens=tokens))


def test_the_store_keeps_how_an_answer_was_made_and_gives_the_same_answer(tmp_path):
    answer = Answer("yes", completion_tokens=1)
    origin = RUN
    with ResponseStore(tmp_path / "s.sqlite") as store:
        store.put([(KEYS[0], replace(answer, origin=origin)), (KEYS[1], answer)])
    with ResponseStore(tmp_path / "s.sqlite") as store:
        assert store.get(KEYS) == {KEYS[0]: answer, KEYS[1]: answer}
        assert store.origins(KEYS) == {KEYS[0]: origin}
        # What is learnt from elsewhere takes the place of nothing.
        store.learn(dict.fromkeys(KEYS[:2], Answer("", origin=LATER)))
        assert store.origins(KEYS) == {KEYS[0]: origin, KEYS[1]: LATER}


def test_rows_say_which_run_made_them_null_where_it_is_unknown_and_the_note_stays(tmp_path):
    path, responses = tmp_path / "ran.json", {"s": [row(key) for key in KEYS]}
    write_rows(tmp_path / "s.jsonl", responses["s"])

    def note(origins: dict) -> dict:
        note_answers(path, tmp_path, responses, origins, {})
        return read_object(path)

    first = note({KEYS[0]: LATER, KEYS[2]: RUN})
    assert first["suites"]["s"] == {
        "responses_sha256": sha256_file(tmp_path / "s.jsonl"),
        "runs": [[1, 1], [None, 1], [0, 1]],
    }
    assert first["runs"] == [RUN, LATER]
    # The same rows: what is noted stays, whatever made them this time.
    assert note(dict.fromkeys(KEYS, LATER)) == first
    # Another store learns it from the file.
    with ResponseStore(tmp_path / "s.sqlite") as store:
        learn_origins(path, tmp_path, store)
        known = store.origins(KEYS)
    assert known == {KEYS[0]: LATER, KEYS[2]: RUN}
    responses["s"] = [row(KEYS[2]), row("d" * 64)]
    write_rows(tmp_path / "s.jsonl", responses["s"])
    assert note({**known, "d" * 64: LATER})["suites"]["s"]["runs"] == [[0, 1], [1, 1]]


def certificate(margin: float | None, float64: int = 0, ties: int = 0) -> Certificate:
    return {"bound": 0.001, "margin": margin, "float64": float64, "ties": ties}


def test_what_speaks_for_exact_answers_is_noted_while_the_rows_are_the_same(tmp_path):
    path, responses = tmp_path / "ran.json", {"s": [row(key) for key in KEYS]}
    write_rows(tmp_path / "s.jsonl", responses["s"])
    known = {KEYS[0]: certificate(12.34, 3, 1), KEYS[2]: certificate(None, 7)}

    def note(certificates: dict) -> dict | None:
        note_answers(path, tmp_path, responses, {}, certificates)
        return read_object(path)["suites"]["s"].get("certificates")

    first = {"answers": 2, "float64": 10, "ties": 1, "margins": "12 - -"}
    assert note(known) == first
    # The same rows: what is noted stays, whatever a store knows by now.
    assert note({}) == note({**known, KEYS[1]: certificate(1310.0)}) == first
    responses["s"].append(row("d" * 64))
    write_rows(tmp_path / "s.jsonl", responses["s"])
    assert note({}) is None
    assert note(known) is None  # found by `refract verify` since: no change of the tree


def test_answers_are_counted_by_what_the_store_knows_of_them_and_not_by_what_a_file_says(tmp_path):
    answers = {key: Answer(f"answer {key[0]}", completion_tokens=10) for key in (*KEYS, "d" * 64)}
    rows = [answer_row(key, answer, key[0]) for key, answer in answers.items()]
    failed = answer_row("e" * 64, Answer.failed("PromptTooLong", "too long"), "e")
    write_rows(tmp_path / "s.jsonl", [*rows, failed])
    sha256 = sha256_file(tmp_path / "s.jsonl")
    facts = {"model": {"identity": {"arithmetic": "exact"}}}
    facts["suites"] = {"s": {"responses_sha256": sha256}}
    known = [
        replace(answers[KEYS[0]], certificate=certificate(12.3, 3, 1)),
        replace(answers[KEYS[1]], stated="a.jsonl"),
        answers[KEYS[2]],  # of an earlier release
    ]
    with ResponseStore(tmp_path / "store") as store:
        store.put(zip(KEYS, known, strict=True))

        def line() -> str:
            return arithmetic_line(tmp_path, facts, store)

        assert line() == "of 5 answers 1 certified, 2 stated, 2 unchecked"
        # Another answer to the same request has not been certified.
        rows[0] = answer_row(KEYS[0], Answer("another"), "a")
        write_rows(tmp_path / "s.jsonl", rows[:1])
        assert line() == "exact arithmetic; no answers here"
        facts["suites"]["s"]["responses_sha256"] = sha256_file(tmp_path / "s.jsonl")
        assert line() == "of 1 answers 1 stated"
        store.put(
            [(KEYS[0], replace(Answer("another"), certificate=certificate(2.0)))],
            corrected=KEYS[:1],
        )
        assert line() == "of 1 answers 1 certified"


@pytest.mark.parametrize(
    ("identity", "line"), [({}, ""), ({"arithmetic": "fast"}, "fast arithmetic: of this machine")]
)
def test_other_answers_have_no_certificates_and_fast_ones_say_so(identity, line):
    facts = {"model": {"identity": identity}, "suites": {}}
    assert arithmetic_line(Path(), facts, ResponseStore(None)) == line


@pytest.mark.parametrize("kept", [True, False])
def test_what_an_exact_model_says_for_its_answers_reaches_the_run(tmp_path, kept, tiny):
    prompts = [prompt_row(name) for name in "ab"]
    with ResponseStore(tmp_path / "s.sqlite" if kept else None) as store:
        definition = {"adapter": "hf", "model_id": str(tiny), "device": "cpu", "max_tokens": 4}
        made = answer_model("m", definition, {"s": prompts}, store, 0)
        assert set(made.certificates) == {row["request_sha256"] for row in made.responses["s"]}
    assert {one["bound"] > 0 for one in made.certificates.values()} == {True}


def test_rows_of_a_run_are_noted_by_suite():
    rows = [{**row(key), "suite": suite} for key, suite in zip(KEYS, "sts", strict=True)]
    noted = made_rows(rows, {KEYS[1]: RUN}, {KEYS[0]: certificate(2.0)})
    assert noted["suites"]["s"]["certificates"]["margins"] == "2 -"
    assert "certificates" not in noted["suites"]["t"]
    assert {suite: found["runs"] for suite, found in noted["suites"].items()} == {
        "s": [[None, 2]],
        "t": [[0, 1]],
    }
    assert noted["runs"] == [RUN]
    assert made_by({}, {}, {}, {}) == {"runs": [], "suites": {}}


def test_a_run_says_what_computes_here(tmp_path, monkeypatch):
    run = this_run({"device": "cuda:0", "dtype": "bfloat16"})
    assert (run["device"], run["runtime"]) == ("cuda:0", {"dtype": "bfloat16"})
    assert run["machine"]["processor"]
    assert len(run["code"]["commit"]) == 40
    assert json.loads(json.dumps(run)) == run
    monkeypatch.chdir(tmp_path)  # outside of git
    code = this_run(None)["code"]
    assert (code["commit"], code["changed"], code["dirty"]) == (None, [], False)
