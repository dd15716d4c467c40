"""A plain Python function as a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from refract.core.errors import UsageError
from refract.core.settings import Settings
from refract.models.protocol import Answer, Model, Request
from refract.models.replies import says_too_long

# What a function returns for some requests, when each is asked by its attempt of that number.
Ask = Callable[[Sequence[Request], int], object]
TextFunction = Callable[[str], str]
BatchFunction = Callable[[list[str]], Iterable[str]]


class PromptTooLong(ValueError):
    """Raised by a model function that rejects a prompt as too long."""


class NotOneText(ValueError):
    """A function that takes texts was asked a conversation of several messages."""


class FunctionModel(Model):
    """A function as a model. Its answers are not to be stored: nothing tells whether a
    function of this ``name`` is still the one that gave them.

    ``ask`` calls it. ``batch``: one call gets all requests where that succeeds, and
    each alone otherwise."""

    adapter = "function"
    version = "1"
    USES = ("prompt_id",)
    Settings = Settings

    def __init__(self, ask: Ask, name: str, *, batch: bool) -> None:
        self._ask, self._name, self._batch = ask, name, batch

    def identity(self) -> dict[str, Any]:
        return {"function": self._name}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        if self._batch:
            try:
                texts = self._ask(requests, 0)
            except Exception:  # of whatever kind: each is then tried alone
                pass
            else:
                yield from enumerate(_as_answers(texts, len(requests)))
                return
        for index, request in enumerate(requests):
            yield index, self._alone(request)

    def _alone(self, request: Request) -> Answer:
        """The answer to the first attempt at a request that is not too long."""
        last = len(request.attempts) - 1
        for attempt in range(last + 1):
            try:
                texts = self._ask([request], attempt)
            except Exception as error:
                status = getattr(error, "status_code", None)
                status = status if isinstance(status, int) else None
                if not isinstance(error, PromptTooLong) and not says_too_long(status, str(error)):
                    return Answer.failed(type(error).__name__, str(error), attempt)
            else:
                return _as_answers(texts, 1, attempt)[0]
        message = "the function rejected every attempt as too long"
        return Answer.failed("PromptTooLong", message, last)


def text_model(function: TextFunction | BatchFunction, name: str, *, batch: bool) -> FunctionModel:
    """The model of a function that takes a prompt and returns the answer to it, or, with
    ``batch``, takes a list of prompts and returns their answers."""

    def ask(requests: Sequence[Request], attempt: int) -> object:
        texts = [_text(request, attempt) for request in requests]
        if batch:
            return cast(BatchFunction, function)(texts)
        return [cast(TextFunction, function)(text) for text in texts]

    return FunctionModel(ask, name, batch=batch)


def function_name(function: Callable[..., object]) -> str:
    """What a function is called; a lambda ``lambda``, an object by its class."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name.strip("<>")


def _text(request: Request, attempt: int) -> str:
    messages = request.attempts[attempt]
    if len(messages) > 1:
        raise NotOneText(f"a function takes one text, and this prompt has {len(messages)} messages")
    return messages[0]["content"]


def _as_answers(texts: object, count: int, attempt: int = 0) -> list[Answer]:
    """What a function returned for ``count`` prompts. Raises :class:`UsageError` for
    another number of texts."""
    answers = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, str) else None
    if answers is None or len(answers) != count:
        got = f"{texts!r:.40}" if answers is None else f"{len(answers)} for {count}"
        raise UsageError(f"the model function must return one text for each row (got {got})")
    no_text = "the function returned {!r:.40}, which is not a text"
    return [
        Answer(str(text), "stop", attempt)
        if isinstance(text, str)
        else Answer.failed("NoText", no_text.format(text), attempt)
        for text in answers
    ]
