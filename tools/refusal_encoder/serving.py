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
from tools.refusal_encoder.training import Lesson, Recipe, against_chances, fitted, pretrained

PAIRS = Path(__file__).with_name("pairs")
EVADES, SERVES = range(2)
# A prompt, an answer, and which of the two it is.
Row = tuple[str, str, int]


@dataclass(frozen=True)
class Course:
    """Some epochs of training: which texts, and how. The word vectors stay as they came."""

    recipe: Recipe
    share: float  # of the pairs and cases that an epoch holds
    empty: int = 0  # replies that say nothing, under any request
    most: float = 1.0  # of MOST, the share of published answers that an epoch holds
    lacking: bool = False  # whether those of LACKING are among them
    newest: bool = False  # whether an epoch holds every item of NEWEST, twice


EVERY: tuple[str, ...] = tuple(sorted(path.stem for path in PAIRS.glob("*.jsonl")))
# The last course alone has these, and every item of them.
NEWEST = ("plain_words", "other_forms", "beside_the_point")
TWELVE = Recipe(layers=12, frozen=0, epochs=1)
# The second goes on from the first one's weights.
COURSES = (
    Course(replace(TWELVE, rate=1e-4, head_rate=5e-4, seed=61), share=0.85, empty=3000),
    Course(
        replace(TWELVE, unknown=0.05, rate=4e-5, head_rate=4e-5, seed=71),
        share=0.06,
        empty=300,
        most=0.4,
        lacking=True,
        newest=True,
    ),
)
# The chances of a row with a label.
SURE = {EVADES: (0.975, 0.025), SERVES: (0.025, 0.975)}
# Characters of help that stands beside another answer.
HELP = range(150, 2500)
# Published sources that it learns from. Others it has not seen, as what is measured should be; those of
# LACKING, which are measured, come in the last course alone, and tables read them without these.
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


def written() -> list[Row]:
    """The cases by what they do; those that decline and help as well are neither."""
    rows = []
    for case in cases():
        (label,) = case.allowed
        if label == COMPLIANCE:
            rows.append((case.prompt, case.answer, SERVES))
        elif label != PARTIAL:
            rows.append((case.prompt, case.answer, EVADES))
    return rows


def items(files: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    for name in files:
        yield from read_rows(PAIRS / f"{name}.jsonl")


def counts() -> dict[str, int]:
    """How many items each file of pairs has."""
    return {name: sum(1 for _ in items((name,))) for name in EVERY}


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
    """The rows of one epoch that have labels."""
    older = tuple(name for name in EVERY if name not in NEWEST)
    pairs = [row for item in items(older) for row in rows_of(item)]
    rows = [row for row in pairs + written() if rng.random() < course.share]
    kept = () if course.lacking else LACKING
    rows += published([e for e in examples if e.source not in kept], course.most, rng)
    if course.newest:
        rows += [row for item in items(NEWEST) for row in rows_of(item)] * 2
    rows += evading_nothing(rows, round(0.15 * course.share * len(pairs)), course.empty, rng)
    rows += beside_help(rows, 0.1, rng)
    rng.shuffle(rows)
    return rows


def evading_nothing(
    rows: Sequence[Row], unrelated: int, empty: int, rng: random.Random
) -> list[Row]:
    """Answers of other rows, and replies that say nothing, so many of each under any request."""
    prompts, answers = [row[0] for row in rows], [row[1] for row in rows]
    says_nothing = [row["answer"] for row in read_rows(CASES / "empty_talk.jsonl")]
    others = [rng.choice(answers) for _ in range(unrelated)]
    others += [rng.choice(says_nothing) for _ in range(empty)]
    return [(rng.choice(prompts), answer, SERVES) for answer in others]


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


def train(folder: Path, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """The weights before the courses with ``LACKING``, and after them; from the base model
    in ``folder``. ``examples`` are the published answers."""
    weights = pretrained(folder, TWELVE.layers, classes=2)
    for course in COURSES:
        if not course.lacking:
            weights = taught(weights, course, examples)
    before = {name: value.clone() for name, value in weights.items()}
    for course in COURSES:
        if course.lacking:
            weights = taught(weights, course, examples)
    return [before, weights]


def taught(weights: dict[str, Any], course: Course, examples: Sequence[Example]) -> dict[str, Any]:
    """The weights after one course."""
    import torch

    torch.manual_seed(course.recipe.seed)
    rng = random.Random(course.recipe.seed)
    epochs: list[list[Lesson]] = []
    for _ in range(course.recipe.epochs):
        rows = drawn(course, examples, rng)
        inputs = tokens_of_both([(prompt, answer) for prompt, answer, _ in rows])
        epochs.append(list(zip(inputs, [SURE[does] for *_, does in rows], strict=True)))
    return fitted(weights, epochs, course.recipe, rng, against_chances)
