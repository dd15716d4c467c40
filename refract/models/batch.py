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
import math
import time
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from refract.core.environment import (
    cache_folder,
    default_cache_folder,
)
from refract.core.jsonl import sha256_json, write_json
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.provider import Emit, Ended, Failure, Provider, error_said

T = TypeVar("T")
# Seconds between two tries of the same call: doubled with each, up to the longest.
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
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
    """Answers requests by batches, one round for each attempt that requests need.

    ``taken`` receives the files of the batches whose answers were all emitted.
    """

    def __init__(
        self, model: Provider, requests: Sequence[Request], emit: Emit, taken: list[Path]
    ) -> None:
        self.model, self.requests, self.emit, self.taken = model, requests, emit, taken
        self.settings, self.sdk = model.settings, model.sdk
        self.folder = (cache_folder() or default_cache_folder()) / "batches"
        # Whose batches these are; a hash of it is in every custom id.
        self.server = [model.adapter, self.settings.base_url]
        # Of a round, by custom id: the requests of the same body and seed, and that body.
        self.indices: dict[str, list[int]] = {}
        self.bodies: dict[str, bytes] = {}

    async def run(self) -> None:
        """Emits every answer. Raises :class:`AdapterError` when the provider cannot be reached or
        does not accept the key; the next run finds what was submitted by then."""
        # Looking is repeated by the package, which waits for 8 seconds at most; submitting is not.
        looks = math.ceil(self.settings.retry_for / 8) + 2
        async with self.model.open_client() as client:
            self.client = client
            self.patient = client.with_options(max_retries=looks, timeout=self.settings.timeout)
            left, attempt = list(range(len(self.requests))), 0
            while left:
                left = await self._round(left, attempt)
                attempt += 1

    async def _round(self, left: list[int], attempt: int) -> list[int]:
        """Asks for one attempt of requests; returns those whose next attempt is to be tried."""
        self.indices, self.bodies = {}, {}
        identity = self.model.identity()
        for index in left:
            request = self.requests[index]
            body = self.model.payload(request, attempt)
            drawn = request.seed if self.settings.samples else request.repeat or None
            name = sha256_json([identity, body.decode("ascii"), drawn])
            self.indices.setdefault(name, []).append(index)
            self.bodies[name] = body
        batches = []
        for batch in self._written():
            if not self.bodies.keys().isdisjoint(batch.requests):
                if batch.id is None:
                    await self._find(batch)
                if batch.id is not None:
                    batches.append(batch)
        known = {name for batch in batches for name in batch.requests}
        for part in self._parts([name for name in self.bodies if name not in known]):
            if (batch_sent := await self._submit(part)) is not None:
                batches.append(batch_sent)
        again: list[int] = []
        while batches:
            for batch in list(batches):
                if (ended := await self._look(self._ended(batch))) is not None:
                    batches.remove(batch)
                    again += self._take(batch, ended, attempt)
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

    def _parts(self, names: Sequence[str]) -> Iterator[list[str]]:
        """Custom ids in parts that one batch may hold: as many as the run's limits allow, each at the
        most it can cost."""
        model = self.model
        part: list[str] = []
        size, calls, cost = 0, model.usage["requests"], model.usage["cost"] or 0.0
        for name in names:
            calls += 1
            cost += model.cost(*model.most_tokens(self.bodies[name]))
            if (spent := model.spent(calls, cost)) is not None:
                self._fail(name, "BudgetExhausted", spent)
                continue
            more = len(self.bodies[name]) + 256
            if part and (len(part) == model.MOST_REQUESTS or size + more > model.MOST_BYTES):
                yield part
                part, size = [], 0
            part.append(name)
            size += more
        if part:
            yield part

    async def _submit(self, names: list[str]) -> Batch | None:
        """Submits a batch. Where the response to that is lost, looks whether the batch arrived."""
        path = self.folder / f"{sha256_json(names)[:32]}.json"
        batch = Batch(path, names, None, time.time(), self.server)
        batch.write()
        first, delay = time.monotonic(), FIRST_DELAY
        while batch.id is None:
            try:
                async with asyncio.timeout(self.settings.timeout):
                    bodies = {name: self.bodies[name] for name in names}
                    batch.id = await self.model.submit(self.client, batch.tag, bodies)
            except (self.sdk.APIError, TimeoutError) as error:
                failure = self._failure(error)
                passing = failure.kind in ("throttled", "passing", "unreadable")
                waited = time.monotonic() - first + delay
                if not passing or waited > self.settings.retry_for:
                    batch.path.unlink()
                    for name in names:
                        self._fail(name, failure.name, failure.text)
                    return None
                await asyncio.sleep(delay)
                delay = min(LONGEST_DELAY, 2 * delay)
                await self._find(batch)
        self.model.usage["requests"] += len(names)
        batch.write()
        return batch

    async def _find(self, batch: Batch) -> None:
        """Learns the id of a batch that was sent and perhaps arrived."""
        others = {other.id for other in self._written()}
        since, size = batch.submitted_at - CLOCK_SLACK, len(batch.requests)
        batch.id = await self._look(self.model.find(self.patient, batch.tag, size, since, others))
        if batch.id is not None:
            batch.write()

    async def _ended(self, batch: Batch) -> Ended | None:
        assert batch.id is not None
        try:
            return await self.model.ended(self.patient, batch.id)
        except self.sdk.NotFoundError:
            return Ended(b"", ("BatchFailed", "the provider no longer has the batch"))

    async def _look(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except self.sdk.APIError as error:
            raise AdapterError(
                f"models.{self.model.name}: {self.settings.base_url} does not tell how a batch "
                f"stands ({self._failure(error).text}); run again to go on with it"
            ) from None

    def _take(self, batch: Batch, ended: Ended, attempt: int) -> list[int]:
        """Emits a batch's answers; returns the requests to be tried with their next attempt."""
        results: dict[str, Any] = {}
        for line in ended.lines.split(b"\n"):
            try:
                result = json.loads(line)
                results[result["custom_id"]] = result
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # a line that cannot be read is a missing result
        again: list[int] = []
        for name in batch.requests:
            if name in self.indices and name not in results:
                self._fail(name, *ended.missing)
            for index in self.indices.pop(name, []) if name in results else []:
                reply = self._reply(results[name], attempt, self.bodies[name])
                if isinstance(reply, Answer):
                    self.emit((index, reply))
                elif reply.kind == "too long" and self.requests[index].attempts[attempt + 1 :]:
                    again.append(index)
                else:
                    self.emit((index, reply.answer(attempt)))
        self.taken.append(batch.path)
        return again

    def _reply(self, result: Any, attempt: int, body: bytes) -> Answer | Failure:
        import httpx2

        try:
            status, payload = self.model.result(result)
            if status == 200:
                answer = self.model.read_payload(payload, attempt)
                self.model.count(answer, body)
                return answer
            if status == 0:
                return Failure("BatchExpired", self.model.clean(error_said(payload)[0]), "final")
            response = httpx2.Response(
                status, request=httpx2.Request("POST", self.settings.base_url)
            )
            error = self.client._make_status_error("", body=payload, response=response)
            return self.model.failure_of(error, self.client)
        except Exception as error:  # a provider may send anything
            self.model.count(None, body)  # an answer that cannot be read has been paid for
            return Failure("InvalidResponse", self.model.clean(error), "final")

    def _fail(self, name: str, kind: str, message: str) -> None:
        for index in self.indices.pop(name, []):
            self.emit((index, Answer.failed(kind, message)))

    def _failure(self, error: Exception) -> Failure:
        """What a failed call means. Raises :class:`AdapterError` for a key that is not accepted."""
        failure = self.model.failure_of(error, self.client)
        if failure.kind == "rejected key":
            raise self.model.key_rejected(failure.text) from None
        return failure
