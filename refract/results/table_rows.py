"""Rates and differences as rows of CSV and JSON, written and read here alone.

``metrics/tables/MODEL.csv`` and the ``tables`` of a results file of ``refract run`` have a row for
each :class:`refract.rates.rate.Rate`, with the columns that ``docs/rows.md`` describes: what the
rate is of (:class:`refract.rates.key.Key`, a column for each part), its numbers with the 12 digits
that all processors agree on, and what people are ``shown``. Reading computes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.decimals import estimate_text
from refract.core.showing import csv_cell
from refract.core.tables import write_table
from refract.core.types import Row
from refract.core.vocabulary import EXCLUDED, UNTESTED
from refract.rates.key import Group, Key, measure_called
from refract.rates.rate import (
    AboveFloor,
    Counts,
    Difference,
    DropDecision,
    HumanLabels,
    Interval,
    Rate,
    Statistics,
    Threshold,
    WithJudge,
    rounded,
)
from refract.statistics.proportions import settled
from refract.suites.draws import Draw


class Column(NamedTuple):
    """A column: its name, the type of its cells, and the place in a :class:`Rate` of what it holds,
    such as ``counts.n``, from which it is written and to which it is read.

    ``shown`` gives the cell where that is not the value at the place itself, and ``read`` the value
    of a cell. A JSON row has it even where it is null if it stands ``always`` there."""

    name: str
    kind: type
    place: str
    always: bool = False
    shown: Callable[[Rate], Any] | None = None
    read: Callable[[Any], Any] | None = None

    def cell(self, rate: Rate) -> Any:
        """What the column has of a rate; None where it has no such number."""
        value = self.shown(rate) if self.shown else _at(rate, self.place)
        # Adding zero turns -0.0 into 0.0.
        return settled(value) + 0.0 if isinstance(value, float) else value

    def value(self, cell: Any) -> Any:
        """What a cell of CSV or of JSON says; None where it is empty."""
        if cell is None or cell == "":
            return None
        if isinstance(cell, str):
            if self.kind is int:
                cell = int(cell)
            elif self.kind is float:  # a whole number stays one, so that it is written as it was
                cell = int(cell) if cell.lstrip("-").isdigit() else float(cell)
        elif self.kind is str or not isinstance(cell, int | float):
            raise TypeError(f"a cell of a table must be a {self.kind.__name__} (got {cell!r:.80})")
        return self.read(cell) if self.read else cell


def _ends(prefix: str, place: str, always: bool = False) -> Iterator[Column]:
    """The two columns of an interval."""
    for end in ("low", "high"):
        yield Column(f"{prefix}{end}", float, f"{place}.{end}", always)


def _counts(prefix: str, place: str, names: Iterable[str]) -> Iterator[Column]:
    """A column for each count of a kind."""
    for name in names:
        yield Column(f"{prefix}{name}", int, f"{place}.{name}")


def _n(rate: Rate) -> int | None:
    # Human labels without a rate are over no answers; the cell says nothing then.
    return None if rate.counts.labels and not rate.counts.n else rate.counts.n


def _repetitions(text: str) -> dict[int, int]:
    return {int(often): prompts for often, prompts in json.loads(text).items()}


def _kind(text: str) -> str:
    if text not in ("min", "max"):
        raise ValueError(f"threshold_kind must be min or max (got {text!r})")
    return text


# Every column, in the order of the tables.
ALL = (
    Column("suite", str, "key.suite", True),
    Column("measure", str, "key.measure.name", True),
    Column("judge", str, "key.judge", True),
    Column("perturbation", str, "key.perturbation", True),
    Column("field", str, "key.group.field", True),
    Column("value", str, "key.group.value", True),
    Column("shown", str, "", True, lambda rate: estimate_text(rate.value, rate.shown, places=2)),
    Column("successes", int, "counts.successes", True),
    Column("partial", int, "counts.partial"),
    Column("by_provider", int, "counts.by_provider"),
    Column("n", int, "counts.n", True, _n),
    Column("clusters", int, "counts.clusters", True),
    Column("clustered_by", str, "clustered_by", shown=lambda rate: rate.clustered_by or None),
    Column("rate", float, "value", True),
    *_ends("", "interval", True),
    *(Column(field.name, float, f"statistics.{field.name}") for field in fields(Statistics)),
    Column("above_floor", float, "above_floor.value"),
    *_ends("above_floor_", "above_floor.interval"),
    *_ends("above_floor_outer_", "above_floor.outer"),
    Column("dose", float, "dose"),
    Column(
        "repetitions",
        str,
        "repetitions",
        shown=lambda rate: json.dumps(rate.repetitions) if rate.repetitions else None,
        read=_repetitions,
    ),
    *_counts("untested_", "counts.untested", UNTESTED),
    *_ends("bound_", "bounds", True),
    *_ends("outer_", "outer", True),
    *_ends("judge_", "with_judge.interval"),
    *_ends("judge_outer_", "with_judge.outer"),
    Column(
        "judge_unknown",
        int,
        "judge_unknown",
        shown=lambda rate: 1 if rate.judge_unknown else None,
        read=bool,
    ),
    Column("cut_off", int, "counts.cut_off", True),
    *_counts("excluded_", "counts.excluded", EXCLUDED),
    Column("labelled", int, "counts.labels.used"),
    Column("stale_labels", int, "counts.labels.stale"),
    Column("blank_labels", int, "counts.labels.blank"),
    Column("threshold_kind", str, "threshold.kind", read=_kind),
    Column("threshold", float, "threshold.limit"),
    Column("decision", str, "decision"),
    Column("passed", int, "", shown=lambda rate: None if rate.passed is None else int(rate.passed)),
    Column("draw_asked", int, "key.draw.asked"),
    Column("draw_total", int, "key.draw.total"),
    Column(
        "draw_seed",
        int,
        "key.draw.seed",
        shown=lambda rate: rate.key.draw.seed if rate.key.draw.is_part else None,
    ),
    Column("samples", int, "key.draw.samples"),
)
# The types of the columns, by name.
COLUMNS = {column.name: column.kind for column in ALL}
# What the parts of a rate are, by their names.
PARTS: dict[str, type] = {
    "key": Key,
    "group": Group,
    "draw": Draw,
    "counts": Counts,
    "labels": HumanLabels,
    "statistics": Statistics,
    "above_floor": AboveFloor,
    "with_judge": WithJudge,
    "threshold": Threshold,
    **dict.fromkeys(("interval", "bounds", "outer"), Interval),
}
# Columns of rows of differences that are named like the attributes of Difference.
SAME_NAMES = (
    "model",
    "suite",
    "category",
    "perturbation",
    "n",
    "clusters",
    "design_effect",
    "effective_clusters",
)
# What a difference says of a drop where it is no primary measure.
NOT_PRIMARY: Row = dict.fromkeys((x.name for x in fields(DropDecision)), None) | {
    "decision": "",
    "reason": "",
    "regression": False,
}


def rate_to_row(rate: Rate) -> Row:
    """A rate under all ``COLUMNS``; None where it has no such number."""
    return {column.name: column.cell(rate) for column in ALL}


def rate_from_row(row: Mapping[str, Any], model: str = "") -> Rate:
    """The rate of a row of CSV (texts) or JSON (numbers), of this model. Raises KeyError, TypeError
    or ValueError for a row that :func:`rate_to_row` did not make."""
    parts: dict[str, Any] = {"value": None, "counts": {"successes": None, "n": 0}}
    for column in ALL:
        value = column.value(row.get(column.name))
        if value is not None and column.place:
            *path, last = column.place.split(".")
            part = parts
            for name in path:
                part = part.setdefault(name, {})
            part[last] = value
    judge, perturbation = row["judge"] or "", row.get("perturbation") or ""
    measure = measure_called(row["measure"], judge=judge, perturbation=perturbation)
    parts["key"] |= {"measure": measure, "model": model}
    return Rate(**_made(parts))


def _made(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a rate from what columns hold of each."""
    objects = {}
    for name, value in parts.items():
        objects[name] = PARTS[name](**_made(value)) if name in PARTS else value
    return objects


