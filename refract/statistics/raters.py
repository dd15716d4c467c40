"""How far a judge agrees with another, or with people: Cohen's κ."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import mul
from typing import NamedTuple

from refract.statistics.proportions import check_counts, normal_quantile, wilson_at

# Fewer items outside of a rater's most frequent label than this say too little for the asymptotic
# error of κ: with 6 of 129 positive, nominal 95 % held a κ of 0 in 33 % (benchmarks/coverage.md).
LEAST_RARE = 10
# Of fewer items the interval would be about as wide as the scale, 1.0 to 1.4 of ten.
LEAST_ITEMS = 20
# Where these few are this share of all items or more, and two at least, the items are few and no
# label is rare: κ has an exact interval.
FEW_SHARE, LEAST_EXACT = 0.1, 2


class Kappa(NamedTuple):
    """Cohen's κ of two raters on ``n`` items.

    ``agreement`` is the share of items labelled alike and ``chance_agreement`` the share expected
    from the raters' margins alone; ``se`` is κ's asymptotic standard error. κ, its interval and its
    error are None where it is undefined: without items, and where both raters gave one and the same
    label throughout (chance alone would then agree on everything). The interval alone is None of
    fewer than ``LEAST_ITEMS``, and where a rater has fewer than ``LEAST_RARE`` items outside of its
    most frequent label, and these are less than a tenth of all or fewer than two."""

    kappa: float | None = None
    low: float | None = None
    high: float | None = None
    se: float | None = None
    n: int = 0
    agreement: float | None = None
    chance_agreement: float | None = None


class Confusion(NamedTuple):
    """How often the first rater's label (row) met the second's (column), in ``labels``' order."""

    labels: tuple[Hashable, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def by_label(self) -> dict[str, dict[str, int]]:
        """The same as JSON: counts by the first rater's label and the second's."""
        names = list(map(str, self.labels))
        table = {}
        for name, row in zip(names, self.counts, strict=True):
            table[name] = dict(zip(names, row, strict=True))
        return table


def confusion(
    first: Sequence[Hashable], second: Sequence[Hashable], labels: Sequence[Hashable] | None = None
) -> Confusion:
    """Cross two raters' labels of the same items, listed in the same order.

    ``labels`` fixes the order of rows and columns; by default those found, sorted by their text.
    Raises ValueError for lists of different length or a label outside ``labels``."""
    if len(first) != len(second):
        raise ValueError(
            f"two raters' labels must be of the same length (got {len(first)} and {len(second)})"
        )
    used = sorted({*first, *second}, key=str)
    order = tuple(used if labels is None else labels)
    unknown = [label for label in used if label not in order]
    if unknown:
        raise ValueError(f"a label must be one of {list(order)} (got {unknown[0]!r})")
    place = {label: i for i, label in enumerate(order)}
    counts = [[0] * len(order) for _ in order]
    for a, b in zip(first, second, strict=True):
        counts[place[a]][place[b]] += 1
    return Confusion(order, tuple(map(tuple, counts)))


def beyond_chance(agreement: float, chance: float) -> float:
    """κ of a share of agreement, with that expected by chance."""
    return (agreement - chance) / (1 - chance)


def kappa_of_table(table: Sequence[Sequence[int]], confidence: float = 0.95) -> Kappa:
    """Cohen's κ of a square table of counts of any size (rows: first rater, columns: second).

    κ: Cohen 1960, Educational and Psychological Measurement 20:37. ``se``: Fleiss, Cohen & Everitt
    1969, Psychological Bulletin 72:323, as in statsmodels.

    The interval is not κ ± z·se. For a judge that agrees well that one is far too short: with a
    true κ of .98 it covered in 64 % of simulated samples of 100, and it has no width at all when
    the raters agree on every item. Instead the share of agreement gets Wilson's interval on the
    number of items that would give κ the same error (an effective sample size), and its ends are
    turned into κ with the chance agreement as observed. In the same simulations (κ from .4 to .98,
    30 to 1,000 items) that covered in 91 to 97 %, and in large samples the two are the same. The
    error is that of the table with four imaginary items spread over its cells: it is nearly 0 where
    no item is positive to both raters, and a κ of 0 at 10 % positive was covered in 76 %, with them
    in 94 to 99. The lower end is not below what the raters' margins leave possible.

    Of few items (fewer than ``LEAST_RARE`` outside of a rater's most frequent label, though a tenth
    or more) the share of agreement gets the exact binomial interval (Clopper & Pearson 1934,
    Biometrika 26:404) instead. At 20 to 60 items it covered in 96 % or more. Raises ValueError for
    a table that is not square or holds a negative count."""
    if any(len(row) != len(table) for row in table):
        lengths = [len(row) for row in table]
        raise ValueError(f"a table of agreement must be square (got rows of length {lengths})")
    for row in table:
        for count in row:
            check_counts(count=count)
    rows = [sum(row) for row in table]
    columns = [sum(column) for column in zip(*table, strict=True)]
    n = sum(rows)
    if n == 0:
        return Kappa()
    agreed = sum(table[place][place] for place in range(len(table)))
    by_chance: int = sum(map(mul, rows, columns))
    least = sum(max(0, row + column - n) for row, column in zip(rows, columns, strict=True))
    agreement, chance = agreed / n, by_chance / n**2
    estimate = Kappa(n=n, agreement=agreement, chance_agreement=chance)
    if by_chance == n**2:
        return estimate
    import numpy as np
    from statsmodels.stats.inter_rater import cohens_kappa

    counts = np.asarray(table, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):  # its test statistics, which are not used
        result = cohens_kappa(counts)
    kappa, se = float(result.kappa), float(result.std_kappa)
    # Where one rater gave one label throughout, the formula gives 0, which rounding turns into a
    # billionth, or into the root of a negative number.
    estimate = estimate._replace(kappa=kappa, se=se if se > 1e-6 else 0.0)

    rare = n - max(*rows, *columns)
    if n < LEAST_ITEMS:
        return estimate
    if rare < LEAST_RARE:
        if rare < max(LEAST_EXACT, FEW_SHARE * n):
            return estimate
        from statsmodels.stats.proportion import proportion_confint

        ends = proportion_confint(agreed, n, 1 - confidence, method="beta")
        low, high = [beyond_chance(max(float(end), least / n), chance) for end in ends]
        return estimate._replace(low=min(kappa, low), high=high)
    effective = float(n)  # where raters agree on all or nothing the formula knows of no error
    if 0 < agreed < n:
        added = counts + 4 / len(table) ** 2
        added_chance = float(added.sum(0) @ added.sum(1)) / (n + 4) ** 2
        share = float(np.trace(added)) / (n + 4)
        error = float(cohens_kappa(added).std_kappa) * (1 - added_chance)
        effective = share * (1 - share) / error**2
    limits = wilson_at(agreement * effective, effective, normal_quantile(confidence))
    low = max(beyond_chance(limits.low, chance), beyond_chance(least / n, chance))
    return estimate._replace(low=min(kappa, low), high=beyond_chance(limits.high, chance))


def cohen_kappa(
    first: Sequence[Hashable], second: Sequence[Hashable], confidence: float = 0.95
) -> Kappa:
    """Cohen's κ of two raters' labels of the same items; see :func:`kappa_of_table`."""
    return kappa_of_table(confusion(first, second).counts, confidence)


def more_labels(n: int) -> str:
    """What is said behind a κ of too few items for an interval; empty where they are enough."""
    if n >= LEAST_ITEMS:
        return ""
    return f" (of {n} answers; label {LEAST_ITEMS} or more, better 40, for an interval)"
