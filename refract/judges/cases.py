"""What a judge is, what it is given, and the verdicts that it makes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

from refract.core.settings import Settings
from refract.core.types import UNFINISHED, Message, PromptRow, ResponseRow, Row, Verdict
from refract.core.vocabulary import SCORES, refusal_of


@dataclass(frozen=True, slots=True)
class Case:
    """One answer with what it answers.

    ``prompt`` and ``response`` are rows of those types, ``source`` the suite row, ``clean`` the
    response row to the unperturbed prompt (None where the prompt is unperturbed itself, the first
    sample for a further one of such a prompt). ``pair`` is the case that this one is to agree with: of
    the row that ``pair_id`` names, or of the clean prompt.
    """

    prompt: PromptRow
    response: ResponseRow
    source: Row
    clean: ResponseRow | None = None
    pair: Case | None = None

    @property
    def turns(self) -> Sequence[Message]:
        """The messages that are answered, of the attempt that was used."""
        attempt = self.prompt["attempts"][self.response["attempt"]]
        return [{"role": "user", "content": attempt}] if isinstance(attempt, str) else attempt

    @property
    def prompt_text(self) -> str:
        """The text that is answered: the last message."""
        return self.turns[-1]["content"]

    @property
    def conversation(self) -> str:
        """All that is answered: the text, or of several messages their JSON, in which no message
        can pass for another."""
        if len(self.turns) == 1:
            return self.prompt_text
        return json.dumps(self.turns, ensure_ascii=False, indent=1)

    @property
    def values(self) -> dict[str, str]:
        """What the text of a judge can show."""
        return {
            "behavior": str(self.source.get("behavior") or self.conversation),
            "context": str(self.source.get("context") or ""),
            "prompt": self.conversation,
            "response": self.answer,
        }

    @property
    def answer(self) -> str:
        """The text to judge."""
        return self.response["response"]


def unjudged(error: str | None = None) -> Verdict:
    """The verdict of a judge that did not give one; ``error`` says why it could not."""
    return {"label": None, "refused": None, "score": None, "evidence": [], "error": error}


def labelled(label: str, score: float | None = None) -> Verdict:
    """The verdict that a label alone makes; ``score`` is the label's own unless given."""
    score = SCORES.get(label) if score is None else score
    return {**unjudged(), "label": label, "refused": refusal_of(label), "score": score}


def judgeable(response: ResponseRow, *, empty: bool = False) -> bool:
    """Whether there is a text of the model's own to judge; an empty one counts if ``empty``."""
    ended = response["finish_reason"] in ("stop", *UNFINISHED)
    return ended and (empty or bool(response["response"].strip()))


def batches(
    lengths: Sequence[int], rows: int, tokens: int | None = None
) -> Iterator[tuple[int, list[int]]]:
    """Batches of inputs of about one length: the width, and the places of at most so many ``rows``,
    fewer where these would be padded to more than so many ``tokens``. What shares a batch moves no digit
    that is kept of what float64 computes."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    while order:
        width = lengths[order[0]]
        size = max(1, min(rows, (tokens or rows * width) // max(width, 1)))
        yield width, order[:size]
        del order[:size]


class NoSettings(Settings):
    pass


class Judge(Protocol):
    """A judge: what :data:`refract.judges.JUDGES` names.

    To subclass this gives the defaults below; any class with all of these members is a judge. An
    instance is made with the judge's name and its checked settings. That is cheap: it loads no
    weights, imports neither torch nor transformers, opens no connection. It raises
    :class:`refract.core.errors.ParamsError` for settings that cannot be used together.
    """

    FAMILY: str
    """The name in :data:`refract.core.vocabulary.FAMILIES` of the labels it gives: what its verdicts are
    counted as."""

    version: str
    """Of its code, and of a prompt or file that decides its verdicts. Bump it when the same settings
    would judge the same answer differently."""

    Settings: ClassVar[type[BaseModel]] = NoSettings
    """What a definition in params.yaml may hold besides ``kind`` and ``validate``."""

    languages: ClassVar[frozenset[str] | None] = None
    """Codes of the languages that it reads; None: any, or as many as its model."""

    judges_empty: bool = False
    """Whether it is given empty answers, too."""

    name: str
    settings: Any

    def __init__(self, name: str, settings: Any) -> None:
        self.name, self.settings = name, settings

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict for each case, in order. The cases are those of one suite that have a text to
        judge. A verdict depends on its own case alone; where there is none, ``error`` says why, or
        is None for a case to which the judge does not apply (no requirement, no pair).

        Raises :class:`refract.models.protocol.AdapterError` where the judge as a whole cannot work.
        """
        ...

    def check(self) -> str | None:
        """Whether the judge can be used here, before anything is paid for: a warning, or None.
        Raises :class:`refract.core.errors.RefractError`."""
        return None
