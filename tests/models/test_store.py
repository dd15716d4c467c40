from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.environment import cache_folder
from refract.core.jsonl import canonical_json, write_rows
from refract.models import open_model
from refract.models.answering import answer_prompts, generate
from refract.models.protocol import Answer, Request
from refract.models.recorded import Recorded
from refract.models.store import (
    ResponseStore,
    StoreError,
    answer_sha256,
    open_store,
    request_sha256,
    storable,
)
from refract.models.synthetic import Synthetic
from tests.builders import Replying, ask, prompt_row

ANSWER = Answer("Sure.\u2028\r\n", "stop", 1, 7, 2, thinking="hm")


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "folder" / "responses.sqlite"


def execute(path: Path, statement: str, *values: object) -> list[tuple]:
    """One statement in a connection of its own, behind the store's back."""
    db = sqlite3.connect(path)
    try:
        with db:
            return db.execute(statement, values).fetchall()
    finally:
        db.close()


@given(
    st.text(),
    st.sampled_from(["stop", "length", "loop", "refusal"]),
    st.integers(0, 9),
    st.none() | st.integers(0, 2**40),
    st.none() | st.text(),
)
def test_any_text_is_stored_as_it_is(tmp_path_factory, text, reason, attempt, tokens, thinking):
    answer = Answer(text, reason, attempt, tokens, tokens, thinking=thinking)
    path, key = tmp_path_factory.getbasetemp() / "any.sqlite", answer_sha256("k", answer)
    with ResponseStore(path) as store:
        store.put([(key, answer)])
        store.put([(key, Answer("what is stored stays"))])
    with ResponseStore(path) as store:
        assert store.get([key, "absent"]) == {key: answer}


def test_of_two_processes_the_first_answer_stays(path, monkeypatch):
    first, second = Answer("the first"), Answer("the second")
    with ResponseStore(path) as store, ResponseStore(path) as other:
        looked_up = store.get

        def overtaken(keys):
            answers = looked_up(keys)
            monkeypatch.setattr(store, "get", looked_up)
            other.put([("k", first)])
            return answers

        monkeypatch.setattr(store, "get", overtaken)
        assert store.put([("k", second)]) == 0
        assert store.get(["k"]) == {"k": first}


@pytest.mark.parametrize(
    "answer",
    [
        Answer.failed("Timeout", "no answer in 60 s"),
        Answer("half an ans", "error"),
        Answer("", "content_filter"),
        Answer("text", "stop", error={"type": "E", "message": "m"}),
    ],
)
def test_errors_and_filters_are_not_stored(path, answer):
    assert not storable(answer)
    with ResponseStore(path) as store:
        assert store.put([("k", answer)]) == 0
        assert store.get(["k"]) == {}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE answers SET answer = replace(answer, 'Sure', 'Sore') WHERE request_sha256 = 'bad'",
        # Somebody else's intact record under this key.
        "UPDATE answers SET answer = (SELECT answer FROM answers WHERE request_sha256 = 'good'), "
        "sha256 = (SELECT sha256 FROM answers WHERE request_sha256 = 'good') "
        "WHERE request_sha256 = 'bad'",
    ],
)
def test_a_record_whose_checksum_does_not_hold_is_a_miss_and_is_replaced(path, damage):
    with ResponseStore(path) as store:
        store.put([("bad", ANSWER), ("good", Answer("intact"))])
    execute(path, damage)
    with ResponseStore(path) as store:
        assert store.get(["bad", "good"]) == {"good": Answer("intact")}
        assert store.put([("bad", ANSWER)]) == 1
        assert store.get(["bad", "good"]) == {"bad": ANSWER, "good": Answer("intact")}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (1, 5), (1, None), (1, ["Sure."]), (2, "bananas"), (2, None), (2, ["stop"]), (3, 99), (3, -1),
        (3, "0"), (3, None), (4, 1.5), (5, "7"), (6, 7), (6, {}), (7, 5),
        (7, "one field more"), (0, "other"),
    ],
)  # fmt: skip
def test_a_record_of_other_fields_or_types_is_asked_for_anew(path, place, value):
    asked = Request(ask("anew").attempts * 2, 0, {})
    with ResponseStore(path) as store:
        store.put([("k", ANSWER), ("good", ANSWER)])
        ((text,),) = store._db.execute("SELECT answer FROM answers WHERE request_sha256 = 'k'")
        record = json.loads(text)
        record[place : place + 1] = [value]
        text = canonical_json(record)
        checksum = hashlib.sha256(text.encode()).hexdigest()
        values = (text, checksum, "k")
        store._db.execute("UPDATE answers SET answer=?, sha256=? WHERE request_sha256=?", values)
        answers, made = generate(Replying(str), {"k": asked, "good": asked}, store)
    assert (answers, made) == ({"k": Answer("anew"), "good": ANSWER}, {"k"})


@pytest.mark.parametrize("value", ["{", "[1]", b"\xff", 7])
def test_damaged_cells_beside_an_answer_say_nothing_of_it(path, value):
    origin = {"started_at": "2026-01-01T00:00:00Z"}
    certificate = {"bound": 0.1, "margin": 1.0, "float64": 0, "ties": 0}
    with ResponseStore(path) as store:
        store.put([("k", replace(ANSWER, origin=origin, certificate=certificate))])
        assert store.certificates(["k"]) == {"k": certificate}
    execute(path, "UPDATE runs SET record = ?", value)
    execute(path, "UPDATE states SET certificate = ?", value)
    with ResponseStore(path) as store:
        assert (store.certificates(["k"]), store.origins(["k"])) == ({}, {})
        assert store.get(["k"]) == {"k": ANSWER}
    execute(path, "UPDATE answers SET answer = ?", value)
    with ResponseStore(path) as store:
        assert store.get(["k"]) == {}


