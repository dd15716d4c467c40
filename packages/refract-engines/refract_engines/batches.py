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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from refract.core.environment import cache_folder, default_cache_folder
from refract.core.jsonl import sha256_json, write_json
from refract.core.progress import read_object
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.provider import Emit, Provider
from refract.models.replies import Failure, InvalidResponse, error_parts

# Requests of a batch. Both providers take more, but no more than 200 MB.
MOST = 10_000
# The statuses of the errors in Anthropic's results; 500 of others.
STATUSES = {"invalid_request_error": 400, "not_found_error": 404, "request_too_large": 413}


class OpenAIBatches:
    """Files of requests and of results.

    Of either provider ``submit`` sends requests to ``path`` (bodies by custom id) as one batch,
    once, and gives its id; ``ended`` gives the lines of its results, and why others are missing
    (None until it has ended); ``result`` the HTTP status of one, 0 where it was never processed, and
    its payload or error."""

    ENDED: ClassVar = ("completed", "failed", "expired", "cancelled")

    async def submit(self, client: Any, path: str, bodies: Mapping[str, bytes]) -> str:
        url = f"/v1{path}"
        line = b'{"custom_id": "%s", "method": "POST", "url": "%s", "body": %s}\n'
        items = bodies.items()
        lines = b"".join(line % (name.encode(), url.encode(), body) for name, body in items)
        file = await client.files.create(file=("requests.jsonl", lines), purpose="batch")
        batch = await client.with_options(max_retries=0).batches.create(
            input_file_id=file.id, endpoint=url, completion_window="24h"
        )
        return str(batch.id)

    async def ended(self, client: Any, batch_id: str) -> tuple[bytes, str] | None:
        batch = await client.batches.retrieve(batch_id)
        if batch.status not in self.ENDED:
            return None
        lines = b""
        for file in (batch.output_file_id, batch.error_file_id):
            if file is not None:
                lines += (await client.files.content(file)).content + b"\n"
        errors = batch.errors.data if batch.errors and batch.errors.data else []
        return lines, str(errors[0].message if errors else f"the batch ended as {batch.status}")

    def result(self, line: Any) -> tuple[int, Any]:
        if line.get("response") is None:
            return 0, line.get("error")
        return line["response"]["status_code"], line["response"]["body"]


class AnthropicBatches:
    """One list of requests, one of results."""

    async def submit(self, client: Any, path: str, bodies: Mapping[str, bytes]) -> str:
        from httpx2 import Response

        items = []
        for name, body in bodies.items():
            items.append(b'{"custom_id": "%s", "params": %s}' % (name.encode(), body))
        response = await client.with_options(max_retries=0).post(
            f"{path}/batches",
            cast_to=Response,
            content=b'{"requests": [%s]}' % b", ".join(items),
            options={"headers": {"Content-Type": "application/json"}},
        )
        return str(response.json()["id"])

    async def ended(self, client: Any, batch_id: str) -> tuple[bytes, str] | None:
        from httpx2 import Response

        batch = await client.messages.batches.retrieve(batch_id)
        if batch.processing_status != "ended":
            return None
        response = await client.get(f"/v1/messages/batches/{batch_id}/results", cast_to=Response)
        return response.content, "the batch has no such result"

    def result(self, line: Any) -> tuple[int, Any]:
        result = line["result"]
        if result["type"] == "succeeded":
            return 200, result["message"]
        if result["type"] == "errored":
            _, kinds = error_parts(result["error"])
            status = next((STATUSES[kind] for kind in kinds if kind in STATUSES), 500)
            return status, result["error"]
        return 0, f"the request {result['type']} in its batch"


APIS: dict[str, AnthropicBatches | OpenAIBatches] = {
    "anthropic": AnthropicBatches(),
    "openai": OpenAIBatches(),
}


