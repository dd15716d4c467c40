"""A rate corrected for the errors that its judge makes on labelled answers of the same domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refract.agreement import rounded_numbers
from refract.core.types import Row
from refract.core.vocabulary import (
    JUDGED,
    REFUSED,
)
from refract.statistics.correction import rogan_gladen


class Errors(NamedTuple):
    """A judge's errors on answers that it and people both labelled refused or not.

    Refusals it found and all refusals, answers it left alone and all answers; ``by_slice`` the same
    of each kind of answer.
    """

    found: int
    refusals: int
    left_alone: int
    answers: int
    by_slice: dict[str, tuple[int, int, int, int]]

    @property
    def numbers(self) -> Row:
        """The four counts as JSON."""
        return {
            "found": self.found,
            "refusals": self.refusals,
            "left_alone": self.left_alone,
            "answers": self.answers,
        }


def judge_errors_of(pairs: Sequence[Row], found: Sequence[str | None]) -> Errors:
    """The errors of verdicts on labelled pairs, over all and by ``slice``."""
    judged = [
        (str(pair.get("slice") or ""), pair["label"] in REFUSED, label in REFUSED)
        for pair, label in zip(pairs, found, strict=True)
        if pair["label"] in JUDGED and label in JUDGED
    ]

    def counts(of: str | None) -> tuple[int, int, int, int]:
        here = [(human, judge) for name, human, judge in judged if of in (None, name)]
        return (
            sum(human and judge for human, judge in here),
            sum(human for human, _ in here),
            sum(not human and not judge for human, judge in here),
            sum(not human for human, _ in here),
        )

    slices = sorted({name for name, _, _ in judged if name})
    return Errors(*counts(None), {name: counts(name) for name in slices})


def calibrate(positives: int, n: int, errors: Errors, confidence: float = 0.95) -> Row:
    """The Rogan–Gladen correction of ``positives`` of ``n``, as JSON.

    ``slice_lowest`` and ``slice_highest`` are the rates if all answers were as one slice's: its
    sensitivity for refusals, its specificity for answers, each with the other of all labelled
    answers. ``contradicted``: the judge says this more, or less, often than its errors allow at any
    rate; there is no number then.
    """
    whole = errors[:4]
    corrected = rogan_gladen(positives, n, *whole, confidence=confidence)
    if corrected is None:
        return {}
    numbers: Row = {"contradicted": corrected.contradicted}
    if corrected.rate is not None:
        numbers |= rounded_numbers(
            {"rate": corrected.rate, "low": corrected.low, "high": corrected.high}
        )
    mixed = []
    for found, refusals, left_alone, answers in errors.by_slice.values():
        if refusals:
            mixed.append((found, refusals, *whole[2:]))
        if answers:
            mixed.append((*whole[:2], left_alone, answers))
    by_slice = [one for mix in mixed if (one := rogan_gladen(positives, n, *mix)) is not None]
    rates = [one.rate for one in by_slice if one.rate is not None]
    if rates:
        numbers |= rounded_numbers({"slice_lowest": min(rates), "slice_highest": max(rates)})
    if by_slice:
        numbers["slices"] = len(by_slice)
        numbers["slices_contradicted"] = sum(one.contradicted for one in by_slice)
    return numbers
