"""A model behind a provider: its settings, what it is sent, and how its replies are read.

The calls are those of :mod:`refract.models.sending`, which knows no provider. Whatever is wrong
with a reply is an error of its own row alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator

from refract.core.secrets import without_secrets
from refract.core.settings import Number, Settings
from refract.core.showing import say
from refract.core.types import Message, Row
from refract.models import turn
from refract.models.extras import DECIDED, refuse_decided, refuse_illegal
from refract.models.interruption import Interrupted, first_interrupt
from refract.models.protocol import AdapterError, Answer, Model, Request
from refract.models.replies import (
    TEMPLATE,
    Failure,
    InvalidResponse,
    asks_for,
    error_inside,
    error_parts,
    kind_of,
    say_once,
    token_count,
)

CONNECT_SECONDS = 10.0
# Seconds for which a server that asks for rest gets it; where it asks for more, such as a day, the
# request is an error that the next run asks again.
LONGEST_WAIT = 120.0
# What the packages' HTTP client calls it where no connection was made.
NO_CONNECTION = ("ConnectError", "ConnectTimeout", "ProxyError")
# The header by which the packages number the repeats of a call.
REPEAT = "x-stainless-retry-count"
# A shorter key, such as a server of one's own takes, may be a word of any answer; so may one without
# a digit up to the other length.
SHORTEST_KEY, LONGEST_WORD = 8, 20
# Settings that came after the first answers were stored: part of the identity only
# where they are set.
ADDED = ("prefill", "client", "revision", "other_model", "api", "thinking_opened")
# How prompts that a server cut without a word are told: fewer tokens say nothing; no tokenizer has
# more words to a token on average; more characters to a token are looked at twice.
LEAST_CUT = 100
MOST_WORDS = 1.5
MOST_CHARACTERS = 6
WORD = re.compile(r"[^\W\d_]+")
NO_PARAMETERS = {"type": "object", "properties": {}}  # the schema of a function without any
# How the names of environment variables are written, and no key.
VARIABLE = re.compile(r"(?!\w*[A-Za-z0-9]{20})(?:[A-Z_][A-Z0-9_]*|[a-z_][a-z0-9_]*)")

Positive = Annotated[Number, Field(gt=0)]
Usd = Annotated[Number, Field(ge=0, le=1_000_000)]
Address = Annotated[
    str,
    Field(
        pattern=r"^https?://[^/?#@\s]+(/[^?#@\s]*)?$",
        description="a server with the provider's API",
        json_schema_extra={
            "allowed": "an address that starts with http:// or https:// and has no user and no query"
        },
    ),
    AfterValidator(lambda url: url.rstrip("/")),
]
KeyVariable = Annotated[
    turn.Text | None,
    Field(
        description="the environment variable that holds the key; null: the server asks for none",
    ),
]


class Price(Settings):
    """USD per million tokens."""

    input: Usd
    output: Usd


class RequestSettings(Settings):
    """Settings that every provider's models have and that requests are made of."""

    model_id: turn.Text = Field(description="the provider's name of the model")
    revision: turn.Text | None = Field(
        None,
        description="which weights the server has, in your own words: sent nowhere, and part of each "
        "request's hash",
    )
    base_url: Address
    client: str | None = None
    system_prompt: turn.SystemPrompt = None
    prefill: turn.Text | None = Field(
        None, description="how the model's turn begins, where the provider can"
    )
    temperature: Annotated[Number, Field(ge=0)] | None = Field(
        0, description="0 is as greedy as the provider can; null is not sent"
    )
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = Field(None, description="null is not sent")
    max_tokens: int = Field(512, ge=1, description="most tokens of an answer")
    other_model: Literal["error"] | None = Field(
        None,
        description="error: an answer by another model is an error; null: it counts, and is said",
    )
    extra_body: dict[turn.Text, Any] = Field(
        {},
        description="merged into the body of every request; not what a run decides itself",
    )
    extra_headers: dict[turn.Text, str] = Field({}, description="sent with every request; no keys")


