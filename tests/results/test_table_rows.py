"""Rates as rows of files: written, read, and written again as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refract.core.tables import read_table
from refract.rates.key import PARTIAL_REFUSAL, REFUSAL, Group, Key, Measure
from refract.rates.rate import Counts, Interval, Rate, Threshold
from refract.results.table_rows import (
    json_rows,
    rate_from_row,
    rate_to_row,
    rates_from_rows,
    write_rates,
)
from refract.statistics.proportions import wilson

TABLES = sorted(Path("metrics/tables").glob("*.csv"))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_table_in_git_is_written_again_as_it_was_read(path: Path, tmp_path: Path) -> None:
    rates = rates_from_rows(read_table(path))
    write_rates(tmp_path / "again.csv", rates)
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()
    assert rates_from_rows(json.loads(json.dumps(json_rows(rates)))) == rates


def as_csv(rate: Rate) -> dict[str, str]:
    """The cells of a rate as a table holds them."""
    return {key: "" if cell is None else str(cell) for key, cell in rate_to_row(rate).items()}


def test_a_rate_is_written_with_twelve_digits_beside_what_people_are_shown() -> None:
    exact = Rate(Key(REFUSAL), Counts(107, 129, 129), 107 / 129, wilson(107, 129))
    row = as_csv(exact)
    assert (row["rate"], row["low"]) == ("0.829457364341", "0.755266571054")
    assert row["shown"] == "0.83 [0.76, 0.88]"
    read = rate_from_row(row)
    assert (read.value, *read.interval) == pytest.approx((107 / 129, *exact.interval), rel=1e-11)
    assert rate_to_row(read) == rate_to_row(exact)


def test_a_number_is_read_as_it_was_written_whatever_the_counts_give() -> None:
    key = Key(PARTIAL_REFUSAL)
    row = rate_to_row(Rate(key, Counts(3, 8, 4), 0.3, Interval(0.11, 0.62), Interval(0.25, 0.375)))
    read = rate_from_row(row)
    assert (read.value, read.interval, read.bounds) == (0.3, (0.11, 0.62), (0.25, 0.375))


def test_a_threshold_keeps_its_number_and_a_whole_one_stays_whole() -> None:
    for limit in (0.8, 1):
        threshold = Threshold("min", limit)
        rate = Rate(Key(REFUSAL), Counts(1, 2), 0.5, threshold=threshold, decision="missed")
        row = rate_to_row(rate)
        assert (row["threshold_kind"], row["threshold"]) == ("min", limit)
        assert (row["decision"], row["passed"]) == ("missed", 0)
        assert rate_from_row(as_csv(rate)) == rate
        assert as_csv(rate_from_row(as_csv(rate)))["threshold"] == str(limit)


def test_a_json_row_has_what_the_rate_has() -> None:
    key = Key(Measure("accuracy", "not_carried"), group=Group("field", "x"))
    (row,) = json_rows([Rate(key, Counts(None, 0, 0), None)])
    assert row["rate"] is None
    assert row["n"] == 0
    assert not {"p", "dose", "labelled", "excluded_error", "threshold"} & row.keys()
