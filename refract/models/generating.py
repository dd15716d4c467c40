"""Requesting from a model the answers that the store lacks, and storing them as they are made.

A local model's answers are batch-invariant, so several processes can share the requests anywhere
(:func:`generator` says which do). Rank 0 broadcasts the requests and gathers the answers
(:func:`generate_with_ranks`); the others receive the requests, answer their shares and send them back
(:func:`follow`). They share no files: only rank 0 needs the inputs and writes outputs. With
``processes: N`` this process is rank 0 and starts the others on this machine once there is something
to generate. On several machines the user's launcher starts the stage on each (``accelerate launch …
-m stages.model_inference MODEL``).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Self

from refract.core.environment import this_run, utc
from refract.core.errors import RefractError
from refract.core.jsonl import dump_row, write_rows
from refract.core.progress import Progress
from refract.core.showing import say
from refract.models import identity_of, open_model
from refract.models.protocol import AdapterError, Answer, AnswerOrigin, Model, Request
from refract.models.store import ResponseStore, StoreError, answer_row, storable

# Seconds between two looks at what another process is asking.
LOOK_SECONDS = 0.5
# And at whether the processes that this one started are there.
POLL_SECONDS = 0.1
LOCALHOST = "127.0.0.1"
# A rank may wait as long as another has work.
LONGEST = timedelta(days=30)

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


class LostRank(AdapterError):
    """Another process ended before it sent its answers."""


def ranks() -> tuple[int, int]:
    """This process's rank and how many there are, as torchrun and Accelerate's launcher say."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def generator(model: Model, definition: Mapping[str, Any]) -> Generate:
    """How this process generates answers: with the ranks that a launcher started, with processes of
    its own (``processes`` in the definition), or alone."""
    if ranks()[1] > 1:
        return partial(generate_with_ranks, model, definition)
    processes = definition.get("processes", 1)
    if processes > 1:
        return partial(generate_in_processes, processes, model, definition)
    return partial(generate, model)


@contextlib.contextmanager
def joined_ranks(**rendezvous: Any) -> Iterator[None]:
    """Within it, the ranks can communicate. They find each other by the environment variables of a
    launcher, or by ``store``, ``rank`` and ``world_size``."""
    from torch import distributed

    # Only small objects are sent, so what suits CPUs suits all.
    distributed.init_process_group("gloo", timeout=LONGEST, **rendezvous)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def generate_with_ranks(
    model: Model,
    definition: Mapping[str, Any],
    requests: Mapping[str, Request],
    store: ResponseStore,
    name: str,
) -> Generated:
    """What :func:`generate` returns, with the help of the other ranks.

    Runs in rank 0. Raises :class:`AdapterError` when a rank fails, or has another model than this
    one under the same name; what was answered by then is in the stores of those that answered.
    """
    from torch import distributed

    work = {
        "name": name,
        "definition": dict(definition),
        "identity": identity_of(model),
        "requests": list(requests.items()),
    }
    parts: list[Any] = [None] * distributed.get_world_size()
    with _lost(f"{name}: another process ended before it received its requests"):
        distributed.broadcast_object_list([work], src=0)
    share = _share(work, store, model)
    with _lost(f"{name}: another process ended before it sent its answers"):
        distributed.gather_object(share, parts, dst=0)
    answers = {
        key: answer for part in parts if isinstance(part, dict) for key, answer in part.items()
    }
    store.put(answers.items(), name)
    store.learn_origins({key: answer.origin for key, answer in answers.items() if answer.origin})
    if failed := [f"rank {n}: {part}" for n, part in enumerate(parts) if isinstance(part, str)]:
        raise AdapterError(f"{name}: {'; '.join(failed)}")
    return answers, set(answers)


def follow(store: ResponseStore) -> None:
    """What every rank but 0 does: answers its share of rank 0's requests, and sends it there."""
    from torch import distributed

    received: list[Any] = [None]
    with _lost("rank 0 ended before it sent any request; see its output"):
        distributed.broadcast_object_list(received, src=0)
    share = _share(received[0], store)
    with _lost("rank 0 ended before it received all answers; see its output"):
        distributed.gather_object(share, None, dst=0)


@contextlib.contextmanager
def _lost(message: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # the connection was closed
        raise LostRank(message) from error


def _share(
    work: Mapping[str, Any], store: ResponseStore, model: Model | None = None
) -> dict[str, Answer] | str:
    """The answers to this rank's share of the work, or why there are none: an exception here would
    leave the other ranks waiting. ``model``: rank 0's own; the others open theirs."""
    from torch import distributed

    requests = dict(work["requests"][distributed.get_rank() :: distributed.get_world_size()])
    try:
        if not requests:
            return {}
        if model is None:
            model = open_model(work["name"], work["definition"])
            if identity_of(model) != work["identity"]:
                return "the model here is not that of rank 0: other weights, or another adapter"
        return generate(model, requests, store, work["name"])[0]
    except RefractError as error:
        return str(error)


def generate_in_processes(
    processes: int,
    model: Model,
    definition: Mapping[str, Any],
    requests: Mapping[str, Request],
    store: ResponseStore,
    name: str,
) -> Generated:
    """What :func:`generate_with_ranks` returns, where this process starts the other ranks itself.

    Raises :class:`AdapterError` when a process fails; what was answered by then is in the store.
    """
    if not requests:
        return {}, set()
    from torch import distributed, get_num_threads

    from refract.models.cpu import running_on

    threads = max(1, get_num_threads() // processes)
    meeting = distributed.TCPStore(LOCALHOST, 0, is_master=True, wait_for_workers=False)
    started: dict[int, subprocess.Popen[bytes]] = {}
    with tempfile.TemporaryFile() as log:
        try:
            for rank in range(1, processes):
                program = [sys.executable, "-m", "refract.models.generating", str(rank)]
                program += [str(processes), str(meeting.port), str(store.path or "")]
                variables = {"LOCAL_RANK": str(rank), "OMP_NUM_THREADS": str(threads)}
                started[rank] = subprocess.Popen(
                    program, env=os.environ | variables, stdout=log, stderr=subprocess.STDOUT
                )
            # A rank that never comes would be waited for without end.
            while not meeting.check([f"ready/{rank}" for rank in started]):
                for rank, process in started.items():
                    if process.poll() is not None:
                        code = process.returncode
                        raise LostRank(f"rank {rank} ended at its start (exit code {code})")
                time.sleep(POLL_SECONDS)
            with running_on(threads), joined_ranks(store=meeting, rank=0, world_size=processes):
                return generate_with_ranks(model, definition, requests, store, name)
        except LostRank as error:
            log.seek(0)
            output = log.read()[-2000:].decode("utf-8", "replace").strip()
            raise AdapterError(f"{error}; the output of the processes ends:\n{output}") from None
        finally:
            for process in started.values():
                process.kill()  # those that have not ended by themselves
                process.wait()


def _run_rank(rank: int, count: int, port: int, path: str) -> None:
    """What a process does that :func:`generate_in_processes` started."""
    from torch import distributed

    meeting = distributed.TCPStore(LOCALHOST, port, is_master=False)
    meeting.set(f"ready/{rank}", "1")
    with (
        ResponseStore(Path(path) if path else None) as store,
        joined_ranks(store=meeting, rank=rank, world_size=count),
    ):
        follow(store)


if __name__ == "__main__":
    _rank, _count, _port, _path = sys.argv[1:]
    _run_rank(int(_rank), int(_count), int(_port), _path)
