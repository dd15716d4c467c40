"""Intervals and tests for clustered outcomes: published figures, other software, simulation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from refract.statistics.clusters import (
    Clustered,
    ClusteredValues,
    _common_denominator,
    clustered_contrast,
    clustered_contrast_test,
    clustered_difference,
    clustered_mcnemar,
    clustered_mean,
    effective_count,
    satterthwaite,
)
from refract.statistics.paired import tango
from refract.statistics.proportions import wilson

# Prompts that were not fully complied with, in each of XSTest's ten types of 25 safe prompts, by
# the human labels that Röttger et al. 2024 published
XSTEST_GPT_4 = [1, 0, 0, 0, 2, 14, 3, 0, 1, 0]
XSTEST_LLAMA_2 = [14, 20, 9, 13, 19, 20, 3, 10, 25, 16]


def _expanded(positives, size):
    outcomes = [i < k for k in positives for i in range(size)]
    clusters = [cluster for cluster in range(len(positives)) for _ in range(size)]
    return outcomes, clusters


def test_prompts_of_one_type_are_refused_together():
    gpt_4 = clustered_mean(*_expanded(XSTEST_GPT_4, 25))
    assert (gpt_4.value, gpt_4.n, gpt_4.clusters) == (0.084, 250, 10)
    assert gpt_4.se == pytest.approx(0.055, abs=6e-4)  # .018 without looking at the types
    assert gpt_4.design_effect == pytest.approx(9.64, abs=5e-3)
    llama_2 = clustered_mean(*_expanded(XSTEST_LLAMA_2, 25))
    assert llama_2.design_effect == pytest.approx(6.96, abs=5e-3)


def matrices(sizes, correlation):
    """CR2 of a mean as Bell & McCaffrey 2002 and Pustejovsky & Tipton 2018 have it, with n × n matrices:
    the weights of the values in each cluster's sum of residuals, and the degrees of freedom."""
    import numpy as np

    n, names = sum(sizes), np.repeat(range(len(sizes)), sizes)
    working = np.where(names[:, None] == names[None], correlation, 0.0)
    np.fill_diagonal(working, 1)
    residual = np.eye(n) - np.ones((n, n)) / n
    columns = []
    for name in range(len(sizes)):
        own = names == name
        values, vectors = np.linalg.eigh(residual[np.ix_(own, own)])
        adjusted = vectors @ np.diag(values**-0.5) @ vectors.T
        columns.append(residual[:, own] @ adjusted @ np.ones(own.sum()) / n)
    weights = np.array(columns).T
    covariance = weights.T @ working @ weights
    return weights, np.trace(covariance) ** 2 / np.trace(covariance @ covariance)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sizes", [[3, 1, 4, 2], [60, *[1] * 20], [30, 30, 30, *[1] * 39], [2, 3]])
def test_degrees_of_freedom_are_those_of_the_papers_matrices(sizes, correlation):
    _, freedom = matrices(sizes, correlation)
    assert satterthwaite(sizes, correlation) == pytest.approx(freedom)
    assert satterthwaite([7] * 5, correlation) == pytest.approx(4)


def test_the_standard_error_is_cr2_and_of_single_values_that_of_a_regression_with_hc2():
    import numpy as np
    from statsmodels.regression.linear_model import OLS

    rng = np.random.default_rng(3)
    clusters = np.sort(rng.integers(0, 12, size=90))
    outcomes = (rng.random(90) < 0.3 + 0.04 * clusters).astype(float)
    weights, _ = matrices(np.bincount(clusters).tolist(), 0.0)
    result = clustered_mean(outcomes.tolist(), clusters.tolist())
    assert result.se == pytest.approx(np.square(weights.T @ outcomes).sum() ** 0.5)
    alone = clustered_mean(outcomes.tolist(), range(90))
    fit = OLS(outcomes, np.ones(90)).fit(cov_type="HC2")
    assert alone.se == pytest.approx(float(fit.bse[0]), rel=1e-10)


