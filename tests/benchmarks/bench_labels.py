"""How many labels an interval of ±2 points takes: drawn at random, and drawn by the judge's doubt.

``python tests/benchmarks/bench_labels.py --data FOLDER [--judge NAME]`` takes the published answers with
human labels that ``tools.ledger`` reads, and pretends that people label them one by one. For each model
with 400 answers or more it prints how many labels it takes until the interval for these answers is ±2
points (its mean over draws): by random labels alone; by random labels and the judge's verdicts (what
`refract label` does without probabilities); and drawn by doubt. *Coverage* is how often the interval
holds the rate of all labels, with that number of labels; *stopped*, where one stops at the first ten
labels after which the interval is ±2 points; *bias* is of the estimate, in points.

Probabilities are the judge's own, or, of a judge without them, those of a logistic regression on its
label, its score and the length of the answer, fitted on the other sources. A judge that was trained on
these sources is better there than elsewhere: ``--verdicts FILE`` takes verdicts of one that was not, in
rows with ``source``, ``model``, ``human`` (true for a refusal), ``refused`` and ``probability``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from math import log
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from refract.core.jsonl import read_rows
from refract.core.vocabulary import REFUSED
from refract.evaluate.judge_errors import judge_pairs
from refract.judges import open_judge
from refract.project import find_judge, find_project
from refract.report.markdown import markdown_table
from refract.statistics.correction import PredictionPowered, Sample, prediction_powered
from refract.statistics.weighted import draw_size
from tools.ledger import SOURCES, read_source

HALF_WIDTH = 0.02
LEAST = 400  # answers; with fewer, ±2 points takes nearly all of them
DRAWS, TRIALS = 400, 40


class Answers(NamedTuple):
    """The answers of one model: labels, verdicts and probabilities of refusal."""

    source: str
    model: str
    human: np.ndarray
    verdict: np.ndarray
    probability: np.ndarray


def read_answers(folder: Path, judge: str) -> list[Answers]:
    """The judge's verdicts on every source, by model."""
    opened = {judge: open_judge(judge, find_judge(judge, find_project()))}
    found: list[dict] = []
    for source in SOURCES:
        if (folder / SOURCES[source].file).is_file():
            rows, truth = read_source(folder, source)
            for row, label, verdict in zip(
                rows, truth, judge_pairs(rows, opened)[judge], strict=True
            ):
                found.append(
                    {
                        "source": source,
                        "model": row["model"],
                        "human": label in REFUSED,
                        "refused": verdict["label"] in REFUSED,
                        "probability": verdict.get("probability"),
                        "features": (
                            1.0,
                            float(verdict["label"] == "refusal"),
                            float(verdict["label"] == "partial_refusal"),
                            float(verdict["score"] or 0),
                            log(1 + len(row["response"])) - 6,
                            (log(1 + len(row["response"])) - 6) * (verdict["label"] in REFUSED),
                        ),
                    }
                )
    if any(row["probability"] is None for row in found):
        fit_probabilities(found)
    return by_model(found)


def fit_probabilities(rows: list[dict]) -> None:
    """Probabilities of each source by a logistic regression on the others (Newton's method)."""
    for source in {row["source"] for row in rows}:
        others = [row for row in rows if row["source"] != source]
        x = np.array([row["features"] for row in others])
        y = np.array([row["human"] for row in others], dtype=float)
        weights = np.zeros(x.shape[1])
        for _ in range(30):
            p = 1 / (1 + np.exp(-x @ weights))
            curvature = (x * (p * (1 - p))[:, None]).T @ x + np.eye(x.shape[1])
            weights += np.linalg.solve(curvature, x.T @ (y - p) - weights)
        for row in rows:
            if row["source"] == source:
                row["probability"] = float(1 / (1 + np.exp(-np.dot(row["features"], weights))))


