"""What live requests and batches to a provider share: settings, the dialect, reading responses.

:mod:`refract.models.live` and :mod:`refract.models.batch` are built on this and know nothing of each
other; :mod:`refract.models.served` chooses between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, field_validator, model_validator

from refract.core.settings import Number, Settings
from refract.core.types import Message
from refract.models.protocol import AdapterError, Answer, Request
from refract.models.replies import InvalidResponse, bound_reply, checked
from refract.models.traffic import Limit
from refract.models.turn import SystemPrompt, Text, system_text, with_prefill, with_system_prompt

Emit = Callable[[tuple[int, Answer]], None]
"""Takes the index of a request and its answer."""

# Delays in seconds between two tries of the same request: doubled with each, up to the longest.
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
# An answer that cannot be read has been paid for all the same.
READ_TRIES = 3
# A shorter key, such as a server of one's own takes, may be a word of any answer.
SHORTEST_KEY = 8
CONNECT_SECONDS = 30.0
THROTTLED = {429, 503, 529}
RETRIED = {408, 409, 425, 429}  # and everything from 500

SECRET_HEADERS = {"authorization", "api-key", "x-api-key", "cookie", "proxy-authorization"}

Positive = Annotated[Number, Field(gt=0)]
Usd = Annotated[Number, Field(ge=0)]
Address = Annotated[
    str,
    Field(
        pattern=r"^https?://[^/?#]",
        description="a server with the provider's API",
        json_schema_extra={"allowed": "an address that starts with http:// or https://"},
    ),
]
KeyVariable = Annotated[
    Text | None,
    Field(
        description="the environment variable that holds the key; null for a server of your own "
        "that asks for none",
        json_schema_extra={"allowed": "the name of an environment variable, or null"},
    ),
]


class Price(Settings):
    """USD per million tokens."""

    input: Usd
    output: Usd


class ServedSettings(Settings):
    """The settings of every provider's models."""

    model_id: Text = Field(
        description="the provider's name of the model",
        json_schema_extra={"allowed": "the provider's name of a model"},
    )
    base_url: Address
    api_key_env: KeyVariable
    system_prompt: SystemPrompt = None
    prefill: Text | None = Field(
        None,
        description="how the model's turn begins, where the provider can; the answer is the whole turn",
    )
    temperature: Annotated[Number, Field(ge=0)] | None = Field(
        0, description="0 is as greedy as the provider can; null is not sent"
    )
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = Field(None, description="null is not sent")
    max_tokens: int = Field(512, ge=1, description="most tokens of an answer")
    extra_body: dict[Text, Any] = Field({}, description="merged into the body of every request")
    extra_headers: dict[Text, str] = Field(
        {},
        description="sent with every request; no keys here",
        json_schema_extra={"allowed": "a mapping of names to texts"},
    )
    mode: Literal["live", "batch"] = Field(
        "live", description="batch uses the provider's batch API: cheaper and slower"
    )
    batch_poll: Positive = Field(30, description="seconds between two looks at a batch")
    max_concurrency: int = Field(
        64, ge=1, description="most calls at a time; fewer where the provider throttles"
    )
    requests_per_minute: Positive | None = Field(None, description="cap on calls of one process")
    tokens_per_minute: Positive | None = Field(
        None, description="cap on prompt and completion tokens of one process"
    )
    timeout: Positive = Field(300, description="seconds for one call")
    retry_for: Annotated[Number, Field(ge=0)] = Field(
        600, description="seconds for which a failing request is tried again"
    )
    price: Price | None = Field(
        None,
        description="USD per million tokens",
        json_schema_extra={
            "allowed": "{input: , output: } in USD per million tokens (at least 0), or null"
        },
    )
    max_cost: Positive | None = Field(
        None, description="most USD of a run (needs `price`); the rest is not requested"
    )
    max_requests: Annotated[int, Field(ge=1)] | None = Field(
        None, description="most calls of a run, retries included; the rest is not requested"
    )

    @property
    def samples(self) -> bool:
        """Whether answers are sampled; where no temperature is sent, at the provider's own."""
        return self.temperature is None or self.temperature > 0

    @field_validator("base_url")
    @classmethod
    def _no_slash(cls, value: str) -> str:
        return value.rstrip("/")

    @model_validator(mode="after")
    def _together(self) -> ServedSettings:
        secret = sorted(set(map(str.lower, self.extra_headers)) & SECRET_HEADERS)
        if secret:
            raise ValueError(
                f"extra_headers must hold no secrets (got {', '.join(secret)}); put the key into an "
                "environment variable and name it in api_key_env"
            )
        fields = type(self).model_fields
        if self.api_key_env is None and self.base_url == fields["base_url"].default:
            raise ValueError(
                "api_key_env: null is for a server of your own; name it in base_url, or name the "
                f"variable that holds the key (usually {fields['api_key_env'].default})"
            )
        if self.max_cost is not None and self.price is None:
            raise ValueError(
                "max_cost needs price: {input: , output: } (USD per million tokens); got no price"
            )
        return self


