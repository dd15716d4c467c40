"""The providers' batch APIs (``mode: batch``): the same rows as live, for less money and later.

A batch outlives the run that submits it. What was submitted is written down in the ``batches``
folder of the cache folder, one file a batch, before and after it is sent; a run that finds some of
its requests there waits for that batch and submits only the rest. A file goes when a run has taken
every answer of its batch.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refract.models.http import (
    FIRST_DELAY,
    LONGEST_DELAY,
    RETRIED,
    Emit,
    InvalidResponse,
    Provider,
    error_body,
    read_object,
)
from refract.models.protocol import AdapterError, Answer, Request
from refract.rows.jsonl import sha256_json, write_json

# Seconds by which the provider's clock may be behind.
CLOCK_SLACK = 60
STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
ERROR_NAMES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    413: "RequestTooLargeError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}


@dataclass
class Batch:
    """A batch as it is written down."""

    path: Path
    requests: list[str]  # hashes, which are the custom ids
    id: str | None = None  # None: not known to have been submitted
    submitted_at: float = 0.0
    server: list[str] = field(default_factory=list)

    @property
    def tag(self) -> str:
        """What this submission is called at the provider."""
        return f"{self.path.stem}-{self.submitted_at:.3f}"

    def write(self) -> None:
        """Writes the file, beside its place and then into it."""
        state = {key: value for key, value in vars(self).items() if key != "path"}
        write_json(self.path, state)


@dataclass
class Ended:
    """A batch's end: its results by custom id, and why those without one have none."""

    results: dict[str, Any]
    missing: tuple[str, str]


def state_folder() -> Path:
    """Where batches are written down: also where the response store is turned off, since without
    it an interrupted run would be paid twice."""
    import platformdirs

    from refract.store import cache_folder

    root = cache_folder() or Path(platformdirs.user_cache_dir("refract", appauthor=False))
    return root / "batches"


async def answer_in_batches(
    provider: Provider, key: str, requests: Sequence[Request], emit: Emit, taken: list[Path]
) -> None:
    """Hands every answer to ``emit``, and to ``taken`` the files of the batches they came from.

    Raises :class:`AdapterError` when the provider cannot be reached or accepts no key; what was
    submitted by then is found by the next run.
    """
    from httpx2 import Response

    api = {"openai": _OpenAI, "anthropic": _Anthropic}[provider.ADAPTER]
    async with provider.open_client(key or "none") as client:
        run = _Run(provider, key, requests, emit, taken, api(client, Response))
        attempts = dict.fromkeys(range(len(requests)), 0)
        while attempts:
            attempts = await run.round(attempts)