def by_model(rows: Sequence[dict]) -> list[Answers]:
    """Rows of one source and model together, where there are enough."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["source"], row["model"]), []).append(row)
    return [
        Answers(
            *key,
            np.array([row["human"] for row in members], dtype=bool),
            np.array([row["refused"] for row in members], dtype=bool),
            np.array([row["probability"] for row in members], dtype=float),
        )
        for key, members in sorted(groups.items())
        if len(members) >= LEAST
    ]


class Draw:
    """One order of labelling, and the corrected rate after any number of labels."""

    def __init__(self, answers: Answers, way: str, generator: np.random.Generator) -> None:
        n = len(answers.human)
        self.human = answers.human
        self.predicted = {
            "labels alone": np.zeros(n),
            "random": answers.verdict.astype(float),
            "by doubt": answers.probability,
        }[way]
        self.sizes = np.ones(n)
        if way == "by doubt":
            self.sizes = np.array([draw_size(p) for p in answers.probability])
        self.weighted = way == "by doubt"
        self.places = generator.random(n) / self.sizes
        self.order = np.argsort(self.places)

    def after(self, labels: int) -> PredictionPowered:
        """The corrected rate after so many labels."""
        mine, rest = self.order[:labels], self.order[labels:]
        inclusion = None
        if self.weighted and len(rest):
            inclusion = np.minimum(1.0, self.sizes[mine] * self.places[rest[0]]).tolist()
        found = prediction_powered(
            Sample(
                self.human[mine].tolist(),
                self.predicted[mine].tolist(),
                self.predicted[rest].tolist(),
                inclusion=inclusion,
            )
        )
        assert found is not None
        return found


def half_width(found: PredictionPowered) -> float:
    """Half of the interval for the answers at hand."""
    return (found.high_here - found.low_here) / 2


def labels_needed(answers: Answers, way: str, generator: np.random.Generator) -> int:
    """The least number of labels, in tens, with a mean half width of at most ``HALF_WIDTH``."""
    draws = [Draw(answers, way, generator) for _ in range(TRIALS)]
    low, high = 1, len(answers.human) // 10  # in tens
    while low < high:
        middle = (low + high) // 2
        if fmean(half_width(draw.after(10 * middle)) for draw in draws) <= HALF_WIDTH:
            high = middle
        else:
            low = middle + 1
    return 10 * low


def stopped(draw: Draw, labels: int) -> PredictionPowered:
    """The corrected rate of somebody who stops as soon as the interval is narrow enough.

    Looks after each ten labels, from half of the number that it takes on average.
    """
    number = max(10, labels // 20 * 10)
    while number < len(draw.human):
        found = draw.after(number)
        if half_width(found) <= HALF_WIDTH:
            return found
        number += 10
    return draw.after(len(draw.human))


def main() -> None:
    """Reads the options and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of published answers")
    parser.add_argument("--judge", default="rules")
    parser.add_argument("--verdicts", type=Path)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument(
        "--answers", type=int, help="as if each model had given so many, drawn from its own"
    )
    given = parser.parse_args()
    if given.verdicts:
        populations = by_model(read_rows(given.verdicts))
    elif given.data:
        populations = read_answers(given.data, given.judge)
    else:
        parser.error("give --data or --verdicts")
    lines, ratios, coverages = [], [], []
    for answers in populations:
        generator = np.random.default_rng(1)
        if given.answers:
            again = generator.integers(0, len(answers.human), given.answers)
            answers = answers._replace(
                human=answers.human[again],
                verdict=answers.verdict[again],
                probability=answers.probability[again],
            )
        truth = float(answers.human.mean())
        needed = {
            way: labels_needed(answers, way, generator)
            for way in ("labels alone", "random", "by doubt")
        }
        draws = [Draw(answers, "by doubt", generator) for _ in range(given.draws)]
        found = [draw.after(needed["by doubt"]) for draw in draws]
        early = [stopped(draw, needed["by doubt"]) for draw in draws]

        def coverage(estimates: Sequence[PredictionPowered], truth: float = truth) -> float:
            return fmean(one.low_here <= truth <= one.high_here for one in estimates)

        ratios.append(
            (needed["by doubt"] / needed["labels alone"], needed["by doubt"] / needed["random"])
        )
        coverages.append((coverage(found), coverage(early)))
        squared = float(((answers.probability - answers.human) ** 2).mean())
        lines.append(
            [
                f"{answers.source}, {answers.model or 'not stated'}",
                len(answers.human),
                f"{truth:.3f}",
                f"{float((answers.verdict != answers.human).mean()):.3f}",
                f"{squared:.3f}",
                *needed.values(),
                f"{ratios[-1][0]:.2f}",
                f"{ratios[-1][1]:.2f}",
                *(f"{one:.3f}" for one in coverages[-1]),
                f"{100 * (fmean(one.rate for one in found) - truth):+.2f}",
            ]
        )
        print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
    header = [
        "Source, model",
        "answers",
        "refused",
        "judge errs",
        "squared error of the probability",
    ]
    header += ["labels alone", "random", "by doubt", "of labels alone", "of random"]
    print(markdown_table([*header, "coverage", "stopped", "bias"], lines))
    print(
        f"\nmedian share of the labels: {median(a for a, _ in ratios):.2f} of labels alone, "
        f"{median(b for _, b in ratios):.2f} of random labels with verdicts; least coverage "
        f"{min(a for a, _ in coverages):.3f}, stopped {min(b for _, b in coverages):.3f}"
    )


if __name__ == "__main__":
    main()