@dataclass
class Ended:
    """A batch's end: its results by custom id, and the error of requests without a result."""

    results: dict[str, Any]
    missing: tuple[str, str]


class BatchDialect(Protocol):
    """A provider's batch API. Made with the provider's client, for one run."""

    @property
    def MOST_REQUESTS(self) -> int:
        """Requests that one batch may hold."""

    @property
    def MOST_BYTES(self) -> int:
        """Bytes that one batch may hold."""

    def __init__(self, client: Any) -> None: ...

    async def submit(self, tag: str, bodies: Mapping[str, bytes]) -> str:
        """Submits requests (bodies by custom id) as one batch and returns its id."""

    async def find(self, tag: str, size: int, since: float, others: set[str | None]) -> str | None:
        """The id of the batch with this tag or size that was submitted after ``since`` (Unix
        seconds) and is none of ``others``."""

    async def ended(self, batch_id: str) -> Ended | None:
        """The results of a batch; None until it has ended."""

    def result(self, line: Any) -> tuple[int, Any]:
        """HTTP status and payload or error of one result; status 0 where it was never processed."""


class Dialect(Protocol):
    """What one provider's API names differently from another's."""

    @property
    def NAME(self) -> str:
        """The adapter's name."""

    @property
    def PATH(self) -> str:
        """Where conversations are posted."""

    @property
    def BATCHES(self) -> type[BatchDialect] | None:
        """The provider's batch API; None where it has none."""

    @property
    def sdk(self) -> Any:
        """The provider's package, whose exceptions its client raises."""

    @property
    def ERRORS(self) -> Mapping[int, str]:
        """What its package calls errors by their HTTP status, where that is not what all call them."""

    def headers(self, key: str) -> dict[str, str]:
        """The headers of a request, which hold the key."""

    def open_client(self, key: str) -> Any:
        """The package's asynchronous client, which batches are sent through."""

    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        """The parameters of a request."""

    def read(self, payload: Any, attempt: int) -> Answer:
        """A decoded response as an answer. Raises :class:`InvalidResponse` and look-up errors."""

    def rate_limits(self, headers: Mapping[str, str]) -> list[Limit]:
        """The provider's limits as a response's headers state them."""


