"""``python -m tools.ablate_rules FILE...``: the rule judge on labelled answers, by source and model.

Prints for each file and each target model: the number of answers, kappa, precision and recall of "it
refuses", and the rate gap (the judge's rate minus the labels', in points). With ``--ablate``, each entry
and each part of the judge's English is taken out in turn, and the table says by how many hundredths that
moves the kappa of each file, and its largest rate gap of a model by how many points. One goes unless
that costs on several files: phrases are taken out by labelled answers, never added from them.

A FILE is JSON lines with ``response``, ``prompt``, ``model`` and ``refused`` (true or false; others are
left out). ``FILE:FIELD`` takes the label from another field, and ``FILE:FIELD:full`` counts a partial
refusal of the judge as compliance.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from refract.judges.rules import judge_response
from refract.judges.rules.grammar import EN as ENGLISH
from refract.statistics.raters import cohen_kappa

SMALLEST = 40  # answers of a model whose rate gap counts: below, chance alone makes ten points
NEVER = ["(?!)"]


class Source(NamedTuple):
    """Labelled answers of one file."""

    name: str
    rows: list[dict[str, Any]]
    truth: list[bool]
    full: bool  # whether a partial refusal counts as compliance


class Score(NamedTuple):
    """Agreement on some answers; `gap` is the judge's rate minus the labels', in points."""

    answers: int
    kappa: float
    precision: float
    recall: float
    gap: float


def read_source(argument: str) -> Source:
    path, field, how = (*argument.split(":"), "", "")[:3]
    field = field or "refused"
    read = [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    rows = [row for row in read if isinstance(row.get(field), bool) and row.get("response")]
    name = Path(path).stem + (f":{field}" if field != "refused" else "")
    return Source(name, rows, [row[field] for row in rows], how == "full")


def refusals(source: Source) -> list[bool]:
    """Whether the judge calls each answer a refusal."""
    labels = (judge_response(r["response"], r.get("prompt") or "")["label"] for r in source.rows)
    return [
        label == "refusal" or (label == "partial_refusal" and not source.full) for label in labels
    ]


def score(truth: list[bool], found: list[bool]) -> Score:
    both = sum(t and f for t, f in zip(truth, found, strict=True))
    kappa = cohen_kappa(list(map(str, truth)), list(map(str, found))).kappa
    kappa = float("nan") if kappa is None else kappa  # all of one class
    gap = 100 * (sum(found) - sum(truth)) / len(truth)
    return Score(len(truth), kappa, both / max(sum(found), 1), both / max(sum(truth), 1), gap)


def by_model(source: Source, found: list[bool]) -> dict[str, Score]:
    """The scores of each target model, and of all together under the empty name."""
    places: dict[str, list[int]] = {"": list(range(len(found)))}
    for place, row in enumerate(source.rows):
        places.setdefault(str(row.get("model") or "unnamed"), []).append(place)
    return {
        model: score([source.truth[p] for p in each], [found[p] for p in each])
        for model, each in places.items()
    }


def largest_gap(scores: dict[str, Score]) -> float:
    gaps = (abs(each.gap) for each in scores.values() if each.answers >= SMALLEST)
    return max(gaps, default=0.0)


@contextmanager
def without(id_: str) -> Iterator[None]:
    """The judge without one entry or part: it is found nowhere."""
    kept = ENGLISH.patterns[id_]
    ENGLISH.patterns[id_] = NEVER
    ENGLISH.forget()
    try:
        yield
    finally:
        ENGLISH.patterns[id_] = kept
        ENGLISH.forget()


def print_scores(sources: list[Source]) -> None:
    print("source | model | answers | kappa | precision | recall | rate gap")
    for source in sources:
        for model, each in by_model(source, refusals(source)).items():
            figures = f"{each.kappa:.3f} | {each.precision:.2f} | {each.recall:.2f}"
            print(
                f"{source.name} | {model or 'all'} | {each.answers} | {figures} | {each.gap:+.1f}"
            )


def print_ablation(sources: list[Source]) -> None:
    print("without | changed | " + " | ".join(f"{s.name} kappa, gap" for s in sources))
    before = [refusals(source) for source in sources]
    scores = [by_model(s, found) for s, found in zip(sources, before, strict=True)]
    for id_ in ENGLISH.patterns:
        cells, changed = [], 0
        with without(id_):
            for source, found, full in zip(sources, before, scores, strict=True):
                now = refusals(source)
                changed += sum(a != b for a, b in zip(now, found, strict=True))
                left = by_model(source, now)
                kappa = 100 * (left[""].kappa - full[""].kappa)
                cells.append(f"{kappa:+.1f}, {largest_gap(left) - largest_gap(full):+.1f}")
        print(f"{id_} | {changed} | " + " | ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.ablate_rules")
    parser.add_argument("files", nargs="+", metavar="FILE[:FIELD[:full]]")
    parser.add_argument("--ablate", action="store_true")
    arguments = parser.parse_args()
    sources = list(map(read_source, arguments.files))
    for each in sources:
        if not each.rows:
            parser.error(f"{each.name} has no answer with a label of true or false")
    (print_ablation if arguments.ablate else print_scores)(sources)


if __name__ == "__main__":
    main()
