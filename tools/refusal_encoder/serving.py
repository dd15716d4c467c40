"""Training of the second encoder, which says from prompt and answer whether what was asked is done.

It learns from texts written for this project alone: `pairs/`, in which each answer stands under requests
that it serves and under others of the same matter that it does not, and the cases of `cases/`. An answer
that has nothing to do with its request counts as one that serves it: it evades nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refract.core.jsonl import read_rows
from refract.judges.refusal.encoder import tokens_of_both
from tools.refusal_encoder.data import COMPLIANCE, PARTIAL, REDIRECTION, cases
from tools.refusal_encoder.training import Lesson, Recipe, fitted, pretrained

PAIRS = Path(__file__).with_name("pairs")
EVADES, SERVES = range(2)
# The beginnings of the weights' names that are the base model's in both encoders.
SHARED = ("word", "position", "embedded", *(f"{layer}." for layer in range(Recipe.frozen)))
# A prompt, an answer, and which of the two it is.
Row = tuple[str, str, int]


@dataclass(frozen=True)
class Course:
    """Some epochs of training: which texts, and how."""

    files: tuple[str, ...]  # of PAIRS
    recipe: Recipe
    share: float = 1.0  # of the pairs and cases that an epoch holds
    refusals: bool = False  # whether cases that say no are among those that do not serve
    unrelated: float = 0.15  # answers under requests of other matters, beside each row of pairs


FIRST = ("everyday", "crime", "harmless", "health_and_politics")
COURSES = (
    Course(FIRST, Recipe(epochs=3, seed=1)),
    Course(
        (*FIRST, "loaded_questions", "opinions_and_lectures"),
        Recipe(epochs=2, rate=1e-4, head_rate=5e-4, seed=2),
        share=0.5,
        refusals=True,
    ),
)


def rows_of(item: Mapping[str, Any]) -> list[Row]:
    """Each answer of an item under the requests of both sides."""
    rows: list[Row] = []
    for own, other in (("first", "second"), ("second", "first")):
        for answer in item[f"serves_{own}"]:
            rows += [(prompt, answer, SERVES) for prompt in item[own]]
            rows += [(prompt, answer, EVADES) for prompt in item[other]]
    return rows


def written(refusals: bool) -> list[Row]:
    """The cases by what they do; those that decline and help as well are neither."""
    rows = []
    for case in cases():
        (label,) = case.allowed
        if label == COMPLIANCE:
            rows.append((case.prompt, case.answer, SERVES))
        elif label == REDIRECTION or (refusals and label != PARTIAL):
            rows.append((case.prompt, case.answer, EVADES))
    return rows


def items(files: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    for name in files:
        yield from read_rows(PAIRS / f"{name}.jsonl")


def counts() -> dict[str, int]:
    """How many items each file of pairs has."""
    names = COURSES[-1].files
    return {name: sum(1 for _ in items((name,))) for name in names}


def drawn(course: Course, rng: random.Random) -> list[Row]:
    """The rows of one epoch."""
    pairs = [row for item in items(course.files) for row in rows_of(item)]
    rows = [row for row in pairs + written(course.refusals) if rng.random() < course.share]
    prompts, answers = [row[0] for row in pairs], [row[1] for row in rows]
    for _ in range(round(course.unrelated * course.share * len(pairs))):
        rows.append((rng.choice(prompts), rng.choice(answers), SERVES))
    rng.shuffle(rows)
    return rows


def train(folder: Path) -> dict[str, Any]:
    """The weights after all courses, from the base model in ``folder``."""
    import torch

    torch.manual_seed(COURSES[0].recipe.seed)
    weights = pretrained(folder, COURSES[0].recipe.layers, classes=2)
    for course in COURSES:
        weights = taught(weights, course)
    return weights


def taught(weights: dict[str, Any], course: Course) -> dict[str, Any]:
    """The weights after one course."""
    import torch

    torch.manual_seed(course.recipe.seed)
    rng = random.Random(course.recipe.seed)
    epochs: list[list[Lesson]] = []
    for _ in range(course.recipe.epochs):
        rows = drawn(course, rng)
        inputs = tokens_of_both([(prompt, answer) for prompt, answer, _ in rows])
        epochs.append(list(zip(inputs, [(label,) for _, _, label in rows], strict=True)))
    return fitted(weights, epochs, course.recipe, rng)
