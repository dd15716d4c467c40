"""Rates and differences as rows of CSV and JSON, written and read here alone.

``metrics/tables/MODEL.csv`` and the ``tables`` of a results file of ``refract run`` have a row for each
:class:`refract.rates.rate.Rate`, with the columns that ``docs/tables.md`` describes. Files hold four
digits. Where the counts give a number (a rate, its bounds, Wilson's interval) it is read as it was
before it was rounded, so that rounding it again for people rounds it once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from refract.core.showing import csv_cell
from refract.core.tables import write_table
from refract.core.types import Row
from refract.core.vocabulary import EXCLUDED, UNTESTED
from refract.rates.rate import (
    AboveFloor,
    Counts,
    Difference,
    DropDecision,
    Group,
    HumanLabels,
    Interval,
    Rate,
    Statistics,
    Threshold,
    WithJudge,
    rounded,
)
from refract.statistics.proportions import wilson

# Columns of tables in which the error of a judge is known.
JUDGE_COLUMNS = (
    *("judge_low", "judge_high", "judge_outer_low", "judge_outer_high"),
    *("judge_these_low", "judge_these_high"),
)
# Every column with the type of what it holds, in the order of the tables.
COLUMNS: dict[str, type] = {
    **dict.fromkeys(("suite", "measure", "field", "value"), str),
    **dict.fromkeys(("successes", "partial", "n", "clusters"), int),
    **dict.fromkeys(("rate", "low", "high", "these_low", "these_high"), float),
    **{field.name: float for field in fields(Statistics)},
    **dict.fromkeys(("above_floor", "above_floor_low", "above_floor_high", "dose"), float),
    "repetitions": str,
    **dict.fromkeys((f"untested_{reason}" for reason in UNTESTED), int),
    **dict.fromkeys(("bound_low", "bound_high", "outer_low", "outer_high"), float),
    **dict.fromkeys(JUDGE_COLUMNS, float),
    "cut_off": int,
    **dict.fromkeys((f"excluded_{outcome}" for outcome in EXCLUDED), int),
    **dict.fromkeys(("labelled", "stale_labels", "blank_labels"), int),
    **dict.fromkeys(("threshold", "decision"), str),
    "passed": int,
}
# Those that a JSON row has even where they are null; any other is left out there.
_ALWAYS = {
    *("suite", "measure", "field", "value", "successes", "n", "clusters", "rate", "low", "high"),
    *("bound_low", "bound_high", "outer_low", "outer_high", "cut_off"),
}
# What rows of differences call as differences do.
SAME_NAMES = (
    *("model", "suite", "category", "perturbation"),
    *("n", "clusters", "design_effect", "effective_clusters"),
)
# What a difference says of a drop where it is no primary measure.
NOT_PRIMARY: Row = dict.fromkeys((x.name for x in fields(DropDecision)), None) | {
    "decision": "",
    "reason": "",
    "regression": False,
}


def rate_to_row(rate: Rate) -> Row:
    """A rate under all ``COLUMNS``, rounded; None where it has no such number."""
    counts, above, labels = rate.counts, rate.above_floor, rate.counts.labels
    judged = rate.with_judge
    cells = {
        "suite": rate.suite,
        "measure": rate.measure,
        "field": rate.group.field,
        "value": rate.group.value,
        "successes": counts.successes,
        "partial": counts.partial,
        # Human labels without a rate are over no answers; the cell says nothing then.
        "n": None if labels and not counts.n else counts.n,
        "clusters": counts.clusters,
        "rate": rate.value,
        **_ends("low", "high", rate.interval),
        **_ends("these_low", "these_high", rate.these),
        **asdict(rate.statistics),
        "above_floor": above and above.value,
        **_ends("above_floor_low", "above_floor_high", above.interval if above else None),
        "dose": rate.dose,
        "repetitions": " ".join(f"{r}:{n}" for r, n in rate.repetitions.items()) or None,
        **{f"untested_{reason}": n for reason, n in counts.untested.items()},
        **_ends("bound_low", "bound_high", rate.bounds),
        **_ends("outer_low", "outer_high", rate.outer),
        **_ends("judge_low", "judge_high", judged.interval if judged else None),
        **_ends("judge_outer_low", "judge_outer_high", judged.outer if judged else None),
        **_ends("judge_these_low", "judge_these_high", judged.these if judged else None),
        "cut_off": counts.cut_off,
        **{f"excluded_{outcome}": n for outcome, n in counts.excluded.items()},
        "labelled": labels and labels.used,
        "stale_labels": labels and labels.stale,
        "blank_labels": labels and labels.blank,
        "threshold": rate.threshold and str(rate.threshold),
        "decision": rate.decision,
        "passed": None if rate.passed is None else int(rate.passed),
    }
    ordered = {column: cells.get(column) for column in COLUMNS}
    return {key: rounded(x) if isinstance(x, float) else x for key, x in ordered.items()}


def rate_from_row(
    row: Mapping[str, Any], provenance: Mapping[str, Any] | None = None, model: str = ""
) -> Rate:
    """The rate of a row of CSV (texts) or JSON (numbers), with what is not in the row: what the
    provenance says of its interval's confidence and the suite's clusters, and the model."""
    facts = (provenance or {}).get("suites", {}).items()
    clusters = {of.get("label", suite): of.get("cluster") or "" for suite, of in facts}
    cells = {column: _typed(row.get(column), kind) for column, kind in COLUMNS.items()}
    labels = [cells[key] for key in ("labelled", "stale_labels", "blank_labels")]
    counts = Counts(
        cells["successes"],
        cells["n"] or 0,
        cells["clusters"],
        cells["partial"],
        cells["cut_off"],
        {x: n for x in EXCLUDED if (n := cells[f"excluded_{x}"]) is not None},
        {x: n for x in UNTESTED if (n := cells[f"untested_{x}"]) is not None},
        None if labels[0] is None else HumanLabels(*labels),
    )
    value, above = cells["rate"], cells["above_floor"]
    interval, bounds, outer, of_above, judged, judged_outer, these, judged_these = (
        None if cells[f"{x}low"] is None else Interval(cells[f"{x}low"], cells[f"{x}high"])
        for x in (
            *("", "bound_", "outer_", "above_floor_", "judge_", "judge_outer_"),
            *("these_", "judge_these_"),
        )
    )
    if counts.successes is not None and value is not None and counts.n:
        value = _unrounded(value, counts.successes / counts.n)
        of_counts = wilson(counts.successes, counts.n, confidence_of(provenance))
        if interval and of_counts and tuple(map(rounded, of_counts)) == tuple(interval):
            interval = of_counts
        every = counts.n + counts.unjudged
        bounds = bounds and Interval(
            _unrounded(bounds.low, counts.successes / every),
            _unrounded(bounds.high, (counts.successes + counts.unjudged) / every),
        )
    if these and value is not None:
        these = Interval(*(_unrounded(end, value) for end in these))
    repetitions = (pair.split(":") for pair in (cells["repetitions"] or "").split())
    threshold = None
    if cells["threshold"]:
        sign, limit = cells["threshold"].split()
        threshold = Threshold("min" if sign == ">=" else "max", _number(limit))
    return Rate(
        row["measure"],
        counts,
        value,
        interval,
        bounds,
        outer,
        Group(row["field"], row["value"]),
        Statistics(**{x.name: cells[x.name] for x in fields(Statistics)}),
        None if above is None else AboveFloor(above, of_above),
        None if judged is None else WithJudge(judged, judged_outer, judged_these),
        cells["dose"],
        {int(often): int(prompts) for often, prompts in repetitions},
        threshold,
        cells["decision"],
        row["suite"],
        model,
        clusters.get(row["suite"], ""),
        these,
    )


def difference_to_row(difference: Difference) -> Row:
    """A difference as `refract compare` writes it, unrounded; prompts as lists of ids."""
    drop = difference.drop
    return {
        **{name: getattr(difference, name) for name in SAME_NAMES},
        "rate_a": difference.first,
        "rate_b": difference.second,
        "difference": difference.value,
        **_ends("low", "high", difference.interval),
        **_ends("judge_low", "judge_high", difference.judge_interval),
        "p": difference.p,
        "p_holm": difference.p_adjusted,
        **_ends("bound_low", "bound_high", difference.bounds),
        **_ends("outer_low", "outer_high", difference.outer),
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
    """Writes ``metrics/tables/MODEL.csv``, whose cells no spreadsheet runs as formulas."""
    rates = list(rates)
    known = any(rate.with_judge for rate in rates)
    columns = [column for column in COLUMNS if known or column not in JUDGE_COLUMNS]
    rows = ({x: cell for x, cell in rate_to_row(rate).items() if x in columns} for rate in rates)
    write_table(path, columns, ({**row, "value": csv_cell(row["value"])} for row in rows))


def rates_from_rows(
    rows: Iterable[Mapping[str, Any]], provenance: Mapping[str, Any] | None, model: str = ""
) -> list[Rate]:
    """The rates of rows of CSV or of JSON, with what their provenance says of them."""
    return [rate_from_row(row, provenance, model) for row in rows]


def json_rows(rates: Iterable[Rate]) -> list[Row]:
    """Rates as `refract run` writes them: without the columns that a rate has nothing for."""
    rows = map(rate_to_row, rates)
    return [{k: x for k, x in row.items() if x is not None or k in _ALWAYS} for row in rows]


def confidence_of(provenance: Mapping[str, Any] | None) -> float:
    """The confidence of a result's intervals; .95 where there is no provenance."""
    facts = provenance or {}
    return float(facts.get("confidence") or facts.get("run", {}).get("confidence") or 0.95)


def _ends(low: str, high: str, interval: Interval | None) -> dict[str, float | None]:
    return dict(zip((low, high), interval or (None, None), strict=True))


def _number(text: str) -> float:
    """A whole number stays one, so that it is written again as it was."""
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _typed(cell: Any, kind: type) -> Any:
    """A cell of CSV or of JSON as what its column holds; None where it is empty."""
    if cell is None or cell == "":
        return None
    if not isinstance(cell, str) or kind is str:
        return cell
    return int(cell) if kind is int else _number(cell)


def _unrounded(stored: float, quotient: float) -> float:
    """The quotient of counts, where the stored number is that quotient rounded."""
    return quotient if rounded(quotient) == stored else stored
