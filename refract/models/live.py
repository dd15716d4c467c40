"""Live requests to a provider: which call starts when, and how each one ends."""

from __future__ import annotations

import asyncio
import heapq
import json
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refract.models.protocol import Answer, Request
from refract.models.provider import (
    FIRST_DELAY,
    LONGEST_DELAY,
    READ_TRIES,
    RETRIED,
    THROTTLED,
    Emit,
    InvalidResponse,
    Session,
    ending,
    error_body,
)
from refract.models.traffic import Traffic, retry_after


@dataclass(slots=True)
class Call:
    """A request under way: which conversation is being tried, and since when it fails."""

    index: int
    body: bytes
    tokens: int  # most that a try can use, for the caps
    cost: float  # the same in USD
    attempt: int = 0
    tries: int = 0
    unreadable: int = 0
    failing_since: float | None = None
    error: tuple[str, str] = ("", "")


class LiveRun:
    """Answers requests by one call each. Everything is decided in one event loop, so nothing needs a
    lock."""

    def __init__(self, session: Session, requests: Sequence[Request], emit: Emit) -> None:
        self.session, self.requests, self.emit = session, requests, emit
        self.settings, self.usage = session.settings, session.usage
        self.traffic = Traffic(
            self.settings.max_concurrency,
            self.settings.requests_per_minute,
            self.settings.tokens_per_minute,
        )
        self.fresh = 0  # index of the next request that was not tried yet
        self.due: deque[Call] = deque()  # to be tried again now
        self.waiting: list[tuple[float, int, Call]] = []  # heap: to be tried again later
        self.reserved = 0.0  # USD that the calls under way can cost at most
        self.failing_since: float | None = None  # first failure since the last sign of life
        self.fatal: BaseException | None = None
        self.workers: set[asyncio.Task[None]] = set()
        self.loop = asyncio.get_running_loop()
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Hands every answer to ``emit``; raises :class:`AdapterError`."""
        from httpx2 import Response

        self.client = self.session.open_client()
        self.response_type = Response
        try:
            while self.fatal is None:
                while (call := self._claim()) is not None:
                    worker = self.loop.create_task(self._work(call))
                    self.workers.add(worker)
                    worker.add_done_callback(self._done)
                if self.fatal is None:
                    if not (self.workers or self.waiting or self._left()):
                        return
                    await self._sleep()
            raise self.fatal
        finally:
            for worker in self.workers:
                worker.cancel()
            await asyncio.gather(*self.workers, return_exceptions=True)
            await self.client.close()

    async def _work(self, call: Call | None) -> None:
        """One call after the other, so that a connection just used is the next to be used."""
        while call is not None:
            await self._try(call)
            call = self._claim()
            if self.traffic.in_flight < self.traffic.concurrency:
                self.wake.set()  # there is room for more workers

    def _done(self, worker: asyncio.Task[None]) -> None:
        self.workers.discard(worker)
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self.fatal = self.fatal or error
        self.wake.set()

    async def _sleep(self) -> None:
        """Until a worker wakes this up, or the next call may start."""
        now = self.loop.time()
        # Where nothing but the budget holds a call back, only the end of another can free it.
        delay = self.traffic.delay(now) if self._left() else math.inf
        delay = delay if delay > 0 else math.inf
        if self.waiting:
            delay = min(delay, self.waiting[0][0] - now)
        timer = None if delay == math.inf else self.loop.call_later(delay, self.wake.set)
        await self.wake.wait()
        self.wake.clear()
        if timer is not None:
            timer.cancel()

    def _left(self) -> bool:
        return bool(self.due) or self.fresh < len(self.requests)

    def _claim(self) -> Call | None:
        """The next call, if one may start now; it counts as started."""
        now = self.loop.time()
        if self.fatal is not None or self.traffic.delay(now) > 0:
            return None
        while self.waiting and self.waiting[0][0] <= now:
            self.due.append(heapq.heappop(self.waiting)[2])
        while self.due and self._expired(self.due[0], now):
            call = self.due.popleft()
            self._end(call, Answer.failed(*call.error, call.attempt))
        if not self._left():
            return None
        if not self.due:
            self.due.append(self._call(self.fresh))
            self.fresh += 1
        call = self.due[0]
        if spent := self._spent(call):
            if self.traffic.in_flight == 0:
                self._give_up(spent)
            return None
        self.due.popleft()
        self.traffic.started(now, call.tokens)
        self.reserved += call.cost
        self.usage["requests"] += 1
        self.usage["retries"] += call.tries > 0
        call.tries += 1
        return call

    def _expired(self, call: Call, now: float) -> bool:
        return call.failing_since is not None and now > self._until(call)

    def _call(self, index: int, attempt: int = 0) -> Call:
        body = self.session.payload(self.requests[index], attempt)
        # Four bytes of English make a token; a budget must hold for less common texts too.
        prompt, completion = len(body) / 3, self.settings.max_tokens
        tokens, cost = math.ceil(prompt + completion), self.session.cost(prompt, completion)
        return Call(index, body, tokens, cost, attempt)

    def _spent(self, call: Call) -> str | None:
        """Which of the run's own limits forbids a call now."""
        most = self.settings.max_requests
        if most is not None and self.usage["requests"] >= most:
            return f"max_requests: {most}"
        budget = self.settings.max_cost
        if budget is not None and self.usage["cost"] + self.reserved + call.cost > budget:
            return f"max_cost: {budget}"
        return None

    def _give_up(self, spent: str) -> None:
        """Ends everything that is left, cleanly: the next run requests it."""
        left = [call.index for call in self.due] + [call.index for _, _, call in self.waiting]
        for index in (*left, *range(self.fresh, len(self.requests))):
            self.emit(
                (index, Answer.failed("BudgetExhausted", f"not requested: {spent} is reached"))
            )
        self.due.clear()
        self.waiting.clear()
        self.fresh = len(self.requests)

    async def _try(self, call: Call) -> None:
        """One call, and what follows from how it ends."""
        sdk = self.session.dialect.sdk
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await self.client.post(
                    self.session.dialect.PATH,
                    cast_to=self.response_type,
                    content=call.body,
                    options={"headers": {"Content-Type": "application/json"}},
                )
        except TimeoutError:
            seconds = self.settings.timeout
            self._throttled(call, "APITimeoutError", f"no answer within {seconds} s", None)
        except sdk.APIStatusError as error:
            self._status(call, error)
        except sdk.APIConnectionError as error:
            cause = error.__cause__ or error
            text = self.session.clean(str(cause) or type(cause).__name__)
            self._retry(call, type(error).__name__, text)
        else:
            self._answered(call, response)
        finally:
            self.reserved -= call.cost

    def _answered(self, call: Call, response: Any) -> None:
        try:
            answer = self._read(response.content, call.attempt)
        except InvalidResponse as error:
            text = self.session.clean(error)
            call.unreadable += 1
            if call.unreadable >= READ_TRIES:
                self.traffic.failed(call.tokens)
                self._end(call, Answer.failed("InvalidResponse", text, call.attempt))
            else:
                self._retry(call, "InvalidResponse", text)
            return
        used = (answer.prompt_tokens or 0) + (answer.completion_tokens or 0)
        self.traffic.answered(call.tokens, used)
        limits = self.session.dialect.rate_limits(response.headers)
        self.traffic.update_limits(self.loop.time(), limits)
        self.failing_since = None
        self.session.count(answer)
        self._end(call, answer)

    def _read(self, content: bytes, attempt: int) -> Answer:
        try:
            payload = json.loads(content)
        except ValueError as error:
            raise InvalidResponse(f"the response is not JSON ({error})") from None
        return self.session.read(payload, attempt)

    def _status(self, call: Call, error: Any) -> None:
        """An answer with an error status: a filter, a prompt too long, a key, or a failure."""
        session, status, headers = self.session, error.status_code, error.response.headers
        body = error_body(error.response.content)
        name = type(error).__name__
        text = session.clean(body.get("message") or error.response.reason_phrase)
        text = f"HTTP {status}: {text}"
        meaning = ending(status, body, call.attempt)
        after = retry_after(headers)
        if isinstance(meaning, Answer):
            self.traffic.answered(call.tokens, 0)
            self.failing_since = None
            self._end(call, meaning)
        elif meaning == "too_long":
            self.traffic.answered(call.tokens, 0)
            self.failing_since = None
            self._too_long(call, text)
        elif status in (401, 403):
            self.traffic.failed(call.tokens)
            self.fatal = session.key_rejected(text)
        elif meaning == "final" or not (status in RETRIED or status >= 500):
            self.traffic.failed(call.tokens)
            self.failing_since = None
            self._end(call, Answer.failed(name, text, call.attempt))
        elif status in THROTTLED:
            self.usage["throttles"] += 1
            self._throttled(call, name, text, after)
        else:
            self._retry(call, name, text, after)

    def _too_long(self, call: Call, text: str) -> None:
        if call.attempt + 1 < len(self.requests[call.index].attempts):
            self.due.append(self._call(call.index, call.attempt + 1))
        else:
            self._end(call, Answer.failed("PromptTooLong", text, call.attempt))

    def _throttled(self, call: Call, name: str, text: str, after: float | None) -> None:
        # Where a day's limit is used up, sleeping for a day would be wrong.
        pause = after if after is None or after <= self.settings.retry_for else None
        self.traffic.throttled(self.loop.time(), call.tokens, pause)
        self._later(call, name, text, after)

    def _retry(self, call: Call, name: str, text: str, after: float | None = None) -> None:
        self.traffic.failed(call.tokens)
        self._later(call, name, text, after)

    def _later(self, call: Call, name: str, text: str, after: float | None) -> None:
        """Tries a request again when the provider says, or after a growing while."""
        now = self.loop.time()
        call.error = (name, text)
        if call.failing_since is None:
            call.failing_since = now
        if self.failing_since is None:
            self.failing_since = now
        if after is None:
            longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (call.tries - 1))
            # Spread, so that what failed together does not come back together.
            after = longest * random.Random(f"{call.index}:{call.tries}").uniform(0.5, 1)
        if now + after > self._until(call):
            self._end(call, Answer.failed(name, text, call.attempt))
        else:
            heapq.heappush(self.waiting, (now + after, call.index, call))
            self.wake.set()  # the next call may be due earlier than before

    def _until(self, call: Call) -> float:
        """The last moment to try a request again.

        Counted from its own first failure, and from the provider's: while nothing at all is
        answered, every request waiting its own time would make an outage endless.
        """
        since = [t for t in (call.failing_since, self.failing_since) if t is not None]
        return min(since) + self.settings.retry_for

    def _end(self, call: Call, answer: Answer) -> None:
        self.emit((call.index, answer))