class ServedSettings(RequestSettings):
    """The settings of every provider's models: also those of sending, which change no request."""

    api_key_env: KeyVariable
    max_concurrency: int = Field(64, ge=1, description="most calls at a time")
    requests_per_minute: Positive | None = Field(None, description="cap on calls of one process")
    timeout: Positive = Field(300, description="seconds until a call's answer")
    max_retries: int = Field(40, ge=0, description="how often a failing call is repeated")
    price: Price | None = Field(
        None,
        description="USD per million tokens",
        json_schema_extra={"allowed": "{input: , output: } in USD per million tokens, or null"},
    )
    max_cost: Positive | None = Field(
        None, description="most USD of a run (needs `price`); the rest is not requested"
    )

    CLIENT_KEYS: ClassVar[dict[str, str | None]] = {}
    """``api_key_env`` of each other client, unless it is given."""
    DECIDED: ClassVar[Mapping[str, str]] = DECIDED
    """Keys that ``extra_body`` may not hold, and what to write instead."""

    @property
    def key_variable(self) -> str | None:
        """The environment variable that holds the key; None for a call without one."""
        if self.client is None or "api_key_env" in self.model_fields_set:
            return self.api_key_env
        return self.CLIENT_KEYS[self.client]

    @property
    def at_provider(self) -> bool:
        """Whether requests go to the provider's own API."""
        own = type(self).model_fields["base_url"].default
        return self.client is None and self.base_url == own

    @property
    def on_loopback(self) -> bool:
        """Whether requests stay on this machine."""
        return bool(
            re.match(r"https?://(localhost|127\.[\d.]+|\[::1\])(:\d+)?(/|$)", self.base_url)
        )

    @property
    def server(self) -> str:
        """Where prompts are sent."""
        if self.client and "base_url" not in self.model_fields_set:
            return self.client
        return "/".join(self.base_url.split("/")[:3])

    @model_validator(mode="after")
    def _together(self) -> ServedSettings:
        refuse_decided(self.extra_body, self.DECIDED)
        refuse_illegal(self.extra_headers)
        variable = self.api_key_env
        usual = type(self).model_fields["api_key_env"].default
        if variable and (not VARIABLE.fullmatch(variable) or without_secrets(variable)[1]):
            # What came may be the key itself, and is not shown.
            raise ValueError(f"api_key_env must name an environment variable, such as {usual}")
        if self.api_key_env is None and self.at_provider:
            raise ValueError(f"api_key_env: null is for a server of your own; keys are in {usual}")
        if self.max_cost is not None and self.price is None:
            raise ValueError("max_cost needs price: {input: , output: } in USD per million tokens")
        return self


SENDING = set(ServedSettings.model_fields) - set(RequestSettings.model_fields)


class CostReached(BaseException):
    """A call could pass ``max_cost``. No Exception, which the packages would repeat."""


