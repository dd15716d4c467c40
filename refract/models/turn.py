"""How a local model's prompt is rendered, and how much of its turn may be thinking."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from refract.core.types import Message
from refract.models.hf_settings import HFSettings
from refract.models.protocol import AdapterError

# Tokens of the end of an answer that are searched for a marker, which can be of several tokens.
TAIL = 24
# What a template knows by these names.
OPTIONS = ("enable_thinking", "reasoning_effort")


def template_options(name: str, settings: HFSettings, tokenizer: Any) -> dict[str, Any]:
    """What the chat template is given besides the conversation. Raises :class:`AdapterError` for an
    option that the checkpoint's template does not read, since it would change nothing."""
    given = {key: getattr(settings, key) for key in OPTIONS if getattr(settings, key) is not None}
    if not given:
        return {}
    if not settings.chat_template or tokenizer.chat_template is None:
        raise AdapterError(
            f"models.{name}: {', '.join(given)} is for chat templates, and this model is given bare "
            "text; leave it out"
        )
    template = tokenizer.chat_template
    text = template if isinstance(template, str) else " ".join(map(str, template.values()))
    for option in given:
        if not re.search(rf"\b{option}\b", text):
            raise AdapterError(
                f"models.{name}: the checkpoint's chat template does not read {option}, which would "
                f"change nothing; leave it out (got {given[option]!r})"
            )
    return given


def rendered(
    tokenizer: Any, conversation: Sequence[Message], *, templated: bool, options: dict[str, Any]
) -> str:
    """The text that is put to the model, up to its turn."""
    if not templated:
        return "\n\n".join(message["content"] for message in conversation)
    text: str = tokenizer.apply_chat_template(
        [dict(message) for message in conversation],
        tokenize=False,
        add_generation_prompt=True,
        **options,
    )
    return text


def with_prefill(prefill: str | None, response: str) -> str:
    """The model's whole turn: what was put into its mouth and what it went on with. Where it wrote
    nothing there is no answer."""
    return f"{prefill}{response}" if prefill and response.strip() else response


class Budget:
    """The most tokens of one turn: so many of thinking, and so many of the answer, which begins
    where thinking ends. A turn whose thinking does not end in time is cut off there, without an answer.

    ``opened``: the prompt itself began the thinking. ``most``: the tokens that the context leaves.
    """

    def __init__(
        self, settings: HFSettings, decode: Callable[[list[int]], str], opened: bool, most: int
    ) -> None:
        assert settings.reasoning is not None
        assert settings.thinking_tokens is not None
        self._start, self._end = settings.reasoning
        self._thinking, self._answer = settings.thinking_tokens, settings.max_tokens
        self._decode, self._opened, self._most = decode, opened, most
        self._began: int | None = None
        self._closed = False

    @property
    def longest(self) -> int:
        """The most tokens that the turn can have."""
        return min(self._thinking + self._answer, self._most)

    def limit(self, generated: list[int]) -> int:
        """The most tokens of the turn, as far as it is known after each token."""
        if len(generated) <= 1:  # also where a row starts again
            self._began, self._closed = (0 if self._opened else None), False
            self._last = self._answer if self._began is None else self._thinking
        tail = self._decode(generated[-TAIL:])
        if self._began is None and not self._closed and self._start in tail:
            self._began = len(generated)
            self._last = self._began + self._thinking
        if not self._closed and self._end in tail:
            self._closed = True
            self._last = len(generated) + self._answer
        return min(self._last, self._most)
