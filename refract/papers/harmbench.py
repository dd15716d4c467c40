"""HarmBench: how often automatic judges agree with people on the labelled validation answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from refract.core.errors import RowError
from refract.core.types import Row
from refract.papers.cells import Cell, Explanation, Paper, percent, rounds_to
from refract.papers.files import Folder

KINDS = {"standard": 402, "contextual": 200}  # labelled answers
# The recorded judge, its name in the table, agreement in per cent on standard and contextual behaviors,
# and the average.
PUBLISHED = (
    ("advbench", "AdvBench", "71.14", "67.5", "69.93"),
    ("GPTFuzz", "GPTFuzz", "77.36", "71.5", "75.42"),
    ("chatglm", "ChatGLM", "65.67", "62.5", "64.29"),
    ("llama_guard", "Llama Guard", "68.41", "64.0", "66.94"),
    ("PAIR_gpt-4-0613", "GPT-4 (PAIR)", "89.8", "85.5", "88.37"),
    ("cls", "HarmBench, Llama 2 13B", "94.53", "90.5", "93.19"),
)
# Recorded too, without a number in that table.
UNPUBLISHED = (
    ("cls_mistral", "HarmBench, Mistral 7B"),
    ("gpt-4-0613", "GPT-4 0613"),
    ("gpt-4-1106-preview", "GPT-4 1106"),
    ("mixtral", "Mixtral"),
    ("gpt-3.5-turbo-0613", "GPT-3.5 0613"),
)
# Behaviors of the labelled answers that the published list does not have under this name.
RENAMED = {
    "chop_shops_los_angeles_locating": "standard",
    "password_pin_coercion_dialogue": "standard",
    "ddos_code_obfuscation": "contextual",
}
Truth = Callable[[Row], bool]


def majority(row: Row) -> bool:
    """Whether most of the three annotators found the behavior in the answer."""
    return 2 * sum(row["annotators"]) > len(row["annotators"])


def first(row: Row) -> bool:
    """Whether the first annotator did."""
    return bool(row["annotators"][0])


def cells(folder: Folder) -> list[Cell]:
    """Agreement with the majority of three people; explained where the first one alone gives the
    published number."""
    rows = _rows(folder)
    found = []
    for judge, name, *numbers in PUBLISHED:
        contradicted = _contradiction(numbers)
        for column, published in zip((*KINDS, "average"), numbers, strict=True):
            held, needed = _of_kind(rows, column)
            alone = _agreement(held, judge, first)
            if column == "average" and contradicted is not None:
                text = (
                    f"its own row contradicts it: {numbers[0]} of 402 and {numbers[1]} of 200 make "
                    f"{float(contradicted):.2f}, which the first annotator alone gives"
                )
                explanation = Explanation(text, alone == contradicted)
            else:
                explanation = Explanation(
                    "it is the agreement with the first of the three annotators alone",
                    alone is not None and rounds_to(alone, published),
                )
            computed = _agreement(held, judge, majority)
            found.append(Cell(name, column, published, computed, len(held), needed, explanation))
    for judge, name in UNPUBLISHED:
        for column in (*KINDS, "average"):
            held, needed = _of_kind(rows, column)
            computed = _agreement(held, judge, majority)
            if held:
                found.append(Cell(name, column, "", computed, len(held), needed))
    return found


def _rows(folder: Folder) -> list[Row]:
    kinds = {
        row["id"]: row["kind"]
        for row in folder.rows(
            "harmbench_behaviors_text_all.csv",
            {"id": ("BehaviorID",), "kind": ("FunctionalCategory",)},
        )
    }
    rows = folder.rows(
        "harmbench_val*.jsonl",
        {"behavior": ("behavior_id",)},
        raw={"annotators": ("annotators",), "judges": ("judges",)},
    )
    for number, row in enumerate(rows, 1):
        annotators, judges = row["annotators"], row["judges"]
        if not (_is_votes(annotators) and isinstance(judges, dict)):
            raise RowError(
                f"harmbench_val*.jsonl: row {number}: annotators must be a list of 0 and 1, and judges "
                f"an object (got {annotators!r:.40} and {judges!r:.40})"
            )
        row["kind"] = kinds.get(row["behavior"], RENAMED.get(row["behavior"]))
    return rows


def _is_votes(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(vote in (0, 1) for vote in value)


def _of_kind(rows: Sequence[Row], kind: str) -> tuple[list[Row], int]:
    """The rows of a column of the table, and how many the published one has."""
    if kind == "average":
        return [row for row in rows if row["kind"] in KINDS], sum(KINDS.values())
    return [row for row in rows if row["kind"] == kind], KINDS[kind]


def _agreement(rows: Sequence[Row], judge: str, truth: Truth) -> Fraction | None:
    given = [row for row in rows if row["judges"].get(judge) is not None]
    if len(given) < len(rows):
        return None
    return percent(sum(_says_yes(row["judges"][judge]) == truth(row) for row in given), len(given))


def _says_yes(verdict: object) -> bool:
    """A verdict as its judge wrote it: 1 or 0, yes or no, or a rating, of which 10 means yes."""
    if isinstance(verdict, str):
        rating = re.search(r"\[\[(\d+)\]\]", verdict)
        return rating[1] == "10" if rating else verdict.strip().lower() == "yes"
    return bool(verdict)


def _contradiction(numbers: Sequence[str]) -> Fraction | None:
    """The average that a row's own two shares make, where its printed average is another one."""
    agreed = [
        round(Fraction(number) * size / 100)
        for number, size in zip(numbers[:2], KINDS.values(), strict=True)
    ]
    average = percent(sum(agreed), sum(KINDS.values()))
    return average if average is not None and not rounds_to(average, numbers[2]) else None


PAPER = Paper(
    "HarmBench: agreement of automatic judges with people on the validation answers",
    "Mazeika et al. 2024, arXiv 2402.04249; the table of the classifiers' cards, as in "
    "https://huggingface.co/datasets/justinphan3110/harmbench_classifier_train/blob/main/README.md",
    (
        "harmbench_behaviors_text_all.csv, from data/behavior_datasets/ of "
        "https://github.com/centerforaisafety/HarmBench",
        "harmbench_val*.jsonl: behavior_id, annotators (three of 0 and 1), judges (verdicts by name)",
    ),
    cells,
)
