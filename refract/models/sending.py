"""Sending requests to a provider: which call starts when, how each ends, and what is
tried again.

The provider's package makes the calls (addresses, credentials, proxies, typed errors).
Repeats are decided here, since they count against budgets and one pause holds for all
calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from refract.core.showing import say
from refract.models.batch import BatchRun
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.provider import Emit, Provider
from refract.models.replies import Failure

# An answer that cannot be read has been paid for all the same.
READ_TRIES = 3
# Calls that fail one after the other, for longer than a request is tried, before the
# rest is not sent.
MOST_FAILURES = 32
# Seconds in which a server has to take a first connection; one that did is waited for
# longer.
REACH_SECONDS = 5.0
# Seconds from which on a pause is told.
TOLD_FROM = 5.0
# Seconds until another try, doubled with each up to the longest; and the least where
# the server asks for fewer, since one that asks to come back at once is not believed
# every time.
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
FIRST_FLOOR, LONGEST_FLOOR = 0.05, 5.0
# Seconds that a start may come after its time without moving the times of those behind
# it.
LATENESS = 0.05


def delay(tries: int, asked: float | None) -> float:
    """Seconds until another try: as many as the provider asks for, or growing ones."""
    # Spread, so that what failed together does not come back together.
    grown = 2.0 ** min(tries - 1, 10) * random.uniform(0.5, 1)
    if asked is None:
        return min(LONGEST_DELAY, FIRST_DELAY * grown)
    return max(asked, min(LONGEST_FLOOR, FIRST_FLOOR * grown))


@dataclass(slots=True, eq=False)
class Call:
    """A request under way: which conversation is being tried, and since when it fails."""

    index: int
    attempt: int
    body: bytes
    cost: float  # most USD that a try can cost
    tries: int = 0
    unreadable: int = 0
    sent_at: float = 0.0
    failing_since: float = math.inf
    after: float = 0.0  # seconds to wait before it is sent


class LiveRun:
    """Answers requests by one call each, in one event loop, so nothing needs a lock."""

    # Since the last sign of life: pauses, failures, and when the first of these was.
    pauses: int
    failures: int
    failing_since: float

    def __init__(self, model: Provider, requests: Sequence[Request], emit: Emit) -> None:
        self.model, self.requests, self.emit = model, requests, emit
        self.settings, self.usage = model.settings, model.usage
        self.places = asyncio.Semaphore(self.settings.max_concurrency)
        per_minute = self.settings.requests_per_minute
        self.spacing = 60 / per_minute if per_minute else 0.0  # seconds between two starts
        self.free_at = -math.inf  # when the next call may start
        self.under_way = 0  # calls
        self.reserved = 0.0  # the most USD that they can cost
        self.changed = asyncio.Event()  # a call has ended
        self.paused_until = -math.inf
        self._sign_of_life()
        self.reached = False  # whether the server has taken a connection
        self.given_up: Failure | None = None  # why nothing is sent any more
        self.failed = False  # whether any call has failed
        self.over = asyncio.Event()  # set with it
        self.loop = asyncio.get_running_loop()
        self.began = self.loop.time()

    async def run(self) -> None:
        """Emits every answer. Raises :class:`AdapterError`."""
        async with self.model.open_client() as self.client:
            self.model.say_where(self.client, len(self.requests))
            try:
                async with asyncio.TaskGroup() as group:
                    for index in range(len(self.requests)):
                        # Taken here, so that a call tried again waits for one new call
                        # at most.
                        await self.places.acquire()
                        group.create_task(self._answer(self._call(index, 0)))
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None

    def _call(self, index: int, attempt: int) -> Call:
        body = self.model.payload(self.requests[index], attempt)
        return Call(index=index, attempt=attempt, body=body, cost=self.model.most_cost(body))

    async def _answer(self, call: Call) -> None:
        """A call that has a place, and those that repeat it or go on with the next
        attempt."""
        while True:
            try:
                after = await self._try(call)
            finally:
                self.places.release()
            if isinstance(after, Answer):
                self.emit((call.index, after))
                return
            call = after
            await _within(call.after, self.over)
            await self.places.acquire()

    async def _try(self, call: Call) -> Answer | Call:
        """One call: the request's answer, or the call to make next."""
        await self._may_start(call)
        if self.given_up is not None:
            return self.given_up.answer(0)
        failure = None
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await self.model.send(self.client, call.body)
            answer = self.model.read_reply(response.content, call.attempt)
        except Exception as error:  # whatever a server can make of its client
            failure = self.model.failure_of(error, self.client)
        finally:
            self.under_way -= 1
            self.reserved -= call.cost
            self.changed.set()
        if failure is not None:
            if failure.paid:
                self.model.count(None, call.body)
            return self._failed(call, failure)
        self.reached = True
        self.model.count(answer, call.body)
        self._sign_of_life()
        return answer

    async def _may_start(self, call: Call) -> None:
        """Waits until the call may start and counts it, or until no call may start any
        more."""
        while self.given_up is None:
            now = self.loop.time()
            wait = max(self.paused_until, self.free_at) - now
            if wait <= 0:
                most = (self.usage["cost"] or 0.0) + self.reserved + call.cost
                spent = self.model.spent(self.usage["requests"] + 1, most)
                if spent is None:
                    # A late start does not delay those after it; a pause is not made up
                    # for.
                    self.free_at = max(self.free_at, now - LATENESS) + self.spacing
                    self.under_way += 1
                    self.reserved += call.cost
                    self.usage["requests"] += 1
                    self.usage["retries"] += call.tries > 0
                    call.tries, call.sent_at = call.tries + 1, now
                    return
                if not self.under_way:
                    return self._give_up("BudgetExhausted", spent)
                wait = math.inf  # until a call has cost less than it could have
            self.changed.clear()
            await _within(wait, self.changed)

    def _give_up(self, name: str, text: str) -> None:
        """Ends everything that is not under way; the next run requests it."""
        self.given_up = Failure(name, text, "final")
        self.over.set()
        self.changed.set()

    def _failed(self, call: Call, failure: Failure) -> Answer | Call:
        """What follows from a call that came back without an answer."""
        self.reached |= failure.reached
        now, allowed = self.loop.time(), self.settings.retry_for
        if not self.failed and failure.kind in ("passing", "unreadable", "final"):
            # Told at once, since it may be tried again for minutes.
            self.failed = True
            text = f"the first call that failed: {failure.name}: {failure.text}"
            if failure.kind != "final":
                text += f"; tried for up to {allowed} s"
                if not self.reached and allowed > REACH_SECONDS:
                    text += f", or {REACH_SECONDS:g} s if no call reaches the server"
            say(f"{self.model.name}: {text}", file=sys.stderr)
        if failure.kind in ("filtered", "too long", "final"):
            self._sign_of_life()
            more = self.requests[call.index].attempts[call.attempt + 1 :]
            if failure.kind == "too long" and more:
                return self._call(call.index, call.attempt + 1)
            return failure.answer(call.attempt)
        call.unreadable += failure.kind == "unreadable"
        if call.unreadable >= READ_TRIES:
            return failure.answer(call.attempt)
        call.failing_since = min(now, call.failing_since)
        self.failing_since = min(now, self.failing_since)
        self.failures += 1
        if not self.reached and now >= self.began + min(REACH_SECONDS, allowed):
            why = f"no call has reached {self.settings.base_url}; is the server running?"
            self._give_up(failure.name, f"{failure.text} ({why})")
            return failure.answer(call.attempt)
        throttled = failure.kind == "throttled"
        if throttled:
            self.usage["throttles"] += 1
            # A call that was under way when the last pause began tells nothing about
            # that pause.
            self.pauses += call.sent_at >= self.paused_until or self.pauses == 0
        call.after = delay(self.pauses if throttled else call.tries, failure.after)
        again_at = now + call.after
        # Where a day's limit is used up, sleeping for a day would be wrong.
        pausing = throttled and call.after <= allowed
        if pausing:
            if again_at - max(now, self.paused_until) >= TOLD_FROM:
                text = f"the server asks for rest: nothing is sent for {call.after:.0f} s"
                say(f"{self.model.where}: {text}", file=sys.stderr)
            self.paused_until = max(self.paused_until, again_at)
        hopeless = (pausing and not self.under_way) or self.failures >= MOST_FAILURES
        if hopeless and again_at > self.failing_since + allowed:
            why = f"{self.failures} calls in a row failed, and retry_for: {allowed} allows no other"
            self._give_up(failure.name, f"{failure.text} (not requested: {why})")
        return failure.answer(call.attempt) if again_at > call.failing_since + allowed else call

    def _sign_of_life(self) -> None:
        self.pauses, self.failures, self.failing_since = 0, 0, math.inf


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Waits for an event, so long at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if seconds == math.inf else seconds):
            await event.wait()


