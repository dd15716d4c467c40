"""Sending requests to a provider: which call starts when, how each one ends, and what is tried again.

The provider's package makes the calls (addresses, credentials, proxies, typed errors); what is repeated,
and when, is decided here, since it has to be counted, paid for and told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import queue
import random
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.showing import say
from refract.models.batch import FIRST_DELAY, LONGEST_DELAY, RETRIED, BatchRun
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.provider import (
    Emit,
    InvalidResponse,
    Provider,
    RateLimit,
    ReplyTooLarge,
    ending,
    error_body,
)

# An answer that cannot be read has been paid for all the same.
READ_TRIES = 3
THROTTLED = {429, 503, 529}
# Calls that fail one after the other, for longer than a request is tried, before the rest is not sent.
MOST_FAILURES = 32
# Seconds from which on a pause is said aloud.
SAID_FROM = 5.0
# Calls at a time before anything is known of the provider; doubled every round of answers.
FIRST_CONCURRENCY = 32
# How much one throttled call lowers the concurrency; one answered call raises it by 1. So calls
# settle where a quarter of them is throttled, and a provider that throttles fewer is used in full.
THROTTLE_STEP = 3
# Seconds of the pause when nothing but throttled calls came back, and how many of them double it.
PAUSE_FLOOR, LONGEST_FLOOR, DOUBLED_BY = 0.05, 5.0, 8
# Seconds that a start may come after its time without moving the times of those behind it.
LATENESS = 0.05


class Traffic:
    """Decides when the next call may start. Times are seconds of one monotonic clock.

    ``concurrency`` begins at :data:`FIRST_CONCURRENCY`, grows by one with each answer, and falls by
    :data:`THROTTLE_STEP` with each throttled call.
    """

    def __init__(
        self,
        max_concurrency: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        longest_pause: float = math.inf,
    ) -> None:
        self.max_concurrency, self.longest_pause = max_concurrency, longest_pause
        self.concurrency = float(min(max_concurrency, FIRST_CONCURRENCY))
        self.in_flight = 0
        self.paused_until = -math.inf
        self._per_request = 60 / requests_per_minute if requests_per_minute else 0.0
        self._per_token = 60 / tokens_per_minute if tokens_per_minute else 0.0
        self._next_request = self._next_token = -math.inf
        self._throttled_in_a_row = 0
        self._mean_tokens = 0.0

    def delay(self, now: float) -> float:
        """Seconds until a call may start; infinite where one must end first."""
        if self.in_flight >= int(self.concurrency):
            return math.inf
        return max(self.paused_until, self._next_request, self._next_token) - now

    def started(self, now: float, tokens: int) -> None:
        """Counts a call as under way; ``tokens`` is the most it can use."""
        self.in_flight += 1
        if self._per_request:
            # A late start does not delay those after it, but a pause is not made up for.
            due = max(self._next_request, now - LATENESS)
            self._next_request = due + self._per_request
        if self._per_token:
            self._next_token = max(self._next_token, now) + tokens * self._per_token

    def answered(self, tokens: int, used: int) -> None:
        """A call ended with an answer and used ``used`` of the ``tokens`` reserved for it."""
        self.concurrency = min(self.concurrency + 1, self.max_concurrency)
        self.in_flight -= 1
        self._throttled_in_a_row = 0
        self._next_token -= (tokens - used) * self._per_token
        self._mean_tokens += (used - self._mean_tokens) / 16

    def failed(self, tokens: int) -> None:
        """A call ended without an answer, for reasons of its own."""
        self.in_flight -= 1
        self._next_token -= tokens * self._per_token

    def throttled(self, now: float, tokens: int, retry_after: float | None) -> None:
        """A call was turned away as one too many, or got no answer in time."""
        self.failed(tokens)
        self._throttled_in_a_row += 1
        # One throttled call in five says little about the rest; many in a row mean that every call
        # will be throttled until the time the provider names. One that names none, or asks to come
        # back at once and throttles again, gets ever longer pauses.
        if self._throttled_in_a_row >= max(2, self.concurrency / 2):
            doubled = min(self._throttled_in_a_row // DOUBLED_BY, 10)
            floor = min(LONGEST_FLOOR, PAUSE_FLOOR * 2**doubled)
            self.paused_until = max(self.paused_until, now + max(retry_after or 0, floor))
        self.concurrency = max(1.0, self.concurrency - THROTTLE_STEP)

    def update_limits(self, now: float, limits: Sequence[RateLimit]) -> None:
        """Applies a response's rate-limit headers: nothing starts while nothing is left.

        A limit that is back only after the longest pause is not waited for: a call is refused soon
        enough if the provider means it.
        """
        for limit in limits:
            need = max(1.0, self._mean_tokens if limit.tokens else 1.0)
            if limit.remaining >= need:
                continue
            share = 1.0
            if limit.limit is not None and limit.limit > limit.remaining:
                # A provider's limit fills up steadily: a tenth of it is enough to go on with.
                share = min(1.0, max(need, limit.limit / 10) / (limit.limit - limit.remaining))
            pause = limit.reset * share
            if pause <= self.longest_pause:
                self.paused_until = max(self.paused_until, now + pause)


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


def failure_of(model: Provider, error: Exception, attempt: int) -> Failure:
    """What an exception means that a call ended in. Raises :class:`AdapterError` where no call can
    succeed."""
    sdk, cause = model.sdk, error.__cause__
    if isinstance(cause, InvalidResponse):
        error = cause
    if isinstance(error, TimeoutError):
        text = f"no answer within {model.settings.timeout} s"
        return Failure("APITimeoutError", text, THROTTLED_CALL, paid=True)
    if isinstance(error, InvalidResponse):
        kind = FINAL if isinstance(error, ReplyTooLarge) else UNREADABLE
        return Failure("InvalidResponse", model.clean(error), kind, paid=True)
    if isinstance(error, sdk.APIStatusError):
        return status_failure(model, error, attempt)
    if isinstance(error, sdk.APIConnectionError):
        text = model.clean(str(cause or "") or type(cause or error).__name__)
        reached = "connect" not in type(cause).__name__.lower()
        return Failure(type(error).__name__, text, PASSING, paid=reached)
    text = model.clean(f"{type(error).__name__}: {error}")
    if isinstance(error, UnicodeError):  # half a character, which the clouds' clients do not send
        return Failure("PromptNotRenderable", text, FINAL)
    if model.settings.client is not None:  # credentials that another package looks for
        raise AdapterError(f"models.{model.name}: client {model.settings.client}: {text}")
    return Failure("InvalidResponse", text, UNREADABLE, paid=True)


def status_failure(model: Provider, error: Any, attempt: int) -> Failure:
    """What an error status means: a filter, a prompt too long, a key, or a failure."""
    status, response, name = error.status_code, error.response, type(error).__name__
    try:
        body = error_body(response.content)
        meaning, text = ending(status, body, attempt), model.clean(body.get("message") or "")
    except Exception:  # nested deeper than Python prints, say
        meaning, text = None, ""
    text = f"HTTP {status}: {text or model.clean(response.reason_phrase)}"
    if isinstance(meaning, Answer):
        return Failure(name, text, FILTERED)
    if meaning == "too_long":
        return Failure("PromptTooLong", text, TOO_LONG_PROMPT)
    if status in (401, 403):
        return Failure(name, text, REJECTED_KEY)
    if meaning == "final" or not (status in RETRIED or status >= 500):
        return Failure(name, text, FINAL)
    kind = THROTTLED_CALL if status in THROTTLED else PASSING
    return Failure(name, text, kind, retry_after(response.headers))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks to wait; None if it names none."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            try:
                seconds = (parsedate_to_datetime(value) - now_at(headers)).total_seconds()
            except (ValueError, TypeError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def now_at(headers: Mapping[str, str]) -> datetime:
    """The time of the server that sent a response, so that two clocks need not agree."""
    try:
        return parsedate_to_datetime(headers["date"])
    except (KeyError, OverflowError, TypeError, ValueError):
        return datetime.now(UTC)


@dataclass(slots=True)
class Call:
    """A request under way: which conversation is being tried, and since when it fails."""

    index: int
    attempt: int = 0
    body: bytes = b""
    tokens: int = 0  # most that a try can use, for the caps
    cost: float = 0.0  # the same in USD
    tries: int = 0
    unreadable: int = 0
    failing_since: float | None = None
    error: Failure | None = None

    def failed(self, error: Failure | None = None) -> Answer:
        """The answer of a call that is not tried again."""
        error = error or self.error
        assert error is not None
        return Answer.failed(error.name, error.text, self.attempt)


class LiveRun:
    """Answers requests by one call each. Everything is decided in one event loop, so nothing needs a
    lock but the order of those who wait."""

    def __init__(self, model: Provider, requests: Sequence[Request], emit: Emit) -> None:
        self.model, self.requests, self.emit = model, requests, emit
        self.settings, self.usage = model.settings, model.usage
        self.traffic = Traffic(
            self.settings.max_concurrency,
            self.settings.requests_per_minute,
            self.settings.tokens_per_minute,
            longest_pause=self.settings.retry_for,
        )
        self.said_until = -math.inf
        self.failures_in_a_row = 0  # since the last sign of life
        self.failing_since: float | None = None  # first failure since the last sign of life
        self.reserved = 0.0  # USD that the calls under way can cost at most
        self.given_up: Failure | None = None  # why nothing is sent any more
        self.over = asyncio.Event()  # set with it
        self.changed = asyncio.Event()  # a call has ended
        self.queue = asyncio.Lock()  # those who wait to start, first come, first served
        self.loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Hands every answer to ``emit``; raises :class:`AdapterError`."""
        async with self.model.open_client() as self.client:
            try:
                async with asyncio.TaskGroup() as group:
                    for index in range(len(self.requests)):
                        call = Call(index)
                        self._prepare(call)
                        if (refused := await self._start(call)) is None:
                            group.create_task(self._answer(call))
                        else:
                            self.emit((index, refused))
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None

    def _prepare(self, call: Call) -> None:
        call.body = self.model.payload(self.requests[call.index], call.attempt)
        prompt, completion = self.model.most_tokens(call.body)
        call.tokens, call.cost = math.ceil(prompt + completion), self.model.cost(prompt, completion)

    async def _start(self, call: Call) -> Answer | None:
        """Waits until the call may start, and counts it as started; the answer of one that may not."""
        async with self.queue:
            while self.given_up is None:
                now = self.loop.time()
                if call.failing_since is not None and now > self._until(call):
                    return call.failed()
                if (delay := self.traffic.delay(now)) <= 0:
                    if not (spent := self._spent(call)):
                        self.traffic.started(now, call.tokens)
                        self.reserved += call.cost
                        self.usage["requests"] += 1
                        self.usage["retries"] += call.tries > 0
                        call.tries += 1
                        return None
                    if self.traffic.in_flight == 0:
                        self._give_up("BudgetExhausted", f"not requested: {spent}")
                        break
                    delay = math.inf  # until a call has cost less than it could have
                self.changed.clear()
                await _within(delay, self.changed)
            assert self.given_up is not None
            return Answer.failed(self.given_up.name, self.given_up.text)

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
        """Ends everything that is not under way, cleanly: the next run requests it."""
        self.given_up = Failure(name, text, FINAL)
        self.over.set()
        self.changed.set()

    async def _answer(self, call: Call) -> None:
        """A call that has started, and those that repeat it or go on with the next attempt."""
        answer = None
        while answer is None:
            try:
                reply = await self._reply(call)
            finally:
                self.reserved -= call.cost
            after: Answer | float
            if isinstance(reply, Failure):
                after = self._failed(call, reply)
            else:
                after = self._answered(call, *reply)
            self.changed.set()
            if isinstance(after, Answer):
                answer = after
            else:
                await _within(after, self.over)
                answer = await self._start(call)
        self.emit((call.index, answer))

    async def _reply(self, call: Call) -> tuple[Answer, Sequence[RateLimit]] | Failure:
        """The answer to a call and the limits that came with it, or how it failed."""
        from httpx2 import Response

        sent = time.monotonic()
        try:
            async with asyncio.timeout(self.settings.timeout):
                # The packages of the clouds take the model out of the body.
                whole = self.settings.client in ("bedrock", "vertex")
                given = {"body": json.loads(call.body)} if whole else {"content": call.body}
                response = await self.client.post(self.model.PATH, cast_to=Response, **given)
            answer = self.model.read_reply(response.content, call.attempt)
        except Exception as error:  # whatever a server can make of its client
            return failure_of(self.model, error, call.attempt)
        seconds = round(time.monotonic() - sent, 4)
        return replace(answer, seconds=seconds), self.model.rate_limits(response.headers)

    def _answered(self, call: Call, answer: Answer, limits: Sequence[RateLimit]) -> Answer:
        used = (answer.prompt_tokens or 0) + (answer.completion_tokens or 0)
        now = self.loop.time()
        self.traffic.answered(call.tokens, used)
        self.traffic.update_limits(now, limits)
        self._say_pause(now)
        self._sign_of_life()
        self.model.count(answer, call.body)
        return answer

    def _failed(self, call: Call, failure: Failure) -> Answer | float:
        """What follows from a call that came back without an answer: the end, or another after so
        many seconds."""
        now = self.loop.time()
        if failure.paid:
            self.model.count(None, call.body)
        if failure.kind in (FILTERED, TOO_LONG_PROMPT):
            self.traffic.answered(call.tokens, 0)
            self._sign_of_life()
            if failure.kind == FILTERED:
                return Answer("", "content_filter", call.attempt)
            if call.attempt + 1 == len(self.requests[call.index].attempts):
                return call.failed(failure)
            call.attempt, call.tries, call.unreadable = call.attempt + 1, 0, 0
            call.failing_since = None
            self._prepare(call)
            return 0.0
        if failure.kind == THROTTLED_CALL:
            self.usage["throttles"] += failure.name != "APITimeoutError"
            # Where a day's limit is used up, sleeping for a day would be wrong.
            after = failure.after
            pause = None if after is None or after > self.settings.retry_for else after
            self.traffic.throttled(now, call.tokens, pause)
            self._say_pause(now)
        else:
            self.traffic.failed(call.tokens)
        call.unreadable += failure.kind == UNREADABLE
        if failure.kind == REJECTED_KEY:
            raise self.model.key_rejected(failure.text)
        if failure.kind == FINAL:
            self._sign_of_life()
        if failure.kind == FINAL or call.unreadable >= READ_TRIES:
            return call.failed(failure)
        return self._later(call, failure, now)

    def _later(self, call: Call, failure: Failure, now: float) -> Answer | float:
        """Seconds until a request is tried again: those that the provider says, or a growing while."""
        call.error = failure
        if call.failing_since is None:
            call.failing_since = now
        if self.failing_since is None:
            self.failing_since = now
        self.failures_in_a_row += 1
        failing, allowed = now - self.failing_since, self.settings.retry_for
        text = f"{self.failures_in_a_row} calls in a row failed, over {failing:.0f} s"
        if self.traffic.in_flight == 0 and self.traffic.paused_until - self.failing_since > allowed:
            # A pause beyond the time allowed, and no call under way that could bring an answer.
            text += f", and the server asks for more rest than the {allowed} s of retry_for"
            self._give_up(failure.name, f"{failure.text} (not requested: {text})")
        elif self.failures_in_a_row >= MOST_FAILURES and failing > allowed:
            self._give_up(failure.name, f"{failure.text} (not requested: {text})")
        longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** (call.tries - 1))
        # Spread, so that what failed together does not come back together.
        spread = random.Random(f"{call.index}:{call.tries}").uniform(0.5, 1)
        # A provider that asks to come back at once is not taken at its word every time.
        floor = min(LONGEST_FLOOR, PAUSE_FLOOR * 2 ** (call.tries - 1)) * spread
        after = longest * spread if failure.after is None else max(failure.after, floor)
        return call.failed() if now + after > self._until(call) else after

    def _until(self, call: Call) -> float:
        """The last moment to try a request again.

        Counted from its own first failure, and from the provider's: while nothing at all is
        answered, every request waiting its own time would make an outage endless.
        """
        since = [t for t in (call.failing_since, self.failing_since) if t is not None]
        return min(since) + self.settings.retry_for

    def _sign_of_life(self) -> None:
        self.failing_since, self.failures_in_a_row = None, 0

    def _say_pause(self, now: float) -> None:
        """Says aloud that nothing is sent for a while."""
        until = self.traffic.paused_until
        if until - now >= SAID_FROM and until - self.said_until >= SAID_FROM:
            self.said_until = until
            say(
                f"models.{self.model.name}: the server asks for rest: nothing is sent for "
                f"{until - now:.0f} s",
                file=sys.stderr,
            )


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Waits for an event, so long at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if seconds == math.inf else seconds):
            await event.wait()