def test_clusters_of_one_yes_or_no_and_scores_of_zero_have_wilsons_interval():
    outcomes = [True] * 30 + [False] * 70
    result = clustered_mean(outcomes, list(range(100)))
    assert result.design_effect == pytest.approx(100 / 99)
    assert (result.low, result.high) == wilson(30, 100)
    zeros = clustered_mean([0.0] * 50, range(50))
    assert (zeros.low, zeros.high) == wilson(0, 50)


def test_one_positive_never_narrows_the_interval_of_none():
    names = [i % 26 for i in range(150)]
    highs = [clustered_mean([True] * s + [False] * (150 - s), names).high for s in range(8)]
    assert highs == sorted(highs)


def effective_number(values, clusters, ends, confidence=0.95):
    """The effective number, with the imaginary cluster as clusters of which all values are one end."""
    import numpy as np
    from scipy.stats import norm, t

    names = sorted(set(clusters))
    sizes = np.array([list(clusters).count(name) for name in names], dtype=float)
    sums = np.array(
        [sum(v for v, c in zip(values, clusters, strict=True) if c == n) for n in names]
    )
    n, k = sizes.sum(), len(names)
    imaginary = (1 + n / k) / 2
    weights = np.append(np.ones(k), np.full(len(ends), 1 / len(ends)))
    sums = np.append(sums, imaginary * np.array(ends))
    all_sizes = np.append(sizes, np.full(len(ends), imaginary))
    mean = weights @ sums / (n + imaginary)
    # CR2 of the clusters, and the imaginary one as it is
    squared = (sums - mean * all_sizes) ** 2
    squared[:k] /= 1 - sizes / (n + imaginary)
    spread = weights @ squared
    squares = sum(abs(value) for value in values) + imaginary * np.mean(np.square(ends))
    independent = squares - (n + imaginary) * mean**2
    # the correlation within clusters that is seen
    residuals = np.array(values, float) - np.mean(values)
    labels = np.array(list(clusters))
    same = (labels[:, None] == labels[None]) & ~np.eye(len(labels), dtype=bool)
    products = np.outer(residuals, residuals)[same]
    seen = products.mean() / np.square(residuals).mean() if len(products) else 0.0
    _, freedom = matrices([int(size) for size in sizes], min(1.0, max(0.0, seen)))
    shrinkage = (norm.ppf((1 + confidence) / 2) / t.ppf((1 + confidence) / 2, freedom)) ** 2
    return n * independent / spread * shrinkage, k


UNEQUAL = [name for name, size in enumerate([6, 1, 4, 3, 2, 5]) for _ in range(size)]


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_of_clusters_is_wilsons_at_their_effective_number(confidence):
    outcomes = [True] * 7 + [False] * 8 + [True] * 3 + [False] * 3
    effective, _ = effective_number(outcomes, UNEQUAL, (0, 1), confidence)
    result = clustered_mean(outcomes, UNEQUAL, confidence)
    assert result.effective_n == pytest.approx(effective)
    limits = wilson(10 / 21 * effective, effective, confidence)
    assert (result.low, result.high) == pytest.approx(limits)
    totals = (6, 1, 0, 0, 1, 2), (6, 1, 4, 3, 2, 5)
    squares = 0.0
    for total, size in zip(*totals, strict=True):
        squares += (total - 10 / 21 * size) ** 2 / (1 - size / 21)
    assert result.se == pytest.approx(squares**0.5 / 21)
    assert result.design_effect == pytest.approx(result.se**2 / (10 / 21 * 11 / 21 / 21))
    assert (result.n, result.clusters) == (21, 6)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_of_paired_clusters_is_tangos_at_their_effective_number(confidence):
    first = [True] * 9 + [False] * 6 + [True] * 6
    second = [True] * 3 + [False] * 8 + [True] * 4 + [False] * 6
    changes = [a - b for a, b in zip(first, second, strict=True)]
    result = clustered_difference(first, second, UNEQUAL, confidence)
    effective, k = effective_number(changes, UNEQUAL, (0, 0, 1, -1), confidence)
    effective *= k / (k + 1)
    assert result.effective_n == pytest.approx(effective)
    # Positive in both, in the first alone, in the second alone, in neither.
    scaled = [count * effective / 21 for count in (3, 12, 4, 2)]
    limits = tango(*scaled, confidence)
    assert (result.value, result.low, result.high) == pytest.approx(limits)
    sizes = [UNEQUAL.count(name) for name in range(6)]
    sums = [sum(x for x, c in zip(changes, UNEQUAL, strict=True) if c == n) for n in range(6)]
    mean = sum(changes) / 21
    squares = 0.0
    for total, size in zip(sums, sizes, strict=True):
        squares += (total - mean * size) ** 2 / (1 - size / 21)
    assert result.se == pytest.approx(squares**0.5 / 21)
    plain = (sum(map(abs, changes)) - 21 * mean**2) / 21**2
    assert result.design_effect == pytest.approx(result.se**2 / plain)
    assert (result.n, result.clusters) == (21, 6)


