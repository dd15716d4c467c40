"""What a judge is given, and the verdict of one that gives none."""

from __future__ import annotations

import json
from dataclasses import dataclass

from refract.core.types import PromptRow, ResponseRow, Row, Verdict
from refract.core.vocabulary import (
    SCORES,
    refusal_of,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One answer with what it answers.

    ``prompt`` and ``response`` are rows of those types, ``source`` the suite row, ``clean`` the
    response row to the unperturbed prompt (None where the prompt is unperturbed itself, the first
    sample for a further one of such a prompt). ``pair`` is
    the case that this one is to agree with: of the row that ``pair_id`` names, or of the clean
    prompt.
    """

    prompt: PromptRow
    response: ResponseRow
    source: Row
    clean: ResponseRow | None = None
    pair: Case | None = None

    @property
    def prompt_text(self) -> str:
        """The text that is answered: the last message of the attempt that was used."""
        attempt = self.prompt["attempts"][self.response["attempt"]]
        return attempt if isinstance(attempt, str) else attempt[-1]["content"]

    @property
    def conversation(self) -> str:
        """All that is answered: the text, or of several messages their JSON, in which no message
        can pass for another."""
        attempt = self.prompt["attempts"][self.response["attempt"]]
        if isinstance(attempt, str) or len(attempt) == 1:
            return self.prompt_text
        return json.dumps(attempt, ensure_ascii=False, indent=1)

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
    ended = response["finish_reason"] in ("stop", "length")
    return ended and (empty or bool(response["response"].strip()))
