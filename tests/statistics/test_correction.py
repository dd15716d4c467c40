"""Corrected rates: the reference package, simulation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.statistics.correction import Sample, prediction_powered
from refract.statistics.proportions import wilson


def test_the_prediction_powered_rate_is_that_of_the_reference_package():
    labelled = [(1, 1)] * 50 + [(1, 0)] * 10 + [(0, 1)] * 14 + [(0, 0)] * 126
    human, judged = zip(*labelled, strict=True)
    result = prediction_powered(Sample(human, judged, [1] * 310 + [0] * 590))
    # ppi-python 0.2.3: ppi_mean_pointestimate, and ppi_mean_ci with alpha=.05
    assert result.rate == pytest.approx(0.31371301, abs=5e-9)
    assert (result.low, result.high) == pytest.approx((0.26540724, 0.36201878), abs=3e-3)


def test_the_labels_speak_alone_without_other_rows_and_with_a_judge_that_never_varies():
    alone = prediction_powered(Sample([True, False, False], [True, True, True], []))
    assert (alone.rate, alone.low, alone.high) == (1 / 3, *wilson(1, 3))
    assert alone.weight == 0.0
    clustered = prediction_powered(
        Sample([True, True, False, False] * 3, [1] * 12, [], "aabbccddeeff")
    )
    assert (clustered.low, clustered.high) != wilson(6, 12)
    constant = prediction_powered(Sample([True, False] * 20, [True] * 40, [True] * 500))
    assert (constant.rate, constant.weight) == (0.5, 0.0)
    assert prediction_powered(Sample([], [], [True, False])) is None


def estimate_by_hand(human, judged, others, confidence=0.95):
    """Rate, weight and the numbers that the interval is made of, with the imaginary rows as rows."""
    import numpy as np

    n, more, every = len(human), len(others), np.append(judged, others).astype(float)
    plain = np.cov(human, judged, ddof=0)[0, 1]
    weight = plain / ((1 + n / more) * every.var(ddof=1)) if every.std() else 0.0
    weight = min(1.0, max(0.0, weight))
    rate = np.mean(human) + weight * (np.mean(others) - np.mean(judged))
    quarters = np.append(np.ones(n), np.full(4, 0.25))
    corrected = np.append(human, [1, 1, 0, 0]) - weight * np.append(judged, [1, 0, 1, 0])
    variance = np.cov(corrected, ddof=0, aweights=quarters) / n
    half = np.append(np.ones(more), [0.5, 0.5])
    variance += weight**2 * np.cov(np.append(others, [1, 0]), ddof=0, aweights=half) / more
    centre = (rate * n + 0.5) / (n + 1)
    effective = centre * (1 - centre) / variance
    return rate, weight, variance, wilson(rate * effective, effective, confidence)


@pytest.mark.parametrize("cells", [(50, 10, 14, 126), (5, 3, 1, 20), (2, 9, 12, 3)])
@pytest.mark.parametrize(("positive", "negative"), [(310, 590), (4, 9), (1, 0)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_is_wilsons_at_the_number_of_rows_with_the_estimates_variance(
    cells, positive, negative, confidence
):
    both, human_only, judge_only, neither = cells
    human = [1] * (both + human_only) + [0] * (judge_only + neither)
    judged = [1] * both + [0] * human_only + [1] * judge_only + [0] * neither
    others = [1] * positive + [0] * negative
    found = prediction_powered(Sample(human, judged, others), confidence)
    rate, weight, _, limits = estimate_by_hand(human, judged, others, confidence)
    assert (found.rate, found.weight) == pytest.approx((rate, weight))
    assert (found.low, found.high) == pytest.approx(limits)


def test_clusters_raise_the_variance_by_the_design_effect_of_the_contributions():
    import numpy as np
    from scipy.stats import norm, t

    human, judged = [1, 1, 0, 0, 1, 0, 1, 0], [1, 1, 0, 0, 1, 1, 0, 0]
    others, names = [1, 1, 0, 1, 0, 0], "aabbccdd"
    found = prediction_powered(Sample(human, judged, others, names, "aabbee"))
    rate, weight, variance, _ = estimate_by_hand(human, judged, others)
    corrected = np.array(human) - weight * np.array(judged)
    contributions = np.append(
        (corrected - corrected.mean()) / 8, weight * (np.array(others) - 0.5) / 6
    )
    totals = dict.fromkeys("abcde", 0.0)
    for name, value in zip("aabbccddaabbee", contributions, strict=True):
        totals[name] += value
    effect = 5 / 4 * sum(x**2 for x in totals.values()) / np.square(contributions).sum()
    assert effect > 1
    equal = 14**2 / (16 + 16 + 4 + 4 + 4)  # clusters that would say as much
    effect *= (t.ppf(0.975, equal - 1) / norm.ppf(0.975)) ** 2
    centre = (rate * 8 + 0.5) / 9
    effective = centre * (1 - centre) / (variance * effect)
    assert (found.low, found.high) == pytest.approx(wilson(rate * effective, effective))


def test_clusters_that_are_all_alike_raise_the_variance_for_their_small_number_alone():
    from scipy.stats import norm, t

    found = prediction_powered(Sample([1] * 4, [1] * 4, [1] * 2, "aabb", "cc"))
    _, _, variance, _ = estimate_by_hand([1] * 4, [1] * 4, [1] * 2)
    centre = 4.5 / 5
    effective = centre * (1 - centre) / variance / (t.ppf(0.975, 2) / norm.ppf(0.975)) ** 2
    assert (found.low, found.high) == pytest.approx(wilson(effective, effective))


labelled_rows = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


@given(labelled_rows, st.lists(st.booleans(), max_size=60))
def test_a_prediction_powered_rate_lies_within_its_interval(labelled, others):
    human, judged = zip(*labelled, strict=True)
    result = prediction_powered(Sample(human, judged, others))
    assert 0 <= result.low <= result.rate + 1e-12
    assert result.rate <= result.high + 1e-12 <= 1 + 2e-12
    assert 0 <= result.weight <= 1


@pytest.mark.parametrize("human", [[True, False], [True, True]])
def test_rows_of_one_cluster_alone_give_no_rate(human):
    sample = Sample(human, [1.0, 0.0], [1.0], clusters=["a", "a"], clusters_others=["a"])
    assert prediction_powered(sample) is None
