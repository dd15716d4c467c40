"""Rates as rows of files: written, read, and written again as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from refract.core.tables import read_table
from refract.rates.rate import Counts, Group, Interval, Rate, Threshold
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
    rates = rates_from_rows(read_table(path), None)
    write_rates(tmp_path / "again.csv", rates)
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()
    assert rates_from_rows(json.loads(json.dumps(json_rows(rates))), None) == rates


def test_what_the_counts_give_is_read_unrounded() -> None:
    exact = Rate("refusal_rate", Counts(107, 129, 129), 107 / 129, wilson(107, 129))
    row = {key: "" if cell is None else str(cell) for key, cell in rate_to_row(exact).items()}
    assert (row["rate"], row["low"]) == ("0.8295", "0.7553")
    assert rate_from_row(row) == exact


def test_a_number_that_the_counts_do_not_give_stays_as_it_was_stored() -> None:
    row = rate_to_row(Rate("r", Counts(3, 8, 4), 0.3, Interval(0.11, 0.62), Interval(0.25, 0.375)))
    read = rate_from_row(row)
    assert (read.value, read.interval, read.bounds) == (0.3, (0.11, 0.62), (0.25, 0.375))


def test_a_threshold_keeps_its_number_and_a_whole_one_stays_whole() -> None:
    for limit, text in ((0.8, ">= 0.8"), (1, ">= 1")):
        rate = Rate("r", Counts(1, 2), 0.5, threshold=Threshold("min", limit), decision="missed")
        row = rate_to_row(rate)
        assert (row["threshold"], row["decision"], row["passed"]) == (text, "missed", 0)
        assert rate_from_row(row) == rate


def test_a_json_row_has_what_the_rate_has() -> None:
    (row,) = json_rows([Rate("accuracy", Counts(None, 0, 0), None, group=Group("field", "x"))])
    assert row["rate"] is None
    assert row["n"] == 0
    assert not {"p", "dose", "labelled", "excluded_error", "threshold"} & row.keys()
