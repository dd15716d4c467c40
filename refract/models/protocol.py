"""What passes between the pipeline and a model: a request, an answer, and how either
can end."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypedDict

from pydantic import BaseModel

from refract.core.errors import RefractError
from refract.core.types import ErrorInfo, FinishReason, Message, Row, StopDetails, ToolCall


class AdapterError(RefractError, RuntimeError):
    """The model as a whole cannot be used: no request of this run can be answered."""


def first_line(error: Exception) -> str:
    """What an exception says first; its class where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# Deterministic errors: retrying cannot succeed. (A turn that was not asked waits for
# the one before.)
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

    ``attempts``: conversations; the next one is used when the model rejects the one before as too
    long. ``seed``: of the row's own generator, where the model samples. ``metadata``: columns of
    the row for adapters that name them in ``USES``. ``repeat``: numbers equal requests from 0,
    since a server may answer the next one otherwise. ``tools``: functions that the model may call,
    in OpenAI's form."""

    attempts: tuple[tuple[Message, ...], ...]
    seed: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    repeat: int = 0
    tools: tuple[Row, ...] = ()


AnswerOrigin = Mapping[str, Any]
"""What computed an answer, and since when: :func:`refract.core.environment.this_run`,
``started_at``."""


class Certificate(TypedDict):
    """Evidence that an answer is exact.

    ``bound``: margins above it make a token certain. ``margin``: the smallest that float64 did not
    look at, as a multiple of the bound; None where it looked at all. ``float64``: tokens that it
    decided; ``ties``: those of them that went to the lowest id."""

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
    """The inverse of :func:`packed_tokens`. Raises ValueError for a text that it cannot
    have made."""
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
    (cut off where it only repeated itself), ``content_filter`` (a provider's filter), ``refusal``
    (the provider's own refusal channel) or ``error``. ``attempt``: index of the conversation used.
    Token counts are the row's own, without padding. ``thinking``: reasoning text, no part of the
    answer. ``tokens``: the ids that a local model wrote (:func:`packed_tokens`). ``tool_calls``:
    the calls that the model made, which nothing runs; None without any. ``stop_details``: why the
    provider refused.

    Metadata, ignored by ``==``: ``certificate`` (evidence of exactness, found here), ``stated``
    (the file that it came in, which nothing was checked of), ``said_model`` (name in the server's
    reply), ``origin`` (the run that made it)."""

    response: str
    finish_reason: FinishReason = "stop"
    attempt: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: ErrorInfo | None = None
    thinking: str | None = None
    tokens: str | None = None
    tool_calls: list[ToolCall] | None = None
    stop_details: StopDetails | None = None
    certificate: Certificate | None = field(default=None, compare=False, repr=False)
    stated: str = field(default="", compare=False, repr=False)
    said_model: str | None = field(default=None, compare=False, repr=False)
    origin: AnswerOrigin | None = field(default=None, compare=False, repr=False)

    @classmethod
    def failed(cls, type_: str, message: str, attempt: int = 0) -> Answer:
        """The answer row of a request that was not answered."""
        return cls("", "error", attempt, error={"type": type_, "message": message})


def stop_details(details: Any) -> StopDetails | None:
    """Category and explanation of a refusal as the API of Anthropic states them; None
    without either."""
    if not isinstance(details, Mapping):
        return None
    category, explanation = details.get("category"), details.get("explanation")
    if not (category or explanation):
        return None
    return {
        "category": str(category) if category else None,
        "explanation": str(explanation) if explanation else None,
    }


class Model(Protocol):
    """A model adapter: what :data:`refract.models.ADAPTERS` names. A subclass has the defaults
    below; any class with all of these members is an adapter.

    It is made with the model's name and its checked settings. That is cheap: it loads no weights,
    imports neither torch nor transformers, opens no connection."""

    adapter: ClassVar[str]
    """Part of each request's hash: renaming it orphans every stored answer."""

    version: ClassVar[str]
    """Bump when the adapter's code would answer the same request differently."""

    Settings: ClassVar[type[BaseModel]]
    """What a definition in params.yaml may hold besides ``adapter``."""

    USES: ClassVar[tuple[str, ...]] = ()
    """Names of :attr:`Request.metadata` that its answers depend on besides the
    messages."""

    IMPLIES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Settings that name parts of other packages, and which these are where a definition
    does not say it: the code of these packages counts as the definition's."""

    samples: bool = False
    """Whether the row's seed matters (temperature above 0)."""

    runs_here: bool = True
    """Whether this machine computes the answers, so that they can be made again to the
    byte."""

    opened: tuple[str, Mapping[str, Any]] = ("", MappingProxyType({}))
    """The name and the definition that it was opened from; empty of one that was given as it is."""

    runtime: Mapping[str, Any] | None = None
    """What computes (device, dtype, libraries), for the record of where answers come
    from. None until it is known, and where nothing is computed here."""

    usage: Mapping[str, Any] = MappingProxyType({})
    """Running totals of what costs money: requests, tokens, USD; empty for a model that
    is free."""

    def identity(self) -> dict[str, Any]:
        """All that determines an answer apart from the request, as JSON: model id, resolved
        revision or content hash, system prompt, every generation setting. With ``version`` and
        ``adapter`` it is part of each request's hash. Raises :class:`AdapterError`."""

    def description(self) -> dict[str, Any]:
        """Metadata for the report that determines no answer, as JSON (``parameters``:
        number of weights or None)."""
        return {"parameters": None}

    def check_models(self, names: Mapping[str, int]) -> None:
        """Warns where other models answered than the one asked for; ``names``: what the server called
        those whose answers are used, with counts."""
        return

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """Yields ``(index into requests, answer)`` as answers are made, in any order; a second
        answer to the same index takes the place of the first.

        A request that cannot be answered yields an error; only what makes every further request
        pointless (a missing key, weights that do not load) raises :class:`AdapterError`."""
