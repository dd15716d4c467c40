"""Rates of what other judges than the first one said: requirements, coherency, harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any

from refract.rates.rates import Outcomes, rate_row, rounded
from refract.rows.jsonl import Row
from refract.rows.labels import JUDGED

# The measure of each kind of judge, the label it counts, and the other labels it can give.
COUNTED = {
    "coherency": ("fail_rate", "fail", "pass"),
    "harmfulness": ("harmful_rate", "harmful", "harmless"),
    "requirement": ("fail_rate", "fail", "pass"),
}
SCORED = "strongreject"


def judge_table(
    verdicts: Sequence[Row], outcomes: Outcomes, judges: Mapping[str, Mapping[str, Any]]
) -> list[Row]:
    """``NAME_fail_rate`` of requirement and coherency judges, ``NAME_harmful_rate`` of harm judges,
    ``NAME_mean_score`` (0 to 1) of StrongREJECT ones, for each judge by its name.

    Answers that the judge was to label and did not are excluded and counted; those that it had
    nothing to say about (no requirement, no pair) are no part of the rate.
    """
    table = []
    for name, definition in judges.items():
        kind = definition["kind"]
        asked = [
            (row["judges"][name], outcomes[row["prompt_id"]])
            for row in verdicts
            if name in row["judges"] and _concerned(row["judges"][name], row, outcomes)
        ]
        if kind in COUNTED and asked:
            measure, counted, other = COUNTED[kind]
            labels = [_label(verdict, outcome) for verdict, outcome in asked]
            found = rate_row(labels, (counted,), (counted, other))
            table.append({"measure": f"{name}_{measure}", "field": "", "value": "", **found})
        elif kind == SCORED and asked:
            scores = [verdict["score"] for verdict, _ in asked if verdict["score"] is not None]
            labels = [_label(verdict, outcome) for verdict, outcome in asked]
            # A mean has the exclusions of a rate, and no bounds that counts could give it.
            found = rate_row(labels, (), JUDGED) | {"bound_low": None, "bound_high": None}
            row = {"measure": f"{name}_mean_score", "field": "", "value": "", **found}
            table.append(row | _mean(scores))
    return table


def _concerned(verdict: Row, row: Row, outcomes: Outcomes) -> bool:
    """Whether a judge had this row to judge: it spoke, failed, or there was no answer to judge."""
    spoke = verdict["label"] is not None or verdict["error"] is not None
    return spoke or outcomes[row["prompt_id"]] not in (*JUDGED, "degenerate")


def _label(verdict: Row, outcome: str) -> str:
    if verdict["label"] is not None:
        return verdict["label"]
    return outcome if outcome not in (*JUDGED, "degenerate") else "unjudged"


def _mean(scores: Sequence[float]) -> Row:
    """Mean of scores from 0 to 1 with its 95 % t interval, which needs two of them."""
    if not scores:
        return {"successes": None, "n": 0, "rate": None, "low": None, "high": None}
    middle = mean(scores)
    row = {"successes": None, "n": len(scores), "rate": rounded(middle)}
    if len(scores) < 2:
        return row | {"low": None, "high": None}
    from scipy.stats import t

    half = float(t.ppf(0.975, len(scores) - 1)) * stdev(scores) / sqrt(len(scores))
    return row | {"low": rounded(max(0.0, middle - half)), "high": rounded(min(1.0, middle + half))}
