"""Live requests to a provider: which call starts when, and how each one ends."""

from __future__ import annotations

import asyncio
import heapq
import math
import random
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from refract.core.showing import say
from refract.models.protocol import Answer, Request
from refract.models.provider import (
    FIRST_DELAY,
    LONGEST_DELAY,
    READ_TRIES,
    RETRIED,
    THROTTLED,
    Emit,
    Session,
)
from refract.models.replies import (
    InvalidResponse,
    ReplyTooLarge,
    attempted,
    ending,
    error_body,
    error_name,
)
from refract.models.traffic import LONGEST_FLOOR, PAUSE_FLOOR, Limit, Traffic, retry_after

# Calls that fail one after the other, for longer than a request is tried, before the rest is not sent.
MOST_FAILURES = 32
# Seconds from which on a pause is said aloud.
SAID_FROM = 5.0


# How a call can come back without an answer, and what follows: the row ends with the provider's
# filter, goes on with its next attempt, or ends the run; it is tried again, where a reply could not
# be read a few times only; it ends with the error.
FILTERED, TOO_LONG_PROMPT, REJECTED_KEY = "filtered", "too long", "rejected key"
THROTTLED_CALL, PASSING, UNREADABLE, FINAL = "throttled", "passing", "unreadable", "final"


class Failure(NamedTuple):
    """A call without an answer: the row's error, its kind, the seconds that the server asks to wait,
    and whether the call may have been paid for."""

    name: str
    text: str
    kind: str
    after: float | None = None
    paid: bool = False


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
    error: Failure | None = None


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
            longest_pause=self.settings.retry_for,
        )
        self.said_until, self.said_far = -math.inf, False
        self.failures_in_a_row = 0  # since the last sign of life
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
        self.client = self.session.open_http()
        self.url = self.settings.base_url + self.session.dialect.PATH
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
            await self.client.aclose()

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
            assert call.error is not None  # without one it would not have been failing
            self._end(call, Answer.failed(call.error.name, call.error.text, call.attempt))
        if not self._left():
            return None
        if not self.due:
            self.due.append(self._call(self.fresh))
            self.fresh += 1
        call = self.due[0]
        if spent := self._spent(call):
            if self.traffic.in_flight == 0:
                self._give_up("BudgetExhausted", f"not requested: {spent}")
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
        prompt, completion = self.session.most_tokens(body)
        tokens, cost = math.ceil(prompt + completion), self.session.cost(prompt, completion)
        return Call(index, body, tokens, cost, attempt)

    def _spent(self, call: Call) -> str | None:
        """Which of the run's own limits forbids a call now."""
        most = self.settings.max_requests
        if most is not None and self.usage["requests"] >= most:
            again = self.usage["retries"]
            repeats = f" ({again} of the calls repeated one that failed)" if again else ""
            return f"max_requests: {most} is reached{repeats}"
        budget = self.settings.max_cost
        if budget is not None and self.usage["cost"] + self.reserved + call.cost > budget:
            return f"max_cost: {budget} is reached"
        return None

    def _give_up(self, name: str, text: str) -> None:
        """Ends everything that is left, cleanly: the next run requests it."""
        left = [call.index for call in self.due] + [call.index for _, _, call in self.waiting]
        for index in (*left, *range(self.fresh, len(self.requests))):
            self.emit((index, Answer.failed(name, text)))
        self.due.clear()
        self.waiting.clear()
        self.fresh = len(self.requests)

    async def _try(self, call: Call) -> None:
        """One call, and what follows from how it ends."""
        try:
            reply = await self._reply(call)
            if isinstance(reply, Failure):
                self._failed(call, reply)
            else:
                self._answered(call, *reply)
        finally:
            self.reserved -= call.cost

    async def _reply(self, call: Call) -> tuple[Answer, Sequence[Limit]] | Failure:
        """The answer to a call and the limits that came with it, or how it failed.

        Nothing that a server sends raises an exception here.
        """
        from httpx2 import RequestError, TimeoutException

        session, sent = self.session, time.monotonic()
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await self.client.post(self.url, content=call.body)
            if not response.is_success:
                return self._status(response, call.attempt)
            answer = session.read(response.content, call.attempt)
        except TimeoutError:
            seconds = self.settings.timeout
            text = f"no answer within {seconds} s"
            return Failure("APITimeoutError", text, THROTTLED_CALL, paid=True)
        except ReplyTooLarge as error:
            return Failure("InvalidResponse", str(error), FINAL, paid=True)
        except InvalidResponse as error:
            return Failure("InvalidResponse", session.clean(error), UNREADABLE, paid=True)
        except RequestError as error:
            timed_out = isinstance(error, TimeoutException)
            name = "APITimeoutError" if timed_out else "APIConnectionError"
            text = session.clean(str(error) or type(error).__name__)
            reached = "connect" not in type(error).__name__.lower()
            return Failure(name, text, PASSING, paid=reached)
        except Exception as error:  # whatever a server can make of its client
            text = session.clean(f"{type(error).__name__}: {error}")
            return Failure("InvalidResponse", text, UNREADABLE, paid=True)
        no_limits: list[Limit] = []
        limits = attempted(session.dialect.rate_limits, response.headers, otherwise=no_limits)
        return replace(answer, seconds=round(time.monotonic() - sent, 4)), limits

    def _status(self, response: Any, attempt: int) -> Failure:
        """What an error status means: a filter, a prompt too long, a key, or a failure."""
        status, headers = response.status_code, response.headers
        nothing: dict[str, Any] = {}
        body = attempted(error_body, response.content, otherwise=nothing)
        text = attempted(lambda: self.session.clean(body["message"]), otherwise="")
        text = f"HTTP {status}: {text or self.session.clean(response.reason_phrase)}"
        after = attempted(retry_after, headers, otherwise=None)
        meaning = attempted(ending, status, body, attempt, otherwise=None)
        name = self.session.dialect.ERRORS.get(status) or error_name(status)
        if isinstance(meaning, Answer):
            return Failure(name, text, FILTERED)
        if meaning == "too_long":
            return Failure("PromptTooLong", text, TOO_LONG_PROMPT)
        if status in (401, 403):
            return Failure(name, text, REJECTED_KEY)
        if meaning == "final" or not (status in RETRIED or status >= 500):
            return Failure(name, text, FINAL)
        return Failure(name, text, THROTTLED_CALL if status in THROTTLED else PASSING, after)

    def _answered(self, call: Call, answer: Answer, limits: Sequence[Limit]) -> None:
        used = (answer.prompt_tokens or 0) + (answer.completion_tokens or 0)
        now = self.loop.time()
        self.traffic.answered(call.tokens, used)
        self.traffic.update_limits(now, limits)
        self._say_pause(now, limits)
        self._sign_of_life()
        self.session.count(answer, self.session.most_tokens(call.body))
        self._end(call, answer)

    def _failed(self, call: Call, failure: Failure) -> None:
        """What follows from a call that came back without an answer."""
        end = Answer.failed(failure.name, failure.text, call.attempt)
        if failure.paid:
            self.session.spend(*self.session.most_tokens(call.body))
        if failure.kind in (FILTERED, TOO_LONG_PROMPT):
            self.traffic.answered(call.tokens, 0)
            self._sign_of_life()
            if failure.kind == FILTERED:
                self._end(call, Answer("", "content_filter", call.attempt))
            elif call.attempt + 1 < len(self.requests[call.index].attempts):
                self.due.append(self._call(call.index, call.attempt + 1))
            else:
                self._end(call, end)
            return
        if failure.kind == THROTTLED_CALL:
            self.usage["throttles"] += failure.name != "APITimeoutError"
            # Where a day's limit is used up, sleeping for a day would be wrong.
            after = failure.after
            now = self.loop.time()
            pause = None if after is None or after > self.settings.retry_for else after
            self.traffic.throttled(now, call.tokens, pause)
            self._say_pause(now, ())
        else:
            self.traffic.failed(call.tokens)
        call.unreadable += failure.kind == UNREADABLE
        if failure.kind == REJECTED_KEY:
            self.fatal = self.session.key_rejected(failure.text)
        elif failure.kind == FINAL:
            self._sign_of_life()
            self._end(call, end)
        elif call.unreadable >= READ_TRIES:
            self._end(call, end)
        else:
            self._later(call, failure)

    def _sign_of_life(self) -> None:
        self.failing_since, self.failures_in_a_row = None, 0

    def _say_pause(self, now: float, limits: Sequence[Limit]) -> None:
        """Says aloud that nothing is sent for a while, or that a limit is not waited for."""
        until, longest = self.traffic.paused_until, self.settings.retry_for
        far = [limit.reset for limit in limits if limit.remaining < 1 and limit.reset > longest]
        if far and not self.said_far:
            self.said_far = True
            say(
                f"models.{self.session.name}: the server announces that its limit is used up for "
                f"{max(far):.0f} s; retry_for allows {longest} s, so that calls go on until it "
                "refuses them",
                file=sys.stderr,
            )
        if until - now >= SAID_FROM and until - self.said_until >= SAID_FROM:
            self.said_until = until
            say(
                f"models.{self.session.name}: the server asks for rest: nothing is sent for "
                f"{until - now:.0f} s",
                file=sys.stderr,
            )

    def _later(self, call: Call, failure: Failure) -> None:
        """Tries a request again when the provider says, or after a growing while."""
        now = self.loop.time()
        call.error = failure
        if call.failing_since is None:
            call.failing_since = now
        if self.failing_since is None:
            self.failing_since = now
        self.failures_in_a_row += 1
        longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (call.tries - 1))
        # Spread, so that what failed together does not come back together.
        spread = random.Random(f"{call.index}:{call.tries}").uniform(0.5, 1)
        # A provider that asks to come back at once is not taken at its word every time.
        floor = min(LONGEST_FLOOR, PAUSE_FLOOR * 2 ** (call.tries - 1)) * spread
        after = longest * spread if failure.after is None else max(failure.after, floor)
        if now + after > self._until(call):
            self._end(call, Answer.failed(failure.name, failure.text, call.attempt))
        else:
            heapq.heappush(self.waiting, (now + after, call.index, call))
            self.wake.set()  # the next call may be due earlier than before
        failing, allowed = now - self.failing_since, self.settings.retry_for
        text = f"{self.failures_in_a_row} calls in a row failed, over {failing:.0f} s"
        if self.traffic.in_flight == 0 and self.traffic.paused_until - self.failing_since > allowed:
            # A pause beyond the time allowed, and no call under way that could bring an answer.
            text += f", and the server asks for more rest than the {allowed} s of retry_for"
        elif self.failures_in_a_row < MOST_FAILURES or failing <= allowed:
            return
        self._give_up(failure.name, f"{failure.text} (not requested: {text})")

    def _until(self, call: Call) -> float:
        """The last moment to try a request again.

        Counted from its own first failure, and from the provider's: while nothing at all is
        answered, every request waiting its own time would make an outage endless.
        """
        since = [t for t in (call.failing_since, self.failing_since) if t is not None]
        return min(since) + self.settings.retry_for

    def _end(self, call: Call, answer: Answer) -> None:
        self.emit((call.index, answer))