class Session:
    """One run with one model of a provider.

    ``usage`` is the adapter's running total; ``identity`` its identity; ``key`` may be empty.
    """

    def __init__(
        self,
        name: str,
        settings: ServedSettings,
        dialect: Dialect,
        identity: dict[str, Any],
        usage: dict[str, Any],
        key: str,
    ) -> None:
        self.name, self.settings, self.dialect = name, settings, dialect
        self.identity, self.usage, self._key = identity, usage, key
        self.system = system_text(f"models.{name}", settings.system_prompt)

    def open_client(self) -> Any:
        """The provider's asynchronous client with this run's key."""
        return self.dialect.open_client(self._key or "none")

    def open_http(self) -> Any:
        """A bare asynchronous client for single requests: the packages take a second to import."""
        import httpx2

        own = {"content-type": "application/json", "accept": "application/json"}
        return httpx2.AsyncClient(
            **http_options(
                self.settings,
                own | self.dialect.headers(self._key or "none") | self.settings.extra_headers,
            )
        )

    def payload(self, request: Request, attempt: int) -> bytes:
        """The body for one of a request's attempts, in ASCII: so a lone surrogate passes too."""
        messages = with_system_prompt(request.attempts[attempt], self.system)
        body = self.dialect.body(messages, request.seed) | self.settings.extra_body
        return json.dumps(body, sort_keys=True).encode("ascii")

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """USD for so many tokens; 0 without a price."""
        price = self.settings.price or Price(input=0, output=0)
        return (prompt_tokens * price.input + completion_tokens * price.output) / 1e6

    def count(self, answer: Answer, most: tuple[float, float]) -> None:
        """Adds an answer's tokens to ``usage``.

        The cost of a count that the reply does not state, or not as a count, is that of ``most``:
        the prompt and completion tokens that the call can have used.
        """
        prompt, completion = answer.prompt_tokens, answer.completion_tokens
        self.usage["prompt_tokens"] += prompt or 0
        self.usage["completion_tokens"] += completion or 0
        self.spend(
            most[0] if prompt is None else prompt, most[1] if completion is None else completion
        )

    def spend(self, prompt_tokens: float, completion_tokens: float) -> None:
        """Adds the cost of so many tokens to ``usage``."""
        if self.usage["cost"] is not None:
            self.usage["cost"] += self.cost(prompt_tokens, completion_tokens)

    def most_tokens(self, body: bytes) -> tuple[float, float]:
        """The most prompt and completion tokens that a call with this body can use.

        Four bytes of English make a token; a budget must hold for less common texts too.
        """
        return len(body) / 3, self.settings.max_tokens

    def read(self, content: bytes, attempt: int) -> Answer:
        """A response's body as an answer. Raises :class:`InvalidResponse`, and nothing else."""
        try:
            payload = json.loads(content)
        except Exception as error:  # not JSON, or nested deeper than Python reads
            raise InvalidResponse(f"the response is not JSON ({error})") from None
        return self.read_payload(payload, attempt)

    def read_payload(self, payload: Any, attempt: int) -> Answer:
        """A decoded response as an answer. Raises :class:`InvalidResponse`, and nothing else."""
        try:
            answer = self._without_key(checked(self.dialect.read(payload, attempt)))
        except InvalidResponse:
            raise
        except Exception as error:
            found = payload.get("error") if isinstance(payload, dict) else None
            raise InvalidResponse(
                f"the response is not an answer ({found or f'{type(error).__name__}: {error}'})"
            ) from None
        if self.settings.prefill is None:
            return answer
        return replace(answer, response=with_prefill(self.settings.prefill, answer.response))

    def _without_key(self, answer: Answer) -> Answer:
        """The answer with this run's key masked where the server repeats it."""
        texts = [answer.response, answer.thinking or ""]
        if len(self._key) < SHORTEST_KEY or not any(self._key in text for text in texts):
            return answer
        self.usage["masked"] += 1
        response, thinking = (text.replace(self._key, "[key]") for text in texts)
        return replace(answer, response=response, thinking=thinking or None)

    def clean(self, text: object) -> str:
        """A provider's message on one line, without the key or anything that looks like one."""
        line = " ".join(str(text).split())
        if self._key:
            line = line.replace(self._key, "[key]")
        line = re.sub(r"\bsk-[\w*.…-]+", "[key]", line)
        line = re.sub(r"\breq_\w+", "[id]", line)  # differs from try to try
        line = "".join(c if c.isprintable() else "�" for c in line)
        return line if len(line) <= 300 else line[:299] + "…"

    def key_rejected(self, text: str) -> AdapterError:
        """The error of a run whose key is not accepted; ``text`` is the provider's, cleaned."""
        variable = self.settings.api_key_env
        key = f"the key in {variable}" if variable else "a call without a key"
        return AdapterError(
            f"models.{self.name}: {self.settings.base_url} does not accept {key} for "
            f"{self.settings.model_id} ({text})"
        )


def client_options(settings: ServedSettings, key: str, http_client: Callable[..., Any]) -> Any:
    """Arguments that both packages' clients take. The retries are ours."""
    options = http_options(settings, {})
    return {
        "api_key": key,
        "base_url": settings.base_url,
        "default_headers": settings.extra_headers,
        "max_retries": 0,
        "timeout": options["timeout"],
        "http_client": http_client(**options),
    }


def http_options(settings: ServedSettings, headers: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of an HTTP client. Connections are as many as calls."""
    import httpx2

    most = settings.max_concurrency
    return {
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=most),
        "timeout": httpx2.Timeout(None, connect=min(CONNECT_SECONDS, settings.timeout)),
        "headers": {"accept-encoding": "gzip, deflate", **headers},
        "event_hooks": {"response": [bound_reply]},
        "follow_redirects": True,
    }
