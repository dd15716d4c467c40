"""One model in several processes: each answers its share, the parent merges.

A local model's answers do not depend on their company, so the shares can be cut anywhere. On one
machine's CPUs the processes are started by torchrun, on GPUs by Accelerate's launcher, which also
follows the user's Accelerate configuration (several machines that share a file system). Each rank
finds its place through Accelerate's ``PartialState``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.models import open_model
from stages.models.answers import AdapterError, Answer, Request
from stages.progress import Progress
from stages.rows.jsonl import dump_row, read_rows, write_json
from stages.rows.showing import say
from stages.store import ResponseStore, answer_fields
from stages.store.asking import ask

WORK, POLL_SECONDS = "work.json", 0.2


def ask_in_processes(
    processes: int,
    definition: Mapping[str, Any],
    requests: Mapping[str, Request],
    store: ResponseStore,
    name: str,
) -> tuple[dict[str, Answer], set[str]]:
    """What :func:`stages.store.asking.ask` returns, from several processes.

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
                    [key, request.attempts, request.seed, request.facts]
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
    module = ["-m", "stages.model_inference.processes", str(folder)]
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


if __name__ == "__main__":
    try:
        answer_share(Path(sys.argv[1]))
    except AdapterError as error:
        say(f"share failed: {error}", flush=True)
        sys.exit(1)
