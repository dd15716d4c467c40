"""What a difference allows to be said: worse, not worse than a margin, or neither.

That no drop was shown is not that there is none. A drop is shown by a test, its absence within a margin
by an interval (non-inferiority; Wellek 2010, Testing Statistical Hypotheses of Equivalence and
Noninferiority, chapter 2), and where neither holds the answer is that the data do not say.
"""

from __future__ import annotations

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
    the margin. Raises ValueError unless 0 < margin < 1.
    """
    if not 0 < margin < 1:
        raise ValueError(f"margin must be above 0 and below 1, such as 0.05 (got {margin})")
    if lowest is not None and lowest > -margin:
        return NOT_WORSE
    return WORSE if shown else INCONCLUSIVE


def decide_limit(
    low: float | None,
    high: float | None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Decision:
    """The decision on a rate that should be at least, or at most, a limit.

    ``low`` and ``high`` are its confidence limits, the worst cases of unjudged answers included.
    ``not worse``: the whole interval meets the limit; ``worse``: none of it does.
    """
    if low is None or high is None:
        return INCONCLUSIVE
    if at_least is not None:
        return NOT_WORSE if low >= at_least else WORSE if high < at_least else INCONCLUSIVE
    assert at_most is not None, "a limit is needed"
    return NOT_WORSE if high <= at_most else WORSE if low > at_most else INCONCLUSIVE
