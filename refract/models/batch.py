"""The providers' batch APIs (``mode: batch``): the same answers as live, cheaper and
later.

A batch outlives the run that submits it: a file in the cache's folder ``batches`` has its
id and requests until a run has taken every answer, also where the response store is off.
A run that finds some of its requests there waits for that batch and submits only the
others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refract.core.environment import cache_folder, default_cache_folder
from refract.core.jsonl import sha256_json, write_json
from refract.core.progress import read_object
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.provider import Emit, Provider
from refract.models.replies import Failure, error_parts

# Requests of a batch. Both providers take more, but no more than 200 MB.
MOST = 10_000


class BatchRun:
    """Answers requests by batches, one round for each attempt. ``taken`` gets the files
    of batches whose answers were all emitted."""

    def __init__(
        self, model: Provider, requests: Sequence[Request], emit: Emit, taken: list[Path]
    ) -> None:
        self.model, self.requests, self.emit, self.taken = model, requests, emit, taken
        self.folder = (cache_folder() or default_cache_folder()) / "batches"
        # Of a round, by custom id: the requests of the same body and seed, and that
        # body.
        self.indices: dict[str, list[int]] = {}
        self.bodies: dict[str, bytes] = {}

    async def run(self) -> None:
        """Emits every answer. Raises :class:`AdapterError` when the provider cannot be
        reached or does not accept the key; the next run finds what was submitted by
        then."""
        async with self.model.open_client() as client:
            self.client = client
            self.model.say_where(self.client, len(self.requests))
            left, attempt = list(range(len(self.requests))), 0
            while left:
                left = await self._round(left, attempt)
                attempt += 1

    async def _round(self, left: list[int], attempt: int) -> list[int]:
        """Asks for one attempt of requests; returns those whose next attempt is to be
        tried."""
        self.indices, self.bodies = {}, {}
        identity = self.model.identity()
        for index in left:
            request = self.requests[index]
            body = self.model.payload(request, attempt)
            drawn = request.seed if self.model.samples else request.repeat or None
            name = sha256_json([identity, body.decode("ascii"), drawn])
            self.indices.setdefault(name, []).append(index)
            self.bodies[name] = body
        batches = {}
        known: set[str] = set()
        for path in sorted(self.folder.glob("*.json")):
            batch = read_object(path)
            names = set(batch.get("requests", ()))
            if names & self.bodies.keys():
                batches[path] = batch
                known |= names
        for part in self._parts([name for name in self.bodies if name not in known]):
            batch_id = await self._submit(part)
            if batch_id is not None:
                path = self.folder / f"{sha256_json(part)[:32]}.json"
                batches[path] = {"id": batch_id, "requests": part}
                write_json(path, batches[path])
        again: list[int] = []
        while batches:
            for path, batch in list(batches.items()):
                ended = await self._ended(batch["id"])
                if ended is not None:
                    lines, missing = ended
                    del batches[path]
                    again += self._take(batch["requests"], lines, missing, attempt)
                    self.taken.append(path)
            if batches:
                await asyncio.sleep(self.model.settings.batch_poll)
        return again

    def _parts(self, names: Sequence[str]) -> list[list[str]]:
        """Custom ids by batch: as many as the run's limits allow, each at the most it
        can cost."""
        model = self.model
        cost = model.usage["cost"] or 0.0
        allowed = []
        for calls, name in enumerate(names, model.usage["requests"] + 1):
            cost += model.most_cost(self.bodies[name])
            spent = model.spent(calls, cost)
            if spent is None:
                allowed.append(name)
            else:
                self._fail(name, "BudgetExhausted", spent)
        return [allowed[at : at + MOST] for at in range(0, len(allowed), MOST)]

    async def _submit(self, names: list[str]) -> str | None:
        """Submits a batch, once; where that fails, so do its requests, which the next
        run submits."""
        try:
            batch_id = await self.model.submit(
                self.client, {name: self.bodies[name] for name in names}
            )
        except self.model.sdk.APIError as error:
            failure = self.model.failure_of(error)
            for name in names:
                self._fail(name, failure.name, failure.text)
            return None
        self.model.usage["requests"] += len(names)
        return batch_id

    async def _ended(self, batch_id: str) -> tuple[bytes, str] | None:
        """The lines of a batch that has ended, and why others are missing."""
        try:
            return await self.model.ended(self.client, batch_id)
        except self.model.sdk.NotFoundError:
            return b"", "the provider no longer has the batch"
        except self.model.sdk.APIError as error:
            failure = self.model.failure_of(error)
            raise AdapterError(
                f"{self.model.where}: {self.model.settings.base_url} does not tell how a batch "
                f"stands ({failure.text}); run again to go on with it"
            ) from None

    def _take(self, names: Sequence[str], lines: bytes, missing: str, attempt: int) -> list[int]:
        """Emits a batch's answers; returns the requests to be tried with their next
        attempt."""
        results: dict[str, Any] = {}
        for line in lines.split(b"\n"):
            try:
                result = json.loads(line)
                results[result["custom_id"]] = result
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # a line that cannot be read is a missing result
        again: list[int] = []
        for name in names:
            if name not in results:
                self._fail(name, "BatchFailed", missing)
            for index in self.indices.pop(name, []):
                reply = self._reply(results[name], attempt, self.bodies[name])
                if isinstance(reply, Answer):
                    self.emit((index, reply))
                elif reply.kind == "too long" and self.requests[index].attempts[attempt + 1 :]:
                    again.append(index)
                else:
                    self.emit((index, reply.answer(attempt)))
        return again

    def _reply(self, result: Any, attempt: int, body: bytes) -> Answer | Failure:
        import httpx2

        try:
            status, payload = self.model.result(result)
            if status == 200:
                answer = self.model.read_reply(payload, attempt)
                self.model.count(answer, body)
                return answer
            if status == 0:
                return Failure("BatchExpired", self.model.clean(error_parts(payload)[0]), "final")
            request = httpx2.Request("POST", self.model.settings.base_url)
            response = httpx2.Response(status, request=request)
            error = self.client._make_status_error("", body=payload, response=response)
            return self.model.failure_of(error)
        except Exception as error:  # a provider may send anything
            self.model.count(None, body)  # an answer that cannot be read has been paid for
            return Failure("InvalidResponse", self.model.clean(error), "final")

    def _fail(self, name: str, kind: str, message: str) -> None:
        for index in self.indices.pop(name, []):
            self.emit((index, Answer.failed(kind, message)))