def test_means_of_samples_have_tangos_interval_at_their_expected_shares():
    # 1 and 2/3 of three samples: 2/3 of a pair is positive in both, 1/3 in the first only.
    first, second = [1.0, 1 / 3, 2 / 3, 0.0], [2 / 3, 1.0, 1 / 3, 0.0]
    result = clustered_difference(first, second, "abcd")
    effective, k = effective_number(
        [a - b for a, b in zip(first, second, strict=True)], "abcd", (0, 0, 1, -1)
    )
    scale = effective * k / (k + 1) / 4
    shares = (4 / 3, 2 / 3, 2 / 3, 4 / 3)
    limits = tango(*(scale * share for share in shares))
    assert (result.value, result.low, result.high) == pytest.approx(limits, abs=1e-9)


@pytest.mark.parametrize(
    ("sizes", "equal"),
    [
        ([5] * 8, 8),
        ([60, *[1] * 20], 80**2 / 3620),
        ([64, 32, 16, 8, 4, 2, 1, 1, 1], 129**2 / 5463),
    ],
)
def test_clusters_of_unequal_size_are_as_few_as_kish_says(sizes, equal):
    assert effective_count(sizes) == pytest.approx(equal)
    names = [c for c, size in enumerate(sizes) for _ in range(size)]
    outcomes = [name % 2 == 0 for name in names]
    assert clustered_mean(outcomes, names).effective_clusters == pytest.approx(equal)
    assert clustered_difference(outcomes, outcomes, names).effective_clusters == pytest.approx(
        equal
    )


def test_means_of_samples_are_exchanged_as_they_are():
    # Two prompts of three samples each, which change by 2/3 and 1/3: 2 of 4 exchanges differ as much.
    assert clustered_mcnemar([1, 1], [1 / 3, 2 / 3], "ab") == pytest.approx(0.5)
    assert clustered_mcnemar([1, 1 / 3], [1 / 3, 1], "ab") == 1.0
    # With no common denominator up to 60, to the nearest 1/2520.
    first, second = [1 / 61, 1 / 59, 1 / 53], [0.0, 0.0, 0.0]
    assert clustered_mcnemar(first, second, "abc") == pytest.approx(2 / 8)


def test_one_cluster_has_no_interval_and_no_outcomes_have_no_rate():
    unknown = Clustered(0.5, 2, 1, 1.0)
    assert clustered_mean([True, False], "aa") == unknown
    assert clustered_difference([True, True], [False, False], "aa") == unknown._replace(value=1.0)


def test_means_whose_shares_add_up_to_more_than_their_number_by_rounding_have_a_difference():
    first, second = [0.6, 1.0], [1.0, 1.0]
    assert 2 - (0.6 + 1.0) - (1.0 - 0.6) < 0
    result = clustered_difference(first, second, "ab")
    assert result.value == pytest.approx(-0.2)
    assert -1 <= result.low < result.value < result.high <= 1
    assert clustered_mean([], []) is None
    assert clustered_difference([], [], []) is None
    assert clustered_mcnemar([], [], []) == 1.0


rows = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 5)), min_size=1, max_size=60)


@given(rows)
def test_clusters_never_make_an_interval_shorter_and_order_does_not_matter(rows):
    first, second, clusters = zip(*rows, strict=True)
    result = clustered_mean(first, clusters)
    if result.low is None:
        return
    plain = wilson(sum(first), len(rows))
    assert result.low <= plain.low + 1e-12
    assert result.high >= plain.high - 1e-12
    assert result.effective_n <= len(rows)
    assert result.high - result.low > 0
    difference = clustered_difference(first, second, clusters)
    assert -1 <= difference.low <= difference.value <= difference.high <= 1
    backwards = clustered_difference(first[::-1], second[::-1], clusters[::-1])
    assert backwards == pytest.approx(difference)


