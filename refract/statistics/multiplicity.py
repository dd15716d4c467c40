"""p-values adjusted for how many tests were made."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment, which bounds the chance of any false finding.

    Holm 1979, Scandinavian Journal of Statistics 6:65. Values come back in the order given; None
    (a test that could not be made) stays None and does not count as a test.
    """
    made = [p for p in p_values if p is not None]
    for p in made:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value must be between 0 and 1, or None (got {p})")
    if not made:
        return list(p_values)
    from statsmodels.stats.multitest import multipletests

    adjusted = iter(multipletests(made, method="holm")[1].tolist())
    return [None if p is None else next(adjusted) for p in p_values]
