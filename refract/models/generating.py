"""Requesting from a model the answers that the store lacks, and storing them as they are made."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Self

from refract.core.environment import this_run, utc
from refract.core.jsonl import dump_row, write_rows
from refract.core.progress import Progress
from refract.core.showing import say
from refract.models.protocol import Answer, AnswerOrigin, Model, Request
from refract.models.store import ResponseStore, StoreError, answer_row, storable

# Seconds between two looks at what another process is asking.
LOOK_SECONDS = 0.5

Generated = tuple[dict[str, Answer], set[str]]
"""Answers by request hash, and the hashes whose answers were not in the store."""
Generate = Callable[[Mapping[str, Request], ResponseStore, str], Generated]
"""Answers requests by hash, for the model of this name, through a store."""


def generate(
    model: Model, requests: Mapping[str, Request], store: ResponseStore, name: str = ""
) -> Generated:
    """The answers to requests by hash, and the hashes whose answers had to be generated.

    Where nothing is missing the model gets no request at all, so that it loads nothing. What another
    process is asking is waited for, and asked here where that process ends without an answer.
    Raises :class:`refract.models.protocol.AdapterError`, and :class:`StoreError`: before anything is
    requested where the store cannot be written. What was answered by then is in the store.
    """
    answers = store.get(requests)
    made: set[str] = set()
    waited = False
    while missing := {key: request for key, request in requests.items() if key not in answers}:
        claimed = store.claim(missing)
        try:
            answers |= store.get(claimed)  # another process may have stored them since
            asked = {
                key: request
                for key, request in missing.items()
                if key in claimed and key not in answers
            }
            if asked:
                made |= asked.keys()
                answers |= _ask(model, asked, store, name)
        finally:
            with contextlib.suppress(StoreError):  # a claim also ends by itself
                store.give_up_claims()
        if len(claimed) == len(missing):
            break
        if not waited:
            waited = True
            say(
                f"{name or 'answers'}: {len(missing) - len(claimed)} requests are being sent by "
                "another process; waiting for its answers",
                file=sys.stderr,
            )
        time.sleep(LOOK_SECONDS)
        answers |= store.get(missing)
    return answers, made


def _ask(
    model: Model, requests: Mapping[str, Request], store: ResponseStore, name: str
) -> dict[str, Answer]:
    """The model's answers to requests, each stored as it is made."""
    keys = list(requests)
    answers: dict[str, Answer] = {}
    tokens = errors = 0
    run: dict[str, Any] | None = None
    clock, started_at = time.monotonic(), utc(time.time())
    with _Writer(store, name) as writer, Progress(name or "answers", len(keys)) as progress:
        for index, answer in model.answer([requests[key] for key in keys]):
            # Before the first answer it is not known on which device the weights are.
            if run is None and answer.error is None:
                run = {**this_run(model.runtime), "started_at": started_at}
            if run is not None:
                origin = AnswerOrigin(run, round(time.monotonic() - clock, 3), answer.seconds)
                answer = replace(answer, origin=origin)
            answers[keys[index]] = answer
            writer.add(keys[index], answer)
            tokens += answer.completion_tokens or 0
            errors += answer.error is not None
            cost = model.usage.get("cost")
            spent = f", ${cost:.4f}" if cost else ""
            progress.advance(1, f"{tokens} tokens, {errors} errors{spent}")
    # The store has those of what it stored: not of errors, and of nothing where it is turned off.
    store.learn_origins({key: answer.origin for key, answer in answers.items() if answer.origin})
    for key in keys:
        answers.setdefault(
            key, Answer.failed("NoAnswer", "the adapter returned nothing for this request")
        )
    return answers


class _Writer:
    """Commits answers from a thread as they arrive, and renews the claims to those that are waited
    for: a kill loses the answers of one commit at most.

    Answers that arrive while a commit is under way go into the next one together. Where the store
    fails, what it did not take is written elsewhere.
    """

    def __init__(self, store: ResponseStore, name: str) -> None:
        self._store, self._name = store, name
        self._arrived: Queue[tuple[str, Answer] | None] = Queue()
        self._failure: Exception | None = None
        self._unsaved: list[tuple[str, Answer]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Also when the model fails or the user interrupts: what was paid for is stored.
        self._arrived.put(None)
        self._thread.join()
        if self._failure is not None:
            self._unsaved += self._take()[0]
            kept = keep_elsewhere([pair for pair in self._unsaved if storable(pair[1])])
            raise StoreError(f"{self._failure}{kept}") from None

    def add(self, key: str, answer: Answer) -> None:
        self._arrived.put((key, answer))
        if self._failure is not None:
            raise self._failure

    def _take(self, timeout: float = 0) -> tuple[list[tuple[str, Answer]], bool]:
        """What has arrived, at the latest after a time, and whether it was the last."""
        arrived: list[tuple[str, Answer] | None] = []
        with contextlib.suppress(Empty):
            arrived.append(self._arrived.get(timeout=timeout))
            while True:
                arrived.append(self._arrived.get_nowait())
        return [pair for pair in arrived if pair is not None], None in arrived

    def _run(self) -> None:
        renewed, ended = time.monotonic(), False
        while not ended:
            answers, ended = self._take(self._store.lease / 5)
            try:
                self._store.put(answers, self._name)
                if time.monotonic() - renewed > self._store.lease / 5:
                    self._store.renew_claims()
                    renewed = time.monotonic()
            except Exception as failure:  # raised in the generating thread, which can report it
                self._unsaved += answers
                self._failure = failure
                return


def keep_elsewhere(answers: Sequence[tuple[str, Answer]]) -> str:
    """Writes answers that the store did not take to a folder that `refract cache import` reads, or
    prints them where no folder can be written. Returns where they are, for a message."""
    if not answers:
        return ""
    rows = [answer_row(key, answer) for key, answer in answers]
    for parent in (Path.cwd(), Path(tempfile.gettempdir())):
        try:
            folder = Path(tempfile.mkdtemp(prefix="refract-answers-", dir=parent))
            write_rows(folder / "answers.jsonl", rows)
        except OSError:
            continue
        return (
            f". The {len(rows)} answers that were not stored are in {folder}: `refract cache import "
            f"{folder}` takes them"
        )
    for row in rows:
        sys.stderr.write(dump_row(row).decode("utf-8", "backslashreplace"))
    return (
        f". The {len(rows)} answers that were not stored are printed above: put those lines into a "
        "file FOLDER/answers.jsonl, for `refract cache import FOLDER`"
    )
