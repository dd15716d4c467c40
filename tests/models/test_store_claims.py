"""Two processes with the same requests pay for one; what was paid for is never lost."""

from __future__ import annotations

import re
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from refract.models.answering import generate, known_answers
from refract.models.protocol import Answer, Model
from refract.models.store import ResponseStore, StoreError
from tests.builders import ask


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "store" / "responses.sqlite"


class Counting(Model):
    """Answers with the prompt and counts what it is asked; ``before`` runs ahead of each answer."""

    adapter, version = "counting", "1"

    def __init__(self, before: Any = lambda: None) -> None:
        self.asked, self.before = 0, before

    def answer(self, requests):
        for index, asked in enumerate(requests):
            self.before()
            self.asked += 1
            yield index, Answer(asked.attempts[0][0]["content"])


REQUESTS = {f"k{number}": ask(str(number)) for number in range(20)}
ANSWERS = {f"k{number}": Answer(str(number)) for number in range(20)}


def test_of_two_runs_at_once_no_request_is_lost_or_sent_twice(path):
    with ResponseStore(path) as first, ResponseStore(path) as second, ThreadPoolExecutor() as pool:
        models = [Counting(lambda: time.sleep(0.001)) for _ in range(2)]
        parts = [
            {key: REQUESTS[key] for key in list(REQUESTS)[at]} for at in (slice(15), slice(5, 20))
        ]
        runs = zip(models, parts, (first, second), strict=True)
        results = list(pool.map(lambda run: generate(*run), runs))
    assert [answers.keys() for answers, _ in results] == [part.keys() for part in parts]
    assert {**results[0][0], **results[1][0]} == ANSWERS
    assert sum(model.asked for model in models) == 20


def test_the_claims_of_a_killed_process_end_when_they_are_not_renewed(path):
    with ResponseStore(path) as killed, ResponseStore(path) as store:
        assert killed.claim(REQUESTS) == set(REQUESTS)
        assert store.claim(REQUESTS) == set()
        killed.lease = 0
        killed.renew_claims()  # until now
        model = Counting()
        assert generate(model, REQUESTS, store) == (ANSWERS, set(REQUESTS))
    assert model.asked == 20


def test_claims_are_renewed_while_answers_are_waited_for(path, monkeypatch):
    monkeypatch.setattr(ResponseStore, "lease", 0.5)
    with ResponseStore(path) as store, sqlite3.connect(path) as db:

        def until() -> float:
            return db.execute("SELECT max(until) FROM claims").fetchone()[0]

        def wait_for_renewal() -> None:
            first = until()
            while until() == first:
                time.sleep(0.01)

        generate(Counting(wait_for_renewal), {"k0": REQUESTS["k0"]}, store)


def test_a_claim_ends_with_the_run_also_where_it_fails(path):
    def fail():
        raise RuntimeError

    with ResponseStore(path) as store:
        with pytest.raises(RuntimeError):
            generate(Counting(fail), REQUESTS, store)
        with sqlite3.connect(path) as db:
            assert db.execute("SELECT count(*) FROM claims").fetchone() == (0,)


# A store that cannot be written


def broken(path: Path, *statements: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


def test_a_store_of_a_later_release_is_refused(path):
    broken(path, "PRAGMA user_version=99")
    with pytest.raises(
        StoreError, match=r"of schema 99, .*; move the file away, set REFRACT_CACHE"
    ):
        ResponseStore(path)


def test_a_full_disk_is_noticed_before_anything_is_requested(path):
    with ResponseStore(path) as store:
        store._db.execute("PRAGMA max_page_count=1")
        broken_by_now = Counting()
        with pytest.raises(StoreError, match="full"):
            generate(broken_by_now, {f"q{n}": ask(str(n)) for n in range(9000)}, store)
    assert broken_by_now.asked == 0


def test_answers_of_a_store_that_fails_midway_are_kept(path):
    with ResponseStore(path) as store, ResponseStore(path) as other:

        def fail() -> None:
            if model.asked == 5:
                while len(list(other)) < 5:
                    time.sleep(0.01)
                broken(path, "DROP TABLE answers")
            if model.asked > 5:
                time.sleep(0.05)

        model = Counting(fail)
        with pytest.raises(StoreError, match=r"no such table.*that were not stored") as raised:
            generate(model, REQUESTS, store)
    folder = Path(re.search(r"are in (\S+): `refract cache import", str(raised.value))[1])
    # Five were stored before the table went; every later one that was made is kept.
    assert (
        dict(known_answers(folder))
        == {f"k{n}": Answer(str(n)) for n in range(5, model.asked)}
        != {}
    )


def test_answers_that_can_be_kept_nowhere_are_said_to_be_lost(path, monkeypatch):
    def refuse(*args, **more):
        raise OSError("no space left")

    monkeypatch.setattr("refract.models.answering.tempfile.mkdtemp", refuse)
    with ResponseStore(path) as store:
        model = Counting(lambda: broken(path, "DROP TABLE IF EXISTS answers"))
        with pytest.raises(StoreError, match=r"answers are lost, .*no space left"):
            generate(model, REQUESTS, store)
