"""Rates from labels of rows that were drawn with unequal, known probabilities.

Rows that a judge is unsure of teach more about its errors, and are drawn more often. Rows are
ordered by place = u / size, u uniform on (0, 1), and labelled from the top: priority sampling
(Duffield, Lund & Thorup 2007, Journal of the ACM 54(6):32; Ohlsson 1998, Journal of Official
Statistics 14:149, calls it sequential Poisson sampling). Given the place t of the first row that
was not labelled, each row was labelled with probability min(1, size · t), independently of the
others in the first two moments (Theorem 1 of Duffield, Lund & Thorup), so that any number of rows
from the top is a sample with known inclusion probabilities."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import fsum, sqrt
from operator import mul
from typing import NamedTuple

from refract.statistics.clusters import effective_count

# The error rate of a judge that is sure, which its probability does not know of. On published
# answers (benchmarks/bench_labels.py) .0025 to .04 took the same number of labels within a sixth;
# less is better where probabilities are right, more where they are not.
SURE_BUT_WRONG = 0.02
# One imaginary labelled row, wrong in half of the cases: few labels without an error are not
# certain.
IMAGINARY = 0.5


class Fit(NamedTuple):
    """An estimate, its contributions by row, and its variance as they give it (``plain``) and with
    imaginary rows (``variance``)."""

    rate: float
    weight: float
    variance: float
    plain: float
    contributions: list[tuple[Hashable, float]]


def draw_size(probability: float) -> float:
    """How much more often than others a row is drawn, by the judge's probability of a positive.

    The size that gives the corrected rate its least variance is the root of the expected squared
    error of the prediction: Isaki & Fuller 1982, JASA 77:89; for labels and a model's predictions
    Zrnic & Candès 2024, arXiv:2403.03208. For a calibrated probability p that is √(p(1 - p))."""
    if not 0 <= probability <= 1:
        raise ValueError(f"a probability must lie between 0 and 1 (got {probability})")
    return sqrt(probability * (1 - probability) + SURE_BUT_WRONG)


def weighted_fit(
    human: Sequence[bool],
    predicted: Sequence[float],
    others: Sequence[float],
    inclusion: Sequence[float],
    names: Sequence[Hashable],
    names_others: Sequence[Hashable],
    counts: Sequence[float] | None = None,
) -> Fit:
    """The regression estimate of a rate from labelled rows, weighted by 1 / ``inclusion``.

    ``predicted`` and ``others`` are the judge's probabilities (or verdicts) on labelled rows and
    the rest. With w = 1 / inclusion, ȳ and f̄ the weighted means of labels and predictions and F
    the mean prediction of all rows: rate = ȳ + λ(F - f̄), the general regression estimator
    (Särndal, Swensson & Wretman 1992, Model Assisted Survey Sampling, chapter 6) with λ the
    weighted slope, held to 0 to 1. Its variance for rows like these is that of the residuals and of
    the predictions' spread (Zrnic & Candès 2024).

    ``counts``, of labelled rows and then of others, say how much each counts in the rate; without
    them all count alike. They are scaled to a mean of 1, and multiply w and the predictions."""
    n, rows = len(human), len(human) + len(others)
    counted = [1.0] * rows
    if counts is not None:
        whole = fsum(counts)
        counted = [rows * count / whole for count in counts]
    weights = [count / chance for count, chance in zip(counted, inclusion, strict=False)]
    total = fsum(weights)
    labels = list(map(float, map(bool, human)))
    drawn = list(zip(weights, predicted, labels, strict=True))
    mean_label = fsum(map(mul, weights, labels)) / total
    mean_here = fsum(map(mul, weights, predicted)) / total
    mean_all = (fsum(map(mul, counted, predicted)) + fsum(map(mul, counted[n:], others))) / rows
    spread = fsum(w * (f - mean_here) ** 2 for w, f, _ in drawn)
    shared = fsum(w * (f - mean_here) * (y - mean_label) for w, f, y in drawn)
    slope = min(1.0, max(0.0, shared / spread)) if spread > 0 else 0.0
    rate = mean_label + slope * (mean_all - mean_here)
    contributions: list[tuple[Hashable, float]] = []
    for name, count, (w, f, y) in zip(names, counted[:n], drawn, strict=True):
        residual = y - mean_label - slope * (f - mean_here)
        contributions.append((name, (slope * count * (f - mean_all) + w * residual) / rows))
    for name, count, f in zip(names_others, counted[n:], others, strict=True):
        contributions.append((name, slope * count * (f - mean_all) / rows))
    alike = effective_count(counted[:n])
    lost = alike / (alike - 2) if alike > 2 else 1.0  # mean and slope were fitted
    imaginary = IMAGINARY / alike**2
    plain = fsum(value**2 for _, value in contributions)
    return Fit(
        rate=min(1.0, max(0.0, rate)),
        weight=slope,
        variance=lost * plain + imaginary,
        plain=plain,
        contributions=contributions,
    )
