"""How a local model's tokens are computed: what an arithmetic is given, and what it gives.

``fast`` is plain transformers. ``exact``, the same answers on every machine, comes with
the package refract-exact. An arithmetic decodes rows; one that can says of recorded
answers whether they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from refract.core.registry import Registry
from refract.models.protocol import Answer, Certificate, Request

if TYPE_CHECKING:
    from refract.models.checkpoint import Loader

ARITHMETICS = Registry({"fast": "refract.models.fast:Fast"}, "refract.arithmetics", "run")

# After how many tokens an answer is looked at for a loop, each time.
LOOP_STEP = 16


@dataclass(slots=True)
class Row:
    """A prompt's ``tokens`` and what is written behind them: ``generated``, at most ``limit``.

    ``ended``: before that limit; ``looped``: in a loop. ``error``: its kind and what it says.
    ``watched``: logits at the last step, of the tokens that :class:`Ends` names."""

    index: int
    tokens: Sequence[int]
    limit: int
    seed: int = 0
    generated: MutableSequence[int] = field(default_factory=list)
    ended: bool = False
    looped: bool = False
    error: tuple[str, str] | None = None
    watched: Sequence[float] = ()
    certificate: Certificate | None = None

    @property
    def done(self) -> bool:
        return self.ended or bool(self.error) or len(self.generated) >= self.limit


@dataclass(slots=True)
class Ends:
    """Where answers end: behind one of the ``tokens``, where ``stop`` says so of a row's index
    and what it has written, and where the last ``loop_tokens`` are a loop. ``watched``: ids
    whose logits at its last step a row keeps."""

    tokens: frozenset[int]
    stop: Callable[[int, Sequence[int]], bool] | None = None
    loop_tokens: int | None = None
    watched: Sequence[int] = ()

    def note(self, row: Row) -> None:
        """Notes whether a row's answer has ended, which follows from its tokens alone."""
        row.ended = row.generated[-1] in self.tokens
        if self.stop and not row.ended:
            row.ended = self.stop(row.index, row.generated)
        if self.loop_tokens and not row.ended and len(row.generated) % LOOP_STEP == 0:
            row.ended = row.looped = in_a_loop(row.generated, self.loop_tokens)


def in_a_loop(tokens: Sequence[int], least: int) -> bool:
    """Whether the last tokens, ``least`` of them or more, are one block four times or more."""
    for period in range(1, len(tokens) // 4 + 1):
        length = max(least, 4 * period)
        if tokens[-1] == tokens[-1 - period] and length <= len(tokens):
            last = tokens[-length:]
            if last[period:] == last[:-period]:
                return True
    return False


class Arithmetic(Protocol):
    """What an entry of the group ``refract.arithmetics`` names. Making one, of a loader and a
    :class:`refract.models.prompting.Prompting`, loads the weights; raises
    :class:`refract.models.protocol.AdapterError` where they cannot answer here."""

    runtime: dict[str, Any]
    """What computes, as :attr:`refract.models.protocol.Model.runtime`."""

    def __init__(self, loader: Loader, prompting: Any) -> None: ...

    def run(self, rows: Sequence[Row], ends: Ends) -> Iterator[Row]:
        """Yields every row as it is done; again where another answer turned out to be right."""

    def verify(
        self, requests: Sequence[Request], answers: Sequence[Answer]
    ) -> Iterator[tuple[int, Any]]:
        """What it finds of recorded answers, each under its index; nothing is generated. An
        arithmetic that promises no answer has no such method."""
