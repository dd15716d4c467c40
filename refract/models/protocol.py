"""What passes between the pipeline and a model: a request, an answer, and how either can end.

An *adapter* is a class with the members below; there is no base class to inherit from.

``VERSION: str``
    Raised when the adapter's code would answer the same request differently.
``USES: tuple[str, ...]``
    Names of :attr:`Request.facts` that its answers depend on besides the messages
    (empty for every model that only reads its prompt).
``__init__(self, name: str, definition: dict)``
    Checks the definition from ``params.yaml`` and raises :class:`ParamsError`. Cheap: loads no
    weights, imports neither torch nor transformers, opens no connection.
``samples: bool``
    Whether the row's seed matters (temperature above 0).
``identity(self) -> dict``
    All that determines an answer apart from the request itself, as JSON: model id, resolved
    revision or content hash, system prompt, every generation setting. With ``VERSION`` and the name
    of the class it is part of each request's hash.
``description(self) -> dict``
    Facts for the report that determine no answer, as JSON (``parameters``: number of weights or
    None).
``answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]``
    Yields ``(index into requests, answer)`` as answers are made, in any order, each index once.
    A request that cannot be answered yields an answer with an error; only what makes every further
    request pointless (a missing key, weights that do not load) raises :class:`AdapterError`.

What asks a provider also has ``usage: dict`` (running totals of requests, tokens and USD, for the
progress bar and the report) and ``estimate(self, request: Request) -> tuple[int, int]`` (about how
many tokens the request sends, and the most it can get back).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from refract.errors import RefractError

Message = dict[str, str]  # {"role": "system" | "user" | "assistant", "content": text}

FinishReason = Literal["stop", "length", "content_filter", "refusal", "error"]


class AdapterError(RefractError, RuntimeError):
    """The model as a whole cannot be used: no request of this run can be answered."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    ``attempts`` holds one or more conversations, tried in order: the next one is used when, and
    only when, the model rejects the one before as too long. ``seed`` drives the row's own generator
    where the model samples. ``facts`` are columns of the row (``prompt_id``, ``category``, …) for
    the adapters that name them in ``USES``.
    """

    attempts: tuple[tuple[Message, ...], ...]
    seed: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request.

    ``finish_reason``: ``stop`` (ended by itself), ``length`` (cut off at the token limit),
    ``content_filter`` (a provider's filter), ``refusal`` (the provider's own refusal channel) or
    ``error``. ``attempt`` is the index of the conversation used. Token counts are the row's own,
    without padding. ``error`` is None or ``{"type": class name, "message": text}``. ``thinking`` is
    the reasoning text of models that emit it, which is no part of the answer.
    """

    response: str
    finish_reason: FinishReason = "stop"
    attempt: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: dict[str, str] | None = None
    thinking: str | None = None

    @classmethod
    def failed(cls, type_: str, message: str, attempt: int = 0) -> Answer:
        """The answer row of a request that was not answered."""
        return cls("", "error", attempt, error={"type": type_, "message": message})


def split_reasoning(
    text: str, markers: tuple[str, str], opened: bool = False
) -> tuple[str, str | None, bool]:
    """Splits thinking from the answer: ``(response, thinking or None, whether thinking was
    ended)``.

    ``opened``: the prompt itself ended with the opening marker. A closing marker without an opening
    one closes what the text began with, since some templates open it out of sight.
    """
    start, end = markers
    head, found, inside = ("", start, text) if opened else text.partition(start)
    if opened and inside.lstrip().startswith(start):
        inside = inside.lstrip()[len(start) :]
    if not found:
        thinking, closed, answer = text.partition(end)
        return (answer.lstrip(), thinking.strip(), True) if closed else (text, None, True)
    thinking, closed, answer = inside.partition(end)
    if not closed:
        return "", thinking.strip(), False
    return (head.rstrip() + answer).lstrip(), thinking.strip(), True
