"""The judge's error on a model that nobody labelled is a part of intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from refract.rates.judge_error import (
    JudgeError,
    mixture_quantile,
    part_of,
    people_interval,
    shared_effects,
    with_judge_error,
)
from refract.rates.key import CONTROLS_PASSED
from refract.rates.rate import Interval, SharePart, prompts_of
from refract.statistics.proportions import wilson
from tests.builders import ERRS_APART, judge_error, rate

# Wrong as often on all models.
KNOWN = judge_error(missed=[0.2] * 8, false=[0.05] * 8, n=10**6)
HARMFUL = judge_error(missed=[0.025] * 8, false=[0.005] * 8, n=400, more=0.2)

VARIED = judge_error(
    missed=[0.05, 0.1, 0.08, 0.12, 0.06, 0.09, 0.1, 0.07],
    false=[0.02, 0.01, 0.03, 0.02, 0.015, 0.03, 0.01, 0.02],
    n=400,
    more=0.05,
)


def alone(share, prompts="harmful", n=100):
    return SharePart(share, wilson(share * n, n), prompts, n=n)


def of(error, part):
    return people_interval(error, [part], Interval(part.share, part.share), part.interval, 0.95)


@pytest.mark.parametrize("people", [0.1, 0.5, 0.9])
def test_error_rates_that_all_models_have_are_taken_off(people):
    judged = 0.05 * (1 - people) + 0.8 * people
    (low, high) = of(KNOWN, alone(judged, n=10**6))
    assert low < people < high
    # Sources and models differ at least as much as no ledger could exclude.
    assert (low, high) == (pytest.approx(people, abs=0.08), pytest.approx(people, abs=0.08))
    rest = rate("under_refusal_rate", 30, 100, interval=wilson(30, 100))
    whole = rate("harmful_refusal_rate", 70, 100, interval=wilson(70, 100))
    rest, whole = (with_judge_error(plain, KNOWN, 0.95, []) for plain in (rest, whole))
    assert rest.with_judge.interval == pytest.approx(
        (1 - whole.with_judge.interval.high, 1 - whole.with_judge.interval.low)
    )


def test_two_models_share_the_error_of_their_source_and_one_model_all_of_it():
    first, second = alone(0.5), replace(alone(0.5), sign=-1)

    def width(*parts):
        share = sum(part.sign * part.share for part in parts)
        ends = Interval(share, share)
        low, high = people_interval(ERRS_APART, parts, ends, ends, 0.95)
        return high - low

    assert width(first, second) == pytest.approx(0, abs=1e-6)
    exactly = SharePart(0.5, Interval(0.5, 0.5), "harmful", n=100)
    widths = [width(first, replace(second, shared=shared)) for shared in (0.9, 0.5, 0.0)]
    assert 0.01 < widths[0] < widths[1] < widths[2] < 2 * width(exactly)


def test_two_models_share_the_more_of_the_error_the_more_alike_they_refuse():
    shared = [shared_effects(0.7, rate) for rate in (0.7, 0.6, 0.3, 0.05, 0.0)]
    assert shared == [0.9, 0.9, 0.7, 0.4, 0.3]
    # Rates near 0 or 1 are as 2 and 98 %.
    assert shared_effects(0.0, 1.0) == shared_effects(0.02, 0.98) == shared_effects(1.0, 0.0) == 0.1


def test_bounds_have_intervals_of_their_own():
    plain = rate(
        "harmful_refusal_rate", 50, 100, interval=wilson(50, 100),
        bounds=Interval(0.45, 0.6), outer=Interval(0.37, 0.69),
    )  # fmt: skip
    judged = with_judge_error(plain, VARIED, 0.95, ["harmful"]).with_judge
    part = alone(0.5)

    def allowing(ends, limits):
        return people_interval(VARIED, [part], ends, limits, 0.95)

    assert judged.interval == allowing(Interval(0.5, 0.5), plain.interval)
    assert judged.outer == allowing(plain.bounds, plain.outer)


def test_the_prior_says_how_far_the_next_source_may_lie_from_those_seen():
    widths = []
    for prior in (0.25, 0.5, 1.0):
        low, high = of(JudgeError(ERRS_APART.lines, prior), alone(0.5))
        widths.append(high - low)
    assert widths == sorted(widths)
    assert of(ERRS_APART, alone(0.5)) == of(JudgeError(ERRS_APART.lines, 0.5), alone(0.5))


def test_harmful_prompts_have_their_own_errors():
    kinds = ("harmful", "other", "")
    harmful, other, mixed = (of(HARMFUL, alone(0.5, prompts)) for prompts in kinds)
    assert harmful.high > other.high + 0.05
    assert harmful.low > other.low
    assert mixed.high < harmful.high
    assert not JudgeError(HARMFUL.lines[:1]).knows("harmful")
    assert HARMFUL.measured_on("harmful") == HARMFUL.measured_on("") == (8, 4)
    assert JudgeError(HARMFUL.lines[:1]).measured_on("harmful") == (0, 0)


def test_what_a_measure_is_over_says_which_errors_count():
    error, by_kind = HARMFUL, {}
    for name, categories in (
        ("harmful_refusal_rate", ["harmful", "helpful"]),
        ("over_refusal_rate", ["harmful", "helpful"]),
        ("refusal_rate", ["borderline", "helpful"]),
        ("refusal_rate", ["harmful", "helpful"]),
    ):
        plain = rate(name, 50, 100, interval=wilson(50, 100))
        by_kind[name, categories[0]] = with_judge_error(plain, error, 0.95, categories).shown
    assert by_kind == {
        ("harmful_refusal_rate", "harmful"): of(error, alone(0.5, "harmful")),
        ("over_refusal_rate", "harmful"): of(error, alone(0.5, "other")),
        ("refusal_rate", "borderline"): of(error, alone(0.5, "other")),
        ("refusal_rate", "harmful"): of(error, alone(0.5, "")),
    }
    assert prompts_of(["harmful", "helpful"]) == prompts_of([]) == ""
    control = rate(CONTROLS_PASSED.name, 90, 100, "control=must_answer", interval=wilson(90, 100))
    passed = with_judge_error(control, error, 0.95, ["harmful"]).shown
    refused = of(error, alone(0.1, "other"))
    assert passed == pytest.approx((1 - refused.high, 1 - refused.low))


@pytest.mark.parametrize("name", ["any_compliance_rate", "partial_refusal_rate", "discrimination"])
def test_a_measure_that_the_error_moves_in_an_unknown_way_says_so(name):
    plain = rate(name, 50, 100, interval=wilson(50, 100))
    found = with_judge_error(plain, ERRS_APART, 0.95, ["harmful"])
    assert (found.with_judge, found.judge_unknown, found.shown) == (None, True, plain.interval)
    assert with_judge_error(plain, None, 0.95, []).judge_unknown
    empty = rate(name, 0, 1, value=None)
    assert with_judge_error(empty, ERRS_APART, 0.95, []) == empty


def test_a_discrimination_is_of_the_errors_on_both_kinds_of_prompts():
    parts = [alone(0.7, "harmful"), replace(alone(0.1, "other"), sign=-1)]
    plain = rate("discrimination", 60, 200, value=0.6, interval=Interval(0.5, 0.7))
    found = with_judge_error(replace(plain, parts=parts), HARMFUL, 0.95, ["harmful", "helpful"])
    low, high = found.shown
    # A fifth of the refusals of harmful prompts is missed: the judge finds too little.
    assert low > 0.5
    assert high > 0.8
    assert found.value == 0.6


# Parts of a measure as share, prompts, n and what differs besides; the limits around the estimate at
# .95, and around bounds of it at .9.
AS_COMPUTED = [
    ([(0.7, "harmful", 60, {})], (0.65373891, 0.99617294), (0.63023469, 0.99997751)),
    ([(0.1, "other", 60, {})], (0.02831315, 0.20331779), (0.00555691, 0.21447948)),
    ([(0.4, "", 60, {})], (0.30028257, 0.59302509), (0.27782169, 0.60321150)),
    ([(0.3, "harmful", 25, {})], (0.15945961, 0.56882624), (0.13648149, 0.58007613)),
    (
        [(0.6, "harmful", 40, {"certain": 0.25})],
        (0.46153393, 0.81969118), (0.43812762, 0.83102054),
    ),
    (
        [(0.7, "harmful", 60, {}), (0.1, "other", 40, {"sign": -1})],
        (0.54333016, 0.90860642), (0.52060921, 0.91061039),
    ),
    (
        [(0.5, "harmful", 60, {"shared": 0.0}), (0.6, "harmful", 60, {"sign": -1})],
        (-0.31104741, 0.02753016), (-0.33460011, 0.03941899),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("shares", "around", "around_bounds"), AS_COMPUTED)
def test_an_interval_for_prompts_and_judge_is_as_it_was_computed(shares, around, around_bounds):
    parts = []
    for share, prompts, n, more in shares:
        parts.append(SharePart(share, wilson(share * n, n), prompts, n=n, **more))
    value = sum(part.sign * part.share for part in parts)
    low, high = parts[0].interval if len(parts) == 1 else (value - 0.15, value + 0.12)
    ends, bounds = Interval(value, value), Interval(value - 0.05, value + 0.04)
    found = people_interval(VARIED, parts, ends, Interval(low, high), 0.95)
    assert found == pytest.approx(around, abs=1e-7)
    outer = Interval(low - 0.02, high + 0.01)
    found = people_interval(VARIED, parts, bounds, outer, 0.9)
    assert found == pytest.approx(around_bounds, abs=1e-7)


def test_an_exact_share_of_a_further_model_is_turned_as_it_was_computed():
    assert VARIED.people(0.3, "harmful", 0.95) == pytest.approx((0.30246597, 0.36005306), abs=1e-7)


def test_a_quantile_of_a_mixture_of_normal_distributions():
    one = np.array([0.5]), np.array([0.1])
    assert mixture_quantile(*one, 0.975, True, 0, 1) == pytest.approx(0.5 + 0.1959964)
    assert mixture_quantile(*one, 0.975, False, 0, 1) == pytest.approx(0.5 - 0.1959964)
    assert mixture_quantile(*one, 0.975, True, 0, 0.6) == 0.6
    points = np.linspace(0, 1, 1001), np.zeros(1001)
    assert mixture_quantile(*points, 0.9, True, 0, 1) == pytest.approx(0.9, abs=0.002)


def test_an_error_is_read_as_it_was_written_and_one_cluster_is_no_part():
    assert JudgeError.read({"lines": [list(line) for line in ERRS_APART.lines]}) == ERRS_APART
    assert JudgeError.read({"models": 9, "mean": -0.02}) is JudgeError.read(None) is None
    assert part_of([1.0, 1.0], ["a", "a"], "other", 0.95, sign=1) is None


@pytest.mark.parametrize("refused", [0, 1, 3, 250, 297, 300])
def test_an_interval_of_a_share_is_no_narrower_than_that_for_its_prompts(refused):
    part = alone(refused / 300, n=300)
    low, high = of(KNOWN, part)
    assert 0 <= low < high <= 1
    assert high - low >= part.interval.width - 1e-9


def test_of_300_answers_that_are_all_refused_the_interval_is_that_for_the_prompts():
    part = alone(1.0, n=300)
    assert of(KNOWN, part) == pytest.approx(part.interval)
    assert part.interval.low == pytest.approx(0.9874, abs=1e-4)


def test_a_quantile_of_draws_is_of_all_of_them_where_a_part_lies_elsewhere():
    place = np.arange(1600)
    middle = np.where(place % 16 == 0, 0.0, np.where(place % 2 == 0, 0.4, 0.8))
    spread = np.full(1600, 1e-6)
    assert mixture_quantile(middle, spread, 0.6, True, 0, 1) == pytest.approx(0.8, abs=1e-5)