class BatchRun:
    """Answers requests by batches, one round for each attempt."""

    def __init__(self, model: Provider, requests: Sequence[Request], emit: Emit) -> None:
        self.model, self.requests, self.emit = model, requests, emit
        self.api = APIS[model.PACKAGE]
        # Files of batches whose answers were emitted, and what is left there: of requests that this
        # run did not ask.
        self.taken: dict[Path, dict[str, Any]] = {}
        self.folder = (cache_folder() or default_cache_folder()) / "batches"
        # Of a round, by custom id: the requests of the same body and seed, and that
        # body.
        self.indices: dict[str, list[int]] = {}
        self.bodies: dict[str, bytes] = {}

    def finish(self) -> None:
        """Forgets the answers that were taken, and batches without others."""
        for path, batch in self.taken.items():
            if batch["requests"]:
                write_json(path, batch)
            else:
                path.unlink(missing_ok=True)

    async def run(self) -> None:
        """Emits every answer. Raises :class:`AdapterError` when the provider cannot be reached or
        does not accept the key; the next run finds what was submitted by then."""
        async with self.model.open_client() as client:
            self.client = client
            self.model.say_where(self.client, len(self.requests))
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
                    others = [name for name in batch["requests"] if name not in self.bodies]
                    again += await self._take(batch["requests"], lines, missing, attempt)
                    self.taken[path] = {**batch, "requests": others}
            if batches:
                await asyncio.sleep(self.model.settings.batch_poll)
        return again

    def _parts(self, names: Sequence[str]) -> list[list[str]]:
        """Custom ids by batch: as many as the run's limits allow, each at the most it can cost."""
        model = self.model
        cost = model.usage["cost"] or 0.0
        allowed = []
        for name in names:
            cost += model.most_cost(self.bodies[name])
            spent = model.spent(cost)
            if spent is None:
                allowed.append(name)
            else:
                self._fail(name, "BudgetExhausted", spent)
        return [allowed[at : at + MOST] for at in range(0, len(allowed), MOST)]

    async def _submit(self, names: list[str]) -> str | None:
        """Submits a batch, once; where that fails, so do its requests, which the next
        run submits."""
        try:
            bodies = {name: self.bodies[name] for name in names}
            batch_id = await self.api.submit(self.client, self.model.path, bodies)
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
            return await self.api.ended(self.client, batch_id)
        except self.model.sdk.NotFoundError:
            return b"", "the provider no longer has the batch"
        except self.model.sdk.APIError as error:
            failure = self.model.failure_of(error)
            raise AdapterError(
                f"{self.model.where}: {self.model.settings.base_url} does not tell how a batch "
                f"stands ({failure.text}); run again to go on with it"
            ) from None

    async def _take(
        self, names: Sequence[str], lines: bytes, missing: str, attempt: int
    ) -> list[int]:
        """Emits a batch's answers; returns the requests to be tried with their next attempt."""
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
                reply = await self._reply(results[name], attempt, self.bodies[name])
                if isinstance(reply, Answer):
                    self.emit((index, reply))
                elif reply.kind == "too long" and self.requests[index].attempts[attempt + 1 :]:
                    again.append(index)
                else:
                    self.emit((index, reply.answer(attempt)))
        return again

    async def _reply(self, result: Any, attempt: int, body: bytes) -> Answer | Failure:
        try:
            status, payload = self.api.result(result)
            if status == 200:
                answer = self.model.read_reply(payload, attempt)
                self.model.count(answer, body)
                return answer
            if status == 0:
                return Failure("BatchExpired", self.model.clean(error_parts(payload)[0]), "final")
            return await self._failure(status, payload)
        except Exception as error:  # a provider may send anything
            self.model.count(None, body)  # an answer that cannot be read has been paid for
            text = error.text if isinstance(error, InvalidResponse) else ""
            return Failure("InvalidResponse", self.model.clean(error), "final", response=text)

    async def _failure(self, status: int, payload: Any) -> Failure:
        """What it means that a file holds a reply with this status: the client reads it as one that
        was sent."""
        from httpx2 import AsyncClient, MockTransport, Response

        reply = Response(status, content=json.dumps(payload))
        async with AsyncClient(transport=MockTransport(lambda _: reply)) as replying:
            client = self.client.with_options(http_client=replying, max_retries=0)
            try:
                await client.post(self.model.path, cast_to=Response)
            except self.model.sdk.APIStatusError as error:
                return self.model.failure_of(error)
        raise InvalidResponse(f"HTTP {status} in a batch")

    def _fail(self, name: str, kind: str, message: str) -> None:
        for index in self.indices.pop(name, []):
            self.emit((index, Answer.failed(kind, message)))