def test_a_place_that_cannot_be_used_is_refused_with_a_remedy(path):
    path.parent.write_bytes(b"this is no database, and long enough to be read as one" * 100)
    with pytest.raises(StoreError, match="set REFRACT_CACHE to another folder, or to 'off'"):
        ResponseStore(path)
    with pytest.raises(StoreError, match=r"cannot be used \(file is not a database\); free room"):
        ResponseStore(path.parent)


@pytest.mark.parametrize("setting", ["OFF", "0", "none"])
def test_the_store_can_be_turned_off(monkeypatch, setting):
    monkeypatch.setenv("REFRACT_CACHE", setting)
    assert cache_folder() is None
    with open_store() as store:
        assert store.put([("k", ANSWER)]) == 0
        assert store.get(["k"]) == {}


def key_of(identity: dict, request: Request, uses=(), samples=False, runs_here=True) -> str:
    model = SimpleNamespace(USES=uses, samples=samples, runs_here=runs_here)
    return request_sha256(canonical_json(identity), request, model)


def test_the_key_holds_all_that_determines_an_answer_and_nothing_else():
    one, two = (
        replace(ask("How?", prompt_id=id_), seed=seed) for id_, seed in (("x", 1), ("y", 2))
    )
    base = key_of({"a": 1}, one)
    assert key_of({"a": 1}, two) == base
    different = [
        key_of({"a": 2}, one),
        key_of({"a": 1}, ask("How? ")),
        key_of({"a": 1}, Request(one.attempts * 2)),
        key_of({"a": 1}, Request((({"role": "system", "content": "How?"},),))),
        *(key_of({"a": 1}, each, uses=("prompt_id",)) for each in (one, two)),
        *(key_of({"a": 1}, each, samples=True) for each in (one, two)),
    ]
    assert len({base, *different}) == len(different) + 1


def test_a_repeat_is_a_request_of_its_own_where_a_server_computes_greedy_answers():
    first, again = ask("How?"), replace(ask("How?"), repeat=1)
    assert key_of({}, again) == key_of({}, first)
    assert key_of({}, again, runs_here=False) != key_of({}, first, runs_here=False)
    assert key_of({}, first, runs_here=False) == key_of({}, first)
    # Where answers are sampled, the row's seed tells repeats apart.
    assert key_of({}, again, samples=True, runs_here=False) == key_of({}, first, samples=True)


def test_answers_of_one_model_are_never_served_as_anothers(path, tmp_path):
    """Models that differ in content alone, in one setting alone, or in their adapter's code."""

    class Newer(Synthetic):
        version = "next"

    def recorded(folder: str, response: str, **settings: object) -> Recorded:
        file = tmp_path / folder / "a.jsonl"  # the same name, so that only its content differs
        write_rows(file, [{"id": "a", "response": response, "other": "of another column"}])
        return open_model("m", {"adapter": "recorded", "path": str(file), **settings})

    def models():
        yield recorded("one", "one")
        yield recorded("two", "two")
        yield recorded("one", "changed")
        yield recorded("one", "changed", response_column="other")
        for rate in (1, 0):
            yield open_model("m", {"adapter": "synthetic", "refusal_rate": rate})
        yield Newer("m", Newer.Settings(refusal_rate=1))

    with ResponseStore(path) as store:
        for model in models():
            _, counts = answer_prompts({"s": [prompt_row("a")]}, model, store, 0, name="one name")
            count = counts["s"]
            assert (count.generated + count.read, count.reused, count.errors) == (1, 0, 0)


REQUESTS = {f"k{number}": ask(str(number)) for number in range(20)}
ANSWERS = {f"k{number}": Answer(str(number)) for number in range(20)}


def test_an_answer_is_in_the_store_before_the_next_one_arrives(path):
    def wait_for_the_first():
        with ResponseStore(path) as other:
            while len(model.asked) > 1 and not other.get(["k0"]):
                time.sleep(0.01)

    model = Replying(lambda text: wait_for_the_first() or text)
    with ResponseStore(path) as store:
        assert generate(model, REQUESTS, store) == (ANSWERS, set(REQUESTS))


def test_a_store_that_cannot_be_written_is_noticed_before_anything_is_requested(path):
    with ResponseStore(path) as store:
        store._db.execute("PRAGMA query_only=1")
        model = Replying(str)
        with pytest.raises(StoreError, match="readonly"):
            generate(model, REQUESTS, store)
    assert model.asked == []


def test_a_disk_that_is_nearly_full_is_noticed_before_anything_is_requested(path, monkeypatch):
    model = Replying(str)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=44_000))
    with ResponseStore(path) as store, pytest.raises(StoreError, match="44,000 bytes are free"):
        generate(model, REQUESTS, store)
    assert model.asked == []


def test_a_store_that_fails_midway_ends_the_run_and_keeps_what_it_has(path):
    with ResponseStore(path) as store:

        def fail() -> None:
            if len(model.asked) == 6:
                while execute(path, "SELECT count(*) FROM answers") < [(5,)]:
                    time.sleep(0.01)
                execute(path, "ALTER TABLE answers RENAME TO gone")
            if len(model.asked) > 6:
                time.sleep(0.05)

        model = Replying(lambda text: fail() or text)
        with pytest.raises(StoreError, match=r"no such table.* 5 were answered and are stored"):
            generate(model, REQUESTS, store)
    assert execute(path, "SELECT count(*) FROM gone") == [(5,)]
    assert len(model.asked) < 20