class Served(Provider):
    """A model behind a provider that answers: by live requests, or by the provider's
    batch API."""

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers as they arrive, from an event loop in a thread of its own: a consumer
        that is slow, or runs in an event loop itself, keeps no call waiting. One that
        stops early ends the calls.

        Raises :class:`AdapterError` for a missing or rejected key, after the answers
        until then.
        """
        from anyio.from_thread import start_blocking_portal

        if not requests:
            return
        self.check_key()
        taken: list[Path] = []
        items: queue.SimpleQueue[tuple[int, Answer] | None] = queue.SimpleQueue()

        async def work() -> None:
            try:
                if self.settings.mode == "batch":
                    await BatchRun(model=self, requests=requests, emit=items.put, taken=taken).run()
                else:
                    await LiveRun(self, requests, items.put).run()
            except AdapterError:
                raise
            except Exception as error:
                text = f"{type(error).__name__}: {self.clean(error)}"
                raise AdapterError(f"{self.where}: {text}") from error

        models: Counter[str] = Counter()
        with start_blocking_portal() as portal:
            future = portal.start_task_soon(work, name="provider")
            future.add_done_callback(lambda _: items.put(None))
            try:
                for item in iter(items.get, None):
                    model = item[1].said_model
                    if model:
                        models[model] += 1
                    yield item
            finally:
                future.cancel()  # which closes what it opened
            future.result()
        self.check_models(models)
        for path in taken:
            path.unlink(missing_ok=True)
