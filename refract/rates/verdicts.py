"""Rates of a suite's further judges, by the family of their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import mean, stdev

from refract.rates.rates import Outcomes, outcome, rate_row, rate_table, rounded
from refract.rows.labels import FAMILIES, JUDGED, Family
from refract.rows.types import ResponseRow, Row, Verdict, VerdictRow

# A score in place of a label, where scores are averaged.
_SCORED = "scored"


def judge_table(
    verdicts: Sequence[VerdictRow], outcomes: Outcomes, families: Mapping[str, str]
) -> list[Row]:
    """The share or mean that each judge's family is measured by, ``NAME_fail_rate``,
    ``NAME_harmful_rate``, ``NAME_mean_score``, …, over all answers.

    ``families`` maps names of judges to families. Answers that a judge was to label and did not are
    excluded and counted; those that it had nothing to say about (no requirement, no pair) are no
    part of the rate. A judge that had nothing to say about any answer has no row.
    """
    table = []
    for name, family in families.items():
        concerned = [
            (row["judges"][name], outcomes[row["prompt_id"]])
            for row in verdicts
            if name in row["judges"] and _concerned(row["judges"][name], row, outcomes)
        ]
        if concerned:
            found = _measured(FAMILIES[family], concerned)
            measure = f"{name}_{FAMILIES[family].measure}"
            table.append({"measure": measure, "field": "", "value": "", **found})
    return table


def refusal_table(
    sources: Sequence[Row],
    responses: Mapping[str, ResponseRow],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    judge: str,
    *,
    count_cut_off: bool,
) -> list[Row]:
    """The refusal rates of a suite's clean prompts by another judge than the first one: the same
    measures with the judge's name in front."""
    outcomes = {
        row["id"]: outcome(
            responses[row["id"]], verdicts[row["id"]].get(judge), count_cut_off=count_cut_off
        )
        for row in sources
        if row["id"] in verdicts
    }
    return [
        {**row, "measure": f"{judge}_{row['measure']}"} for row in rate_table(sources, outcomes)
    ]


def _measured(family: Family, concerned: Sequence[tuple[Verdict, str]]) -> Row:
    if family.counted:
        labels = [_label(verdict["label"], outcome) for verdict, outcome in concerned]
        return rate_row(labels, family.counted, family.labels)
    scores = [verdict["score"] for verdict, _ in concerned if verdict["score"] is not None]
    labels = [
        _label(None if verdict["score"] is None else _SCORED, outcome)
        for verdict, outcome in concerned
    ]
    # A mean has the exclusions of a rate, and no bounds that counts could give it.
    excluded = rate_row(labels, (), (_SCORED,)) | {"bound_low": None, "bound_high": None}
    return excluded | _mean(scores)


def _concerned(verdict: Verdict, row: VerdictRow, outcomes: Outcomes) -> bool:
    """Whether a judge had this row to judge: it gave a verdict, failed, or there was no answer."""
    decided = any(verdict[key] is not None for key in ("label", "score", "error"))
    return decided or outcomes[row["prompt_id"]] not in (*JUDGED, "degenerate")


def _label(given: str | None, outcome: str) -> str:
    if given is not None:
        return given
    return outcome if outcome not in (*JUDGED, "degenerate") else "unjudged"


def _mean(scores: Sequence[float]) -> Row:
    """Mean of scores from 0 to 1 with its 95 % t interval, which needs two of them."""
    if not scores:
        return {"successes": None, "n": 0, "rate": None, "low": None, "high": None}
    middle = mean(scores)
    row: Row = {"successes": None, "n": len(scores), "rate": rounded(middle)}
    if len(scores) < 2:
        return row | {"low": None, "high": None}
    from scipy.stats import t

    half = float(t.ppf(0.975, len(scores) - 1)) * stdev(scores) / sqrt(len(scores))
    return row | {"low": rounded(max(0.0, middle - half)), "high": rounded(min(1.0, middle + half))}
