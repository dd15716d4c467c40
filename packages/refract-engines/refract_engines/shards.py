"""A model's requests in parts, which processes answer that share nothing but files at
the end.

A request belongs to a part by its hash, and a conversation to the part of its first
turn. The answers of a part are one file that never changes. The number and the order of
the files do not matter, since an answer is found by the hash of its request.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import UsageError
from refract.core.jsonl import dump_row, sha256_json, write_bytes
from refract.core.types import ErrorInfo, PromptRow, Row
from refract.models.answering import Turns, generate, requests_by_turn, ways_of_answering
from refract.models.protocol import Answer, Model, Request
from refract.models.store import (
    ResponseStore,
    StoreError,
    answer_row,
    known_answers,
    storable,
)

# How the file ends in which a shard keeps its answers until it has all.
UNDER_WAY = ".partial.jsonl"
# What an answer costs beside its prompt, in characters of one: a guess, since answers
# differ.
ANSWER_COST = 1000


def kept_rows(answers: Mapping[str, Answer], known_runs: set[str] | None = None) -> Iterator[Row]:
    """Answers by request hash as response rows, in order of it, with the ``certificate`` of each
    that has one and the ``run`` that made it. The first row of a run holds the run (``origin``),
    unless it is in ``known_runs``, which is added to."""
    known_runs = set() if known_runs is None else known_runs
    for key in sorted(answers):
        answer = answers[key]
        row: Row = {**answer_row(key, answer)}
        if answer.certificate is not None:
            row["certificate"] = answer.certificate
        if answer.origin is not None:
            row["run"] = sha256_json(answer.origin)
            if row["run"] not in known_runs:
                known_runs.add(row["run"])
                row["origin"] = answer.origin
        yield row


class Shard(NamedTuple):
    """Part ``number`` (from 1) of so many ``parts``."""

    number: int
    parts: int

    def of(self, requests: Mapping[str, Request]) -> dict[str, Request]:
        """The requests of the part: a stretch in order of hash. All stretches cost
        about the same, as far as characters tell."""
        costs = {}
        for key in sorted(requests):
            messages = requests[key].attempts[0]
            costs[key] = ANSWER_COST + sum(len(message["content"]) for message in messages)
        total, before = sum(costs.values()), 0
        chosen = {}
        for key, cost in costs.items():
            if before * self.parts // total == self.number - 1:
                chosen[key] = requests[key]
            before += cost
        return chosen

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"


def read_shard(text: str) -> Shard:
    """A part written as ``i/n``. Raises :class:`UsageError`."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    shard = Shard(int(match[1]), int(match[2])) if match else Shard(0, 0)
    if not 1 <= shard.number <= shard.parts:
        raise UsageError(f"--shard takes i/n, from 1/n to n/n, such as 3/8 (got {text!r})")
    return shard


class _LoggingStore(ResponseStore):
    """A store that also writes each answer to a file at once. Where the store is turned
    off, it holds answers for as long as it is open."""

    def __init__(self, path: Path | None, log: Path) -> None:
        super().__init__(path or Path(":memory:"))
        self._log = log
        self._written_runs: set[str] = set()

    def put(
        self,
        answers: Iterable[tuple[str, Answer]],
        model: str = "",
        corrected: Container[str] = (),
    ) -> int:
        new = {key: answer for key, answer in answers if storable(answer)}
        if new:
            try:
                with open(self._log, "ab") as file:
                    for row in kept_rows(new, self._written_runs):
                        file.write(dump_row(row))
            except OSError as error:
                raise StoreError(f"{self._log} cannot be written ({error.strerror})") from None
        return super().put(new.items(), model, corrected)


@dataclass
class ShardRun:
    """What became of a part's ``requests``: ``known`` from files, from the store or
    ``generated``; the errors among these, and the file that was written, if any."""

    requests: int = 0
    known: int = 0
    from_store: int = 0
    generated: int = 0
    errors: list[ErrorInfo] = field(default_factory=list)
    path: Path | None = None


def _answers_of(
    turns: Turns,
    shard: Shard,
    model: Model,
    store: ResponseStore,
    run: ShardRun,
    files: Sequence[Path],
    name: str,
) -> dict[str, Answer]:
    """The answers of a part that are in none of the files, turn by turn. ``run`` counts them."""
    answered = dict(known_answers(*files))
    made: dict[str, Answer] = {}
    before: dict[str, Answer] = {}  # which turns of conversations go on from
    # A conversation is in the part of its first turn: only of those there are answers.
    mine = shard.of(turns.requests)
    while turns.requests:
        missing = {}
        for key, request in mine.items():
            if key in answered:
                before[key] = answered[key]
            if key not in answered or answered[key].attempt >= len(request.attempts):
                missing[key] = request
        responses, generated = generate(model, missing, store, name=name)
        run.requests += len(mine)
        run.known += len(mine) - len(missing)
        run.generated += len(generated)
        run.from_store += len(missing) - len(generated)
        run.errors += [answer.error for answer in responses.values() if answer.error]
        made |= responses
        before |= responses
        turns.go_on(before)
        mine = turns.requests
    return made


def answer_shard(
    name: str,
    wanted: Mapping[str, Any],
    prompts: Mapping[str, Sequence[PromptRow]],
    seed: int,
    shard: Shard,
    folder: Path,
    *,
    store: Path | None,
    known: Iterable[Path] = (),
    fixed: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, int],
) -> ShardRun:
    """Answers a part of the requests of a model, and writes the answers to one file in ``folder``.

    Requests that ``known`` folders or other files of ``folder`` answer are left out; answers of the
    store at the path ``store`` are written too. An earlier run of the same part that did not end is
    taken up. The other arguments are those of :func:`answer_model`. Raises what :func:`generate`
    and :func:`known_answers` raise."""
    run, stem = ShardRun(), f"{name}-{shard.number}of{shard.parts}"
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = sorted(folder.glob(f"{stem}-*{UNDER_WAY}"))
    files = [path for path in sorted(folder.glob("*.jsonl")) if path not in unfinished]
    files = [*known, *files]
    answered = {key for key, _ in known_answers(*files)}
    kept = {}
    for key, answer in known_answers(*unfinished):
        if key not in answered:
            kept[key] = answer
    log = folder / f"{stem}-{os.urandom(4).hex()}{UNDER_WAY}"
    with _LoggingStore(store, log) as answers:
        answers.put(kept.items(), name)
        for model, times in ways_of_answering(
            name, wanted, suites=prompts, fixed=fixed, samples=samples
        ):
            suites = {suite: prompts[suite] for suite in times}
            turns = requests_by_turn(suites, model, seed=seed, samples=times)
            kept |= _answers_of(turns, shard, model, answers, run, files, f"{name} {shard}")
        rows = kept_rows(answers.whole(kept))
        lines = [dump_row(row) for row in rows]
    if lines:
        digest = hashlib.sha256(b"".join(lines)).hexdigest()
        run.path = folder / f"{stem}-{digest[:12]}.jsonl"
        write_bytes(run.path, lines)
    for path in (*unfinished, log):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other files are in it
        folder.rmdir()
    return run
