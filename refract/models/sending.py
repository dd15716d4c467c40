"""Sending requests to a provider: which call starts when, and how each ends.

The provider's package makes the calls and repeats those that fail (``max_retries``), for as
long as ``Retry-After`` says. What it cannot know is decided here: which failures no repeat
mends, what the run's own limits allow, and when a server is given up.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

from refract.core.showing import say
from refract.models.interruption import Interrupted
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.provider import CostReached, Provider

# Repeats of a call while none was connected: a server that is not there is not waited for.
FIRST_RETRIES = 2
# Calls that fail one after the other, each with all its repeats, before the run ends.
MOST_FAILURES = 32


class LiveRun:
    """Answers requests by one call each, in one event loop, so nothing needs a lock. ``emit`` takes
    the index of a request and its answer."""

    def __init__(
        self,
        model: Provider,
        requests: Sequence[Request],
        emit: Callable[[tuple[int, Answer]], None],
    ) -> None:
        self.model, self.requests, self.emit = model, requests, emit
        self.settings, self.usage = model.settings, model.usage
        self.places = asyncio.Semaphore(self.settings.max_concurrency)
        self.calls: set[Any] = set()  # tasks that have started and not ended
        self.ended = asyncio.Event()  # one of them has ended
        self.failures = 0  # calls in a row
        self.error: Exception | None = None  # that ends the run

    async def run(self) -> None:
        """Emits every answer. Raises the first error that makes it pointless to ask on, such as
        :class:`AdapterError`, once the calls at the server have ended and their answers are emitted."""
        async with self.model.open_client() as client:
            self.client = self.first = client
            more = self.settings.max_retries - FIRST_RETRIES
            if more > 0:
                self.first = client.with_options(max_retries=FIRST_RETRIES)
                self.others = client.with_options(max_retries=more - 1)
            self.model.say_where(client, len(self.requests))
            async with asyncio.TaskGroup() as group:
                self.starting = group.create_task(self._start_all(group))
        if self.error is not None:
            raise self.error

    async def _start_all(self, group: asyncio.TaskGroup) -> None:
        """Starts each request's call as soon as it may start."""
        try:
            for index, request in enumerate(self.requests):
                await self.places.acquire()
                body = self.model.payload(request, 0)
                await self.model.until_free()
                spent = await self._start(body)
                if spent is not None:
                    self.places.release()
                    self.emit((index, Answer.failed("BudgetExhausted", spent)))
                    continue
                self.model.take_turn()
                self.calls.add(group.create_task(self._answer(index, body)))
        except Exception as error:
            self._end(error)

    def interrupt(self) -> None:
        """Ends the run; for its event loop to call."""
        self._end(Interrupted())

    def _end(self, error: Exception) -> None:
        """Ends the run with this error, unless it is ending: nothing more is sent. Calls that are at
        the server go on, since their answers may be paid for; those between two tries end."""
        if self.error is not None:
            return
        self.error = error
        self.model.ending = True
        self.starting.cancel()
        others = self.calls - {asyncio.current_task()}
        at_server = others & self.model.sent
        for task in others - at_server:
            task.cancel()
        left, is_interrupt = len(at_server), isinstance(error, Interrupted)
        if left and (self.model.reached or is_interrupt):
            calls = "a call that is" if left == 1 else f"up to {left} calls that are"
            again = "; Ctrl-C again to lose what they bring" * is_interrupt
            say(
                f"{self.model.name}: the run ends early, after {calls} under way{again}",
                file=sys.stderr,
            )

    async def _start(self, body: bytes) -> str | None:
        """Waits until a call can be within the run's limits, and counts it; why none can be."""
        cost, limit = self.model.most_cost(body), self.settings.max_cost
        while limit is not None and self.model.committed + cost > limit:
            if not self.calls:
                return f"not requested: max_cost: {limit} is reached"
            self.ended.clear()  # one that has cost less than it could have makes room
            await self.ended.wait()
        self.usage["requests"] += 1
        self.model.reserved += cost
        return None

    async def _answer(self, index: int, body: bytes) -> None:
        cost = self.model.most_cost(body)
        try:
            self.emit((index, await self._asked(index, body)))
        except Exception as error:
            self._end(error)
        finally:
            task = asyncio.current_task()
            self.calls.discard(task)
            self.model.sent.discard(task)
            self.model.reserved -= cost
            self.ended.set()
            self.places.release()

    async def _asked(self, index: int, body: bytes) -> Answer:
        """The answer to a request, by the first of its attempts that is not too long."""
        request = self.requests[index]
        last = len(request.attempts) - 1
        attempt = 0
        doubtful: Answer | None = None  # whose prompt the server may have cut
        others: Any = None  # the client of the other repeats, once the first ones failed
        while True:
            client = others or (self.client if self.model.reached else self.first)
            try:
                response = await self.model.send(client, body)
                answer = self.model.read_reply(response.content, attempt)
            except (CostReached, asyncio.CancelledError) as error:
                if doubtful:
                    return doubtful  # which is paid
                if isinstance(error, asyncio.CancelledError):
                    raise
                text = f"not requested to its end: max_cost: {self.settings.max_cost} is reached"
                return Answer.failed("BudgetExhausted", text, attempt)
            except Exception as error:  # whatever a server can make of its client
                failure = self.model.failure_of(error)
                headers = getattr(getattr(error, "response", None), "headers", {})
                repeats = headers.get("x-should-retry") != "false"
            else:
                self.failures, others = 0, None
                self.model.count(answer, body)
                if doubtful and (answer.prompt_tokens or 0) < (doubtful.prompt_tokens or 0):
                    return doubtful  # a shorter prompt has fewer tokens, so it was read whole
                cut = self.model.was_cut(request, answer)
                if not cut and (attempt == last or not self.model.is_doubtful(request, answer)):
                    return answer
                if attempt == last:
                    return Answer.failed("PromptCut", str(cut), attempt)
                if self.error is not None and not cut:
                    return answer  # nothing more is sent, and this one is paid
                doubtful = None if cut else answer
                attempt += 1
                body = self.model.payload(request, attempt)
                continue
            if failure.paid:
                self.model.count(None, body)
            if doubtful:
                return doubtful
            if failure.kind == "passing":
                first = client is self.first is not self.client
                if repeats and first and self.model.reached and self.error is None:
                    self.model.say_repeated(failure.text)
                    others = self.others
                    continue
                self._give_up_after(failure.text)
            elif failure.kind == "too long" and attempt < last:
                attempt, others = attempt + 1, None
                body = self.model.payload(request, attempt)
                continue
            return failure.answer(attempt)

    def _give_up_after(self, text: str) -> None:
        """Ends the run where it makes no sense to ask on. Raises :class:`AdapterError` where no call
        was connected."""
        at = f"{self.model.where}: {self.settings.base_url}"
        if not self.model.reached:
            raise AdapterError(f"{at} takes no connection ({text}); is the server running?")
        self.failures += 1
        if self.failures >= MOST_FAILURES:
            self._end(
                AdapterError(
                    f"{at}: {self.failures} calls in a row failed, the last with {text}. Run again once "
                    "the server answers, or without the prompts that it never answers"
                )
            )
