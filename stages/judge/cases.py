"""What a judge is given, and the verdict of one that gives none."""

from __future__ import annotations

from dataclasses import dataclass

from stages.rows.jsonl import Row


@dataclass(frozen=True, slots=True)
class Case:
    """One answer with what it answers.

    ``prompt`` and ``response`` are rows of those types, ``source`` the suite row, ``clean`` the
    response row to the unperturbed prompt (None where the prompt is unperturbed itself). ``pair`` is
    the case that this one is to agree with: of the row that ``pair_id`` names, or of the clean
    prompt.
    """

    prompt: Row
    response: Row
    source: Row
    clean: Row | None = None
    pair: Case | None = None

    @property
    def asked(self) -> str:
        """The text the answer answers: the last message of the attempt that was used."""
        attempt = self.prompt["attempts"][self.response["attempt"]]
        return attempt if isinstance(attempt, str) else attempt[-1]["content"]


def unjudged(error: str | None = None) -> Row:
    """The verdict of a judge that did not give one; ``error`` says why it could not."""
    return {"label": None, "refused": None, "score": None, "evidence": [], "error": error}


def judgeable(response: Row) -> bool:
    """Whether there is a text of the model's own to judge."""
    return response["finish_reason"] in ("stop", "length") and bool(response["response"].strip())
