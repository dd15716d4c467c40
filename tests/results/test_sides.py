"""What a comparison of two results says beside its tables."""

from __future__ import annotations

from refract.rates.rate import Difference
from refract.results.sides import gap_notes
from refract.results.sources import Result, Side
from tests.builders import ledger_entry

PROVENANCE = {
    "suites": {"s": {"judges": ["mine"], "label": "s"}},
    "judges": {"mine": {"kind": "rules", "version": "2"}},
}
KNOWN = [
    ledger_entry("near", 0.01, 0.52),
    ledger_entry("far", 0.30, 0.95),
    ledger_entry("next", -0.05, 0.4),
]


def shift(size: float, category: str = "harmful") -> Difference:
    rates = (0.5 + size, 0.5, -size)
    return Difference("s", category, "", 9, 9, *rates, None, None, None, None, model="a")


def test_the_differences_below_the_gaps_of_the_closest_models_are_named_in_one_line():
    side = Side("A", {"a": Result([], PROVENANCE)})
    rows = [shift(0.04), shift(0.4), shift(0.0), shift(0.1, "helpful")]
    assert gap_notes(side, rows, KNOWN) == [
        "smaller than the rate gaps that the judge was measured to have on models with such rates "
        "(up to 30.0 points; refract label decides): a on s, harmful, a on s, helpful"
    ]
    assert gap_notes(side, [shift(0.4)], KNOWN) == []
    assert gap_notes(Side("A", {"a": Result([], None)}), rows, KNOWN) == []
