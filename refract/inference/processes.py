"""One model in several processes: each answers its share, one merges.

A local model's answers do not depend on their company, so the shares can be cut anywhere.

On one machine the stage starts them (:func:`ask_in_processes`): by torchrun on CPUs, on GPUs by
Accelerate's launcher. On several machines the user's launcher starts the stage itself on each
(``accelerate launch --config_file …  -m stages.model_inference MODEL``); rank 0 hands out the shares
(:func:`ask_with_ranks`), the others answer theirs (:func:`follow`). They share no files: what is
asked and answered goes over the network, and only rank 0 needs the inputs and writes the outputs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from refract.errors import ParamsError
from refract.models import identity_of, open_model
from refract.models.protocol import AdapterError, Answer, Request
from refract.progress import Progress
from refract.rows.jsonl import dump_row, read_rows, write_json
from refract.rows.showing import say
from refract.store import ResponseStore, StoreError, answer_fields, open_store
from refract.store.asking import ask

WORK, POLL_SECONDS = "work.json", 0.2


def ask_in_processes(
    processes: int,
    definition: Mapping[str, Any],
    requests: Mapping[str, Request],
    store: ResponseStore,
    name: str,
) -> tuple[dict[str, Answer], set[str]]:
    """What :func:`refract.store.asking.ask` returns, from several processes.

    Raises :class:`AdapterError` when a process fails; what was answered by then is in the store.
    """
    if not requests:
        return {}, set()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_json(
            folder / WORK,
            {
                "name": name,
                "definition": dict(definition),
                "store": None if store.path is None else str(store.path),
                "requests": [
                    [key, request.attempts, request.seed, request.metadata]
                    for key, request in requests.items()
                ],
            },
        )
        with open(folder / "log", "w+b") as log:
            started = subprocess.Popen(
                _command(processes, definition, folder), stdout=log, stderr=subprocess.STDOUT
            )
            try:
                _watch(started, folder, name, len(requests))
            finally:
                started.kill()  # nothing to kill unless this process was interrupted
                started.wait()
            log.seek(0)
            said = log.read().decode("utf-8", "replace")
        answers = _merge(folder)
    if started.returncode != 0 or len(answers) < len(requests):
        problem = next(
            (line for line in reversed(said.splitlines()) if line.startswith("share failed:")),
            said[-2000:],
        )
        raise AdapterError(f"{name}: one of {processes} processes failed: {problem}")
    return answers, set(answers)


def _command(processes: int, definition: Mapping[str, Any], folder: Path) -> list[str]:
    module = ["-m", "refract.inference.processes", str(folder)]
    if definition.get("device") == "cpu":
        # Accelerate's own launcher starts one process where there is no GPU, whatever is asked.
        launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    else:
        launcher = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", str(processes)]
    return [sys.executable, "-m", *launcher, *module]


def _watch(started: subprocess.Popen[bytes], folder: Path, name: str, total: int) -> None:
    read: dict[Path, int] = {}
    with Progress(name or "answers", total) as progress:
        while started.poll() is None:
            time.sleep(POLL_SECONDS)
            for path in folder.glob("share-*.jsonl"):
                with open(path, "rb") as file:
                    file.seek(read.get(path, 0))
                    new = file.read()
                read[path] = read.get(path, 0) + len(new)
                progress.advance(new.count(b"\n"))


def _merge(folder: Path) -> dict[str, Answer]:
    answers = {}
    for path in sorted(folder.glob("share-*.jsonl")):
        for row in read_rows(path):
            key = row.pop("request_sha256")
            answers[key] = Answer(**row)
    return answers


class _Recorder:
    """A model that writes down each answer as it passes it on."""

    def __init__(self, model: Any, keys: list[str], path: Path) -> None:
        self._model, self._keys, self._path = model, keys, path

    def answer(self, requests: list[Request]) -> Any:
        with open(self._path, "wb") as file:
            for index, answer in self._model.answer(requests):
                fields = {**answer_fields(answer), "error": answer.error}
                file.write(dump_row({"request_sha256": self._keys[index], **fields}))
                file.flush()
                yield index, answer


def answer_share(folder: Path) -> None:
    """What each process runs: the requests of its rank, into the store and a file of its own."""
    from accelerate import PartialState

    work = json.loads((folder / WORK).read_text("utf-8"))
    definition = work["definition"]
    state = PartialState(cpu=definition.get("device") == "cpu")
    rank, ranks = state.process_index, state.num_processes
    share = {
        key: Request(tuple(tuple(attempt) for attempt in attempts), seed, facts)
        for key, attempts, seed, facts in work["requests"][rank::ranks]
    }
    path = folder / f"share-{rank}.jsonl"
    model = _Recorder(open_model(work["name"], definition), list(share), path)
    with ResponseStore(None if work["store"] is None else Path(work["store"])) as store:
        ask(model, share, store, work["name"])
    state.wait_for_everyone()
    state.destroy_process_group()


def ranks() -> tuple[int, int]:
    """This process's rank and how many there are, as torchrun and Accelerate's launcher say."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined_ranks() -> Iterator[None]:
    """Within it, the processes that a launcher started can talk."""
    from torch import distributed

    # Nothing but small objects is sent, so what suits CPUs suits all. A rank may wait as long as
    # another has work.
    distributed.init_process_group("gloo", timeout=timedelta(days=30))
    try:
        yield
    finally:
        distributed.destroy_process_group()


def ask_with_ranks(
    model: Any,
    definition: Mapping[str, Any],
    requests: Mapping[str, Request],
    store: ResponseStore,
    name: str,
) -> tuple[dict[str, Answer], set[str]]:
    """What :func:`refract.store.asking.ask` returns, with the help of the other ranks.

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
    distributed.broadcast_object_list([work], src=0)
    parts: list[Any] = [None] * distributed.get_world_size()
    distributed.gather_object(_share(work, store, model), parts, dst=0)
    failed = [f"rank {rank}: {part}" for rank, part in enumerate(parts) if isinstance(part, str)]
    answers = {
        key: answer for part in parts if isinstance(part, dict) for key, answer in part.items()
    }
    store.put(answers.items(), name)
    if failed:
        raise AdapterError(f"{name}: {'; '.join(failed)}")
    return answers, set(answers)


def follow() -> None:
    """What every rank but 0 does: answers its share of what rank 0 asks, and sends it there."""
    from torch import distributed

    received: list[Any] = [None]
    try:
        distributed.broadcast_object_list(received, src=0)
    except RuntimeError:
        raise AdapterError("rank 0 ended before it asked anything; see what it said") from None
    with open_store() as store:
        distributed.gather_object(_share(received[0], store), None, dst=0)


def _share(
    work: Mapping[str, Any], store: ResponseStore, model: Any = None
) -> dict[str, Answer] | str:
    """The answers to this rank's share of the work, or why there are none: an exception here would
    leave the other ranks waiting. ``model``: rank 0's own; the others open theirs."""
    rank, count = ranks()
    mine = dict(work["requests"][rank::count])
    try:
        if not mine:
            return {}
        if model is None:
            model = open_model(work["name"], work["definition"])
            if identity_of(model) != work["identity"]:
                return "the model here is not that of rank 0: other weights, or another adapter"
        return ask(model, mine, store, work["name"])[0]
    except (AdapterError, ParamsError, StoreError) as error:
        return str(error)


if __name__ == "__main__":
    try:
        answer_share(Path(sys.argv[1]))
    except AdapterError as error:
        say(f"share failed: {error}", flush=True)
        sys.exit(1)
