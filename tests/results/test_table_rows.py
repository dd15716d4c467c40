"""Rates as rows of files: written, read, and written again as they were."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.core.showing import csv_cell
from refract.core.tables import read_table
from refract.core.vocabulary import EXCLUDED, UNTESTED
from refract.rates.key import MEASURES, REFUSAL, Draw, Group, Key, Measure
from refract.rates.rate import (
    AboveFloor,
    Counts,
    HumanLabels,
    Interval,
    Rate,
    Statistics,
    Threshold,
    WithJudge,
)
from refract.results.table_rows import (
    json_rows,
    rate_from_row,
    rate_to_row,
    rates_from_rows,
    write_rates,
)
from refract.statistics.proportions import settled, wilson
from tests.builders import ROOT

FLOATS = st.floats(-1e6, 1e6, allow_nan=False)
INTERVALS = st.none() | st.tuples(FLOATS, FLOATS).map(lambda ends: Interval(*sorted(ends)))
# Texts that a table holds as they are: a spreadsheet would run others as formulas.
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=9).filter(
    lambda text: csv_cell(text) == text
)
COUNTS = st.integers(0, 10**6)
MAYBE = st.none() | COUNTS


def some_of(names: Iterable[str]) -> st.SearchStrategy[dict[str, int]]:
    """Counts of all of some kinds, or of none: as rates have them."""
    return st.just({}) | st.fixed_dictionaries(dict.fromkeys(names, COUNTS))


@st.composite
def keys(draw: st.DrawFn) -> Key:
    measure = draw(st.sampled_from(MEASURES))
    judge = draw(TEXTS) if measure.counted_for == "suite" else ""
    if measure.counted_for == "judge":
        judge = draw(TEXTS.filter(bool))
    perturbation = ""
    if measure.counted_for == "perturbation":
        perturbation = draw(TEXTS.filter(bool))
    field = draw(TEXTS)
    asked, total = draw(MAYBE), draw(COUNTS)
    part = asked is not None and asked < total
    return Key(
        measure,
        judge=judge,
        perturbation=perturbation,
        group=Group(field, draw(TEXTS) if field else ""),
        suite=draw(TEXTS),
        model="m",
        draw=Draw(asked, total, draw(COUNTS) if part else 0, draw(st.integers(1, 9))),
    )


@st.composite
def rates(draw: st.DrawFn) -> Rate:
    """Rates with every field that files hold, each there or not."""
    labels = draw(st.none() | st.builds(HumanLabels, COUNTS, COUNTS, COUNTS))
    counts = Counts(
        draw(MAYBE),
        n=draw(COUNTS),
        clusters=draw(MAYBE),
        partial=draw(MAYBE),
        cut_off=draw(MAYBE),
        excluded=draw(some_of(EXCLUDED)),
        untested=draw(some_of(UNTESTED)),
        labels=labels,
    )
    above = st.builds(AboveFloor, FLOATS, INTERVALS, INTERVALS)
    judged = st.builds(WithJudge, INTERVALS.filter(bool), INTERVALS)
    threshold = draw(st.none() | st.builds(Threshold, st.sampled_from(["min", "max"]), FLOATS))
    decisions = st.sampled_from(["met", "missed", "inconclusive"])
    some = st.none() | FLOATS
    return Rate(
        draw(keys()),
        counts,
        value=draw(some),
        interval=draw(INTERVALS),
        bounds=draw(INTERVALS),
        outer=draw(INTERVALS),
        statistics=draw(st.builds(Statistics, some, some, some)),
        above_floor=draw(st.none() | above),
        with_judge=draw(st.none() | judged),
        dose=draw(some),
        repetitions=draw(st.dictionaries(COUNTS, COUNTS, max_size=3)),
        threshold=threshold,
        decision=draw(decisions) if threshold else None,
        clustered_by=draw(TEXTS),
    )


def with_digits(value: Any) -> Any:
    """A rate, or a part of it, with the digits that files hold."""
    if isinstance(value, float):
        return settled(value) + 0.0
    if isinstance(value, Interval):
        return Interval(with_digits(value.low), with_digits(value.high))
    if is_dataclass(value) and not isinstance(value, Key):
        return replace(
            value, **{x.name: with_digits(getattr(value, x.name)) for x in fields(value)}
        )
    return value


@given(st.lists(rates(), max_size=4))
def test_every_field_of_a_rate_is_read_as_it_was_written(made: list[Rate]) -> None:
    expected = [with_digits(rate) for rate in made]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.csv"
        write_rates(path, made)
        assert rates_from_rows(read_table(path), "m") == expected
    assert rates_from_rows(json.loads(json.dumps(json_rows(made))), "m") == expected


TABLES = sorted((ROOT / "metrics/tables").glob("*.csv"))


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
    key = Key(Measure("accuracy", "unknown"), group=Group("field", "x"))
    (row,) = json_rows([Rate(key, Counts(None, 0, 0), None)])
    assert row["rate"] is None
    assert row["n"] == 0
    assert not {"p", "dose", "labelled", "excluded_error", "threshold"} & row.keys()
