"""Models behind OpenAI's chat completions: OpenAI's own, and every server that speaks the same.

Serving engines (vLLM, SGLang, TGI, llama.cpp, ``transformers serve``) are reached with ``base_url``
and, where they ask for no key, ``api_key_env: null``. Definition keys beside those of
:mod:`refract.models.http`:

``organization``     the organization that is billed
``max_tokens_field`` max_tokens (default) or max_completion_tokens, for models that know only one
``seed``             true: send the row's seed where the temperature is above 0 (default false)
``reasoning``        [open, close] markers of thinking text, for servers that leave it in the answer,
                     for example ["<think>", "</think>"] (default null)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from refract.models.http import CONNECT_SECONDS, InvalidResponse, Provider
from refract.models.protocol import Answer, split_reasoning
from refract.models.traffic import Limit
from refract.rows.types import Message

# Reset times of the rate-limit headers: 1s, 6m0s, 1h2m3.5s, 120ms, and bare seconds.
_DURATION = re.compile(r"([\d.]+)(ms|s|m|h|d)?")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}


class OpenAI(Provider):
    """See the module."""

    ADAPTER = "openai"
    VERSION = "1"
    PATH = "/chat/completions"
    DEFAULTS: ClassVar[dict[str, Any]] = {
        "base_url": "https://api.openai.com/v1",
        "api_key_env": "OPENAI_API_KEY",
        "organization": None,
        "max_tokens_field": "max_tokens",
        "seed": False,
        "reasoning": None,
    }

    @property
    def sdk(self) -> Any:
        """The package whose exceptions are raised."""
        import openai

        return openai

    def open_client(self, key: str) -> Any:
        """The SDK's asynchronous client; retries are ours, connections as many as calls."""
        import httpx2
        import openai

        settings = self.settings
        timeout = httpx2.Timeout(None, connect=min(CONNECT_SECONDS, settings["timeout"]))
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=settings["max_concurrency"]
        )
        return openai.AsyncOpenAI(
            api_key=key,
            organization=settings["organization"],
            base_url=settings["base_url"],
            default_headers=settings["extra_headers"],
            max_retries=0,
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpxClient(limits=limits, timeout=timeout),
        )

    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        """A chat completion's parameters."""
        settings = self.settings
        body: dict[str, Any] = {
            "model": settings["model_id"],
            "messages": list(messages),
            settings["max_tokens_field"]: settings["max_tokens"],
        }
        for name in ("temperature", "top_p"):
            if settings[name] is not None:
                body[name] = settings[name]
        if settings["seed"] and (settings["temperature"] or 0) > 0:
            body["seed"] = seed % 2**31  # some servers hold it in 32 bits
        return body

    def read(self, payload: Any, attempt: int) -> Answer:
        """A chat completion as an answer. Raises :class:`InvalidResponse` and look-up errors."""
        choice = payload["choices"][0]
        reason = choice.get("finish_reason")
        if reason == "error" or choice.get("error"):
            raise InvalidResponse(f"the completion is an error: {choice.get('error')}")
        # Azure leaves the message out of a filtered completion.
        message = choice.get("message", {}) if reason == "content_filter" else choice["message"]
        usage = payload.get("usage") or {}
        finish = reason if reason in ("length", "content_filter", "refusal") else "stop"
        text, refusal = _text(message.get("content")), message.get("refusal")
        if refusal:
            text, finish = refusal, "refusal"
        thinking = message.get("reasoning_content") or message.get("reasoning") or None
        if self.settings["reasoning"] and thinking is None:
            text, thinking, _ = split_reasoning(text, tuple(self.settings["reasoning"]))
        return Answer(
            text,
            finish,
            attempt,
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            thinking=thinking,
        )

    def rate_limits(self, headers: Mapping[str, str]) -> list[Limit]:
        """The ``x-ratelimit-*`` headers."""
        limits = []
        for unit in ("requests", "tokens"):
            remaining = _number(headers.get(f"x-ratelimit-remaining-{unit}"))
            reset = _duration(headers.get(f"x-ratelimit-reset-{unit}"))
            if remaining is not None and reset is not None:
                limit = _number(headers.get(f"x-ratelimit-limit-{unit}"))
                limits.append(Limit(remaining, limit, reset, unit == "tokens"))
        return limits


def _text(content: Any) -> str:
    """A message's content, also where a server sends it in parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return content or ""


def _number(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _duration(value: str | None) -> float | None:
    if value is None or not re.fullmatch(rf"(?:{_DURATION.pattern})+", value):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(value))
