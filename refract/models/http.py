"""What the adapters of providers share: settings, pacing of calls, retries, and how a run ends.

Definition keys of both (each provider's own are in its module), all optional but ``model_id``:

``model_id``            the provider's name of the model
``base_url``            another server with the same API (default: the provider's own)
``api_key_env``         the environment variable that holds the key; null for a server of one's own
                        that asks for none
``extra_body``          mapping, merged into every request's body
``extra_headers``       mapping, sent with every request; keys do not belong here
``system_prompt``       put before every conversation that has no system message of its own
``temperature``         0 (default): as greedy as the provider can; null: not sent, for models that
                        reject it
``top_p``               (0, 1]; default null: not sent
``max_tokens``          most tokens of an answer (default 512)
``timeout``             seconds for one call, connection and answer together (default 300)
``retry_for``           seconds for which a request that fails is tried again (default 600)
``max_concurrency``     most calls at a time (default 64); fewer run where the provider throttles
``requests_per_minute`` cap on calls, default null: none
``tokens_per_minute``   cap on prompt and completion tokens, default null: none
``price``               {input: , output: }, USD per million tokens
``max_requests``        most calls of a run, retries included; the rest is not asked
``max_cost``            most USD of a run (needs ``price``); the rest is not asked
``mode``                live (default), or batch: the provider's batch API, cheaper and slower
``batch_poll``          seconds between two looks at a batch (default 30)
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import json
import math
import os
import queue
import random
import re
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from refract.errors import ParamsError
from refract.models import check_keys
from refract.models.protocol import AdapterError, Answer, Message, Request
from refract.models.settings import is_count, is_markers, is_number, is_text, or_null
from refract.models.traffic import Traffic, retry_after

SETTINGS: dict[str, Any] = {
    "model_id": None,
    "base_url": None,
    "api_key_env": None,
    "extra_body": {},
    "extra_headers": {},
    "system_prompt": None,
    "temperature": 0,
    "top_p": None,
    "max_tokens": 512,
    "timeout": 300,
    "retry_for": 600,
    "max_concurrency": 64,
    "requests_per_minute": None,
    "tokens_per_minute": None,
    "price": None,
    "max_requests": None,
    "max_cost": None,
    "mode": "live",
    "batch_poll": 30,
}
# Settings that are no part of what is asked.
UNASKED = {
    "api_key_env",
    "organization",
    "timeout",
    "retry_for",
    "max_concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "price",
    "max_requests",
    "max_cost",
    "mode",
    "batch_poll",
}
SECRET_HEADERS = {"authorization", "api-key", "x-api-key", "cookie", "proxy-authorization"}

# Doubled with each try of the same request, up to the longest.
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
# An answer that cannot be read has been paid for all the same.
READ_TRIES = 3
CONNECT_SECONDS = 30.0
THROTTLED = {429, 503, 529}
RETRIED = {408, 409, 425, 429}  # and everything from 500

TOO_LONG = re.compile(
    r"context.?length|context.?window|context.?size|context.?limit|prompt is too long"
    r"|input is too long|too many (?:input )?tokens|longer than the model|max(?:imum)?.?model.?len"
    r"|maximum number of (?:input )?tokens|maximum context|too large for model"
    r"|reduce the length of|inputs. tokens|string_above_max_length|request_too_large",
    re.IGNORECASE,
)
FILTER_CODES = {
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "moderation_blocked",
}
FILTER_TEXT = re.compile(
    r"blocked by (?:the |our )?content.?filter|content management policy"
    r"|(?:input|prompt) was flagged|content.?policy.?violation",
    re.IGNORECASE,
)


Emit = Callable[[tuple[int, Answer]], None]


class InvalidResponse(ValueError):
    """A call succeeded, but what came is not an answer."""


def _positive(value: Any) -> bool:
    return is_number(value) and value > 0


def _mapping(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_text, value))


CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model_id": (is_text, "the provider's name of a model"),
    "base_url": (
        lambda v: (
            is_text(v) and urlsplit(v).scheme in ("http", "https") and urlsplit(v).netloc != ""
        ),
        "an address that starts with http:// or https://",
    ),
    "api_key_env": (or_null(is_text), "the name of an environment variable, or null"),
    "organization": (or_null(is_text), "the provider's id of an organization, or null"),
    "extra_body": (_mapping, "a mapping"),
    "extra_headers": (
        lambda v: _mapping(v) and all(isinstance(header, str) for header in v.values()),
        "a mapping of names to texts",
    ),
    "system_prompt": (or_null(is_text), "text or null"),
    "temperature": (or_null(lambda v: is_number(v) and v >= 0), "a number of at least 0, or null"),
    "top_p": (
        or_null(lambda v: is_number(v) and 0 < v <= 1),
        "a number above 0 and at most 1, or null",
    ),
    "max_tokens": (is_count, "a whole number of at least 1"),
    "max_tokens_field": (
        lambda v: v in ("max_tokens", "max_completion_tokens"),
        "max_tokens or max_completion_tokens",
    ),
    "seed": (lambda v: isinstance(v, bool), "true or false"),
    "reasoning": (
        or_null(is_markers),
        'two markers such as ["<think>", "</think>"], or null',
    ),
    "timeout": (_positive, "a number of seconds above 0"),
    "retry_for": (lambda v: is_number(v) and v >= 0, "a number of seconds of at least 0"),
    "max_concurrency": (is_count, "a whole number of at least 1"),
    "requests_per_minute": (or_null(_positive), "a number above 0, or null"),
    "tokens_per_minute": (or_null(_positive), "a number above 0, or null"),
    "price": (
        or_null(
            lambda v: (
                isinstance(v, dict)
                and v.keys() == {"input", "output"}
                and all(is_number(usd) and usd >= 0 for usd in v.values())
            )
        ),
        "{input: , output: } in USD per million tokens, or null",
    ),
    "max_requests": (or_null(is_count), "a whole number of at least 1, or null"),
    "max_cost": (or_null(_positive), "an amount of USD above 0, or null"),
    "mode": (lambda v: v in ("live", "batch"), "live or batch"),
    "batch_poll": (_positive, "a number of seconds above 0"),
}


class Provider:
    """The adapter that both providers are, but for what they name differently.

    A provider gives ``ADAPTER``, ``VERSION``, ``DEFAULTS`` (its own settings and its own values of
    the common ones), ``PATH`` (where conversations are posted), ``sdk`` (its package),
    ``open_client``, ``body``, ``read`` and ``rate_limits``.

    ``usage`` is the running total over all calls of :meth:`answer`: ``requests`` (calls sent,
    retries included), ``prompt_tokens``, ``completion_tokens``, ``cost`` (USD, None without a
    price), ``retries`` and ``throttles`` (calls the provider turned away for their number).
    """

    ADAPTER: str
    VERSION: str
    DEFAULTS: ClassVar[dict[str, Any]]
    PATH: str
    USES: tuple[str, ...] = ()

    def __init__(self, name: str, definition: dict[str, Any]) -> None:
        self.name = name
        self.settings = check_keys(name, definition, SETTINGS | self.DEFAULTS)
        for key, value in self.settings.items():
            check, allowed = CHECKS[key]
            if not check(value):
                raise ParamsError(f"model {name!r}: {key} must be {allowed} (got {value!r})")
        settings = self.settings
        secret = sorted(set(map(str.lower, settings["extra_headers"])) & SECRET_HEADERS)
        if secret:
            raise ParamsError(
                f"model {name!r}: extra_headers must hold no secrets (got {', '.join(secret)}); "
                "put the key into an environment variable and name it in api_key_env"
            )
        settings["base_url"] = settings["base_url"].rstrip("/")
        if settings["api_key_env"] is None and settings["base_url"] == self.DEFAULTS["base_url"]:
            raise ParamsError(
                f"model {name!r}: api_key_env: null is for a server of your own; name it in "
                f"base_url, or name the variable that holds the key (usually "
                f"{self.DEFAULTS['api_key_env']})"
            )
        if settings["max_cost"] is not None and settings["price"] is None:
            raise ParamsError(
                f"model {name!r}: max_cost needs price: {{input: , output: }} "
                "(USD per million tokens)"
            )
        # A model that is not told its temperature samples at the provider's own.
        self.samples = settings["temperature"] is None or settings["temperature"] > 0
        self.usage: dict[str, Any] = {
            "requests": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cost": None if settings["price"] is None else 0.0,
            "retries": 0,
            "throttles": 0,
        }

    def identity(self) -> dict[str, Any]:
        """The model, the server and everything that a request's body takes from the definition."""
        asked = {key: value for key, value in self.settings.items() if key not in UNASKED}
        return {"adapter": self.ADAPTER, "adapter_version": self.VERSION, **asked}

    def description(self) -> dict[str, Any]:
        """A provider does not say how many weights its model has."""
        return {"parameters": None}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers as they arrive, from an event loop in a thread of its own.

        Raises :class:`AdapterError` for a missing or rejected key; what was answered before has
        been yielded by then. A consumer that stops early ends the calls under way.
        """
        if not requests:
            return
        key = self._key()
        taken: list[Path] = []

        async def work(emit: Emit) -> None:
            try:
                if self.settings["mode"] == "batch":
                    from refract.models.batch import answer_in_batches

                    await answer_in_batches(self, key, requests, emit, taken)
                else:
                    await _Run(self, key, requests, emit).run()
            except AdapterError:
                raise
            except Exception as error:
                raise AdapterError(
                    f"model {self.name!r}: {type(error).__name__}: {self.clean(error, key)}"
                ) from error

        yield from in_thread(work)
        for path in taken:
            path.unlink(missing_ok=True)

    def estimate(self, request: Request) -> tuple[int, int]:
        """About how many tokens a request's first attempt sends, and the most it can get back."""
        text = sum(
            len(message["content"].encode("utf-8", "replace")) + 16
            for message in self.conversation(request.attempts[0])
        )
        return math.ceil(text / 4), self.settings["max_tokens"]

    def payload(self, request: Request, attempt: int) -> bytes:
        """The body for one of a request's attempts, in ASCII: so a lone surrogate passes too."""
        body = self.body(self.conversation(request.attempts[attempt]), request.seed)
        return json.dumps(body | self.settings["extra_body"], sort_keys=True).encode("ascii")

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """USD for so many tokens; 0 without a price."""
        price = self.settings["price"] or {"input": 0, "output": 0}
        return (prompt_tokens * price["input"] + completion_tokens * price["output"]) / 1e6

    def count(self, answer: Answer) -> None:
        """Adds an answer's tokens to ``usage``."""
        prompt, completion = answer.prompt_tokens or 0, answer.completion_tokens or 0
        self.usage["prompt_tokens"] += prompt
        self.usage["completion_tokens"] += completion
        if self.usage["cost"] is not None:
            self.usage["cost"] += self.cost(prompt, completion)

    def conversation(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with the definition's system prompt where they have none."""
        system = self.settings["system_prompt"]
        if system is None or any(message["role"] == "system" for message in messages):
            return list(messages)
        return [{"role": "system", "content": system}, *messages]

    def ending(self, status: int, error: Mapping[str, Any], attempt: int) -> Answer | str | None:
        """What an error response says beyond its status.

        An answer (a provider's filter), ``too_long``, ``final`` (trying again cannot help) or None.
        """
        inner = error.get("innererror") or {}
        codes = {str(code).lower() for code in (error.get("code"), error.get("type"))}
        if isinstance(inner, dict):
            codes.add(str(inner.get("code")).lower())
        text = str(error.get("message") or "")
        if codes & FILTER_CODES or (status <= 500 and FILTER_TEXT.search(text)):
            return Answer("", "content_filter", attempt)
        if status == 413 or (
            status in (400, 422, 500) and TOO_LONG.search(" ".join([text, *sorted(codes)]))
        ):
            return "too_long"
        if "insufficient_quota" in codes or "request too large" in text.lower():
            return "final"
        return None

    def clean(self, text: object, key: str = "") -> str:
        """A provider's message on one line, without the key or anything that looks like one."""
        line = " ".join(str(text).split())
        if key:
            line = line.replace(key, "[key]")
        line = re.sub(r"\bsk-[\w*.…-]+", "[key]", line)
        line = re.sub(r"\breq_\w+", "[id]", line)  # differs from try to try
        line = "".join(c if c.isprintable() else "�" for c in line)
        return line if len(line) <= 300 else line[:299] + "…"

    def key_rejected(self, text: str) -> AdapterError:
        """The error of a run whose key is no good; ``text`` is the provider's, cleaned."""
        variable = self.settings["api_key_env"]
        key = f"the key in {variable}" if variable else "a call without a key"
        return AdapterError(
            f"model {self.name!r}: {self.settings['base_url']} does not accept {key} for "
            f"{self.settings['model_id']} ({text})"
        )

    def _key(self) -> str:
        variable = self.settings["api_key_env"]
        if variable is None:
            return ""
        key = os.environ.get(variable, "").strip()
        if not key:
            raise AdapterError(
                f"model {self.name!r}: the environment variable {variable} is not set; it must "
                f"hold the key for {self.settings['base_url']}"
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise AdapterError(
                f"model {self.name!r}: the environment variable {variable} holds characters that "
                "no key has (a line break, a space, a typographic quote?)"
            )
        return key


def in_thread(work: Callable[[Emit], Awaitable[None]]) -> Iterator[tuple[int, Answer]]:
    """What a coroutine hands to the function it is given, as it comes.

    The coroutine runs in an event loop in a thread of its own, so that a consumer that takes its
    time, or has an event loop itself, keeps no call waiting. What it raises is raised here; it is
    cancelled, and has closed what it opened, when the consumer stops.
    """
    items: queue.SimpleQueue[Any] = queue.SimpleQueue()
    end = object()
    loop = asyncio.new_event_loop()
    task = loop.create_task(work(items.put))

    def run() -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
            last: Any = end
        except BaseException as error:  # whatever it is, the consumer must not wait for ever
            last = error
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
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
            loop.call_soon_threadsafe(task.cancel)
        thread.join()


@dataclass(slots=True)
class Call:
    """One request on its way: which conversation is being tried, and since when it fails."""

    index: int
    body: bytes
    tokens: int  # most that a try can take, for the caps
    cost: float  # the same in USD
    attempt: int = 0
    tries: int = 0
    unreadable: int = 0
    failing_since: float | None = None
    error: tuple[str, str] = ("", "")


class _Run:
    """One call of :meth:`Provider.answer`: which calls start when, and what becomes of each.

    Everything is decided in one event loop, so nothing needs a lock.
    """

    def __init__(
        self,
        provider: Provider,
        key: str,
        requests: Sequence[Request],
        emit: Emit,
    ) -> None:
        self.provider, self.key, self.requests, self.emit = provider, key, requests, emit
        self.settings, self.usage = provider.settings, provider.usage
        self.traffic = Traffic(
            self.settings["max_concurrency"],
            self.settings["requests_per_minute"],
            self.settings["tokens_per_minute"],
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

        self.client = self.provider.open_client(self.key or "none")
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
        """Until a worker has something to tell, or the next call may start."""
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
        """The next call, where one may start now; it counts as started."""
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
        body = self.provider.payload(self.requests[index], attempt)
        # Four bytes of English make a token; a budget must hold for less common texts too.
        prompt, completion = len(body) / 3, self.settings["max_tokens"]
        tokens, cost = math.ceil(prompt + completion), self.provider.cost(prompt, completion)
        return Call(index, body, tokens, cost, attempt)

    def _spent(self, call: Call) -> str | None:
        """Which of the run's own limits forbids a call now."""
        most = self.settings["max_requests"]
        if most is not None and self.usage["requests"] >= most:
            return f"max_requests: {most}"
        most = self.settings["max_cost"]
        if most is not None and self.usage["cost"] + self.reserved + call.cost > most:
            return f"max_cost: {most}"
        return None

    def _give_up(self, spent: str) -> None:
        """Ends everything that is left, cleanly: the next run asks for it."""
        left = [call.index for call in self.due] + [call.index for _, _, call in self.waiting]
        for index in (*left, *range(self.fresh, len(self.requests))):
            self.emit((index, Answer.failed("BudgetExhausted", f"not asked: {spent} is reached")))
        self.due.clear()
        self.waiting.clear()
        self.fresh = len(self.requests)

    async def _try(self, call: Call) -> None:
        """One call, and what follows from how it ends."""
        sdk = self.provider.sdk
        try:
            async with asyncio.timeout(self.settings["timeout"]):
                response = await self.client.post(
                    self.provider.PATH,
                    cast_to=self.response_type,
                    content=call.body,
                    options={"headers": {"Content-Type": "application/json"}},
                )
        except TimeoutError:
            seconds = self.settings["timeout"]
            self._throttled(call, "APITimeoutError", f"no answer within {seconds} s", None)
        except sdk.APIStatusError as error:
            self._status(call, error)
        except sdk.APIConnectionError as error:
            cause = error.__cause__ or error
            text = self.provider.clean(str(cause) or type(cause).__name__, self.key)
            self._retry(call, type(error).__name__, text)
        else:
            self._answered(call, response)
        finally:
            self.reserved -= call.cost

    def _answered(self, call: Call, response: Any) -> None:
        try:
            answer = read_payload(self.provider, response.content, call.attempt)
        except InvalidResponse as error:
            text = self.provider.clean(error, self.key)
            call.unreadable += 1
            if call.unreadable >= READ_TRIES:
                self.traffic.failed(call.tokens)
                self._end(call, Answer.failed("InvalidResponse", text, call.attempt))
            else:
                self._retry(call, "InvalidResponse", text)
            return
        taken = (answer.prompt_tokens or 0) + (answer.completion_tokens or 0)
        self.traffic.answered(call.tokens, taken)
        self.traffic.told(self.loop.time(), self.provider.rate_limits(response.headers))
        self.failing_since = None
        self.provider.count(answer)
        self._end(call, answer)

    def _status(self, call: Call, error: Any) -> None:
        """An answer with an error status: a filter, a prompt too long, a key, or a failure."""
        provider, status, headers = self.provider, error.status_code, error.response.headers
        body = error_body(error.response.content)
        name = type(error).__name__
        text = provider.clean(body.get("message") or error.response.reason_phrase, self.key)
        text = f"HTTP {status}: {text}"
        ending = provider.ending(status, body, call.attempt)
        after = retry_after(headers)
        if isinstance(ending, Answer):
            self.traffic.answered(call.tokens, 0)
            self.failing_since = None
            self._end(call, ending)
        elif ending == "too_long":
            self.traffic.answered(call.tokens, 0)
            self.failing_since = None
            self._too_long(call, text)
        elif status in (401, 403):
            self.traffic.failed(call.tokens)
            self.fatal = provider.key_rejected(text)
        elif ending == "final" or not (status in RETRIED or status >= 500):
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
        # A day's limit is no reason to sleep for a day.
        pause = after if after is None or after <= self.settings["retry_for"] else None
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
            self.wake.set()  # whoever sleeps may have to wake earlier

    def _until(self, call: Call) -> float:
        """The last moment to try a request again.

        Counted from its own first failure, and from the provider's: while nothing at all is
        answered, every request waiting its own time would make an outage endless.
        """
        since = [t for t in (call.failing_since, self.failing_since) if t is not None]
        return min(since) + self.settings["retry_for"]

    def _end(self, call: Call, answer: Answer) -> None:
        self.emit((call.index, answer))


def error_body(content: bytes) -> dict[str, Any]:
    """The error object of a response, whatever a server wraps it in; empty where there is none."""
    try:
        body = json.loads(content)
    except ValueError:
        return {"message": content.decode("utf-8", "replace")}
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return {}
    error = body.get("error") or body.get("detail") or body
    return error if isinstance(error, dict) else {**body, "message": error}


def read_payload(provider: Provider, content: bytes, attempt: int) -> Answer:
    """A response's body as an answer. Raises :class:`InvalidResponse`."""
    try:
        payload = json.loads(content)
    except ValueError as error:
        raise InvalidResponse(f"the response is not JSON ({error})") from None
    return read_object(provider, payload, attempt)


def read_object(provider: Provider, payload: Any, attempt: int) -> Answer:
    """A decoded response as an answer. Raises :class:`InvalidResponse`."""
    try:
        return provider.read(payload, attempt)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        what = payload.get("error") if isinstance(payload, dict) else None
        raise InvalidResponse(
            f"the response is not an answer ({what or f'{type(error).__name__}: {error}'})"
        ) from None
