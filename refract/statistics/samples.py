"""Several samples of one prompt: the chance that any of k, or all of k, are positive."""

from __future__ import annotations

from math import comb

from refract.statistics.proportions import check_part


def any_of_k(positives: int, samples: int, k: int) -> float:
    """The chance that at least one of ``k`` fresh samples is positive, unbiased.

    1 - C(n - c, k) / C(n, k) for c positives of n samples: equation 1 of Chen et al. 2021,
    arXiv 2107.03374 (pass@k; of attacks, attack success at k). Raises ValueError unless
    1 <= k <= samples.
    """
    _check(positives, samples, k)
    return 1 - comb(samples - positives, k) / comb(samples, k)


def all_of_k(positives: int, samples: int, k: int) -> float:
    """The chance that all of ``k`` fresh samples are positive, unbiased: C(c, k) / C(n, k).

    The same counting as :func:`any_of_k`, of the other outcome. Raises ValueError as there.
    """
    _check(positives, samples, k)
    return comb(positives, k) / comb(samples, k)


def _check(positives: int, samples: int, k: int) -> None:
    check_part(positives, samples, "positives", "samples")
    if not 1 <= k <= samples:
        raise ValueError(f"k must be from 1 to the number of samples, {samples} (got {k})")
