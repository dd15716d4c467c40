"""Rates and differences as rows of CSV and JSON, written and read here alone.

``metrics/tables/MODEL.csv`` and the ``tables`` of a results file of ``refract run``
have a row for each :class:`refract.rates.rate.Rate`, with the columns that
``docs/tables.md`` describes: what the rate is of (:class:`refract.rates.key.Key`, a
column for each part), its numbers with the 12 digits that all processors agree on,
and what people are ``shown``. Reading computes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal

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

# Columns of tables in which the error of a judge is known.
JUDGE_COLUMNS = (
    "judge_low",
    "judge_high",
    "judge_outer_low",
    "judge_outer_high",
    "judge_these_low",
    "judge_these_high",
)
# What a rate is of.
KEY_COLUMNS: dict[str, type] = {
    "suite": str,
    "measure": str,
    "judge": str,
    "perturbation": str,
    "field": str,
    "value": str,
}
# How its prompts were drawn.
DRAW_COLUMNS: dict[str, type] = {
    "draw_asked": int,
    "draw_total": int,
    "draw_seed": int,
    "samples": int,
}
# Every column with the type of what it holds, in the order of the tables.
COLUMNS: dict[str, type] = {
    **KEY_COLUMNS,
    "shown": str,
    **dict.fromkeys(("successes", "partial", "by_provider", "n", "clusters"), int),
    "clustered_by": str,
    **dict.fromkeys(("rate", "low", "high", "these_low", "these_high"), float),
    **{field.name: float for field in fields(Statistics)},
    **dict.fromkeys(("above_floor", "above_floor_low", "above_floor_high"), float),
    **dict.fromkeys(("above_floor_outer_low", "above_floor_outer_high", "dose"), float),
    "repetitions": str,
    **dict.fromkeys((f"untested_{reason}" for reason in UNTESTED), int),
    **dict.fromkeys(("bound_low", "bound_high", "outer_low", "outer_high"), float),
    **dict.fromkeys(JUDGE_COLUMNS, float),
    "judge_unknown": int,
    "cut_off": int,
    **dict.fromkeys((f"excluded_{outcome}" for outcome in EXCLUDED), int),
    **dict.fromkeys(("labelled", "stale_labels", "blank_labels"), int),
    "threshold_kind": str,
    "threshold": float,
    "decision": str,
    "passed": int,
    **DRAW_COLUMNS,
}
# Those that a JSON row has even where they are null; any other is left out there.
_ALWAYS = {
    *KEY_COLUMNS,
    "shown",
    "successes",
    "n",
    "clusters",
    "rate",
    "low",
    "high",
    "bound_low",
    "bound_high",
    "outer_low",
    "outer_high",
    "cut_off",
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
    counts, above, labels = rate.counts, rate.above_floor, rate.counts.labels
    judged, draw, threshold = rate.with_judge, rate.key.draw, rate.threshold
    cells = {
        "suite": rate.suite,
        "measure": rate.measure.name,
        "judge": rate.key.judge,
        "perturbation": rate.key.perturbation,
        "field": rate.group.field,
        "value": rate.group.value,
        "shown": estimate_text(rate.value, rate.shown, places=2),
        "successes": counts.successes,
        "partial": counts.partial,
        "by_provider": counts.by_provider,
        # Human labels without a rate are over no answers; the cell says nothing then.
        "n": None if labels and not counts.n else counts.n,
        "clusters": counts.clusters,
        "clustered_by": rate.clustered_by or None,
        "rate": rate.value,
        **_ends("", rate.interval),
        **_ends("these_", rate.these),
        **asdict(rate.statistics),
        "above_floor": above.value if above else None,
        **_ends("above_floor_", above.interval if above else None),
        **_ends("above_floor_outer_", above.outer if above else None),
        "dose": rate.dose,
        "repetitions": json.dumps(rate.repetitions) if rate.repetitions else None,
        **{f"untested_{reason}": count for reason, count in counts.untested.items()},
        **_ends("bound_", rate.bounds),
        **_ends("outer_", rate.outer),
        **_ends("judge_", judged.interval if judged else None),
        **_ends("judge_outer_", judged.outer if judged else None),
        **_ends("judge_these_", judged.these if judged else None),
        "judge_unknown": 1 if rate.judge_unknown else None,
        "cut_off": counts.cut_off,
        **{f"excluded_{outcome}": count for outcome, count in counts.excluded.items()},
        "labelled": labels.used if labels else None,
        "stale_labels": labels.stale if labels else None,
        "blank_labels": labels.blank if labels else None,
        "threshold_kind": threshold.kind if threshold else None,
        "threshold": threshold.limit if threshold else None,
        "decision": rate.decision,
        "passed": None if rate.passed is None else int(rate.passed),
        "draw_asked": draw.asked,
        "draw_total": draw.total,
        "draw_seed": draw.seed if draw.is_part else None,
        "samples": draw.samples,
    }
    row = {}
    for column in COLUMNS:
        cell = cells.get(column)
        # Adding zero turns -0.0 into 0.0.
        row[column] = settled(cell) + 0.0 if isinstance(cell, float) else cell
    return row


def rate_from_row(row: Mapping[str, Any], model: str = "") -> Rate:
    """The rate of a row of CSV (texts) or JSON (numbers), of this model. Raises
    KeyError, TypeError or ValueError for a row that :func:`rate_to_row` did not make."""
    cells = {column: _typed(row.get(column), kind) for column, kind in COLUMNS.items()}
    above_floor = None
    if cells["above_floor"] is not None:
        above_floor = AboveFloor(
            cells["above_floor"],
            _interval(cells, "above_floor_"),
            _interval(cells, "above_floor_outer_"),
        )
    with_judge = None
    judge_interval = _interval(cells, "judge_")
    if judge_interval is not None:
        with_judge = WithJudge(
            judge_interval,
            outer=_interval(cells, "judge_outer_"),
            these=_interval(cells, "judge_these_"),
        )
    threshold = None
    if cells["threshold_kind"]:
        threshold = Threshold(_kind(cells["threshold_kind"]), cells["threshold"])
    repetitions = json.loads(cells["repetitions"] or "{}")
    return Rate(
        key_from_row(row, model),
        _counts(cells),
        value=cells["rate"],
        interval=_interval(cells, ""),
        bounds=_interval(cells, "bound_"),
        outer=_interval(cells, "outer_"),
        statistics=Statistics(**{field.name: cells[field.name] for field in fields(Statistics)}),
        above_floor=above_floor,
        with_judge=with_judge,
        dose=cells["dose"],
        repetitions={int(often): prompts for often, prompts in repetitions.items()},
        threshold=threshold,
        decision=cells["decision"],
        clustered_by=cells["clustered_by"] or "",
        these=_interval(cells, "these_"),
        judge_unknown=bool(cells["judge_unknown"]),
    )


def key_from_row(row: Mapping[str, Any], model: str = "") -> Key:
    """What the rate of a row is of."""
    judge, perturbation = row["judge"] or "", row.get("perturbation") or ""
    drawn = {column: _typed(row.get(column), kind) for column, kind in DRAW_COLUMNS.items()}
    return Key(
        measure=measure_called(row["measure"], judge=judge, perturbation=perturbation),
        judge=judge,
        perturbation=perturbation,
        group=Group(row["field"], row["value"]),
        suite=row["suite"],
        model=model,
        draw=Draw(
            asked=drawn["draw_asked"],
            total=drawn["draw_total"] or 0,
            seed=drawn["draw_seed"] or 0,
            samples=drawn["samples"] or 1,
        ),
    )


def _counts(cells: Mapping[str, Any]) -> Counts:
    """The counts of a row."""
    labels = None
    if cells["labelled"] is not None:
        labels = HumanLabels(cells["labelled"], cells["stale_labels"], cells["blank_labels"])
    excluded = {outcome: cells[f"excluded_{outcome}"] for outcome in EXCLUDED}
    untested = {reason: cells[f"untested_{reason}"] for reason in UNTESTED}
    return Counts(
        cells["successes"],
        n=cells["n"] or 0,
        clusters=cells["clusters"],
        partial=cells["partial"],
        by_provider=cells["by_provider"],
        cut_off=cells["cut_off"],
        excluded={outcome: n for outcome, n in excluded.items() if n is not None},
        untested={reason: n for reason, n in untested.items() if n is not None},
        labels=labels,
    )


def _kind(text: str) -> Literal["min", "max"]:
    if text == "min":
        return "min"
    if text == "max":
        return "max"
    raise ValueError(f"threshold_kind must be min or max (got {text!r})")


def difference_to_row(difference: Difference) -> Row:
    """A difference as `refract compare` writes it, unrounded; prompts as lists of
    ids."""
    drop = difference.drop
    return {
        **{name: getattr(difference, name) for name in SAME_NAMES},
        "rate_a": difference.a,
        "rate_b": difference.b,
        "difference": difference.value,
        **_ends("", difference.interval),
        **_ends("judge_", difference.judge_interval),
        "p": difference.p,
        "p_holm": difference.p_adjusted,
        **_ends("bound_", difference.bounds),
        **_ends("outer_", difference.outer),
        **{kind: list(ids) for kind, ids in difference.prompts.items()},
        "repeats": difference.repeats,
        "primary": drop is not None,
        **(asdict(drop) if drop else NOT_PRIMARY),
    }


def rounded_difference(difference: Difference) -> Row:
    """:func:`difference_to_row` with rates of four decimals and p of four significant
    digits."""
    row = difference_to_row(difference)
    for key, value in row.items():
        if isinstance(value, float):
            row[key] = float(f"{value:.4g}") if key.startswith("p") else rounded(value)
    return row


def write_rates(path: Path, rates: Iterable[Rate]) -> None:
    """Writes ``metrics/tables/MODEL.csv``, whose cells no spreadsheet runs as
    formulas."""
    rates = list(rates)
    left_out: set[str] = set()
    if not any(rate.with_judge or rate.judge_unknown for rate in rates):
        left_out.update((*JUDGE_COLUMNS, "judge_unknown"))
    if not any(rate.counts.by_provider for rate in rates):
        left_out.add("by_provider")
    columns = [column for column in COLUMNS if column not in left_out]
    rows = []
    for rate in rates:
        row = rate_to_row(rate)
        row["value"] = csv_cell(row["value"])
        rows.append({column: row[column] for column in columns})
    write_table(path, columns, rows)


def rates_from_rows(rows: Iterable[Mapping[str, Any]], model: str = "") -> list[Rate]:
    """The rates of rows of CSV or of JSON."""
    return [rate_from_row(row, model) for row in rows]


def json_rows(rates: Iterable[Rate]) -> list[Row]:
    """Rates as `refract run` writes them: without the columns that a rate has nothing
    for."""
    rows = []
    for rate in rates:
        row = rate_to_row(rate)
        rows.append({key: cell for key, cell in row.items() if cell is not None or key in _ALWAYS})
    return rows


def confidence_of(provenance: Mapping[str, Any] | None) -> float:
    """The confidence of a result's intervals; .95 where there is no provenance."""
    decisions = (provenance or {}).get("decisions") or {}
    return float(decisions.get("confidence") or 0.95)


def _ends(prefix: str, interval: Interval | None) -> dict[str, float | None]:
    """The two columns of an interval."""
    low, high = interval or (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}


def _interval(cells: Mapping[str, Any], prefix: str) -> Interval | None:
    """The interval of two columns; None where they are empty."""
    low, high = cells[f"{prefix}low"], cells[f"{prefix}high"]
    return None if low is None else Interval(low, high)


def _number(text: str) -> float:
    """A whole number stays one, so that it is written again as it was."""
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _typed(cell: Any, kind: type) -> Any:
    """A cell of CSV or of JSON as what its column holds; None where it is empty."""
    if cell is None or cell == "":
        return None
    if not isinstance(cell, str):
        if kind is str or not isinstance(cell, int | float):
            raise TypeError(f"a cell of a table must be a {kind.__name__} (got {cell!r:.80})")
        return cell
    if kind is str:
        return cell
    return int(cell) if kind is int else _number(cell)
