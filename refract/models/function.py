"""A plain Python function as a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from refract.core.settings import Settings
from refract.models.protocol import Answer, Model, Request
from refract.models.replies import says_too_long

TextFunction = Callable[[str], str]


class PromptTooLong(ValueError):
    """Raised by a model function that rejects a prompt as too long."""


class FunctionModel(Model):
    """A function that takes a prompt and returns the answer to it. Its answers are not to be stored:
    nothing tells whether a function of this ``name`` is still the one that gave them."""

    adapter = "function"
    version = "1"
    USES = ("prompt_id",)
    Settings = Settings

    def __init__(self, function: TextFunction, name: str) -> None:
        self._function, self._name = function, name

    def identity(self) -> dict[str, Any]:
        return {"function": self._name}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        for index, request in enumerate(requests):
            yield index, self._answer(request)

    def _answer(self, request: Request) -> Answer:
        """The answer to the first attempt at a request that is not too long."""
        last = len(request.attempts) - 1
        for attempt, messages in enumerate(request.attempts):
            if len(messages) > 1:
                message = "a function takes one text, and this prompt has"
                return Answer.failed("NotOneText", f"{message} {len(messages)} messages", attempt)
            try:
                text: object = self._function(messages[0]["content"])
            except Exception as error:
                status = getattr(error, "status_code", None)
                status = status if isinstance(status, int) else None
                if not isinstance(error, PromptTooLong) and not says_too_long(status, str(error)):
                    return Answer.failed(type(error).__name__, str(error), attempt)
            else:
                if isinstance(text, str):
                    return Answer(str(text), "stop", attempt)
                message = f"the function returned {text!r:.40}, which is not a text"
                return Answer.failed("NoText", message, attempt)
        message = "the function rejected every attempt as too long"
        return Answer.failed("PromptTooLong", message, last)


def function_name(function: Callable[..., object]) -> str:
    """What a function is called; a lambda ``lambda``, an object by its class."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name.strip("<>")
