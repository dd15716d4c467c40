"""What passes between the pipeline and a model: a request, an answer, and how either can end."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypedDict

from pydantic import BaseModel

from refract.core.errors import RefractError
from refract.core.types import ErrorInfo, FinishReason, Message, Row, ToolCall


class AdapterError(RefractError, RuntimeError):
    """The model as a whole cannot be used: no request of this run can be answered."""


# Deterministic errors: retrying cannot succeed. (A turn that was not asked waits for the one before.)
LASTING_ERRORS = frozenset(
    {
        "EmptyPrompt",
        "NoRecordedAnswer",
        "NotAsked",
        "PromptNotRenderable",
        "PromptTooLong",
        "RecordedError",
        "SyntheticError",
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    ``attempts`` holds one or more conversations, tried in order: the next one is used when, and
    only when, the model rejects the one before as too long. ``seed`` drives the row's own generator
    where the model samples. ``metadata`` holds columns of the row (``prompt_id``, ``category``, …) for
    the adapters that name them in ``USES``. ``repeat`` numbers requests for the same, 0 being the
    first: a server may answer the next one otherwise. ``tools``: the functions that the model may
    call, in OpenAI's form.
    """

    attempts: tuple[tuple[Message, ...], ...]
    seed: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    repeat: int = 0
    tools: tuple[Row, ...] = ()


AnswerOrigin = Mapping[str, Any]
"""What computed an answer, and since when: :func:`refract.core.environment.this_run`, ``started_at``."""


class Certificate(TypedDict):
    """What speaks for an exact answer: the ``bound`` above which a margin makes a token certain; the
    smallest ``margin`` that float64 did not look at, as a multiple of it (None where float64 looked at
    all); how many tokens ``float64`` decided, and how many of these were ``ties``, which go to the
    lowest id."""

    bound: float
    margin: float | None
    float64: int
    ties: int


def packed_tokens(ids: Iterable[int]) -> str:
    """Token ids as text: base64 of little-endian base-128 numbers, one or two bytes for most."""
    packed = bytearray()
    for id_ in ids:
        while id_ > 127:
            packed.append(id_ & 127 | 128)
            id_ >>= 7
        packed.append(id_)
    return base64.b64encode(packed).decode()


def unpacked_tokens(text: str) -> list[int]:
    """The inverse of :func:`packed_tokens`. Raises ValueError for a text that it cannot have made."""
    ids, id_, shift = [], 0, 0
    for byte in base64.b64decode(text, validate=True):
        id_ |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            ids.append(id_)
            id_ = shift = 0
    if shift:
        raise ValueError("the last token id is not complete")
    return ids


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request.

    ``finish_reason``: ``stop`` (ended by itself), ``length`` (cut off at the token limit), ``loop``
    (cut off where it only repeated itself), ``content_filter`` (a provider's filter), ``refusal`` (the
    provider's own refusal channel) or ``error``. ``attempt`` is the index of the conversation used.
    Token counts are the row's own, without padding. ``error`` is None or ``{"type": class name,
    "message": text}``. ``thinking`` is the reasoning text of models that emit it; it is not part of
    the answer. ``tokens``: the ids that a local model wrote (:func:`packed_tokens`), which the text
    alone does not give. ``tool_calls``: the calls that it made, which nothing runs; None where there are
    none. No part of the answer are ``said_model``, the model that a server names in its
    reply, ``certificate``, what speaks for an exact answer, and its ``origin``, which
    :mod:`refract.models.answering` sets: two answers are equal whatever these are.
    """

    response: str
    finish_reason: FinishReason = "stop"
    attempt: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: ErrorInfo | None = None
    thinking: str | None = None
    tokens: str | None = None
    tool_calls: list[ToolCall] | None = None
    certificate: Certificate | None = field(default=None, compare=False, repr=False)
    said_model: str | None = field(default=None, compare=False, repr=False)
    origin: AnswerOrigin | None = field(default=None, compare=False, repr=False)

    @classmethod
    def failed(cls, type_: str, message: str, attempt: int = 0) -> Answer:
        """The answer row of a request that was not answered."""
        return cls("", "error", attempt, error={"type": type_, "message": message})


class Model(Protocol):
    """A model adapter: what :data:`refract.models.ADAPTERS` names.

    To subclass this gives the defaults below; any class with all of these members is an adapter. An
    instance is made with the model's name and its checked settings. That is cheap: it loads no
    weights, imports neither torch nor transformers, opens no connection.
    """

    adapter: ClassVar[str]
    """Part of each request's hash: renaming it orphans every stored answer."""

    version: ClassVar[str]
    """Bump when the adapter's code would answer the same request differently."""

    Settings: ClassVar[type[BaseModel]]
    """What a definition in params.yaml may hold besides ``adapter``."""

    USES: ClassVar[tuple[str, ...]] = ()
    """Names of :attr:`Request.metadata` that its answers depend on besides the messages (empty for
    every model that only reads its prompt)."""

    samples: bool = False
    """Whether the row's seed matters (temperature above 0)."""

    runs_here: bool = True
    """Whether this machine computes the answers, so that they can be made again to the byte; False
    where a server does."""

    in_actors: bool = True
    """Whether actors of Ray may answer in its place; False where this process only passes requests on,
    and counts what they cost."""

    opened: tuple[str, Mapping[str, Any], str] | None = None
    """What :func:`refract.models.open_model` made it of, from which it can be made again."""

    runtime: Mapping[str, Any] | None = None
    """What computes, for the record of where answers come from: device, dtype, libraries. None until
    it is known, and where nothing is computed here."""

    usage: Mapping[str, Any] = MappingProxyType({})
    """Running totals of what costs money: requests, tokens, USD; empty for a model that is free."""

    def identity(self) -> dict[str, Any]:
        """All that determines an answer apart from the request itself, as JSON: model id, resolved
        revision or content hash, system prompt, every generation setting. With ``version`` and
        ``adapter`` it is part of each request's hash. Raises :class:`AdapterError`."""

    def description(self) -> dict[str, Any]:
        """Metadata for the report that determines no answer, as JSON (``parameters``: number of
        weights or None)."""
        return {"parameters": None}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Yields ``(index into requests, answer)`` as answers are made, in any order, each index
        once; a second answer to the same index takes the place of the first.

        A request that cannot be answered yields an answer with an error; only what makes every
        further request pointless (a missing key, weights that do not load) raises
        :class:`AdapterError`.
        """
