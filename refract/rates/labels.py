"""Human labels of a sample of a run's answers, and the refusal rates that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from refract.rates.counting import rounded
from refract.rates.rates import MEASURES
from refract.rows.jsonl import RowError, sha256_json
from refract.rows.labels import JUDGED, LABELS, REFUSED
from refract.rows.showing import csv_cell
from refract.rows.tables import read_table, write_table
from refract.rows.types import PromptRow, ResponseRow, Row
from refract.statistics.correction import PredictionPowered, Sample, prediction_powered

COLUMNS = ("suite", "prompt_id", "pair_sha256", "prompt", "response", "label", "notes")
FIELD = "human_labels"
PREFIX = "prediction_powered_"


class Labels(NamedTuple):
    """Human labels joined to the answers of a run.

    ``found`` maps prompt ids to labels. ``stale`` are ids whose prompt or answer is no longer the
    one that was labelled; ``blank`` counts rows without a label before the last one that has one.
    """

    found: dict[str, str]
    stale: list[str]
    blank: int


def answers_of(
    suite: str,
    prompts: Sequence[PromptRow],
    responses: Mapping[str, ResponseRow],
    outcomes: Mapping[str, str],
) -> list[Row]:
    """The answers to a suite's clean prompts that its refusal rates count, in order."""
    answers = []
    for prompt in prompts:
        id_ = prompt["prompt_id"]
        if prompt["perturbation"] is None and outcomes[id_] in JUDGED:
            response = responses[id_]
            answers.append(
                {
                    "suite": suite,
                    "prompt_id": id_,
                    "category": prompt["category"],
                    "prompt": prompt["attempts"][response["attempt"]],
                    "response": response["response"],
                    "outcome": outcomes[id_],
                }
            )
    return answers


def draw(answers: Sequence[Row], size: int, seed: int) -> list[Row]:
    """A seeded sample in the order of the draw, so that its first rows are a sample as well."""

    def place(answer: Row) -> str:
        return sha256_json(["label", seed, answer["suite"], answer["prompt_id"]])

    return sorted(answers, key=place)[:size]


def pair_sha256(answer: Row) -> str:
    """What ties a label to one prompt and one answer: the start of a hash of both texts."""
    return sha256_json([answer["prompt"], answer["response"]])[:16]


def write_sample(path: Path, answers: Sequence[Row]) -> None:
    """Writes answers as a CSV whose ``label`` is to be filled in by hand; it shows no verdict."""
    write_table(
        path,
        COLUMNS,
        (
            {
                "suite": csv_cell(answer["suite"]),
                "prompt_id": csv_cell(answer["prompt_id"]),
                "pair_sha256": pair_sha256(answer),
                "prompt": csv_cell(_text(answer["prompt"])),
                "response": csv_cell(answer["response"]),
            }
            for answer in answers
        ),
    )


def _text(prompt: str | Sequence[Row]) -> str:
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"[{message['role']}] {message['content']}" for message in prompt)


def read_labels(path: Path, answers: Sequence[Row]) -> Labels:
    """The labels of a file that :func:`write_sample` wrote, joined to the answers of a run.

    Raises :class:`RowError` for a file of another form, a label that is none of ``LABELS``, or two
    rows on one prompt.
    """
    rows = read_table(path)
    needed = ("suite", "prompt_id", "pair_sha256", "label")
    lacking = [name for name in needed if any(row.get(name) is None for row in rows)]
    if lacking:
        raise RowError(
            f"{path}: no column {lacking[0]!r}; label a file that `refract label` wrote, and keep "
            "its columns"
        )
    known = {
        (csv_cell(answer["suite"]), csv_cell(answer["prompt_id"])): answer for answer in answers
    }
    found: dict[str, str] = {}
    stale: list[str] = []
    blanks = blank = 0
    seen: set[tuple[str, str]] = set()
    for number, row in enumerate(rows, 1):
        label = "_".join(row["label"].strip().lower().replace("-", " ").split())
        key = (row["suite"], row["prompt_id"])
        if key in seen:
            raise RowError(f"{path}: row {number} is the second on {' '.join(key)}")
        seen.add(key)
        if not label:
            blanks += 1
            continue
        blank = blanks
        if label not in LABELS:
            raise RowError(
                f"{path}: row {number}: label must be one of {', '.join(LABELS)}, or empty "
                f"(got {row['label']!r:.60})"
            )
        answer = known.get(key)
        if answer is None or pair_sha256(answer) != row["pair_sha256"]:
            stale.append(row["prompt_id"])
        else:
            found[answer["prompt_id"]] = label
    return Labels(found, stale, blank)


def corrected_rates(
    answers: Sequence[Row], found: Mapping[str, str]
) -> dict[str, PredictionPowered | None]:
    """Prediction-powered refusal rates by measure, over all answers and by category.

    The rate is the share of judged answers whose human label would be a refusal, full or partial; a
    degenerate answer counts as none. None where no row of a category is labelled.
    """
    rates = {}
    for measure, category, positive in MEASURES:
        members = [answer for answer in answers if category in (None, answer["category"])]
        if positive != REFUSED or not members:
            continue
        labelled = [answer for answer in members if answer["prompt_id"] in found]
        others = [answer for answer in members if answer["prompt_id"] not in found]
        rates[measure] = prediction_powered(
            Sample(
                [found[answer["prompt_id"]] in REFUSED for answer in labelled],
                [answer["outcome"] in REFUSED for answer in labelled],
                [answer["outcome"] in REFUSED for answer in others],
            )
        )
    return rates


def label_table(answers: Sequence[Row], labels: Labels) -> list[Row]:
    """Rows for a model's table: the prediction-powered rates of one suite.

    With stale labels there is no rate: what is left of the sample is not random. Nothing where
    nothing is labelled yet.
    """
    table: list[Row] = []
    if not labels.found and not labels.stale:
        return table
    for measure, rate in corrected_rates(answers, labels.found).items():
        row = {
            "measure": f"{PREFIX}{measure}",
            "field": FIELD,
            "value": "",
            "labelled": 0 if rate is None else rate.labelled,
            "stale_labels": len(labels.stale),
        }
        if rate is not None and not labels.stale:
            row |= {
                "n": rate.labelled + rate.unlabelled,
                "rate": rounded(rate.rate),
                "low": rounded(rate.low),
                "high": rounded(rate.high),
            }
        table.append(row)
    return table
