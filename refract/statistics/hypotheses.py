"""What tests allow to be said: p-values adjusted for how many were made, and decisions on a
difference.

Absence of evidence is not evidence of absence: a drop is shown by a test, its absence within a
margin by an interval (non-inferiority; Wellek 2010, Testing Statistical Hypotheses of Equivalence
and Noninferiority, chapter 2), and where neither holds the answer is that the data do not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Decision = Literal["worse", "not worse", "inconclusive"]
WORSE: Decision = "worse"
NOT_WORSE: Decision = "not worse"
INCONCLUSIVE: Decision = "inconclusive"


def decide_drop(lowest: float | None, shown: bool, margin: float) -> Decision:
    """The decision on a change for which less is worse.

    ``lowest`` is the lower confidence limit of the change, the worst case of unjudged answers
    included (None where there is none), ``shown`` whether a test shows a drop whatever the unjudged
    answers were. A drop that is shown and is shown to be smaller than the margin is not worse than
    the margin. Raises ValueError unless 0 < margin < 1."""
    if not 0 < margin < 1:
        raise ValueError(f"margin must be above 0 and below 1, such as 0.05 (got {margin})")
    if lowest is not None and lowest > -margin:
        return NOT_WORSE
    return WORSE if shown else INCONCLUSIVE


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment, which bounds the chance of any false finding.

    Holm 1979, Scandinavian Journal of Statistics 6:65. Values come back in the order given; None (a
    test that could not be made) stays None and does not count as a test."""
    tests = [p for p in p_values if p is not None]
    for p in tests:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value must be between 0 and 1, or None (got {p})")
    # As statsmodels computes it, without its import and its search of all memory for garbage.
    ordered = sorted(range(len(tests)), key=lambda place: tests[place])
    highest, adjusted = 0.0, [0.0] * len(tests)
    for rank, place in enumerate(ordered):
        highest = max(highest, float(tests[place]) * (len(tests) - rank))
        adjusted[place] = min(highest, 1.0)
    following = iter(adjusted)
    return [None if p is None else next(following) for p in p_values]
