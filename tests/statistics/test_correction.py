"""Corrected rates: published examples, the reference package, simulation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refract.statistics.correction import (
    Corrected,
    Sample,
    prediction_powered,
    prediction_powered_difference,
    rogan_gladen,
)
from refract.statistics.proportions import wilson


def test_rogan_gladen_gives_the_first_example_of_lang_and_reiczigel():
    result = rogan_gladen(4060, 11284, 178, 179, 358, 359)
    assert (result.low, result.high) == pytest.approx((0.349, 0.372), abs=5e-4)


def test_a_small_sample_is_corrected_by_the_equations_of_lang_and_reiczigel():
    # 10 of 50 alarms, 18 of 20 true cases found, 27 of 30 others left alone; z² = 3.8415
    apparent = (10 + 1.9207) / 53.8415
    sensitivity, specificity = 19 / 22, 28 / 32
    j = sensitivity + specificity - 1
    rate = (apparent + specificity - 1) / j
    errors = (rate * (19 * 3) / 22**3, (1 - rate) * (28 * 4) / 32**3)
    centre = rate + 2 * 3.8415 * (errors[0] - errors[1])
    variance = apparent * (1 - apparent) / 53.8415 + rate * errors[0] + (1 - rate) * errors[1]
    result = rogan_gladen(10, 50, 18, 20, 27, 30)
    assert result.rate == pytest.approx(0.1 / 0.8)
    assert result.low == 0.0
    assert result.high == pytest.approx(centre + 1.96 * variance**0.5 / j, abs=1e-4)


NOTHING = Corrected(None, 0.0, 1.0)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((30, 100, 25, 50, 25, 50), NOTHING),  # a judge no better than chance
        ((30, 100, 5, 50, 5, 50), NOTHING),
        # 116 of 129 harmful prompts refused by a fixed rule, which the judge reads rightly; on the
        # labelled pairs it found 140 of 176 refusals and left 180 of 188 other answers alone.
        ((116, 129, 140, 176, 180, 188), NOTHING._replace(contradicted=True)),
        # fewer alarms than the labelled negatives give
        ((1, 100, 140, 176, 180, 188), NOTHING._replace(contradicted=True)),
        ((0, 0, 1, 1, 1, 1), None),  # without rows, or without labels of a kind
        ((1, 2, 0, 0, 1, 1), None),
        ((1, 2, 1, 1, 0, 0), None),
    ],
)
def test_what_the_judges_errors_do_not_allow_is_no_certain_rate(counts, expected):
    assert rogan_gladen(*counts) == expected


@pytest.mark.parametrize(
    ("counts", "rate"),
    [
        ((48, 100, 90, 100, 80, 100), 0.4),  # 40 of 100 true: .9 of 40 and .2 of 60 are alarms
        ((30, 100, 50, 50, 50, 50), 0.3),  # a perfect judge
        ((100, 100, 50, 50, 50, 50), 1.0),
        ((0, 100, 50, 50, 50, 50), 0.0),
    ],
)
def test_the_corrected_rate_inverts_the_judges_errors_and_has_a_wider_interval(counts, rate):
    result = rogan_gladen(*counts)
    assert result.rate == pytest.approx(rate)
    plain = wilson(counts[0], 100)
    assert result.high - result.low > 1.05 * (plain.high - plain.low)


def _part(most):
    return st.integers(0, most).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(deadline=None)
@given(_part(400), _part(60), _part(60))
def test_a_corrected_rate_is_a_rate_within_its_interval(rows, positives, negatives):
    result = rogan_gladen(*rows, *positives, *negatives)
    if result is None:
        assert 0 in (rows[1], positives[1], negatives[1])
    elif result.rate is not None:
        assert 0 <= result.low <= result.rate <= result.high <= 1
        assert result.low < result.high


@pytest.mark.parametrize(
    ("rate", "sensitivity", "specificity", "n", "labelled"),
    [(0.5, 0.9, 0.9, 300, 100), (0.1, 0.95, 0.97, 300, 150), (0.8, 0.85, 0.95, 500, 100)],
)
def test_rogan_gladen_covers_nineteen_times_in_twenty(rate, sensitivity, specificity, n, labelled):
    import numpy as np

    rng = np.random.default_rng(31)
    alarms = rate * sensitivity + (1 - rate) * (1 - specificity)
    x = rng.binomial(n, alarms, size=4000).tolist()
    tp = rng.binomial(labelled, sensitivity, size=4000).tolist()
    tn = rng.binomial(labelled, specificity, size=4000).tolist()
    covered = sum(
        low <= rate <= high
        for _, low, high, _ in (
            rogan_gladen(a, n, b, labelled, c, labelled) for a, b, c in zip(x, tp, tn, strict=True)
        )
    )
    assert 0.93 < covered / 4000 < 0.97


def _run(rng, n, rate, sensitivity, specificity):
    import numpy as np

    truth = rng.random(n) < rate
    judged = np.where(truth, rng.random(n) < sensitivity, rng.random(n) >= specificity)
    return truth, judged


def test_the_prediction_powered_rate_is_that_of_the_reference_package():
    labelled = [(1, 1)] * 50 + [(1, 0)] * 10 + [(0, 1)] * 14 + [(0, 0)] * 126
    human, judged = zip(*labelled, strict=True)
    result = prediction_powered(Sample(human, judged, [1] * 310 + [0] * 590))
    # ppi-python 0.2.3: ppi_mean_pointestimate, and ppi_mean_ci with alpha=.05
    assert result.rate == pytest.approx(0.31371301, abs=5e-9)
    assert (result.low, result.high) == pytest.approx((0.26540724, 0.36201878), abs=3e-3)
    assert (result.labelled, result.unlabelled) == (200, 900)


def test_the_labels_speak_alone_without_other_rows_and_with_a_judge_that_never_varies():
    alone = prediction_powered(Sample([True, False, False], [True, True, True], []))
    assert (alone.rate, alone.low, alone.high) == (1 / 3, *wilson(1, 3))
    assert (alone.weight, alone.unlabelled) == (0.0, 0)
    constant = prediction_powered(Sample([True, False] * 20, [True] * 40, [True] * 500))
    assert (constant.rate, constant.weight) == (0.5, 0.0)
    labelled, others = Sample([True, False], [True, False], [True]), Sample([], [], [True, False])
    assert prediction_powered(others) is None
    assert prediction_powered_difference(labelled, others) is None


def test_a_good_judge_shortens_the_interval_of_the_labels_alone():
    import numpy as np

    truth, judged = _run(np.random.default_rng(5), 1000, 0.4, 0.95, 0.95)
    result = prediction_powered(Sample(truth[:100], judged[:100], judged[100:]))
    alone = wilson(int(truth[:100].sum()), 100)
    assert result.high - result.low < 0.75 * (alone.high - alone.low)


labelled_rows = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


@settings(deadline=None)
@given(labelled_rows, st.lists(st.booleans(), max_size=60))
def test_a_prediction_powered_rate_lies_within_its_interval(labelled, others):
    human, judged = zip(*labelled, strict=True)
    result = prediction_powered(Sample(human, judged, others))
    assert 0 <= result.low <= result.rate + 1e-12
    assert result.rate <= result.high + 1e-12 <= 1 + 2e-12
    assert 0 <= result.weight <= 1


@pytest.mark.parametrize(
    ("rate", "sensitivity", "specificity", "labelled", "others"),
    [
        (0.5, 0.9, 0.9, 100, 900),
        (0.1, 0.95, 0.95, 100, 400),
        (0.1, 0.99, 0.99, 50, 450),
        (0.9, 0.8, 0.9, 150, 1000),
        (0.02, 0.95, 0.95, 300, 1000),
    ],
)
def test_prediction_powered_intervals_cover_nineteen_times_in_twenty(
    rate, sensitivity, specificity, labelled, others
):
    import numpy as np

    rng = np.random.default_rng(37)
    covered = 0
    for _ in range(2000):
        truth, judged = _run(rng, labelled + others, rate, sensitivity, specificity)
        _, low, high, *_ = prediction_powered(
            Sample(
                truth[:labelled].tolist(), judged[:labelled].tolist(), judged[labelled:].tolist()
            )
        )
        covered += low <= rate <= high
    assert 0.93 < covered / 2000 < 0.97


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rogan_gladen(3, 2, 1, 1, 1, 1), r"positives must be at most n \(got 3 of 2\)"),
        (lambda: rogan_gladen(1, 2, 3, 1, 1, 1), r"true_positives must be at most labelled_pos"),
        (lambda: rogan_gladen(1, 2, 1, 1, 3, 1), r"true_negatives must be at most labelled_neg"),
        (lambda: prediction_powered(Sample([True], [], [])), r"of the same length \(got 1 and 0\)"),
        (
            lambda: prediction_powered(Sample([True], [True], [True], ["a"], [])),
            "got 1 and 0 names for 1 and 1 rows",
        ),
    ],
)
def test_impossible_counts_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("clusters", "size", "correlation", "rate", "labelled"),
    [(26, 5, 0.4, 0.5, 50), (26, 5, 0.4, 0.8, 50), (60, 4, 0.3, 0.2, 80), (10, 13, 0.3, 0.5, 60)],
)
def test_prediction_powered_intervals_cover_where_rows_come_in_clusters(
    clusters, size, correlation, rate, labelled
):
    import numpy as np

    rng = np.random.default_rng(43)
    names = np.repeat(np.arange(clusters), size)
    spread = 1 / correlation - 1
    covered = alone = 0
    for _ in range(500):
        rates = rng.beta(rate * spread, (1 - rate) * spread, clusters)
        errors = rng.beta(0.6, 5.4, clusters)  # the judge errs more in some clusters
        truth = rng.random(len(names)) < rates[names]
        judged = truth ^ (rng.random(len(names)) < errors[names])
        order = rng.permutation(len(names))
        taken, rest = order[:labelled], order[labelled:]
        parts = truth[taken].tolist(), judged[taken].tolist(), judged[rest].tolist()
        found = prediction_powered(Sample(*parts, names[taken].tolist(), names[rest].tolist()))
        plain = prediction_powered(Sample(*parts))
        covered += found.low <= rate <= found.high
        alone += plain.low <= rate <= plain.high
    assert covered / 500 > 0.92
    assert alone < covered


@pytest.mark.parametrize("labelled", [40, 100])
def test_the_corrected_difference_of_two_models_covers_though_the_judge_errs_on_one_alone(labelled):
    import numpy as np

    rng = np.random.default_rng(47)
    covered = 0
    for _ in range(500):
        ease = rng.random(300)
        truths = [ease < 0.5, (ease < 0.45) ^ (rng.random(300) < 0.05)]
        judged = [truths[0] ^ (rng.random(300) < 0.02), truths[1] & (rng.random(300) < 0.7)]
        true = 0.5 - (0.45 * 0.95 + 0.55 * 0.05)
        order = rng.permutation(300)
        taken, rest = order[:labelled], order[labelled:]
        samples = [
            Sample(t[taken].tolist(), j[taken].tolist(), j[rest].tolist(), list(taken), list(rest))
            for t, j in zip(truths, judged, strict=True)
        ]
        found = prediction_powered_difference(*samples)
        covered += found.low <= true <= found.high
    assert covered / 500 > 0.92
