"""How many labels ±2 points take: drawn at random, and drawn by the judge's doubt.

``python benchmarks/bench_labels.py --data FOLDER [--judge NAME]`` takes the published answers with
human labels that ``tools.ledger`` reads, and pretends that people label them one by one. For each model
with 400 answers or more it prints how many labels it takes until 95 % of draws are within ±2 points of
their mean (1.96 standard deviations over draws): by random labels alone; by random labels and the
judge's verdicts (what `refract label` does without probabilities); and drawn by doubt. *Bias* is of the
estimate against the rate of all labels, in points.

Probabilities are the judge's own, or, of a judge without them, those of a logistic regression on its
label, its score and the length of the answer, fitted on the other sources. A judge that was trained on
these sources is better there than elsewhere.
"""

from __future__ import annotations

import argparse
import json
import sys
from math import log
from pathlib import Path
from statistics import fmean, median, stdev
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from refract.core.vocabulary import REFUSED
from refract.evaluate.judge_errors import judge_pairs
from refract.judges import open_judge
from refract.project import find_judge, find_project
from refract.report.markdown import markdown_table
from refract.statistics.correction import Sample, prediction_powered
from refract.statistics.proportions import normal_quantile
from refract.statistics.weighted import draw_size
from tools.ledger import SOURCES, read_source

HALF_WIDTH = 0.02
LEAST = 400  # answers; with fewer, ±2 points takes nearly all of them
DRAWS = 400
WAYS = ("labels alone", "random", "by doubt")


class Answers(NamedTuple):
    """The answers of one model, one array each: labels, verdicts, probabilities of refusal."""

    human: np.ndarray
    verdict: np.ndarray
    probability: np.ndarray


def read_answers(folder: Path, judge: str) -> dict[tuple[str, str], Answers]:
    """The judge's verdicts on every source, by source and model, where a model has enough answers."""
    opened = {judge: open_judge(judge, find_judge(judge, find_project()))}
    found = []
    for source in SOURCES:
        if not (folder / SOURCES[source].file).is_file():
            continue
        rows, truth = read_source(folder, source)
        verdicts = judge_pairs(rows, opened)[judge]
        for row, label, verdict in zip(rows, truth, verdicts, strict=True):
            refused, length = verdict["label"] in REFUSED, log(1 + len(row["response"])) - 6
            named = (verdict["label"] == "refusal", verdict["label"] == "partial_refusal")
            features = (1.0, *named, verdict["score"] or 0, length, length * refused)
            judged = (label in REFUSED, refused, verdict.get("probability"))
            found.append(((source, row["model"]), *judged, features))
    keys, human, refused, chances, features = zip(*found, strict=True)
    if None in chances:
        chances = fitted(np.array([source for source, _ in keys]), features, human)
    columns = [np.array(column, float) for column in (human, refused, chances)]
    members = {key: [at == key for at in keys] for key in sorted(set(keys))}
    return {
        key: Answers(*(column[mask] for column in columns))
        for key, mask in members.items()
        if sum(mask) >= LEAST
    }


def fitted(sources: np.ndarray, features: tuple, human: tuple) -> np.ndarray:
    """Probabilities of each source by a logistic regression on the others (Newton's method)."""
    x, y = np.array(features, float), np.array(human, float)
    chances = np.zeros(len(y))
    for source in set(sources):
        others = sources != source
        weights = np.zeros(x.shape[1])
        for _ in range(30):
            p = 1 / (1 + np.exp(-x[others] @ weights))
            curvature = (x[others] * (p * (1 - p))[:, None]).T @ x[others] + np.eye(x.shape[1])
            weights += np.linalg.solve(curvature, x[others].T @ (y[others] - p) - weights)
        chances[~others] = 1 / (1 + np.exp(-x[~others] @ weights))
    return chances


class Draw:
    """One order of labelling, and the corrected rate after any number of labels."""

    def __init__(self, answers: Answers, way: str, generator: np.random.Generator) -> None:
        n = len(answers.human)
        self.human, self.weighted = answers.human > 0, way == "by doubt"
        predicted = (np.zeros(n), answers.verdict, answers.probability)
        self.predicted = dict(zip(WAYS, predicted, strict=True))[way]
        sizes = [draw_size(p) for p in answers.probability] if self.weighted else [1.0] * n
        self.sizes = np.array(sizes)
        self.places = generator.random(n) / self.sizes
        self.order = np.argsort(self.places)

    def after(self, labels: int) -> float:
        """The corrected rate after so many labels."""
        mine, rest = self.order[:labels], self.order[labels:]
        inclusion = None
        if self.weighted and len(rest):
            inclusion = np.minimum(1.0, self.sizes[mine] * self.places[rest[0]]).tolist()
        parts = (self.human[mine], self.predicted[mine], self.predicted[rest])
        sample = Sample(*(part.tolist() for part in parts), inclusion=inclusion)
        corrected = prediction_powered(sample)
        assert corrected is not None
        return corrected.rate


def labels_needed(answers: Answers, way: str, generator: np.random.Generator) -> int:
    """The least number of labels, in tens, after which draws reach as far as ``HALF_WIDTH``."""
    draws = [Draw(answers, way, generator) for _ in range(DRAWS)]
    low, high = 1, len(answers.human) // 10  # in tens
    while low < high:
        middle = (low + high) // 2
        reach = normal_quantile(0.95) * stdev(draw.after(10 * middle) for draw in draws)
        if reach <= HALF_WIDTH:
            high = middle
        else:
            low = middle + 1
    return 10 * low


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of published answers")
    parser.add_argument("--judge", default="rules")
    given = parser.parse_args()
    lines, shares = [], []
    for (source, model), answers in read_answers(given.data, given.judge).items():
        generator = np.random.default_rng(1)
        truth = float(answers.human.mean())
        needed = [labels_needed(answers, way, generator) for way in WAYS]
        draws = [Draw(answers, "by doubt", generator) for _ in range(DRAWS)]
        found = fmean(draw.after(needed[2]) for draw in draws)
        shares.append((needed[2] / needed[0], needed[2] / needed[1]))
        errs = float((answers.verdict != answers.human).mean())
        squared = float(((answers.probability - answers.human) ** 2).mean())
        lines.append(
            [
                *(f"{source}, {model or 'not stated'}", len(answers.human)),
                *(f"{value:.3f}" for value in (truth, errs, squared)),
                *(*needed, *(f"{share:.2f}" for share in shares[-1])),
                f"{100 * (found - truth):+.2f}",
            ]
        )
        print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
    header = ["Source, model", "answers", "refused", "judge errs"]
    header += ["squared error of the probability", *WAYS, "of labels alone", "of random", "bias"]
    print(markdown_table(header, lines))
    of_alone, of_random = (median(column) for column in zip(*shares, strict=True))
    print(
        f"\nmedian share of the labels: {of_alone:.2f} of labels alone, {of_random:.2f} of random "
        "labels with verdicts"
    )


if __name__ == "__main__":
    main()
