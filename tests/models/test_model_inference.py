from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from refract.core.jsonl import read_rows, write_rows
from refract.models.answering import Count, answer_prompts, with_description
from refract.models.protocol import AdapterError, Answer
from refract.models.store import ResponseStore, answer_row, known_answers, open_store
from stages.model_inference import main
from tests.builders import SMALL_PARAMS, Replying, prompt_row
from tests.fault_server import FaultServer


class Stub(Replying):
    """Answers each request with its own text."""

    def __init__(self, **identity: object) -> None:
        tokens = {"prompt_tokens": 3, "completion_tokens": 4}
        super().__init__(lambda text: Answer(f"answer to {text}", **tokens), **identity)


@pytest.fixture
def store(tmp_path):
    with ResponseStore(tmp_path / "responses.sqlite") as opened:
        yield opened


def run(model, store, *rows: dict, seed: int = 0):
    responses, counts = answer_prompts({"s": rows}, model, store, seed)
    return responses["s"], counts["s"]


def test_a_response_row_holds_the_request_hash_and_the_ending(store):
    (row,), count = run(Stub(), store, prompt_row("a"))
    hashes = {key: row.pop(key) for key in ("request_sha256", "answer_sha256")}
    assert row == {
        "prompt_id": "a", "response": "answer to question a", "finish_reason": "stop",
        "attempt": 0, "prompt_tokens": 3, "completion_tokens": 4, "thinking": None, "error": None,
    }  # fmt: skip
    assert all(len(value) == 64 for value in hashes.values())
    assert str(count) == "0 reused, 1 generated"


def test_answers_are_reused_by_request_and_not_by_position_or_id(store):
    model = Stub()
    first, _ = run(model, store, prompt_row("a", "one"), prompt_row("b", "two"))
    # The same ids and places, but the texts have changed places, and one is new.
    rows = [prompt_row("a", "two"), prompt_row("b", "three"), prompt_row("c", "one")]
    second, count = run(model, store, *rows)
    assert model.asked == ["one", "two", "three"]
    texts = [row["response"] for row in second]
    assert texts == ["answer to two", "answer to three", "answer to one"]
    assert count == Count(reused=2, from_store=2, generated=1, errors=0)
    assert second[0]["request_sha256"] == first[1]["request_sha256"]
    model.answer = None  # where nothing is missing the model gets no request
    assert run(model, store, *rows) == (second, Count(reused=3, from_store=3))


def test_identical_requests_are_sent_once_and_rows_stay_in_order(store):
    class Backwards(Stub):
        def answer(self, requests):
            yield from reversed(list(super().answer(requests)))

    model = Backwards()
    same, again = prompt_row("a", "same"), prompt_row("b", "same")
    other = prompt_row("c", "other")
    suites = {"s": [same, again], "t": [same, other]}
    responses, counts = answer_prompts(suites, model, store, 0)
    assert model.asked == ["same", "other"]
    assert [row["prompt_id"] for row in responses["s"]] == ["a", "b"]
    assert [row["response"] for row in responses["t"]] == ["answer to same", "answer to other"]
    assert counts == {"s": Count(reused=1, generated=1), "t": Count(reused=1, generated=1)}


@pytest.mark.parametrize("end", [AdapterError, KeyboardInterrupt])
def test_answers_before_a_failure_of_the_model_or_an_interrupt_are_stored(store, end):
    class GivesUp(Stub):
        def answer(self, requests):
            for index, answer in super().answer(requests):
                if index == 2:
                    raise end("the key was revoked")
                yield index, answer

    rows = [prompt_row(str(n)) for n in range(5)]
    with pytest.raises(end, match="the key was revoked"):
        run(GivesUp(), store, *rows)
    model = Stub()
    _, count = run(model, store, *rows)
    assert model.asked == ["question 2", "question 3", "question 4"]
    assert count == Count(reused=2, from_store=2, generated=3)


def test_errors_are_rows_and_are_requested_again(store):
    class Fails(Stub):
        def answer(self, requests):
            for index, answer in super().answer(requests):
                yield index, (Answer.failed("Timeout", "60 s") if index == 0 else answer)

    rows = [prompt_row("a"), prompt_row("b")]
    responses, count = run(Fails(), store, *rows)
    assert responses[0]["finish_reason"] == "error"
    assert responses[0]["error"] == {"type": "Timeout", "message": "60 s"}
    assert str(count) == "0 reused, 2 generated, 1 errors"
    model = Stub()
    _, count = run(model, store, *rows)
    assert (model.asked, str(count)) == (["question a"], "1 reused, 1 generated")


def test_a_run_that_goes_on_says_how_many_answers_it_found(store, capsys):
    run(Stub(), store, prompt_row("a"))
    assert capsys.readouterr().err == ""
    run(Stub(), store, prompt_row("a"), prompt_row("b"), prompt_row("c"))
    assert "1 of 3 answers found, 2 to come\n" in capsys.readouterr().err


# Rows on disk, as `dvc pull` leaves them.


def on_disk(folder: Path, *rows: dict, name: str = "s") -> Path:
    folder.mkdir(exist_ok=True)
    write_rows(folder / f"{name}.jsonl", rows)
    return folder / f"{name}.jsonl"


def adopted(folder: Path) -> list[str]:
    return [answer.response for _, answer in known_answers(folder)]


@pytest.mark.parametrize(
    "edit",
    [
        {"response": "edited"},
        {"response": None},
        {"finish_reason": "length"},
        {"thinking": "edited"},
        {"prompt_tokens": 9},
        {"request_sha256": "0" * 64},
        {"answer_sha256": None},
    ],
)
def test_an_edited_row_is_not_adopted(tmp_path, edit):
    good, bad = run(Stub(), ResponseStore(None), prompt_row("a"), prompt_row("b"))[0]
    on_disk(tmp_path / "m", {**bad, **edit}, good)
    assert adopted(tmp_path / "m") == ["answer to question a"]