def mcnemar(b: int, c: int) -> float:
    """The exact p of pairs that disagree so often either way, and agree five times."""
    first = [True] * b + [False] * c + [True] * 5
    return clustered_mcnemar(first, [False] * b + [True] * c + [True] * 5, range(b + c + 5))


# b, c, p: closed form; vassarstats, as kept in statsmodels' test_nonparametric.py; Fagerland et al.
@pytest.mark.parametrize(
    ("b", "c", "p"),
    [
        (121, 59, 4e-06),
        (70, 59, 0.378688),
        (80, 59, 0.089452),
        (30, 60, 0.00206),
        (10, 30, 0.002221),
        (10, 10, 1.0),
        (6, 16, 0.052479),
        (8, 1, 0.0390625),
        (3, 0, 0.25),
        (0, 0, 1.0),
    ],
)
def test_the_clustered_test_of_single_pairs_is_mcnemars_with_its_published_p(b, c, p):
    assert mcnemar(b, c) == pytest.approx(p, abs=1e-6)
    assert mcnemar(c, b) == pytest.approx(p, abs=1e-6)


def test_the_clustered_test_counts_exchanges_of_whole_clusters():
    # Clusters change by +3, +1 and -1, together +3. Of the eight ways to turn them, 3+1+1, 3+1-1,
    # 3-1+1 and their opposites are at least as far from 0.
    first = [True] * 3 + [True] + [False]
    second = [False] * 3 + [False] + [True]
    assert clustered_mcnemar(first, second, [0, 0, 0, 1, 2]) == pytest.approx(6 / 8)


def changed(after, before, clusters):
    return ClusteredValues(after, clusters, before)


def test_the_test_of_a_contrast_counts_exchanges_of_whole_clusters():
    # Mean changes of +1 of two prompts and -1 of one: 2 = 1/2 + 1/2 + 1. Of the eight ways to turn
    # the three only this and its opposite are as far from 0.
    harmful, helpful = changed([1, 1], [0, 0], "ab"), changed([0], [1], "c")
    assert clustered_contrast_test(harmful, helpful) == pytest.approx(2 / 8)
    # In one cluster the two change places together: 1/2 + 1 against 1/2.
    shared = changed([0], [1], "b")
    assert clustered_contrast_test(harmful, shared) == pytest.approx(2 / 4)
    # 1/3 more of three of both, which cancels.
    alike = changed([1, 0, 0], [0, 0, 0], "abc"), changed([1, 1, 0], [1, 0, 0], "def")
    assert clustered_contrast_test(*alike) == 1.0
    # Against prompts that do not change it is the test of the one.
    still = changed([1, 0, 1], [1, 0, 1], "xyz")
    lost = changed([0.0] * 6, [1.0] * 6, range(6))
    assert clustered_contrast_test(lost, still) == pytest.approx(2 / 2**6)
    with pytest.raises(ValueError, match="need a value"):
        clustered_contrast_test(lost, changed([], [], ""))


def test_of_very_many_prompts_the_test_of_a_contrast_is_the_normal_approximation():
    # 250 of 401 changes one way among 1,000, of primes that share no divisor with 499.
    after = [1] * 250 + [0] * 750
    before = [0] * 250 + [1] * 151 + [0] * 599
    lost = changed(after, before, range(1000))
    still = changed([0.0] * 499, [0.0] * 499, range(2000, 2499))
    one = changed([1.0, *[0.0] * 498], [0.0] * 499, range(2000, 2499))
    exact = clustered_contrast_test(lost, still)
    assert exact == pytest.approx(clustered_mcnemar(after, before, range(1000)))
    # The sum of the squares of changes, each over its number of prompts, is the variance.
    z = (99 / 1000 - 1 / 499) / math.sqrt(401 / 1000**2 + 1 / 499**2)
    assert clustered_contrast_test(lost, one) == pytest.approx(2 * norm.sf(z), rel=1e-3)