class Served(Provider):
    """A model behind a provider that answers: by live requests, or by the provider's batch API."""

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers as they arrive, from an event loop in a thread of its own.

        Raises :class:`AdapterError` for a missing or rejected key; what was answered before has
        been yielded by then. A consumer that stops early ends the calls under way.
        """
        if not requests:
            return
        self.check_key()
        taken: list[Path] = []

        async def work(emit: Emit) -> None:
            try:
                if self.settings.mode == "batch":
                    await BatchRun(self, requests, emit, taken).run()
                else:
                    await LiveRun(self, requests, emit).run()
            except AdapterError:
                raise
            except Exception as error:
                raise AdapterError(
                    f"models.{self.name}: {type(error).__name__}: {self.clean(error)}"
                ) from error

        yield from in_thread(work)
        for path in taken:
            path.unlink(missing_ok=True)


def in_thread(work: Callable[[Emit], Coroutine[Any, Any, None]]) -> Iterator[tuple[int, Answer]]:
    """What a coroutine passes to the function it is given, as it comes.

    The coroutine runs in an event loop in a thread of its own, so that a consumer that is slow, or
    runs in an event loop itself, keeps no call waiting. What it raises is raised here. When the
    consumer stops, it is cancelled, and has closed what it opened.
    """
    items: queue.SimpleQueue[Any] = queue.SimpleQueue()
    end = object()
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    task = runner.get_loop().create_task(work(items.put))

    async def result() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def run() -> None:
        last: Any = end
        try:
            with runner:
                runner.run(result())
        except BaseException as error:  # whatever it is, the consumer must not wait for ever
            last = error
        items.put(last)

    thread = threading.Thread(target=run, name="provider", daemon=True)
    thread.start()
    try:
        while (item := items.get()) is not end:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        with contextlib.suppress(RuntimeError):  # the loop is closed where the work is done
            runner.get_loop().call_soon_threadsafe(task.cancel)
        thread.join()