class _Run:
    def __init__(
        self,
        provider: Provider,
        key: str,
        requests: Sequence[Request],
        emit: Emit,
        taken: list[Path],
        api: Any,
    ) -> None:
        self.provider, self.key, self.requests = provider, key, requests
        self.emit, self.taken, self.api = emit, taken, api
        self.settings = provider.settings
        self.folder = state_folder()
        # Whose batches these are; a hash of it is in every custom id.
        self.server = [provider.ADAPTER, self.settings["base_url"]]

    async def round(self, attempts: dict[int, int]) -> dict[int, int]:
        """One attempt for each request index: those to try again with their next attempt."""
        asked: dict[str, list[int]] = {}
        bodies: dict[str, bytes] = {}
        for index, attempt in attempts.items():
            body = self.provider.payload(self.requests[index], attempt)
            seed = self.requests[index].seed if self.provider.samples else None
            name = sha256_json([self.provider.identity(), body.decode("ascii"), seed])
            asked.setdefault(name, []).append(index)
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
            {name: body for name, body in bodies.items() if name not in known}, asked
        )
        for part in _parts(new, self.api):
            batch = await self._submit({name: new[name] for name in part}, asked)
            if batch is not None:
                batches.append(batch)
        again: dict[int, int] = {}
        while batches:
            going_on = []
            for batch in batches:
                ended = await self._ended(batch)
                if ended is None:
                    going_on.append(batch)
                    continue
                self._take(batch, ended, asked, attempts, again)
            batches = going_on
            if batches:
                await asyncio.sleep(self.settings["batch_poll"])
        return again

    def _written(self) -> Iterator[Batch]:
        for path in sorted(self.folder.glob("*.json")):
            try:
                batch = Batch(path, **json.loads(path.read_bytes()))
            except (OSError, ValueError, TypeError):
                continue  # torn or foreign: what it held is submitted again
            if batch.server == self.server:
                yield batch

    def _afford(self, new: dict[str, bytes], asked: dict[str, list[int]]) -> dict[str, bytes]:
        """As many new requests as the run's limits allow, at the most they can cost."""
        usage, affordable = self.provider.usage, {}
        cost = usage["cost"] or 0.0
        for name, body in new.items():
            cost += self.provider.cost(len(body) / 3, self.settings["max_tokens"])
            for limit, reached in (
                ("max_requests", usage["requests"] + len(affordable) + 1),
                ("max_cost", cost),
            ):
                most = self.settings[limit]
                if most is not None and reached > most:
                    message = f"not asked: {limit}: {most} is reached"
                    self._fail(asked[name], "BudgetExhausted", message)
                    break
            else:
                affordable[name] = body
        return affordable

    async def _submit(self, bodies: dict[str, bytes], asked: dict[str, list[int]]) -> Batch | None:
        """Submits a batch, and finds out whether it arrived where the answer to that got lost."""
        names = list(bodies)
        path = self.folder / f"{sha256_json(names)[:32]}.json"
        batch = Batch(path, names, None, time.time(), self.server)
        batch.write()
        first, failures = time.monotonic(), 0
        while batch.id is None:
            try:
                async with asyncio.timeout(self.settings["timeout"]):
                    batch.id = await self.api.submit(batch.tag, bodies)
            except (self.provider.sdk.APIError, TimeoutError) as error:
                if not self._passes(error, failures, first):
                    batch.path.unlink()
                    self._check_key(error)
                    message = self.provider.clean(error, self.key)
                    for name in names:
                        self._fail(asked[name], type(error).__name__, message)
                    return None
                failures += 1
                await asyncio.sleep(_delay(failures))
                batch.id = await self._find(batch)
        self.provider.usage["requests"] += len(names)
        batch.write()
        return batch

    async def _find(self, batch: Batch) -> str | None:
        """The id of a batch that was sent and perhaps arrived."""
        others = {other.id for other in self._written()}
        found = await self._persist(lambda: self.api.find(batch, others))
        if found is not None:
            batch.id = found
            batch.write()
        return found

    async def _ended(self, batch: Batch) -> Ended | None:
        async def ask() -> Ended | None:
            try:
                return await self.api.ended(batch.id)
            except self.provider.sdk.NotFoundError:
                return Ended({}, ("BatchFailed", "the provider no longer has the batch"))

        return await self._persist(ask)

    def _take(
        self,
        batch: Batch,
        ended: Ended,
        asked: dict[str, list[int]],
        attempts: dict[int, int],
        again: dict[int, int],
    ) -> None:
        for name in batch.requests:
            indices = asked.pop(name, ())
            if not indices:
                continue
            if name not in ended.results:
                self._fail(indices, *ended.missing)
                continue
            for index in indices:
                attempt = attempts[index]
                answer = self._answer(ended.results[name], attempt)
                too_long = answer.error is not None and answer.error["type"] == "PromptTooLong"
                if too_long and attempt + 1 < len(self.requests[index].attempts):
                    again[index] = attempt + 1
                else:
                    self.emit((index, answer))
        self.taken.append(batch.path)

    def _answer(self, result: Any, attempt: int) -> Answer:
        try:
            status, payload = self.api.result(result)
            if status == 200:
                answer = read_object(self.provider, payload, attempt)
                self.provider.count(answer)
                return answer
        except (InvalidResponse, AttributeError, KeyError, TypeError) as error:
            message = self.provider.clean(error, self.key)
            return Answer.failed("InvalidResponse", message, attempt)
        ending = self.provider.ending(status, payload, attempt)
        if isinstance(ending, Answer):
            return ending
        text = self.provider.clean(payload.get("message") or payload.get("code"), self.key)
        if status == 0:
            return Answer.failed("BatchExpired", text, attempt)
        name = ERROR_NAMES.get(status, "InternalServerError")
        name = "PromptTooLong" if ending == "too_long" else name
        return Answer.failed(name, f"HTTP {status}: {text}", attempt)

    def _fail(self, indices: Sequence[int], name: str, message: str) -> None:
        for index in indices:
            self.emit((index, Answer.failed(name, message)))

    async def _persist(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What a question that may be asked twice comes to."""
        first, failures = time.monotonic(), 0
        while True:
            try:
                async with asyncio.timeout(self.settings["timeout"]):
                    return await ask()
            except (self.provider.sdk.APIError, TimeoutError) as error:
                if not self._passes(error, failures, first):
                    self._check_key(error)
                    raise AdapterError(
                        f"model {self.provider.name!r}: {self.settings['base_url']} does not tell "
                        f"how a batch stands ({self.provider.clean(error, self.key)}); run again "
                        "to go on with it"
                    ) from None
                failures += 1
                await asyncio.sleep(_delay(failures))

    def _passes(self, error: Any, failures: int, first: float) -> bool:
        """Whether a failure is one that passes, and there is time for it to."""
        status = getattr(error, "status_code", None)
        passing = status is None or status in RETRIED or status >= 500
        waited = time.monotonic() - first + _delay(failures + 1)
        return passing and waited <= self.settings["retry_for"]

    def _check_key(self, error: Any) -> None:
        if getattr(error, "status_code", None) in (401, 403):
            raise self.provider.key_rejected(self.provider.clean(error, self.key)) from None


def _delay(failures: int) -> float:
    return min(LONGEST_DELAY, FIRST_DELAY * 2 ** (failures - 1))


def _parts(bodies: dict[str, bytes], api: Any) -> Iterator[list[str]]:
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


class _OpenAI:
    """Batches as OpenAI has them: files of requests and of results."""

    MOST_REQUESTS, MOST_BYTES = 50_000, 190_000_000
    ENDED = ("completed", "failed", "expired", "cancelled")

    def __init__(self, client: Any, response_type: Any) -> None:
        self.client, self.response_type = client, response_type

    async def submit(self, tag: str, bodies: dict[str, bytes]) -> str:
        """Uploads the requests, makes a batch of them and returns its id."""
        lines = (
            b'{"custom_id": "%s", "method": "POST", "url": "/v1/chat/completions", "body": %s}\n'
            % (name.encode(), body)
            for name, body in bodies.items()
        )
        file = await self.client.files.create(
            file=(f"{tag}.jsonl", b"".join(lines)), purpose="batch"
        )
        batch = await self.client.batches.create(
            input_file_id=file.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"refract": tag},
        )
        return batch.id

    async def find(self, batch: Batch, others: set[str | None]) -> str | None:
        """A batch by the tag it was given."""
        async for found in self.client.batches.list(limit=100):
            if found.created_at < batch.submitted_at - CLOCK_SLACK:
                return None  # newest first
            if (found.metadata or {}).get("refract") == batch.tag and found.id not in others:
                return found.id
        return None

    async def ended(self, id_: str) -> Ended | None:
        """The results of a batch that has ended."""
        batch = await self.client.batches.retrieve(id_)
        if batch.status not in self.ENDED:
            return None
        results = {}
        for file in (batch.output_file_id, batch.error_file_id):
            if file is not None:
                response = await self.client.get(
                    f"/files/{file}/content", cast_to=self.response_type
                )
                results |= _lines(response.content)
        errors = batch.errors.data if batch.errors and batch.errors.data else []
        message = errors[0].message if errors else f"the batch ended as {batch.status}"
        kind = "BatchExpired" if batch.status == "expired" else "BatchFailed"
        return Ended(results, (kind, str(message)))

    def result(self, line: Any) -> tuple[int, Any]:
        """Status and payload or error of a line; status 0 where it was never asked."""
        if line.get("response") is None:
            return 0, line.get("error") or {}
        status, body = line["response"]["status_code"], line["response"]["body"]
        return status, body if status == 200 else error_body(json.dumps(body).encode())


class _Anthropic:
    """Batches as Anthropic has them: one list of requests, one of results."""

    MOST_REQUESTS, MOST_BYTES = 100_000, 250_000_000

    def __init__(self, client: Any, response_type: Any) -> None:
        self.client, self.response_type = client, response_type

    async def submit(self, tag: str, bodies: dict[str, bytes]) -> str:
        """Makes a batch and returns its id."""
        items = (
            b'{"custom_id": "%s", "params": %s}' % (name.encode(), body)
            for name, body in bodies.items()
        )
        response = await self.client.post(
            "/v1/messages/batches",
            cast_to=self.response_type,
            content=b'{"requests": [%s]}' % b", ".join(items),
            options={"headers": {"Content-Type": "application/json"}},
        )
        return response.json()["id"]

    async def find(self, batch: Batch, others: set[str | None]) -> str | None:
        """A batch by its time and size; a batch has no tag here, but its results have names."""
        async for found in self.client.messages.batches.list(limit=100):
            if found.created_at.timestamp() < batch.submitted_at - CLOCK_SLACK:
                return None  # newest first
            counts = found.request_counts
            size = counts.canceled + counts.errored + counts.expired
            size += counts.processing + counts.succeeded
            if size == len(batch.requests) and found.id not in others:
                return found.id
        return None

    async def ended(self, id_: str) -> Ended | None:
        """The results of a batch that has ended."""
        batch = await self.client.messages.batches.retrieve(id_)
        if batch.processing_status != "ended":
            return None
        response = await self.client.get(
            f"/v1/messages/batches/{id_}/results", cast_to=self.response_type
        )
        return Ended(_lines(response.content), ("BatchFailed", "the batch has no such result"))

    def result(self, line: Any) -> tuple[int, Any]:
        """Status and payload or error of a line; status 0 where it was never asked."""
        result = line["result"]
        if result["type"] == "succeeded":
            return 200, result["message"]
        if result["type"] == "errored":
            error = error_body(json.dumps(result["error"]).encode())
            return STATUSES.get(error.get("type"), 500), error
        return 0, {"message": f"the request {result['type']} in its batch"}


def _lines(content: bytes) -> dict[str, Any]:
    """Results by custom id. A line that cannot be read is a missing result."""
    results = {}
    for line in content.split(b"\n"):
        try:
            result = json.loads(line)
            results[result["custom_id"]] = result
        except (ValueError, KeyError, TypeError):
            continue
    return results