def _apart(k, n, name):
    return ClusteredValues([float(i < k) for i in range(n)], [f"{name}{i}" for i in range(n)])


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((0, 10), (0, 10), -0.2775, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_a_contrast_without_shared_clusters_has_newcombes_interval(one, other, low, high):
    # Newcombe 1998, Statistics in Medicine 17:873, table II, method 10
    found = clustered_contrast(_apart(*one, "a"), _apart(*other, "b"))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    assert found.value == pytest.approx(one[0] / one[1] - other[0] / other[1])
    turned = clustered_contrast(_apart(*other, "b"), _apart(*one, "a"))
    assert (-turned.high, -turned.low) == pytest.approx((found.low, found.high))


def test_a_contrast_of_one_cluster_or_without_one_side_has_no_interval():
    assert clustered_contrast(ClusteredValues([], []), _apart(1, 2, "a")) is None
    alone = clustered_contrast(ClusteredValues([1.0, 0.0], "aa"), ClusteredValues([0.0], "a"))
    assert (alone.value, alone.low, alone.n, alone.clusters) == (0.5, None, 3, 1)
    # One side is of one cluster, which shows nothing of how clusters differ.
    half = clustered_contrast(ClusteredValues([1.0, 0.0], "aa"), _apart(1, 3, "b"))
    assert (half.value, half.low, half.se, half.n, half.clusters) == (
        pytest.approx(1 / 6), None, None, 5, 4,
    )  # fmt: skip


def test_the_distances_of_a_contrasts_limits_are_correlated_as_the_clusters_residuals_are():
    one = ClusteredValues([1.0, 1.0, 0.0, 1.0, 0.0], "aabcd")
    other = ClusteredValues([1.0, 0.0, 0.0], "abe")
    first, second = (clustered_mean(x.values, x.clusters) for x in (one, other))
    # Residuals by cluster: a .8, b -.6, c .4, d -.6 of mean .6; a 2/3, b and e -1/3 of mean 1/3.
    shared = 0.8 * 2 / 3 + 0.6 / 3
    spreads = 1.52 + ((1 + 5 / 4) / 2) ** 2 / 4, 2 / 3 + 1 / 4
    r = shared / (spreads[0] * spreads[1]) ** 0.5

    def apart(a: float, b: float) -> float:
        return (a * a + b * b - 2 * r * a * b) ** 0.5

    found = clustered_contrast(one, other)
    value = 0.6 - 1 / 3
    low = value - apart(first.value - first.low, second.high - second.value)
    high = value + apart(first.high - first.value, second.value - second.low)
    assert (found.value, found.low, found.high) == pytest.approx((value, low, high))
    assert found.se == pytest.approx(apart(first.se, second.se))
    alone = first.se**2 / first.design_effect + second.se**2 / second.design_effect
    assert found.design_effect == pytest.approx(found.se**2 / alone)
    assert (found.n, found.clusters, found.effective_n) == (8, 5, None)
    assert found.effective_clusters == pytest.approx(64 / (9 + 4 + 1 + 1 + 1))


def test_the_test_of_a_contrast_takes_shares_of_samples_as_whole_changes():
    def p(size: float) -> float:
        sample = ClusteredValues([size, size, 0], "abc", [0, 0, 0])
        other = ClusteredValues([0, 0, size], "def", [0, size, 0])
        return clustered_contrast_test(sample, other)

    # Four clusters changed: 10 of the 16 exchanges are as far from none.
    assert p(1) == p(1 / 3) == 10 / 16
    assert [_common_denominator([1 / n]) for n in (1, 60, 61)] == [1, 60, 2520]


@pytest.mark.parametrize("changed", [0, 1, 3])
def test_a_difference_of_clusters_the_other_way_round_is_its_mirror_image(changed):
    clusters = [place // 5 for place in range(30)]
    after, before = [1] * changed + [0] * (30 - changed), [0] * 30
    up = clustered_difference(after, before, clusters)
    down = clustered_difference(before, after, clusters)
    assert (down.low, down.high) == pytest.approx((-up.high, -up.low))
