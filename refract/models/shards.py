"""A model's requests in parts, which processes answer that share nothing but, at the end, files.

A request belongs to a part by its hash, whatever is answered already, and a conversation that is played
by that of its first turn. The answers of a part are one file that never changes. Which files there are,
in which order and how often each is read makes no difference to the whole, since an answer is found by
the hash of its request.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import UsageError
from refract.core.jsonl import dump_row, write_bytes
from refract.core.types import ErrorInfo, PromptRow
from refract.models.answering import generate, requests_by_turn, ways_of_answering
from refract.models.protocol import Answer, Request
from refract.models.store import ResponseStore, StoreError, kept_rows, known_answers, storable

# Files of answers that shards made, in a folder for each model: read, and never a dependency, since
# they spare asking and change no answer.
SHARDS = Path("data/shards")
# How the file ends in which a shard keeps what it has, until it has all.
UNDER_WAY = ".partial.jsonl"
# What an answer costs beside its prompt, in characters of one: a guess, since answers differ.
ANSWER_COST = 1000


class Shard(NamedTuple):
    """Part ``number`` (from 1) of so many ``parts``."""

    number: int
    parts: int

    def of(self, requests: Mapping[str, Request]) -> dict[str, Request]:
        """The requests by hash that are in the part: a stretch of them in order of hash. All stretches
        cost about the same, as far as characters tell."""
        costs = {
            key: ANSWER_COST + sum(len(message["content"]) for message in requests[key].attempts[0])
            for key in sorted(requests)
        }
        total, before, found = sum(costs.values()), 0, {}
        for key, cost in costs.items():
            if before * self.parts // total == self.number - 1:
                found[key] = requests[key]
            before += cost
        return found

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"


def read_shard(text: str) -> Shard:
    """A part written as ``i/n``. Raises :class:`UsageError`."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    shard = Shard(*map(int, match.groups())) if match else Shard(0, 0)
    if not 1 <= shard.number <= shard.parts:
        raise UsageError(f"--shard takes i/n, from 1/n to n/n, such as 3/8 (got {text!r})")
    return shard


class _LoggingStore(ResponseStore):
    """A store that writes what it takes to a file as well, at once and for good; where the store is
    turned off, it holds answers for as long as it is open."""

    def __init__(self, path: Path | None, log: Path) -> None:
        super().__init__(path or Path(":memory:"))
        self._log = log
        self._told: set[str] = set()

    def put(
        self, answers: Iterable[tuple[str, Answer]], model: str = "", corrected: Container[str] = ()
    ) -> int:
        given = {key: answer for key, answer in answers if storable(answer)}
        if given:
            try:
                with open(self._log, "ab") as file:
                    file.writelines(map(dump_row, kept_rows(given, self._told)))
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise StoreError(f"{self._log} cannot be written ({error.strerror})") from None
        return super().put(given.items(), model, corrected)


@dataclass
class ShardRun:
    """What became of a part's ``requests``: how many were ``known`` from files, came from the store and
    were ``generated``; the errors among these, and the file that was written, if any."""

    requests: int = 0
    known: int = 0
    from_store: int = 0
    generated: int = 0
    errors: list[ErrorInfo] = field(default_factory=list)
    path: Path | None = None


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

    Answers in ``known`` folders and in the other files of ``folder`` are in no need of another; those
    of the store at the path ``store`` are written too. What a run of the same part left in ``folder``
    that did not end is taken up. The other arguments are those of
    :func:`refract.models.answering.answer_model`. Raises what :func:`generate` and
    :func:`known_answers` raise.
    """
    made, stem = ShardRun(), f"{name}-{shard.number}of{shard.parts}"
    folder.mkdir(parents=True, exist_ok=True)
    left = sorted(folder.glob(f"{stem}-*{UNDER_WAY}"))
    others = [path for path in sorted(folder.glob("*.jsonl")) if path not in left]
    answered = {key: answer.attempt for key, answer in known_answers(*known, *others)}
    kept = {key: answer for key, answer in known_answers(*left) if key not in answered}
    log = folder / f"{stem}-{os.urandom(4).hex()}{UNDER_WAY}"
    with _LoggingStore(store, log) as answers:
        answers.put(kept.items(), name)
        for model, times in ways_of_answering(name, wanted, prompts, fixed, samples):
            suites = {suite: prompts[suite] for suite in times}
            played = any("after" in row for rows in suites.values() for row in rows)
            said: dict[str, Answer] = {}
            every = requests_by_turn(suites, model, seed, times, said)
            for turn, requests in enumerate(every):
                # A conversation is in the part of its first turn: only of those there are answers.
                mine = requests if turn else shard.of(requests)
                missing = {
                    key: request
                    for key, request in mine.items()
                    if answered.get(key, len(request.attempts)) >= len(request.attempts)
                }
                given, generated = generate(model, missing, answers, f"{name} {shard}")
                made.requests += len(mine)
                made.known += len(mine) - len(missing)
                made.generated += len(generated)
                made.from_store += len(missing) - len(generated)
                made.errors += [answer.error for answer in given.values() if answer.error]
                kept |= given
                if played:
                    in_files = known_answers(*known, *others)
                    said |= {key: answer for key, answer in in_files if key in mine} | given
        lines = list(map(dump_row, kept_rows(answers.whole(kept))))
    if lines:
        digest = hashlib.sha256(b"".join(lines)).hexdigest()
        made.path = folder / f"{stem}-{digest[:12]}.jsonl"
        write_bytes(made.path, lines)
    for path in (*left, log):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other files are in it
        folder.rmdir()
    return made
