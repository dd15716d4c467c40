"""Models behind Anthropic's messages API: Anthropic's own, and every server that speaks the same.

Definition keys are those of :mod:`refract.models.http`. ``base_url`` is given without ``/v1``.
Extended thinking is asked for with ``extra_body: {thinking: {type: enabled, budget_tokens: 2048}}``
and ``temperature: null``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from refract.models.http import CONNECT_SECONDS, Provider
from refract.models.protocol import Answer
from refract.models.traffic import Limit, now_at
from refract.rows.types import Message

_REASONS = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    # Not Anthropic's own; servers that translate other providers' answers send it.
    "content_filter": "content_filter",
}


class Anthropic(Provider):
    """See the module."""

    ADAPTER = "anthropic"
    VERSION = "1"
    PATH = "/v1/messages"
    DEFAULTS: ClassVar[dict[str, Any]] = {
        "base_url": "https://api.anthropic.com",
        "api_key_env": "ANTHROPIC_API_KEY",
    }

    @property
    def sdk(self) -> Any:
        """The package whose exceptions are raised."""
        import anthropic

        return anthropic

    def open_client(self, key: str) -> Any:
        """The SDK's asynchronous client; retries are ours, connections as many as calls."""
        import anthropic
        import httpx2

        settings = self.settings
        timeout = httpx2.Timeout(None, connect=min(CONNECT_SECONDS, settings["timeout"]))
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=settings["max_concurrency"]
        )
        return anthropic.AsyncAnthropic(
            api_key=key,
            base_url=settings["base_url"],
            default_headers=settings["extra_headers"],
            max_retries=0,
            timeout=timeout,
            http_client=anthropic.DefaultAsyncHttpxClient(limits=limits, timeout=timeout),
        )

    def body(self, messages: Sequence[Message], seed: int) -> dict[str, Any]:
        """A message's parameters; the system prompt is one of them, a seed is not."""
        settings = self.settings
        system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
        body: dict[str, Any] = {
            "model": settings["model_id"],
            "messages": [m for m in messages if m["role"] != "system"],
            "max_tokens": settings["max_tokens"],
        }
        if system:
            body["system"] = system
        for name in ("temperature", "top_p"):
            if settings[name] is not None:
                body[name] = settings[name]
        return body

    def read(self, payload: Any, attempt: int) -> Answer:
        """A message as an answer. Raises look-up errors for what is none.

        A refusal keeps the text that came before it; that Anthropic asks to discard it is for the
        judge to know, and ``finish_reason`` says so.
        """
        blocks, usage = payload["content"], payload.get("usage") or {}
        thinking = "".join(b.get("thinking") or "" for b in blocks if b.get("type") == "thinking")
        prompt = [
            usage.get(name)
            for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        ]
        return Answer(
            "".join(block["text"] for block in blocks if block.get("type") == "text"),
            _REASONS.get(payload["stop_reason"], "stop"),
            attempt,
            None if prompt[0] is None else sum(tokens or 0 for tokens in prompt),
            usage.get("output_tokens"),
            thinking=thinking or None,
        )

    def rate_limits(self, headers: Mapping[str, str]) -> list[Limit]:
        """The ``anthropic-ratelimit-*`` headers, whose reset is a time of day."""
        limits = []
        for unit in ("requests", "input-tokens", "output-tokens", "tokens"):
            prefix = f"anthropic-ratelimit-{unit}-"
            try:
                remaining = float(headers[prefix + "remaining"])
                reset = datetime.fromisoformat(headers[prefix + "reset"])
                seconds = (reset - now_at(headers)).total_seconds()
                limit = headers.get(prefix + "limit")
                limits.append(
                    Limit(remaining, limit and float(limit), max(0.0, seconds), unit != "requests")
                )
            except (KeyError, TypeError, ValueError):
                continue  # not sent, or not as documented
        return limits
