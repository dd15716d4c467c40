"""Rates as people read them."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refract.core.decimals import decimals
from refract.rates.rate import Counts, Interval
from refract.report.wording import bounds_text, clusters_text, p_text, plain_estimate, short_text
from refract.results.table_rows import rate_from_row, rate_to_row
from refract.statistics.proportions import wilson
from tests.builders import rate

BOUNDS = {"excluded": {"error": 9}, "bounds": Interval(60 / 129, 69 / 129)}


@pytest.mark.parametrize(
    ("more", "clusters", "bounds"),
    [
        ({}, "", ""),
        ({"clusters": 120}, "", ""),
        ({"clusters": 26}, ", 26 requests", ""),
        ({"clusters": 1}, ", 1 request", ""),
        ({"clusters": 10, "clustered_by": "type"}, ", 10 values of type", ""),
        (BOUNDS, "", "0.465 to 0.535"),
        (BOUNDS | {"outer": Interval(0.381, 0.62)}, "", "0.465 to 0.535 [0.381, 0.620]"),
    ],
)
def test_what_limits_a_rate_is_said(more, clusters, bounds):
    limited = rate("refusal_rate", 60, 120, **{"interval": Interval(0.4, 0.6)} | more)
    assert plain_estimate(limited) == "0.500 [0.400, 0.600]"
    assert (clusters_text(limited), bounds_text(limited)) == (clusters, bounds)


def test_a_rate_without_an_interval_or_a_value_says_so():
    assert plain_estimate(rate("x", 2, 2, interval=None)) == "1.000 (no interval)"
    nothing = Counts(0, 0, excluded={"empty": 4})
    unjudged = replace(rate("x", 1, 2), value=None, counts=nothing, bounds=Interval(0, 1))
    assert (plain_estimate(unjudged), bounds_text(unjudged)) == ("—", "0.000 to 1.000")
    assert short_text(None) == "—"


@pytest.mark.parametrize(
    ("value", "places", "shown"),
    [
        # Of a table's four digits, as a float 0.8295 and 0.1025 lie above or below the half by chance.
        *((0.8295, 3, "0.830"), (0.1025, 3, "0.103"), (0.3125, 3, "0.312"), (-0.25, 3, "-0.250")),
        *((0.135, 2, "0.14"), (0.125, 2, "0.12"), (-0.001, 2, "0.00"), (1.0, 2, "1.00")),
    ],
)
def test_a_number_is_rounded_in_decimals(value, places, shown):
    assert decimals(value, places=places) == shown


@example((212, 320))
@given(st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_rate_of_counts_that_was_read_from_its_table_is_rounded_once(counts):
    successes, n = counts
    low, high = wilson(successes, n)
    read = rate_from_row(rate_to_row(rate("x", successes, n, interval=Interval(low, high))))
    # Of the exact fraction: its float lies above or below a half by chance (212/320).
    held = Fraction(successes / n) == Fraction(successes, n)
    rounding = ROUND_HALF_EVEN if held else ROUND_HALF_UP
    value = (Decimal(successes) / Decimal(n)).quantize(Decimal("0.001"), rounding)
    assert plain_estimate(read) == f"{value} [{low:.3f}, {high:.3f}]"


def test_a_p_value_that_rounds_to_nothing_is_not_zero():
    shown = ["—", "<0.0001", "<0.0001", "0.0478"]
    assert [p_text(p) for p in (None, 0.0, 0.00004, 0.0478)] == shown