class Provider(Model):
    """A model behind a provider, reached through the provider's package.

    An adapter adds ``adapter``, ``version``, ``Settings``, the names below and the abstract
    members. ``usage`` totals all calls of :meth:`answer`: ``requests``, ``retries`` (calls that the
    package repeated), ``prompt_tokens``, ``completion_tokens`` and ``cost`` (USD, None without a
    price; the most it can be where a reply states no usage). ``reached``: whether a server has
    taken a call's connection; ``accepted``: whether one was answered. ``ending``: set by a run that
    sends nothing more. ``sent``: the tasks whose calls are at the server, and not between two tries.
    ``reserved``: the most USD that calls under way can cost. ``free_at``: when the next call may be
    sent, by the event loop's clock."""

    PACKAGE: ClassVar[str]
    RUN: ClassVar[Callable[..., Any]]  # refract.models.sending.LiveRun, which imports this module
    SHAPES: ClassVar[Mapping[str | None, tuple[str, ...]]]
    """Variables by which the package, or a client of it, makes other requests."""
    runs_here = False

    def __init__(self, name: str, settings: ServedSettings) -> None:
        self.name, self.settings = name, settings
        self.where = f"models.{name}"
        # Where no temperature is sent, answers are sampled at the provider's own.
        self.samples = settings.temperature is None or settings.temperature > 0
        self.key = SecretStr("")  # of the run under way
        self.reached = self.accepted = self.told = self.ending = False
        self.sent: set[Any] = set()
        self.reserved = self.free_at = 0.0
        counts = ("requests", "retries", "prompt_tokens", "completion_tokens")
        self.usage: dict[str, Any] = dict.fromkeys(counts, 0)
        self.usage["cost"] = None if settings.price is None else 0.0

    @property
    def committed(self) -> float:
        """USD that calls have cost, and the most that those under way can cost."""
        return (self.usage["cost"] or 0.0) + self.reserved

    @cached_property
    def begun(self) -> turn.Begun:
        """What the definition begins of the model's turn."""
        markers = getattr(self.settings, "reasoning", None)
        opened = bool(getattr(self.settings, "thinking_opened", False))
        return turn.begun(self.settings.prefill, markers, opened)

    @property
    def sdk(self) -> Any:
        """The provider's package."""
        return import_module(self.PACKAGE)

    @abstractmethod
    def client(self, options: dict[str, Any]) -> Any:
        """The package's asynchronous client, with ``options`` that all its clients
        take; a key of None: the package finds credentials itself."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Where requests go, behind the client's address."""

    @abstractmethod
    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        """A request's parameters beside model, temperature and top_p: the messages in
        the API's form, and settings of its own."""

    def tool(self, tool: Row) -> Row:
        """A function that the model may call, as its API takes it."""
        return tool

    @abstractmethod
    def read(self, payload: Any, attempt: int) -> Answer:
        """A decoded response as an answer. Raises :class:`InvalidResponse` and look-up errors."""

    def identity(self) -> dict[str, Any]:
        """The model, the server and everything that a request's body takes from the definition."""
        settings = self.settings
        left_out = SENDING | {key for key in ADDED if getattr(settings, key, None) is None}
        if settings.client and "base_url" not in settings.model_fields_set:
            left_out |= {"base_url"}
        return settings.model_dump(exclude=left_out)

    def check_key(self) -> None:
        """Reads the key. Raises :class:`AdapterError` unless it is there."""
        settings, variable = self.settings, self.settings.key_variable
        if variable is None:
            return
        key = os.environ.get(variable, "").strip()
        where = f"{self.where}: the environment variable {variable}"
        if not key and settings.on_loopback and "api_key_env" not in settings.model_fields_set:
            return  # a server of one's own, which asks for none
        if not key:
            text = f"{where} is not set; it must hold the key for {self.settings.base_url}"
            if not self.settings.at_provider:
                text += " (a server that asks for none: --set api_key_env=null)"
            raise AdapterError(text)
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise AdapterError(f"{where} holds characters that no key has (spaces, curly quotes?)")
        self.key = SecretStr(key)

    def open_client(self) -> Any:
        """The package's client with the run's key and as many connections as calls.
        Raises what the package raises where it lacks something."""
        from httpx2 import Limits, Timeout

        settings = self.settings
        self.reached = self.accepted = self.ending = False
        self.sent = set()
        self.reserved = self.free_at = 0.0
        timeout = Timeout(settings.timeout, connect=min(CONNECT_SECONDS, settings.timeout))
        http_client = self.sdk.DefaultAsyncHttpxClient(
            limits=Limits(max_connections=None, max_keepalive_connections=settings.max_concurrency),
            timeout=timeout,
            follow_redirects=False,  # which would take key and prompt to a server that nobody named
            event_hooks={"request": [self._note_sent], "response": [self._look_at]},
        )
        options: dict[str, Any] = {
            "api_key": self.key.get_secret_value() or (None if settings.client else "none"),
            "max_retries": settings.max_retries,
            "timeout": timeout,
            "http_client": http_client,
            "base_url": settings.base_url,
            "default_headers": settings.extra_headers,
        }
        return self.client(options)

    async def _note_sent(self, request: Any) -> None:
        """Takes note of a request once it is at the server, and sends none once the run is ending.
        The try before a repeat may be paid for, where the server had it and said nothing. Raises
        :class:`CostReached`."""
        if request.headers.get(REPEAT, "0") != "0":
            await self.until_free()
            self.take_turn()
        if self.ending:
            raise asyncio.CancelledError
        task, limit = asyncio.current_task(), self.settings.max_cost
        if task in self.sent and request.headers.get(REPEAT, "0") != "0":
            self.count(None, request.content)
        # Rounding may leave this sum a little above one that was within the limit.
        if limit is not None and self.committed > limit * (1 + 1e-9):
            raise CostReached
        self.sent.discard(task)

        async def note(event: str, info: Any) -> None:
            # A proxy is asked to connect before.
            if event.endswith("send_request_headers.started") and info["request"].method == b"POST":
                self.sent.add(task)

        request.extensions["trace"] = note
        request.extensions["sent_at"] = asyncio.get_running_loop().time()

    async def until_free(self) -> None:
        """Waits until a call, or a repeat of one, may be sent by ``requests_per_minute``."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self.free_at - loop.time())
        while self.free_at > loop.time():  # another one went first
            await asyncio.sleep(self.free_at - loop.time())

    def take_turn(self) -> None:
        """Has the next call wait as long as ``requests_per_minute`` says."""
        if self.settings.requests_per_minute:
            now = asyncio.get_running_loop().time()
            self.free_at = max(self.free_at, now) + 60 / self.settings.requests_per_minute

    async def _look_at(self, response: Any) -> None:
        """Takes note of a response, and tells the package by the header that servers tell it by
        not to repeat a call that a repeat does not mend."""
        self.reached = True
        self.usage["retries"] += response.request.headers.get(REPEAT, "0") != "0"
        asked = response.request.url.path.endswith(self.path)
        if response.status_code < 400 and not (asked and response.status_code == 200):
            return
        await self._read_in_time(response)
        try:
            body = response.json()
        except (ValueError, RecursionError):
            body = response.text
        if response.status_code == 200:
            inside = error_inside(body)
            if inside is None:
                self.accepted = True
                return
            response.status_code, response.extensions["inside"] = inside
        kind = kind_of(response.status_code, *error_parts(body))
        wait = asks_for(response.headers)
        # The packages read more forms than each other, and one waits for weeks: both get seconds.
        response.headers.pop("retry-after-ms", None)
        response.headers.pop("retry-after", None)
        if kind != "passing" or wait > LONGEST_WAIT or self.ending:
            response.headers["x-should-retry"] = "false"
            return
        if wait:
            response.headers["retry-after"] = str(wait)
        self.sent.discard(asyncio.current_task())
        self.say_repeated(f"HTTP {response.status_code}")

    async def _read_in_time(self, response: Any) -> None:
        """Reads a response to its end. Raises the client's timeout once ``timeout`` is over since the
        request, however steadily some bytes come."""
        from httpx2 import ReadTimeout

        sent_at = response.request.extensions["sent_at"]
        try:
            async with asyncio.timeout_at(sent_at + self.settings.timeout):
                await response.aread()
        except TimeoutError:
            text = f"no whole answer in {self.settings.timeout:g} seconds; raise timeout"
            raise ReadTimeout(text, request=response.request) from None

    def say_repeated(self, text: str) -> None:
        """Says once that calls fail in passing, and are repeated."""
        if self.told or not self.settings.max_retries:
            return
        self.told = True
        text = f"{self.name}: a call failed with {text}; such calls are repeated"
        say(f"{text} up to {self.settings.max_retries} times", file=sys.stderr)

    async def send(self, client: Any, body: bytes) -> Any:
        """The response to a body. Amazon's and Google's clients take the model out of
        the body, and so need its values."""
        from httpx2 import Response

        if self.settings.client in ("bedrock", "vertex"):
            return await client.post(self.path, cast_to=Response, body=json.loads(body))
        return await client.post(self.path, cast_to=Response, content=body)

    def say_where(self, client: Any, count: int) -> None:
        """Says which server gets how many requests, before the first of them."""
        address = without_secrets(str(client.base_url).rstrip("/"))[0]
        text = f"{self.name}: {count} requests with their prompts go to {address}"
        say(f"{text} ({self.settings.model_id})", file=sys.stderr)
        named = self.SHAPES[None] + self.SHAPES.get(self.settings.client, ())
        shaping = [variable for variable in dict.fromkeys(named) if os.environ.get(variable)]
        if shaping:
            text = (
                f"{self.name}: they are sent as {' and '.join(shaping)} says, which no hash knows"
            )
            say(f"{text}: stored answers stay when it changes", file=sys.stderr)

    def is_asked(self, name: str) -> bool:
        """Whether what a server calls the model that answered is the one asked for. A date
        behind the name makes no other model."""
        asked = re.escape(self.settings.model_id.split("/")[-1])
        date = r"\d{3,}([-.]\d+)*|\d\d-\d\d|\d\d-\d{4}|(?<=:)\d+"
        return bool(re.fullmatch(rf"(.*/)?{asked}([-@:]({date}))?", name, re.IGNORECASE))

    def check_models(self, names: Mapping[str, int]) -> None:
        """Warns where a server says that another model than the one asked for answered;
        ``names``: what it says, with counts."""
        asked = self.settings.model_id
        if len(names) > 1 or not all(map(self.is_asked, names)):
            most = sorted(names, key=lambda name: (-names[name], name))[:5]
            counts = ", ".join(f"{name} ({names[name]})" for name in most)
            text = f"asked for {asked}, and the server says that these answered: {counts}"
            say(f"{self.name}: {text}{' and others' * (len(names) > 5)}", file=sys.stderr)

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Answers as they arrive, from an event loop in a thread of its own: a consumer that is
        slow, or runs in an event loop itself, keeps no call waiting. One that stops early ends the
        calls. Ctrl-C ends the run once the calls under way have, the second one at once.

        Raises :class:`AdapterError` for a missing or rejected key and a server that cannot be
        reached or fails on and on, after the answers until then."""
        from anyio.from_thread import start_blocking_portal

        if not requests:
            return
        self.check_key()
        items: queue.SimpleQueue[tuple[int, Answer] | None] = queue.SimpleQueue()
        run = self.RUN(self, requests, items.put)

        async def work() -> None:
            try:
                await run.run()
            except (AdapterError, Interrupted):
                raise
            except Exception as error:
                text = f"{type(error).__name__}: {self.clean(error)}"
                raise AdapterError(f"{self.where}: {text}") from error

        with start_blocking_portal() as portal:
            loop = portal.call(asyncio.get_running_loop)
            future = portal.start_task_soon(work, name="provider")
            future.add_done_callback(lambda _: items.put(None))

            def end() -> None:
                # Of a generator that another thread has closed the loop is gone.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(run.interrupt)

            try:
                with first_interrupt(end) as interrupted:
                    yield from iter(items.get, None)
            finally:
                future.cancel()  # which closes what it opened
            with suppress(Interrupted):
                future.result()
        if interrupted.is_set():
            raise KeyboardInterrupt

    def payload(self, request: Request, attempt: int) -> bytes:
        """The body for one of a request's attempts, in ASCII: so a lone surrogate passes too."""
        settings = self.settings
        messages = turn.with_system_prompt(request.attempts[attempt], self.settings.system_prompt)
        if settings.prefill is not None:
            messages.append({"role": "assistant", "content": settings.prefill})
        body: dict[str, Any] = {"model": settings.model_id}
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.top_p is not None:
            body["top_p"] = settings.top_p
        body |= self.body(messages, request.seed)
        if request.tools:
            if "tools" in settings.extra_body:
                raise AdapterError(
                    f"{self.where}: extra_body.tools would replace the tools of this suite's prompts; "
                    "leave it out, or measure another suite"
                )
            body["tools"] = [self.tool(tool) for tool in request.tools]
        body |= settings.extra_body
        return json.dumps(body, sort_keys=True).encode("ascii")

    def read_reply(self, payload: Any, attempt: int) -> Answer:
        """A response, or the bytes of one, as an answer: fields of their types, the key masked,
        impossible counts of tokens unknown. Raises :class:`InvalidResponse`, and nothing else."""
        try:
            payload = json.loads(payload) if isinstance(payload, bytes) else payload
            answer = self.read(self._masked(payload), attempt)
        except InvalidResponse:
            raise
        except Exception as error:  # not JSON, nested deeper than Python reads, of another form
            why = payload.get("error") if isinstance(payload, dict) else None
            why = why or f"{type(error).__name__}: {error}"
            raise InvalidResponse(f"the response is not an answer ({why})") from None
        name = answer.said_model or payload.get("model")
        answered_by = self.clean(name) if isinstance(name, str) and name else None
        if self.settings.other_model and answered_by and not self.is_asked(answered_by):
            raise InvalidResponse(
                f"{answered_by} answered, and {self.settings.model_id} was asked (other_model: error)",
                answer.response if isinstance(answer.response, str) else "",
            )
        text: object = answer.response
        if not isinstance(text, str):
            kind = type(text).__name__
            raise InvalidResponse(f"the answer is not a text (got {kind} {text!r:.60})")
        thinking = answer.thinking if isinstance(answer.thinking, str) else None
        if self.settings.prefill and text.startswith(self.settings.prefill):
            say_once("answers begin with the prefill once more: does the server repeat it?")
        if answer.finish_reason == "stop" and (
            (token_count(answer.completion_tokens) or 0) >= self.settings.max_tokens
        ):
            say_once(
                "answers of max_tokens or more ended by themselves, by the server's word: it may not "
                "say where it cut them off, or not know max_tokens"
            )
        text, thinking = turn.whole_turn(self.begun, text, thinking)
        if TEMPLATE.search(text):
            say_once("answers hold markers of a chat template, and are judged as they stand")
        return replace(
            answer,
            response=text,
            thinking=thinking,
            prompt_tokens=token_count(answer.prompt_tokens),
            completion_tokens=token_count(answer.completion_tokens),
            said_model=answered_by,
        )

    def _masked(self, payload: Any) -> Any:
        """A response without the key, which a server may repeat."""
        key = json.dumps(self.key.get_secret_value())[1:-1]
        text = json.dumps(payload)
        is_word = len(key) < LONGEST_WORD and not any(char.isdigit() for char in key)
        if len(key) < SHORTEST_KEY or is_word or key not in text:
            return payload
        return json.loads(text.replace(key, "[key]"))

    def words_of(self, request: Request, attempt: int) -> str:
        """All texts that an attempt sends."""
        messages = turn.with_system_prompt(request.attempts[attempt], self.settings.system_prompt)
        return " ".join(str(message["content"]) for message in messages)

    def was_cut(self, request: Request, answer: Answer) -> str | None:
        """Says so where the server counts fewer tokens than the prompt can have: it cut it. No
        tokenizer puts many words into one token; a few tokens may be those behind a cached part."""
        count = answer.prompt_tokens
        if count is None or count < LEAST_CUT:
            return None
        words = len(WORD.findall(self.words_of(request, answer.attempt)))
        if words <= MOST_WORDS * count:
            return None
        return (
            f"the server cut the prompt: it says that it read {count} tokens of {words} words; "
            "raise its context (Ollama: OLLAMA_CONTEXT_LENGTH), or shorten the prompt"
        )

    def is_doubtful(self, request: Request, answer: Answer) -> bool:
        """Whether a server of one's own may have cut the prompt: for texts such as
        thousands of line ends its count of tokens is low, and not impossible."""
        count, text = answer.prompt_tokens, self.words_of(request, answer.attempt)
        own = self.settings.client is None and not self.settings.at_provider
        return own and count is not None and LEAST_CUT <= count < len(text) / MOST_CHARACTERS

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """USD for so many tokens; 0 without a price."""
        price = self.settings.price or Price(input=0, output=0)
        return (prompt_tokens * price.input + completion_tokens * price.output) / 1e6

    def most_cost(self, body: bytes) -> float:
        """The most USD that a call with this body can cost. English has four bytes to a
        token; other texts have fewer."""
        return self.cost(len(body) / 3, self.settings.max_tokens)

    def count(self, answer: Answer | None, body: bytes) -> None:
        """Adds an answer's tokens and cost to ``usage``. What the reply does not state, or all of a
        call that was paid for without an answer, counts at the most that it can be."""
        prompt = answer.prompt_tokens if answer else None
        completion = answer.completion_tokens if answer else None
        self.usage["prompt_tokens"] += prompt or 0
        self.usage["completion_tokens"] += completion or 0
        if self.usage["cost"] is not None:
            self.usage["cost"] += self.cost(
                len(body) / 3 if prompt is None else prompt,
                self.settings.max_tokens if completion is None else completion,
            )

    def failure_of(self, error: Exception) -> Failure:
        """What an exception of a client's call means. Raises :class:`AdapterError`
        where no call can succeed."""
        if isinstance(error, self.sdk.APIStatusError):
            return self._status_failure(error)
        name = type(error).__name__
        if isinstance(error, self.sdk.APIConnectionError):
            cause = error.__cause__ or error
            kind, text = type(cause).__name__, self.clean(str(cause) or type(cause).__name__)
            if kind == "LocalProtocolError" and "header" in text:  # before anything was sent
                raise AdapterError(
                    f"{self.where}: HTTP cannot send a request of this definition ({text}); a header in "
                    "extra_headers, or in a variable that the package reads, is wrong"
                )
            connected = kind not in NO_CONNECTION
            self.reached |= connected
            return Failure(name, text, "passing", paid=connected)
        text = self.clean(f"{name}: {error}")
        if isinstance(error, InvalidResponse):
            return Failure(name, self.clean(error), "final", paid=True, response=error.text)
        if isinstance(error, UnicodeError):  # half a character, which the clouds do not take
            return Failure("PromptNotRenderable", text, "final")
        if self.settings.client is not None:  # credentials that another package looks for
            raise AdapterError(f"{self.where}: client {self.settings.client}: {text}")
        return Failure("InvalidResponse", text, "final", paid=True)

    def _status_failure(self, error: Any) -> Failure:
        status, name = error.status_code, type(error).__name__
        base_url = self.settings.base_url
        message, codes = error_parts(error.body)
        inside = error.response.extensions.get("inside")
        text = f"HTTP {status}: {self.clean(message or inside or error.response.reason_phrase)}"
        text = f"HTTP 200 with an error of its own, {text}" if inside else text
        if 300 <= status < 400:
            location = str(error.response.headers.get("location") or "no address")
            target = self.clean(without_secrets(location.split("?")[0])[0])
            text = f"HTTP {status}: {base_url} redirects to {target}, where nothing was sent"
            return Failure("Redirected", f"{text}; is that the base_url?", "final")
        kind = kind_of(status, message, codes)
        if kind == "final" and status == 403 and self.accepted:
            # What forbids one prompt, such as a firewall. Many in a row end the run.
            return Failure(name, text, "passing")
        if kind == "final" and status in (401, 403):
            variable = self.settings.key_variable
            key = f"the key in {variable}" if variable else "a call without a key"
            raise AdapterError(
                f"{self.where}: {base_url} does not accept {key} for {self.settings.model_id} ({text})"
            )
        return Failure("PromptTooLong" if kind == "too long" else name, text, kind)

    def clean(self, text: object) -> str:
        """A provider's message on one line, without the key or anything that looks like one."""
        line = " ".join(str(text).split())
        key = self.key.get_secret_value()
        if key:
            line = line.replace(key, "[key]")
        line = re.sub(r"\bsk-[\w*.…-]+", "[key]", line)
        line = re.sub(r"\breq_\w+", "[id]", line)  # differs from try to try
        line = "".join(char if char.isprintable() else "�" for char in line)
        return line if len(line) <= 300 else line[:299] + "…"
