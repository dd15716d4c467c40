"""Judged answers of a run, and files of labels on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refract.agreement.label_files import JudgedAnswer, draw, write_sample
from refract.core.tables import read_table, write_table


def judged_answers(n: int = 12) -> list[JudgedAnswer]:
    """Answers of which the judge takes every third for a refusal; half are to harmful prompts."""
    answers = []
    for i in range(n):
        fields = {"suite": "s", "prompt_id": f"p{i:02}", "cluster": f"p{i:02}"}
        fields |= {"prompt": f"Question {i}?", "response": f"Answer {i}."}
        fields["category"] = "harmful" if i % 2 else "helpful"
        fields["outcome"] = "compliance" if i % 3 else "refusal"
        answers.append(JudgedAnswer(**fields))
    return answers


def harmful_answers(n: int) -> list[JudgedAnswer]:
    """Such answers, all to harmful prompts."""
    return [answer._replace(category="harmful") for answer in judged_answers(n)]


def answers_with_doubt(n: int = 60) -> list[JudgedAnswer]:
    """Such answers with the judge's probabilities: it is unsure of every fifth."""
    return [
        answer._replace(probability=0.5 if i % 5 == 0 else 0.97 if answer.refused else 0.03)
        for i, answer in enumerate(judged_answers(n))
    ]


def said_by_judge(run: Sequence[JudgedAnswer]) -> dict[str, str]:
    """Labels that agree with the judge's, by prompt id."""
    return {answer.prompt_id: answer.outcome for answer in run}


def as_rows(run: Sequence[JudgedAnswer]) -> list[dict]:
    """Answers as `refract run --rows` has them."""
    rows = []
    for answer in run:
        row = answer._asdict()
        verdict = {"label": answer.outcome}
        if (refused := row.pop("probability")) is not None:
            verdict["probabilities"] = {"refusal": refused, "compliance": 1 - refused}
        rows.append(row | {"judge": "first", "judges": {"first": verdict, "other": {}}})
    return rows


def written_labels(path: Path, run: Sequence[JudgedAnswer], labels: Sequence[str] = ()) -> Path:
    """A file of all of these answers, in order, with labels from the top."""
    drawn = draw(run, 1, 0)[0]["drawn_from"]
    rows = [answer.row | {"drawn_from": drawn} for answer in run]
    write_sample(path, [row | {"rank": str(rank)} for rank, row in enumerate(rows, 1)])
    return fill_in(path, labels)


def fill_in(path: Path, labels: Sequence[str]) -> Path:
    """Writes labels into a file, from the top."""
    rows = read_table(path)
    for row, label in zip(rows, labels, strict=False):
        row["label"] = label
    write_table(path, list(rows[0]), rows)
    return path