def _at(rate: Rate, place: str) -> Any:
    """The value at a place of a rate; None where a part on the way there is not there."""
    value: Any = rate
    for name in place.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def _interval_cells(prefix: str, interval: Interval | None) -> Row:
    low, high = interval or (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}


def difference_to_row(difference: Difference) -> Row:
    """A difference as `refract compare` writes it, unrounded; prompts as lists of ids."""
    drop = difference.drop
    return {
        **{name: getattr(difference, name) for name in SAME_NAMES},
        "rate_a": difference.a,
        "rate_b": difference.b,
        "difference": difference.value,
        **_interval_cells("", difference.interval),
        **_interval_cells("judge_", difference.judge_interval),
        "p": difference.p,
        "p_holm": difference.p_adjusted,
        **_interval_cells("bound_", difference.bounds),
        **_interval_cells("outer_", difference.outer),
        **{kind: list(ids) for kind, ids in difference.prompts.items()},
        "repeats": difference.repeats,
        "primary": drop is not None,
        **(asdict(drop) if drop else NOT_PRIMARY),
    }


def rounded_difference(difference: Difference) -> Row:
    """:func:`difference_to_row` with rates of four decimals and p of four significant digits."""
    row = difference_to_row(difference)
    for key, value in row.items():
        if isinstance(value, float):
            row[key] = float(f"{value:.4g}") if key.startswith("p") else rounded(value)
    return row


def write_rates(path: Path, rates: Iterable[Rate]) -> None:
    """Writes ``metrics/tables/MODEL.csv``, whose cells no spreadsheet runs as formulas. Columns of
    the judge's error, and of refusals by the provider, are there where a rate has them."""
    rates = list(rates)
    with_error = any(rate.with_judge or rate.judge_unknown for rate in rates)
    by_provider = any(rate.counts.by_provider for rate in rates)
    columns = []
    for name in COLUMNS:
        if (with_error or not name.startswith("judge_")) and (by_provider or name != "by_provider"):
            columns.append(name)
    rows = []
    for rate in rates:
        row = rate_to_row(rate)
        row["value"] = csv_cell(row["value"])
        rows.append({name: row[name] for name in columns})
    write_table(path, columns, rows)


def rates_from_rows(rows: Iterable[Mapping[str, Any]], model: str = "") -> list[Rate]:
    """The rates of rows of CSV or of JSON."""
    return [rate_from_row(row, model) for row in rows]


def json_rows(rates: Iterable[Rate]) -> list[Row]:
    """Rates as `refract run` writes them: without the columns that a rate has nothing for."""
    always = {column.name for column in ALL if column.always}
    rows = []
    for rate in rates:
        row = rate_to_row(rate)
        rows.append({key: cell for key, cell in row.items() if cell is not None or key in always})
    return rows
