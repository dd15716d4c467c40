"""Intervals and tests for clustered outcomes: published figures, other software, simulation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refract.statistics.clusters import (
    Clustered,
    clustered_difference,
    clustered_mcnemar,
    clustered_proportion,
)
from refract.statistics.paired import count_pairs, mcnemar_exact, newcombe_paired
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
    gpt_4 = clustered_proportion(*_expanded(XSTEST_GPT_4, 25))
    assert (gpt_4.value, gpt_4.n, gpt_4.clusters) == (0.084, 250, 10)
    assert gpt_4.se == pytest.approx(0.055, abs=6e-4)  # .018 without looking at the types
    assert gpt_4.design_effect == pytest.approx(9.64, abs=5e-3)
    llama_2 = clustered_proportion(*_expanded(XSTEST_LLAMA_2, 25))
    assert llama_2.design_effect == pytest.approx(6.96, abs=5e-3)


def test_the_standard_error_is_that_of_a_regression_with_clustered_errors():
    import numpy as np
    from statsmodels.regression.linear_model import OLS

    rng = np.random.default_rng(3)
    clusters = np.sort(rng.integers(0, 12, size=90))
    outcomes = rng.random(90) < 0.3 + 0.04 * clusters
    fit = OLS(outcomes.astype(float), np.ones(90)).fit(
        cov_type="cluster", cov_kwds={"groups": clusters}
    )
    result = clustered_proportion(outcomes.tolist(), clusters.tolist())
    assert result.se == pytest.approx(float(fit.bse[0]), rel=1e-10)


def test_clusters_of_one_outcome_give_nearly_the_plain_interval():
    outcomes = [True] * 30 + [False] * 70
    result = clustered_proportion(outcomes, list(range(100)))
    assert result.design_effect == pytest.approx(100 / 99)
    assert (result.low, result.high) == pytest.approx(wilson(30, 100), abs=4e-3)
    assert result.low < wilson(30, 100).low


def test_outcomes_that_do_not_vary_count_once_for_each_cluster():
    outcomes, clusters = _expanded([0, 0, 0, 0], 50)
    assert clustered_proportion(outcomes, clusters) == Clustered(
        0.0, 0.0, wilson(0, 4).high, 0.0, None, 4.0, 200, 4
    )
    everything = clustered_proportion([not o for o in outcomes], clusters)
    assert (everything.low, everything.high) == (wilson(4, 4).low, 1.0)


def test_one_cluster_has_no_interval():
    assert clustered_proportion([True, False], ["a", "a"]) == Clustered(
        0.5, None, None, None, None, None, 2, 1
    )
    assert clustered_difference([True], [False], ["a"]) == Clustered(
        1.0, None, None, None, None, None, 1, 1
    )


def test_no_outcomes_have_no_rate():
    assert clustered_proportion([], []) is None
    assert clustered_difference([], [], []) is None
    assert clustered_mcnemar([], [], []) == 1.0


rows = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 5)), min_size=1, max_size=60)


@settings(deadline=None)
@given(rows)
def test_clusters_never_make_an_interval_shorter_and_order_does_not_matter(rows):
    first, second, clusters = zip(*rows, strict=True)
    result = clustered_proportion(first, clusters)
    if result.low is None:
        return
    plain = wilson(sum(first), len(rows))
    assert result.low <= plain.low + 1e-12
    assert result.high >= plain.high - 1e-12
    assert result.effective_n <= len(rows)
    difference = clustered_difference(first, second, clusters)
    assert -1 <= difference.low <= difference.value <= difference.high <= 1
    backwards = clustered_difference(first[::-1], second[::-1], clusters[::-1])
    assert backwards == pytest.approx(difference)


def test_the_difference_of_unclustered_pairs_is_nearly_newcombes():
    first = [True] * 50 + [False] * 50
    second = [True] * 30 + [False] * 50 + [True] * 20
    result = clustered_difference(first, second, list(range(100)))
    plain = newcombe_paired(*count_pairs(first, second))
    assert (result.value, result.low, result.high) == pytest.approx(plain, abs=4e-3)


def _correlated(rng, clusters, size, rate, correlation):
    """Outcomes of equal clusters: beta-binomial."""
    spread = 1 / correlation - 1
    rates = rng.beta(rate * spread, (1 - rate) * spread, size=clusters)
    return (rng.random((clusters, size)) < rates[:, None]).ravel().tolist()


@pytest.mark.parametrize(
    ("clusters", "size", "rate", "correlation"),
    [(10, 25, 0.5, 0.1), (10, 25, 0.5, 0.3), (30, 5, 0.1, 0.1), (60, 4, 0.3, 0.3)],
)
def test_the_interval_of_a_clustered_rate_covers_nineteen_times_in_twenty(
    clusters, size, rate, correlation
):
    import numpy as np

    rng = np.random.default_rng(19)
    names = [c for c in range(clusters) for _ in range(size)]
    covered = plain_covered = 0
    for _ in range(1500):
        outcomes = _correlated(rng, clusters, size, rate, correlation)
        result = clustered_proportion(outcomes, names)
        plain = wilson(sum(outcomes), len(outcomes))
        covered += result.low <= rate <= result.high
        plain_covered += plain.low <= rate <= plain.high
    assert 0.93 < covered / 1500 < 0.97
    assert plain_covered < covered


def test_the_interval_of_a_clustered_difference_covers_nineteen_times_in_twenty():
    import numpy as np

    rng = np.random.default_rng(23)
    prompts, variants, covered = 30, 5, 0
    names = [c for c in range(prompts) for _ in range(variants)]
    for _ in range(1500):
        base = rng.beta(1, 1, size=prompts)[:, None]
        first = (rng.random((prompts, variants)) < 0.2 + 0.8 * base).ravel().tolist()
        second = (rng.random((prompts, variants)) < 0.8 * base).ravel().tolist()
        result = clustered_difference(first, second, names)
        covered += result.low <= 0.2 <= result.high
    assert 0.93 < covered / 1500 < 0.975


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80))
def test_the_clustered_test_of_single_pairs_is_mcnemars(pairs):
    first, second = zip(*pairs, strict=True)
    counts = count_pairs(first, second)
    p = clustered_mcnemar(first, second, range(len(pairs)))
    assert p == pytest.approx(mcnemar_exact(counts.first_only, counts.second_only), abs=1e-9)


def test_the_clustered_test_counts_exchanges_of_whole_clusters():
    # Clusters change by +3, +1 and -1, together +3. Of the eight ways to turn them, 3+1+1, 3+1-1,
    # 3-1+1 and their opposites are at least as far from 0.
    first = [True] * 3 + [True] + [False]
    second = [False] * 3 + [False] + [True]
    assert clustered_mcnemar(first, second, [0, 0, 0, 1, 2]) == pytest.approx(6 / 8)


def test_the_clustered_test_rejects_a_true_null_at_most_one_time_in_twenty():
    import numpy as np

    rng = np.random.default_rng(29)
    names = [c for c in range(20) for _ in range(10)]
    rejected = plain_rejected = 0
    for _ in range(600):
        base = rng.normal(size=20)[:, None]
        tilt = rng.normal(size=20)[:, None]
        noise = rng.random((2, 20, 10))
        first = (noise[0] < 1 / (1 + np.exp(-base - tilt))).ravel().tolist()
        second = (noise[1] < 1 / (1 + np.exp(-base + tilt))).ravel().tolist()
        counts = count_pairs(first, second)
        rejected += clustered_mcnemar(first, second, names) <= 0.05
        plain_rejected += mcnemar_exact(counts.first_only, counts.second_only) <= 0.05
    assert 0.02 < rejected / 600 < 0.07
    assert plain_rejected / 600 > 0.2


@pytest.mark.parametrize(
    "call",
    [
        lambda: clustered_proportion([True], []),
        lambda: clustered_difference([True], [True], []),
        lambda: clustered_mcnemar([True], [True], []),
    ],
)
def test_an_outcome_without_a_cluster_is_refused(call):
    with pytest.raises(ValueError, match=r"cluster.*\(got 1"):
        call()
