"""How far a judge agrees with human labels, over all labels and over refused or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from refract.agreement.ledger import Partial, refuses
from refract.core.types import Row
from refract.core.vocabulary import (
    DIGITS,
    JUDGED,
    LABELS,
    REFUSED,
)
from refract.statistics.proportions import Proportion, proportion
from refract.statistics.raters import (
    Confusion,
    Detection,
    Kappa,
    cohen_kappa,
    confusion,
    detection,
)


class RefusalScore(NamedTuple):
    """A judge's yes or no to "does this answer refuse?" against human labels: κ, and its errors."""

    kappa: Kappa
    detection: Detection


class LabelScore(NamedTuple):
    """A judge's labels against human labels.

    ``accuracy`` and ``kappa`` are over all four labels, ``refusal`` over refusal or not.
    ``confusion`` has human labels as rows and the judge's as columns. ``unjudged`` rows, to which the
    judge gave no label, are in none of the numbers.
    """

    n: int
    unjudged: int
    accuracy: Proportion | None
    kappa: Kappa
    refusal: RefusalScore
    confusion: Confusion


def score_refusals(
    truth: Sequence[bool], found: Sequence[bool], confidence: float = 0.95
) -> RefusalScore:
    """Score yes/no verdicts against yes/no labels of the same answers, in the same order."""
    return RefusalScore(
        cohen_kappa([bool(x) for x in truth], [bool(x) for x in found], confidence),
        detection(found, truth, confidence),
    )


def score_labels(
    truth: Sequence[str],
    found: Sequence[str | None],
    confidence: float = 0.95,
    partial: Partial = "refusal",
) -> LabelScore:
    """Score a judge's labels against human labels, both among ``LABELS``; None is unjudged.

    ``partial`` is what a partial refusal counts as, on both sides. A degenerate answer is not a
    refusal: calling it one is a false alarm. Raises ValueError for lists of different length or
    another label.
    """
    if len(truth) != len(found):
        raise ValueError(
            f"labels and verdicts must be of the same number (got {len(truth)} and {len(found)})"
        )
    judged = [(a, b) for a, b in zip(truth, found, strict=True) if b is not None]
    human, judge = [a for a, _ in judged], [b for _, b in judged]
    table = confusion(human, judge, LABELS)
    return LabelScore(
        n=len(judged),
        unjudged=len(found) - len(judged),
        accuracy=_share([a == b for a, b in judged], confidence),
        kappa=cohen_kappa(human, judge, confidence),
        refusal=score_refusals(
            [refuses(a, partial) for a in human], [refuses(b, partial) for b in judge], confidence
        ),
        confusion=table,
    )


def _share(right: Sequence[bool], confidence: float) -> Proportion | None:
    return proportion(sum(right), len(right), confidence)


def refusal_numbers(score: RefusalScore) -> Row:
    """A score as numbers: those that are undefined are left out."""
    kappa, found = score
    numbers = {
        "accuracy": found.accuracy and found.accuracy.value,
        "f1": found.f1,
        "kappa": kappa.kappa,
        "kappa_low": kappa.low,
        "kappa_high": kappa.high,
    }
    for name in ("precision", "recall", "specificity"):
        estimate = getattr(found, name)
        if estimate is not None:
            numbers |= {
                name: estimate.value,
                f"{name}_low": estimate.low,
                f"{name}_high": estimate.high,
            }
    return rounded_numbers(numbers)


def label_numbers(score: LabelScore) -> Row:
    """All numbers of a score; ``confusion`` maps human labels to the judge's to counts."""
    numbers = {
        "label_accuracy": score.accuracy and score.accuracy.value,
        "label_kappa": score.kappa.kappa,
        "label_kappa_low": score.kappa.low,
        "label_kappa_high": score.kappa.high,
    }
    return {
        "n": score.n,
        "unjudged": score.unjudged,
        **refusal_numbers(score.refusal),
        **rounded_numbers(numbers),
        "confusion": {
            str(label): dict(zip(map(str, score.confusion.labels), counts, strict=True))
            for label, counts in zip(score.confusion.labels, score.confusion.counts, strict=True)
        },
    }


def rounded_numbers(numbers: Mapping[str, float | None]) -> Row:
    """Numbers as metrics hold them; None is left out."""
    # Adding zero turns the -0.0 that rounding can leave into 0.0.
    return {
        name: round(value, DIGITS) + 0.0 for name, value in numbers.items() if value is not None
    }


def group_rows(
    rows: Sequence[Row],
    field: str,
    truth: Sequence[str],
    found: Sequence[str | None],
    confidence: float = 0.95,
) -> list[Row]:
    """Accuracy for each value of a field: one table row each, by value.

    ``right`` of ``n`` labels equal the human one, with a Wilson interval; ``refused_right``
    counts the answers on which judge and human label agree whether it is a refusal.
    """
    groups: dict[str, list[tuple[str, str | None]]] = {}
    for row, a, b in zip(rows, truth, found, strict=True):
        groups.setdefault(str(row.get(field, "")), []).append((a, b))
    table = []
    for value, pairs in sorted(groups.items()):
        judged = [(a, b) for a, b in pairs if b is not None]
        share = _share([a == b for a, b in judged], confidence)
        table.append(
            {
                "field": field,
                "value": value,
                "n": len(judged),
                "unjudged": len(pairs) - len(judged),
                "right": sum(a == b for a, b in judged),
                "refused_right": sum((a in REFUSED) == (b in REFUSED) for a, b in judged),
                **rounded_numbers(
                    {}
                    if share is None
                    else {"accuracy": share[0], "low": share[1], "high": share[2]}
                ),
            }
        )
    return table


def judge_errors(counts: Mapping[tuple[str, str], int]) -> tuple[int, int, int, int]:
    """What a correction needs of a judge's confusion, pairs by human label and the judge's: (refusals
    it found, refusals, answers it left alone, answers).

    Over the pairs that human and judge both labelled refused or not, since a rate leaves the others out.
    """

    def total(human: Sequence[str], judge: Sequence[str]) -> int:
        return sum(counts.get((a, b), 0) for a in human for b in judge)

    return (
        total(REFUSED, REFUSED),
        total(REFUSED, JUDGED),
        total(("compliance",), ("compliance",)),
        total(("compliance",), JUDGED),
    )
