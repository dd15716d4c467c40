"""The file that people label: a sample of a run's answers goes out, and its labels come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import RowError
from refract.core.jsonl import sha256_json
from refract.core.showing import csv_cell
from refract.core.tables import read_table, write_table
from refract.core.types import PromptRow, ResponseRow, Row
from refract.core.vocabulary import (
    JUDGED,
    LABELS,
)
from refract.statistics.weighted import draw_size

COLUMNS = ("suite", "prompt_id", "pair_sha256", "prompt", "response", "label", "notes")
# Besides, where some answers were drawn more often than others: the size of each, by which it was, and
# the place of the next one in the draw. An answer was among those up to a row with probability
# min(1, size x that row's next_place).
DRAWN_COLUMNS = ("size", "next_place")


class Labels(NamedTuple):
    """Human labels joined to the answers of a run.

    ``found`` maps prompt ids to labels. ``stale`` are ids whose prompt or answer is no longer the
    one that was drawn. ``blank`` are the ids of rows without a label before the last one that has
    one: they were drawn, so that the labelled rows alone are no random sample. Rows after it were
    not reached, which leaves a smaller random sample. ``inclusion`` is the probability with which
    each of the others was drawn, where some were drawn more often; else None.
    """

    found: dict[str, str]
    stale: list[str]
    blank: list[str]
    inclusion: dict[str, float] | None = None


def answers_of(
    suite: str,
    prompts: Sequence[PromptRow],
    responses: Mapping[str, ResponseRow],
    outcomes: Mapping[str, str],
    clusters: Mapping[str, str] | None = None,
    verdicts: Mapping[str, Mapping[str, Any] | None] | None = None,
) -> list[Row]:
    """The answers to a suite's clean prompts that its refusal rates count, in order.

    ``clusters`` names the cluster of each row of the suite; left out, each is one of its own.
    ``verdicts`` of the judge may hold its ``probability`` of a refusal, and ``evidence``.
    """
    answers = []
    for prompt in prompts:
        id_ = prompt["prompt_id"]
        if prompt["perturbation"] is None and outcomes[id_] in JUDGED:
            response = responses[id_]
            verdict = (verdicts or {}).get(id_) or {}
            answers.append(
                {
                    "suite": suite,
                    "prompt_id": id_,
                    "category": prompt["category"],
                    "prompt": prompt["attempts"][response["attempt"]],
                    "response": response["response"],
                    "outcome": outcomes[id_],
                    "cluster": (clusters or {}).get(prompt["source_id"], prompt["source_id"]),
                    "probability": verdict.get("probability"),
                    "evidence": verdict.get("evidence") or [],
                }
            )
    return answers


def draw(answers: Sequence[Row], size: int, seed: int) -> list[Row]:
    """A seeded sample in the order of the draw, so that its first rows are a sample as well.

    Where the judge gave each answer a probability, the answers whose label teaches most about the rate
    are drawn more often (:mod:`refract.statistics.weighted`), and have ``DRAWN_COLUMNS``.
    """
    if not all_probable(answers):
        return sorted(answers, key=lambda answer: _hash(answer, seed))[:size]
    sizes = [draw_size(answer["probability"]) for answer in answers]
    placed = sorted(
        ((int(_hash(answer, seed)[:16], 16) + 0.5) / 16**16 / one, number)
        for number, (answer, one) in enumerate(zip(answers, sizes, strict=True))
    )
    after = [f"{place:.9g}" for place, _ in placed[1:]] + [""]
    return [
        answers[number] | {"size": f"{sizes[number]:.9g}", "next_place": next_place}
        for (_, number), next_place in zip(placed[:size], after, strict=False)
    ]


def all_probable(answers: Sequence[Row]) -> bool:
    """Whether the judge gave a probability of refusal to every answer."""
    return all(answer.get("probability") is not None for answer in answers)


def _hash(answer: Row, seed: int) -> str:
    return sha256_json(["label", seed, answer["suite"], answer["prompt_id"]])


def pair_sha256(answer: Row) -> str:
    """What ties a label to one prompt and one answer: the start of a hash of both texts."""
    return sha256_json([answer["prompt"], answer["response"]])[:16]


def write_sample(path: Path, sample: Sequence[Row]) -> None:
    """Writes answers as a CSV whose ``label`` is to be filled in by hand; it shows no verdict."""
    drawn = [name for name in DRAWN_COLUMNS if any(name in answer for answer in sample)]
    write_table(
        path,
        (*COLUMNS, *drawn),
        (
            {
                "suite": csv_cell(answer["suite"]),
                "prompt_id": csv_cell(answer["prompt_id"]),
                "pair_sha256": pair_sha256(answer),
                "prompt": csv_cell(shown_prompt(answer["prompt"])),
                "response": csv_cell(answer["response"]),
                **{name: answer[name] for name in drawn},
            }
            for answer in sample
        ),
    )


def shown_prompt(prompt: str | Sequence[Row]) -> str:
    """A prompt as a text to read, with the roles of several messages."""
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
    blank: list[str] = []
    passed: list[str] = []  # blank rows since the last one that has a label
    seen: set[tuple[str, str]] = set()
    sizes, reached = _sizes(path, rows), 0.0
    by_name: dict[str, float] = {}
    for number, row in enumerate(rows, 1):
        label = "_".join(row["label"].strip().lower().replace("-", " ").split())
        key = (row["suite"], row["prompt_id"])
        if key in seen:
            raise RowError(f"{path}: row {number} is the second on {' '.join(key)}")
        seen.add(key)
        answer = known.get(key)
        changed = answer is None or pair_sha256(answer) != row["pair_sha256"]
        name = row["prompt_id"] if answer is None else answer["prompt_id"]
        if sizes is not None:
            by_name[name], next_place = sizes[number - 1]
        if not label:
            passed.append(name)
            continue
        if label not in LABELS:
            raise RowError(
                f"{path}: row {number}: label must be one of {', '.join(LABELS)}, or empty "
                f"(got {row['label']!r:.60})"
            )
        blank += passed
        passed = []
        if sizes is not None:
            reached = next_place
        if changed:
            stale.append(row["prompt_id"])
        else:
            found[name] = label
    inclusion = None
    if sizes is not None:
        inclusion = {name: min(1.0, by_name[name] * reached) for name in (*found, *blank)}
    return Labels(found, stale, blank, inclusion)


def _sizes(path: Path, rows: Sequence[Mapping[str, str]]) -> list[tuple[float, float]] | None:
    """The size and the next place of each row of a draw of unequal chances; None of any other.

    Raises :class:`RowError` where they are incomplete or not in the order of the draw.
    """
    if not any(row.get(name) for row in rows for name in DRAWN_COLUMNS):
        return None
    found: list[tuple[float, float]] = []
    for number, row in enumerate(rows, 1):
        try:
            size, place = float(row.get("size") or ""), row.get("next_place") or ""
            # The last of all answers has none after it: with it, all are drawn.
            next_place = float(place) if place or number < len(rows) else inf
        except ValueError:
            size = next_place = nan
        if not (size > 0 and next_place > (found[-1][1] if found else 0)):
            raise RowError(
                f"{path}: row {number}: size and next_place must be as `refract label` wrote them, the "
                f"rows in the order of the draw (got {row.get('size')!r:.30} and "
                f"{row.get('next_place')!r:.30})"
            )
        found.append((size, next_place))
    return found
