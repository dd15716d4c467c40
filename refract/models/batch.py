"""The providers' batch APIs (``mode: batch``): the same answers as live, cheaper and later.

A batch outlives the run that submits it. Each submission is written to a file in the ``batches``
folder of the cache folder, before it is sent and after; this holds also where the response store is
turned off, since otherwise an interrupted run would be paid twice. A run that finds some of its
requests in such a file waits for that batch and submits only the rest. The file is deleted when a
run has taken every answer of its batch.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from refract.core.environment import (
    cache_folder,
    default_cache_folder,
)
from refract.core.jsonl import sha256_json, write_json
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.provider import (
    FIRST_DELAY,
    LONGEST_DELAY,
    RETRIED,
    BatchDialect,
    Emit,
    Ended,
    Session,
)
from refract.models.replies import ending, error_name

T = TypeVar("T")
# Seconds by which the provider's clock may be behind.
CLOCK_SLACK = 60


@dataclass
class Batch:
    """A batch as its file holds it."""

    path: Path
    requests: list[str]  # hashes, which are the custom ids
    id: str | None = None  # None: not known to have been submitted
    submitted_at: float = 0.0
    server: list[str] = field(default_factory=list)

    @property
    def tag(self) -> str:
        """The name of this submission at the provider."""
        return f"{self.path.stem}-{self.submitted_at:.3f}"

    def write(self) -> None:
        """Writes the file."""
        state = {key: value for key, value in vars(self).items() if key != "path"}
        write_json(self.path, state)


class BatchRun:
    """Answers requests by batches.

    ``taken`` receives the files of the batches whose answers were all emitted.
    """

    def __init__(
        self, session: Session, requests: Sequence[Request], emit: Emit, taken: list[Path]
    ) -> None:
        self.session, self.requests, self.emit, self.taken = session, requests, emit, taken
        self.settings, self.sdk = session.settings, session.dialect.sdk
        self.folder = (cache_folder() or default_cache_folder()) / "batches"
        # Whose batches these are; a hash of it is in every custom id.
        self.server = [session.dialect.NAME, self.settings.base_url]
        self.api: BatchDialect

    async def run(self) -> None:
        """Emits every answer. Raises :class:`AdapterError` when the provider cannot be reached or
        does not accept the key; the next run finds what was submitted by then."""
        batches = self.session.dialect.BATCHES
        assert batches is not None  # checked when the model was opened
        async with self.session.open_client() as client:
            self.api = batches(client)
            attempts = dict.fromkeys(range(len(self.requests)), 0)
            while attempts:
                attempts = await self._round(attempts)

    async def _round(self, attempts: dict[int, int]) -> dict[int, int]:
        """One attempt for each request index: those to try again with their next attempt."""
        indices_of: dict[str, list[int]] = {}
        bodies: dict[str, bytes] = {}
        for index, attempt in attempts.items():
            body = self.session.payload(self.requests[index], attempt)
            request = self.requests[index]
            drawn = request.seed if self.settings.samples else request.repeat or None
            name = sha256_json([self.session.identity, body.decode("ascii"), drawn])
            indices_of.setdefault(name, []).append(index)
            bodies[name] = body
        batches = [
            batch for batch in self._written() if not bodies.keys().isdisjoint(batch.requests)
        ]
        for batch in batches:
            if batch.id is None:
                batch.id = await self._find(batch)
        batches = [batch for batch in batches if batch.id is not None]
        known = {name for batch in batches for name in batch.requests}
        new = self._afford(
            {name: body for name, body in bodies.items() if name not in known}, indices_of
        )
        for part in _parts(new, self.api):
            submitted = await self._submit({name: new[name] for name in part}, indices_of)
            if submitted is not None:
                batches.append(submitted)
        again: dict[int, int] = {}
        while batches:
            going_on = []
            for batch in batches:
                ended = await self._ended(batch)
                if ended is None:
                    going_on.append(batch)
                    continue
                self._take(batch, ended, indices_of, attempts, again)
            batches = going_on
            if batches:
                await asyncio.sleep(self.settings.batch_poll)
        return again

    def _written(self) -> Iterator[Batch]:
        for path in sorted(self.folder.glob("*.json")):
            try:
                batch = Batch(path, **json.loads(path.read_bytes()))
            except (OSError, ValueError, TypeError):
                continue  # torn or foreign: what it held is submitted again
            if batch.server == self.server:
                yield batch

    def _afford(self, new: dict[str, bytes], indices_of: dict[str, list[int]]) -> dict[str, bytes]:
        """As many new requests as the run's limits allow, each at the most it can cost."""
        usage = self.session.usage
        affordable: dict[str, bytes] = {}
        cost = usage["cost"] or 0.0
        for name, body in new.items():
            cost += self.session.cost(*self.session.most_tokens(body))
            for limit, reached in (
                ("max_requests", usage["requests"] + len(affordable) + 1),
                ("max_cost", cost),
            ):
                most = getattr(self.settings, limit)
                if most is not None and reached > most:
                    message = f"not requested: {limit}: {most} is reached"
                    self._fail(indices_of[name], "BudgetExhausted", message)
                    break
            else:
                affordable[name] = body
        return affordable

    async def _submit(
        self, bodies: dict[str, bytes], indices_of: dict[str, list[int]]
    ) -> Batch | None:
        """Submits a batch. Where the response to that is lost, looks whether the batch arrived."""
        names = list(bodies)
        path = self.folder / f"{sha256_json(names)[:32]}.json"
        batch = Batch(path, names, None, time.time(), self.server)
        batch.write()
        first, failures = time.monotonic(), 0
        while batch.id is None:
            try:
                async with asyncio.timeout(self.settings.timeout):
                    batch.id = await self.api.submit(batch.tag, bodies)
            except (self.sdk.APIError, TimeoutError) as error:
                if not self._passes(error, failures, first):
                    batch.path.unlink()
                    self._check_key(error)
                    message = self.session.clean(error)
                    for name in names:
                        self._fail(indices_of[name], type(error).__name__, message)
                    return None
                failures += 1
                await asyncio.sleep(_delay(failures))
                batch.id = await self._find(batch)
        self.session.usage["requests"] += len(names)
        batch.write()
        return batch

    async def _find(self, batch: Batch) -> str | None:
        """The id of a batch that was sent and perhaps arrived."""
        others = {other.id for other in self._written()}
        since = batch.submitted_at - CLOCK_SLACK
        size = len(batch.requests)
        found: str | None = await self._persist(
            lambda: self.api.find(batch.tag, size, since, others)
        )
        if found is not None:
            batch.id = found
            batch.write()
        return found

    async def _ended(self, batch: Batch) -> Ended | None:
        batch_id = batch.id
        assert batch_id is not None

        async def ended() -> Ended | None:
            try:
                return await self.api.ended(batch_id)
            except self.sdk.NotFoundError:
                return Ended({}, ("BatchFailed", "the provider no longer has the batch"))

        return await self._persist(ended)

    def _take(
        self,
        batch: Batch,
        ended: Ended,
        indices_of: dict[str, list[int]],
        attempts: dict[int, int],
        again: dict[int, int],
    ) -> None:
        for name in batch.requests:
            indices = indices_of.pop(name, [])
            if not indices:
                continue
            if name not in ended.results:
                self._fail(indices, *ended.missing)
                continue
            for index in indices:
                attempt = attempts[index]
                most = self.session.most_tokens(self.session.payload(self.requests[index], attempt))
                answer = self._answer(ended.results[name], attempt, most)
                too_long = answer.error is not None and answer.error["type"] == "PromptTooLong"
                if too_long and attempt + 1 < len(self.requests[index].attempts):
                    again[index] = attempt + 1
                else:
                    self.emit((index, answer))
        self.taken.append(batch.path)

    def _answer(self, result: Any, attempt: int, most: tuple[float, float]) -> Answer:
        try:
            status, payload = self.api.result(result)
            if status == 200:
                answer = self.session.read_payload(payload, attempt)
                self.session.count(answer, most)
                return answer
            meaning = ending(status, payload, attempt)
            text = self.session.clean(payload.get("message") or payload.get("code"))
        except Exception as error:  # a provider may send anything
            message = self.session.clean(error)
            self.session.spend(*most)  # an answer that cannot be read has been paid for
            return Answer.failed("InvalidResponse", message, attempt)
        if isinstance(meaning, Answer):
            return meaning
        if status == 0:
            return Answer.failed("BatchExpired", text, attempt)
        name = error_name(status)
        name = "PromptTooLong" if meaning == "too_long" else name
        return Answer.failed(name, f"HTTP {status}: {text}", attempt)

    def _fail(self, indices: Sequence[int], name: str, message: str) -> None:
        for index in indices:
            self.emit((index, Answer.failed(name, message)))

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of a call that may be repeated, tried until it succeeds or time is up."""
        first, failures = time.monotonic(), 0
        while True:
            try:
                async with asyncio.timeout(self.settings.timeout):
                    return await call()
            except (self.sdk.APIError, TimeoutError) as error:
                if not self._passes(error, failures, first):
                    self._check_key(error)
                    raise AdapterError(
                        f"models.{self.session.name}: {self.settings.base_url} does not tell "
                        f"how a batch stands ({self.session.clean(error)}); run again "
                        "to go on with it"
                    ) from None
                failures += 1
                await asyncio.sleep(_delay(failures))

    def _passes(self, error: Any, failures: int, first: float) -> bool:
        """Whether a failure is one that passes, and there is time for it to."""
        status = getattr(error, "status_code", None)
        passing = status is None or status in RETRIED or status >= 500
        waited = time.monotonic() - first + _delay(failures + 1)
        return passing and waited <= self.settings.retry_for

    def _check_key(self, error: Any) -> None:
        if getattr(error, "status_code", None) in (401, 403):
            raise self.session.key_rejected(self.session.clean(error)) from None


def _delay(failures: int) -> float:
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (failures - 1))


def _parts(bodies: dict[str, bytes], api: BatchDialect) -> Iterator[list[str]]:
    """Custom ids in parts that one batch may hold."""
    part: list[str] = []
    size = 0
    for name, body in bodies.items():
        more = len(body) + 256
        if part and (len(part) == api.MOST_REQUESTS or size + more > api.MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(name)
        size += more
    if part:
        yield part