def test_rows_around_a_tear_are_adopted(tmp_path):
    rows, _ = run(Stub(), ResponseStore(None), *(prompt_row(str(n)) for n in range(4)))
    path = on_disk(tmp_path / "m", *rows)
    first, second, third, fourth, _ = path.read_bytes().split(b"\n")
    torn = [first, second[:40], b"\xff\x00", b"[]", b"7", b"[" * 99_999, third, fourth[:-9]]
    path.write_bytes(b"\n".join(torn))
    assert adopted(tmp_path / "m") == ["answer to question 0", "answer to question 2"]


def test_of_answers_that_differ_those_of_the_first_file_by_name_count(tmp_path, capsys):
    for name, text in (("b", "later"), ("a", "first"), ("c", "later still")):
        write_rows(tmp_path / f"{name}.jsonl", [answer_row("k", Answer(text))])
    assert list(known_answers(tmp_path)) == [("k", Answer("first"))]
    said = capsys.readouterr().err
    assert f"1 requests have other answers in {tmp_path}/b.jsonl than in {tmp_path}/a.jsonl" in said
    assert f"{tmp_path}/c.jsonl than in {tmp_path}/a.jsonl, whose answers count" in said


# The stage itself.

PARAMS = {**SMALL_PARAMS, "models": {"m": {"adapter": "recorded", "path": "answers.jsonl"}}}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "params.yaml").write_text(json.dumps(PARAMS))  # JSON is YAML
    write_rows(folder / "data/prompts/s.jsonl", [prompt_row("a"), prompt_row("b")])
    write_rows(
        folder / "answers.jsonl", [{"id": "a", "response": "to a"}, {"id": "b", "response": "to b"}]
    )
    return folder


def outputs() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("data/responses/m").iterdir()}


def test_the_stage_writes_responses_and_says_what_it_reused(project, capsys):
    main("m")
    rows = read_rows(Path("data/responses/m/s.jsonl"))
    assert [row["response"] for row in rows] == ["to a", "to b"]
    first = outputs()
    main("m")
    lines = [re.sub(r"in \d+\.\d s", "in T s", x) for x in capsys.readouterr().out.splitlines()]
    assert lines == [
        "m s: 0 reused, 2 read",
        "model-inference@m: 0 answers reused, 2 read in T s",
        "m s: 2 reused, 0 generated",
        "model-inference@m: 2 answers reused (2 from the store), 0 generated in T s",
    ]
    assert outputs() == first
    model = json.loads(first["model.json"])
    assert model["identity"]["adapter_version"] == "1"
    assert (model["seed"], model["parameters"]) == (None, None)


def test_outputs_hold_no_time_and_are_known_to_another_machine(project, monkeypatch, capsys):
    main("m")
    before = outputs()
    monkeypatch.setattr("time.time", lambda: 1.0)
    monkeypatch.setenv("REFRACT_CACHE", "off")
    main("m")
    assert outputs() == before
    monkeypatch.setenv("REFRACT_CACHE", str(project / "another"))
    main("m")
    assert capsys.readouterr().out.splitlines()[-2] == "m s: 2 reused, 0 generated"
    with open_store() as store:
        rows = read_rows(project / "data/responses/m/s.jsonl")
        assert len(store.get(row["request_sha256"] for row in rows)) == 2


def test_what_a_killed_run_left_behind_and_suites_that_left_the_grid_go(project):
    folder = project / "data/responses/m"
    on_disk(project / "data/responses", name="x")
    folder.mkdir()
    (folder / ".s.jsonl.4711.part").write_bytes(b"half")
    (folder / "old.jsonl").write_bytes(b"")
    main("m")
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "s.jsonl"]


def test_a_run_in_which_every_answer_is_an_error_fails(project):
    write_rows(project / "answers.jsonl", [{"id": "z", "response": "x"}])
    with pytest.raises(AdapterError, match=r"m: all 2 answers are errors; .* NoRecordedAnswer"):
        main("m")
    rows = read_rows(Path("data/responses/m/s.jsonl"))
    assert {row["finish_reason"] for row in rows} == {"error"}


def test_usage_is_that_of_all_suites(project):
    with FaultServer() as server:
        model = server.model(price={"input": 1, "output": 1})
        params = {**PARAMS, "grid": {"models": ["api"], "suites": ["s", "t"]}}
        params |= {"suites": dict.fromkeys("st", PARAMS["suites"]["s"]), "models": {"api": model}}
        Path("params.yaml").write_text(json.dumps(params))
        write_rows(Path("data/prompts/t.jsonl"), [prompt_row("c", suite="t")])
        main("api")
    usage = json.loads(Path("data/runs/model-inference@api.json").read_text())["usage"]
    expected = {"requests": 3, "prompt_tokens": 21, "completion_tokens": 9}
    expected["retries"] = 0
    assert usage == expected | {"cost": pytest.approx(30e-6)}


def test_what_weights_would_say_comes_with_the_answers_where_they_are_not_here(tmp_path):
    held = '{"identity": {"a": 1}, "parameters": 12, "dtype": "F32"}'
    (tmp_path / "model.json").write_text(held)
    asked = {"identity": {"a": 1}, "parameters": None, "seed": 3}
    assert with_description(asked, tmp_path) == {"identity": {"a": 1}, "parameters": 12, "seed": 3}
    other = asked | {"identity": {"a": 2}}
    assert with_description(other, tmp_path) == other
