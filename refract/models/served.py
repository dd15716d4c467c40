"""The adapter of every model behind a provider: live requests, or the provider's batch API."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from refract.core.errors import ParamsError
from refract.models.batch import BatchRun
from refract.models.live import LiveRun
from refract.models.protocol import AdapterError, Answer, Request, ServedModel
from refract.models.provider import Dialect, Emit, ServedSettings, Session
from refract.models.turn import system_identity, system_text, with_system_prompt

# Settings that change how requests are sent, and no request.
SENDING = {
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

# Settings that came after the first answers were stored: part of the identity only where they are set.
ADDED = ("prefill",)


class Served(ServedModel):
    """A model behind a provider. An adapter of a provider adds ``adapter``, ``version``,
    ``Settings`` and a :class:`refract.models.provider.Dialect`.

    ``usage`` is the running total over all calls of :meth:`answer`: ``requests`` (calls sent,
    retries included), ``prompt_tokens``, ``completion_tokens``, ``cost`` (USD, None without a
    price; the most it can be where a reply states no usage), ``retries``, ``throttles`` (calls that
    the provider turned away as too many) and ``masked`` (answers that repeated the key).
    """

    def __init__(self, name: str, settings: ServedSettings, dialect: Dialect) -> None:
        self.name, self.settings, self.dialect = name, settings, dialect
        if settings.mode == "batch" and dialect.BATCHES is None:
            raise ParamsError(
                f"models.{name}: mode must be live, since the {dialect.NAME} adapter has no batch "
                "API (got 'batch')"
            )
        self.samples = settings.samples
        self.usage: dict[str, Any] = {
            "requests": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cost": None if settings.price is None else 0.0,
            "retries": 0,
            "throttles": 0,
            "masked": 0,
        }

    def identity(self) -> dict[str, Any]:
        """The model, the server and everything that a request's body takes from the definition."""
        unset = {key for key in ADDED if getattr(self.settings, key) is None}
        return {
            "adapter": self.dialect.NAME,
            "adapter_version": self.version,
            **self.settings.model_dump(exclude=SENDING | unset),
            "system_prompt": system_identity(self.settings.system_prompt),
        }

    def description(self) -> dict[str, Any]:
        """A provider does not publish how many weights its model has."""
        return {"parameters": None}

    def estimate(self, request: Request) -> tuple[int, int]:
        """About how many tokens a request's first attempt sends, and the most it can get back."""
        system = system_text(f"models.{self.name}", self.settings.system_prompt)
        messages = with_system_prompt(request.attempts[0], system)
        text = sum(len(message["content"].encode("utf-8", "replace")) + 16 for message in messages)
        return math.ceil(text / 4), self.settings.max_tokens

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers as they arrive, from an event loop in a thread of its own.

        Raises :class:`AdapterError` for a missing or rejected key; what was answered before has
        been yielded by then. A consumer that stops early ends the calls under way.
        """
        if not requests:
            return
        session = Session(
            self.name, self.settings, self.dialect, self.identity(), self.usage, self._key()
        )
        taken: list[Path] = []

        async def work(emit: Emit) -> None:
            try:
                if self.settings.mode == "batch":
                    await BatchRun(session, requests, emit, taken).run()
                else:
                    await LiveRun(session, requests, emit).run()
            except AdapterError:
                raise
            except Exception as error:
                raise AdapterError(
                    f"models.{self.name}: {type(error).__name__}: {session.clean(error)}"
                ) from error

        yield from in_thread(work)
        for path in taken:
            path.unlink(missing_ok=True)

    def check_key(self) -> None:
        """Raises :class:`AdapterError` unless the key is there."""
        self._key()

    def _key(self) -> str:
        variable = self.settings.api_key_env
        if variable is None:
            return ""
        key = os.environ.get(variable, "").strip()
        if not key:
            own = self.settings.base_url != type(self.settings).model_fields["base_url"].default
            keyless = "; for a server that asks for none, say api_key_env: null"
            keyless += " (--set api_key_env=null)"
            raise AdapterError(
                f"models.{self.name}: the environment variable {variable} is not set; it must hold "
                f"the key for {self.settings.base_url}{keyless if own else ''}"
            )
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise AdapterError(
                f"models.{self.name}: the environment variable {variable} holds characters that no "
                "key has (a line break, a space, a typographic quote?)"
            )
        return key


def in_thread(work: Callable[[Emit], Coroutine[Any, Any, None]]) -> Iterator[tuple[int, Answer]]:
    """What a coroutine passes to the function it is given, as it comes.

    The coroutine runs in an event loop in a thread of its own, so that a consumer that is slow, or
    runs in an event loop itself, keeps no call waiting. What it raises is raised here. When the
    consumer stops, it is cancelled, and has closed what it opened.
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
