"""p-values adjusted for how many tests were made."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment, which bounds the chance of any false finding.

    Holm 1979, Scandinavian Journal of Statistics 6:65. Values come back in the order given; None
    (a test that could not be made) stays None and does not count as a test.
    """
    made = _made(p_values)
    if not made:
        return list(p_values)
    from statsmodels.stats.multitest import multipletests

    return _placed(multipletests(made, method="holm")[1].tolist(), p_values)


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Benjamini & Hochberg's adjustment, which bounds the expected share of false findings.

    Benjamini & Hochberg 1995, Journal of the Royal Statistical Society B 57:289. Order and None as
    in :func:`holm`.
    """
    made = _made(p_values)
    if not made:
        return list(p_values)
    from scipy.stats import false_discovery_control

    return _placed(false_discovery_control(made, method="bh").tolist(), p_values)


def _made(p_values: Sequence[float | None]) -> list[float]:
    made = [p for p in p_values if p is not None]
    for p in made:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value must be between 0 and 1, or None (got {p})")
    return made


def _placed(adjusted: list[float], p_values: Sequence[float | None]) -> list[float | None]:
    rest = iter(adjusted)
    return [None if p is None else next(rest) for p in p_values]
