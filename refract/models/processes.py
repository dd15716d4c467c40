"""One model in several processes: each answers a share of the requests, and rank 0 merges them.

A local model's answers are batch-invariant, so the requests can be divided anywhere. Rank 0
broadcasts the requests and gathers the answers (:func:`generate_with_ranks`); the others receive the
requests, answer their shares and send them back (:func:`follow`). They share no files, so that only
rank 0 needs the inputs and writes outputs.

With ``processes: N`` this process is rank 0 and starts the others on this machine, as
``python -m refract.models.processes``, once there is something to generate. On several machines the
user's launcher starts the stage itself on each (``accelerate launch … -m stages.model_inference
MODEL``).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import IO, Any

from refract.core.errors import RefractError
from refract.models import identity_of, open_model
from refract.models.generating import Generate, Generated, generate
from refract.models.protocol import AdapterError, Answer, Model, Request
from refract.models.store import ResponseStore

POLL_SECONDS = 0.1
LOCALHOST = "127.0.0.1"
# A rank may wait as long as another has work.
LONGEST = timedelta(days=30)


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


@contextmanager
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
    """What :func:`refract.models.generating.generate` returns, with the help of the other ranks.

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


@contextmanager
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
    with tempfile.TemporaryFile() as log:
        followers = [
            _start(rank, processes, meeting.port, store.path, threads, log)
            for rank in range(1, processes)
        ]
        try:
            _await_followers(meeting, followers)
            with running_on(threads), joined_ranks(store=meeting, rank=0, world_size=processes):
                return generate_with_ranks(model, definition, requests, store, name)
        except LostRank as error:
            log.seek(0)
            output = log.read()[-2000:].decode("utf-8", "replace").strip()
            raise AdapterError(f"{error}; the output of the processes ends:\n{output}") from None
        finally:
            for follower in followers:
                follower.kill()  # those that have not ended by themselves
                follower.wait()


def _start(
    rank: int, count: int, port: int, store: Path | None, threads: int, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    arguments = [str(rank), str(count), str(port), *([] if store is None else [str(store)])]
    return subprocess.Popen(
        [sys.executable, "-m", "refract.models.processes", *arguments],
        env={**os.environ, "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": str(threads)},
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def _await_followers(meeting: Any, followers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Returns when all have started; a rank that never comes would be waited for without end."""
    while not meeting.check([f"ready/{rank}" for rank in range(1, 1 + len(followers))]):
        for rank, follower in enumerate(followers, 1):
            if follower.poll() is not None:
                raise LostRank(f"rank {rank} ended at its start (exit code {follower.returncode})")
        time.sleep(POLL_SECONDS)


def _run_rank(rank: int, count: int, port: int, path: Path | None) -> None:
    """What a process does that :func:`generate_in_processes` started."""
    from torch import distributed

    meeting = distributed.TCPStore(LOCALHOST, port, is_master=False)
    meeting.set(f"ready/{rank}", "1")
    with ResponseStore(path) as store, joined_ranks(store=meeting, rank=rank, world_size=count):
        follow(store)


if __name__ == "__main__":
    rank, count, port, *path = sys.argv[1:]
    _run_rank(int(rank), int(count), int(port), Path(path[0]) if path else None)
