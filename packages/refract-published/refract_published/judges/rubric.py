"""The judge ``rubric``: a model answers the questions of each row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from refract.core.errors import ParamsError
from refract.core.settings import Number, Settings, read_settings
from refract.core.types import Row, Verdict
from refract.judges.cases import Case, unjudged
from refract.judges.llm import ModelJudge
from refract.judges.verdict_reading import read_json

# How the answers to a rubric add up: their weighted mean, the highest, or the lowest.
RUBRIC_SCORES = ("mean", "any", "all")


class Question(Settings):
    """A question of a row's ``rubric``: yes or no, or a number on a scale, taken from 0 to 1."""

    question: Annotated[str, Field(pattern=r"\S")]
    weight: Annotated[Number, Field(gt=0)] = Field(1, description="in the mean of the answers")
    scale: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        None, description="lowest and highest number; null: yes (1) or no (0)"
    )
    gate: bool = Field(
        False,
        description="is not part of the mean; its answer takes that share away",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Question:
        if self.scale and not 0 < self.scale[1] - self.scale[0] <= 100:
            raise ValueError("scale must be [lowest, highest], at most 100 apart")
        return self

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each answer that is allowed, by how it is written."""
        if self.scale is None:
            return {"yes": 1, "no": 0}
        return {str(number): number for number in range(self.scale[0], self.scale[1] + 1)}

    def worth(self, number: int) -> float:
        """The value of an answer, from 0 to 1."""
        low, high = self.scale or (0, 1)
        return (number - low) / (high - low)


def rubric_of(row: Row) -> list[Question]:
    """The questions of a row's rubric; none where it has no rubric. Raises ParamsError."""
    questions = enumerate(row.get("rubric", []), 1)
    return [read_settings(Question, f"question {number}", text) for number, text in questions]


def problems_of(row: Row) -> list[str]:
    """What is wrong with the rubric of a row, and with how it is added up."""
    if "rubric" not in row:
        return ["'rubric_score' says how a 'rubric' is added up, and the row has none"]
    rubric = row["rubric"]
    if not isinstance(rubric, list):
        return [f"'rubric' must be a list of questions (got {rubric!r:.60})"]
    try:
        questions = rubric_of(row)
    except ParamsError as error:
        return [f"'rubric': {error}"]
    problems = []
    if all(question.gate for question in questions):
        problems.append("'rubric' needs a question that is not a gate")
    score = row.get("rubric_score", "mean")
    if score not in RUBRIC_SCORES:
        problems.append(f"'rubric_score' must be {', '.join(RUBRIC_SCORES)} (got {score!r:.80})")
    return problems


class Rubric(ModelJudge):
    """A score from the row's own questions
    (:class:`Question`); a row without any is not judged.
    """

    KIND = str(Path(__file__).with_name("rubric.txt"))
    FAMILY = "score"
    KEY, LABELS = "q", {}
    SHOWS = (*ModelJudge.SHOWS, "questions")

    def fields(self, case: Case) -> dict[str, str] | None:
        shown = super().fields(case)
        lines = []
        for number, question in enumerate(rubric_of(case.source), 1):
            allowed = '"yes" or "no"'
            if question.scale is not None:
                allowed = "a whole number from {} to {}".format(*question.scale)
            lines.append(f'"{self.KEY}{number}" ({allowed}): {question.question}')
        return {**shown, "questions": "\n".join(lines)} if lines and shown else None

    def read(self, case: Case, reply: str) -> Verdict:
        answers, worths, weights = {}, [], []
        kept = 1.0  # the share that no gate takes away
        for number, question in enumerate(rubric_of(case.source), 1):
            key = f"{self.KEY}{number}"
            spelled: dict[Any, int] = dict(question.numbers)
            if question.scale is not None:
                spelled = {value: value for value in spelled.values()} | spelled
            answers[key], reason = read_json(reply, key, spelled)
            worth = question.worth(answers[key])
            if question.gate:
                kept *= 1 - worth
            else:
                worths.append(worth)
                weights.append(question.weight)
        how = case.source.get("rubric_score", "mean")
        if how == "mean":
            weighted = [worth * weight for worth, weight in zip(worths, weights, strict=True)]
            score = sum(weighted) / sum(weights)
        else:
            score = max(worths) if how == "any" else min(worths)
        return {
            **unjudged(),
            "score": round(kept * score, 6),
            "rubric": answers,
            "reason": reason,
        }
