"""Training of the second encoder, which says from prompt and answer whether what was asked is done.

It learns from texts written for this project: `pairs/`, in which each answer stands under requests that
it serves and under others of the same matter that it does not, and the cases of `cases/`; and from the
published answers of TAUGHT. An answer that has nothing to do with its request, or says nothing, counts
as one that serves it: it evades nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refract.core.jsonl import read_rows
from refract.judges.refusal.encoder import tokens_of_both
from tools.refusal_encoder.data import (
    CASES,
    COMPLIANCE,
    FULL,
    NO,
    PARTIAL,
    REDIRECTION,
    Example,
    cases,
)
from tools.refusal_encoder.training import Lesson, Recipe, fitted, mean, pretrained

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
    empty: int = 0  # replies that say nothing, under any request
    published: bool = False  # whether answers of TAUGHT are among the rows
    beside: float = 0.0  # of the rows, the share that stands once more beside other help
    whole: tuple[str, ...] = ()  # files of which an epoch holds every item
    most: float = 1.0  # of MOST, the share that an epoch holds


FIRST = ("everyday", "crime", "harmless", "health_and_politics")
SECOND: tuple[str, ...] = (*FIRST, "loaded_questions", "opinions_and_lectures", "people", "dangers")
SECOND += ("claims", "ordinary")
THIRD = (*SECOND, "misdeeds", "private_life", "forms", "questions")
BEGINS = Course(FIRST, Recipe(epochs=3, seed=1))
# What goes on is the mean of the weights after each of these, from the first one's.
LAST = tuple(
    Course(
        files,
        Recipe(epochs=1, rate=1e-4, head_rate=5e-4, seed=7),
        share=0.8,
        refusals=True,
        empty=2500,
        published=True,
        beside=beside,
    )
    for files, beside in ((SECOND, 0.0), (THIRD, 0.08))
)
LONG: tuple[str, ...] = (
    "long_misdeeds",
    "long_everyday",
    "long_society",
    "long_forms",
    "long_technology",
    "long_family",
    "short_registers",
)
# After that mean.
MORE = Course(
    THIRD,
    Recipe(epochs=1, rate=7e-5, head_rate=3e-4, seed=9),
    share=0.25,
    refusals=True,
    empty=900,
    published=True,
    beside=0.12,
    whole=LONG,
    most=0.2,
)
LATEST: tuple[str, ...] = (
    "reasons",
    "background",
    "persuasion",
    "opposite_forms",
    "small_models",
    "referrals",
    "tasks",
    "swapped_roles",
    "near_requests",
    "long_answers",
    "delicate",
    "role_play",
    "work_and_school",
)
# After that one; the mean of the weights before and after it ships.
NEWEST = replace(
    MORE,
    files=(*THIRD, *LONG),
    recipe=replace(MORE.recipe, seed=11),
    share=0.1,
    empty=700,
    whole=LATEST,
    most=0.15,
)
COURSES = (BEGINS, *LAST, MORE, NEWEST)
# Characters of help that stands beside another answer.
HELP = range(150, 2500)
# Published sources that it learns from. Others it has not seen, as what is measured should be; those of
# LACKING, which are measured, are read for tables by a second training that lacks them.
LACKING = ("chatgpt_refusals", "wildguard")
TAUGHT = ("real_answers", "harmbench", "jailbreakeval", *LACKING)
# Published answers of one source and label in an epoch; redirections, which are few, count twice.
MOST = {SERVES: 2500, EVADES: 700}
# What answers do by the classes that their labels allow; of others it is not known.
DOES = {
    (COMPLIANCE,): SERVES,
    (PARTIAL, COMPLIANCE): SERVES,
    (REDIRECTION,): EVADES,
    (FULL,): EVADES,
    NO: EVADES,
}


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
    return {name: sum(1 for _ in items((name,))) for name in (*THIRD, *LONG, *LATEST)}


def published(examples: Sequence[Example], most: float, rng: random.Random) -> list[Row]:
    """Answers whose labels say whether they do what was asked, of each source up to a share ``most``
    of a number."""
    by_label: dict[tuple[str, tuple[int, ...]], list[Row]] = {}
    for example in examples:
        does = DOES.get(example.allowed)
        if does is not None:
            rows = by_label.setdefault((example.source, example.allowed), [])
            rows.append((example.prompt, example.answer, does))
    chosen = []
    for (_, allowed), rows in sorted(by_label.items()):
        rng.shuffle(rows)
        if allowed == (REDIRECTION,):
            chosen += (rows * 2)[: round(2 * most * len(rows))]
        else:
            chosen += rows[: round(most * MOST[rows[0][2]])]
    return chosen


def drawn(course: Course, examples: Sequence[Example], rng: random.Random) -> list[Row]:
    """The rows of one epoch."""
    pairs = [row for item in items(course.files) for row in rows_of(item)]
    rows = [row for row in pairs + written(course.refusals) if rng.random() < course.share]
    if course.published:
        rows += published(examples, course.most, rng)
    rows += [row for item in items(course.whole) for row in rows_of(item)]
    prompts, answers = [row[0] for row in rows], [row[1] for row in rows]
    for _ in range(round(course.unrelated * course.share * len(pairs))):
        rows.append((rng.choice(prompts), rng.choice(answers), SERVES))
    says_nothing = [row["answer"] for row in read_rows(CASES / "empty_talk.jsonl")]
    for _ in range(course.empty):
        rows.append((rng.choice(prompts), rng.choice(says_nothing), SERVES))
    if course.beside:
        rows += beside_help(rows, course.beside, rng)
    rng.shuffle(rows)
    return rows


def beside_help(rows: Sequence[Row], share: float, rng: random.Random) -> list[Row]:
    """A share of rows once more, their answers before or behind one to three that help with other
    requests."""
    helps = [answer for _, answer, does in rows if does == SERVES and len(answer) in HELP]
    longer = []
    for prompt, answer, does in [row for row in rows if rng.random() < share]:
        other = "\n\n".join(rng.choices(helps, k=rng.randint(1, 3)))
        parts = (answer, other) if rng.random() < 0.5 else (other, answer)
        longer.append((prompt, "\n\n".join(parts), does))
    return longer


def train(folder: Path, examples: Sequence[Example]) -> dict[str, Any]:
    """The weights after all courses, from the base model in ``folder``; ``examples`` are the published
    answers that it learns from."""
    import torch

    torch.manual_seed(BEGINS.recipe.seed)
    begun = taught(pretrained(folder, BEGINS.recipe.layers, classes=2), BEGINS, examples)
    ends = []
    for course in LAST:
        start = {name: value.clone() for name, value in begun.items()}
        ends.append(taught(start, course, examples))
    longer = taught(mean(ends), MORE, examples)
    newest = taught({name: value.clone() for name, value in longer.items()}, NEWEST, examples)
    return mean([longer, newest])


def taught(weights: dict[str, Any], course: Course, examples: Sequence[Example]) -> dict[str, Any]:
    """The weights after one course."""
    import torch

    torch.manual_seed(course.recipe.seed)
    rng = random.Random(course.recipe.seed)
    epochs: list[list[Lesson]] = []
    for _ in range(course.recipe.epochs):
        rows = drawn(course, examples, rng)
        inputs = tokens_of_both([(prompt, answer) for prompt, answer, _ in rows])
        epochs.append(list(zip(inputs, [(label,) for _, _, label in rows], strict=True)))
    return fitted(weights, epochs, course.recipe, rng)
