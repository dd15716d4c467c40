"""Requesting from a model the answers that the store lacks, and storing them as they are made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from refract.models.protocol import Answer, Model, Request
from refract.progress import Progress
from refract.store import ResponseStore

Generated = tuple[dict[str, Answer], set[str]]
"""Answers by request hash, and the hashes whose answers were not in the store."""
Generate = Callable[[Mapping[str, Request], ResponseStore, str], Generated]
"""Answers requests by hash, for the model of this name, through a store."""


def generate(
    model: Model, requests: Mapping[str, Request], store: ResponseStore, name: str = ""
) -> Generated:
    """The answers to requests by hash, and the hashes whose answers had to be generated.

    Where nothing is missing the model gets no request at all, so that it loads nothing. Raises
    :class:`refract.models.protocol.AdapterError`; what was answered by then is in the store.
    """
    answers = store.get(requests)
    missing = [key for key in requests if key not in answers]
    if not missing:
        return answers, set()
    tokens = errors = 0
    with _Writer(store, name) as writer, Progress(name or "answers", len(missing)) as progress:
        for index, answer in model.answer([requests[key] for key in missing]):
            answers[missing[index]] = answer
            writer.add(missing[index], answer)
            tokens += answer.completion_tokens or 0
            errors += answer.error is not None
            cost = usage_of(model).get("cost")
            spent = f", ${cost:.4f}" if cost else ""
            progress.advance(1, f"{tokens} tokens, {errors} errors{spent}")
    for key in missing:
        answers.setdefault(
            key, Answer.failed("NoAnswer", "the adapter returned nothing for this request")
        )
    return answers, set(missing)


def usage_of(model: Model) -> dict[str, Any]:
    """What the requests to a served model used so far; empty for a model that runs here."""
    usage: dict[str, Any] = getattr(model, "usage", {})
    return usage


class _Writer:
    """Commits answers from a thread as they arrive: a kill loses those of one commit at most.

    Answers that arrive while a commit is under way go into the next one together.
    """

    def __init__(self, store: ResponseStore, name: str) -> None:
        self._store, self._name = store, name
        self._arrived: SimpleQueue[tuple[str, Answer] | None] = SimpleQueue()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        type_: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        # Also when the model fails or the user interrupts: what was paid for is stored.
        self._arrived.put(None)
        self._thread.join()
        if self._failure is not None and value is None:
            raise self._failure

    def add(self, key: str, answer: Answer) -> None:
        if self._failure is not None:
            raise self._failure
        self._arrived.put((key, answer))

    def _run(self) -> None:
        more = True
        while more:
            batch = [self._arrived.get()]
            while not self._arrived.empty():
                batch.append(self._arrived.get())
            more = None not in batch
            try:
                self._store.put([answer for answer in batch if answer is not None], self._name)
            except Exception as failure:  # raised in the generating thread, which can report it
                self._failure = failure
                return
