"""The trend of a rate over size: published counts, closed forms, simulation."""

from __future__ import annotations

from math import log, log10, sqrt

import pytest

from refract.statistics.trends import Point, Trend, trend

# Refused before and after an attack of 313 prompts, by models of 0.5, 1.5, 3, 7 and 14 billion
# parameters, and the published attack success
PUBLISHED_ATTACK = [
    (0.5e9, 174, 66, 0.6207),
    (1.5e9, 263, 123, 0.5323),
    (3e9, 293, 152, 0.4812),
    (7e9, 293, 195, 0.3345),
    (14e9, 308, 274, 0.1104),
]


def test_larger_models_of_the_published_family_are_harder_to_break():
    points = [Point(size, before - after, before) for size, before, after, _ in PUBLISHED_ATTACK]
    result = trend(points)
    assert result.slope < result.high < 0
    assert result.points == 5
    # The fitted rates add up to the observed ones, the score equation of the intercept.
    fitted = [
        point.n / (1 + 10 ** -((result.intercept + result.slope * log10(point.size)) / log(10)))
        for point in points
    ]
    assert sum(fitted) == pytest.approx(sum(point.positives for point in points))


def test_the_slope_through_two_points_is_the_log_odds_ratio():
    result = trend([Point(1e9, 20, 100), Point(1e10, 50, 100)])
    slope = log(50 / 50) - log(20 / 80)
    assert result == pytest.approx(Trend(2, slope=slope, intercept=log(20 / 80) - 9 * slope))


def test_a_classical_dose_response_has_its_published_fit():
    # Bliss's beetles (Dobson & Barnett, An Introduction to Generalized Linear Models, table 7.2):
    # intercept -60.72 and slope 34.27 with error 2.912 on the dose as it stands, x = log10(dose)
    doses = [1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839]
    exposed = [59, 60, 62, 56, 63, 59, 62, 60]
    killed = [6, 13, 18, 28, 52, 53, 61, 60]
    result = trend([Point(10**d, k, n) for d, k, n in zip(doses, killed, exposed, strict=True)])
    assert result.slope == pytest.approx(34.27, abs=0.005)
    assert result.intercept == pytest.approx(-60.72, abs=0.005)
    # t with 6 degrees of freedom, and the dispersion of the 8 groups
    half = (result.high - result.low) / 2 / 2.446912 / sqrt(result.dispersion)
    assert half == pytest.approx(2.912, abs=5e-4)


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ([], "one size"),
        ([(1e9, 3, 10), (1e9, 4, 10)], "one size"),
        ([(1e9, 3, 10), (1e10, 0, 0)], "one size"),
        ([(1e9, 0, 10), (1e10, 0, 10)], "constant"),
        ([(1e9, 10, 10), (1e10, 10, 10)], "constant"),
        ([(1e9, 0, 10), (1e10, 10, 10)], "separated"),
        ([(1e9, 10, 10), (2e9, 10, 10), (1e10, 0, 10)], "separated"),
        ([(1e9, 0, 10), (3e9, 4, 10), (1e10, 10, 10)], "separated"),
        ([(1e9, 10, 10), (3e9, 4, 10), (1e10, 0, 10)], "separated"),
    ],
)
def test_counts_without_a_best_line_say_why(points, problem):
    result = trend([Point(*point) for point in points])
    assert (result.slope, result.low, result.high, result.intercept) == (None,) * 4
    assert result.problem == problem
