"""Rates of a suite's further judges, by the family of their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refract.core.types import ResponseRow, Row, Verdict, VerdictRow
from refract.core.vocabulary import (
    FAMILIES,
    JUDGED,
    Family,
)
from refract.rates.counting import (
    CONFIDENCE,
    CUT_OFF_FIELD,
    WITHOUT_CUT_OFF,
    Counted,
    Outcomes,
    excluded_counts,
    ids_of,
    mean_row,
    outcome,
    rate_rows,
)
from refract.rates.rates import rate_table


def judge_table(
    verdicts: Sequence[VerdictRow],
    outcomes: Outcomes,
    families: Mapping[str, str],
    confidence: float = CONFIDENCE,
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
            table += _measured(
                f"{name}_{FAMILIES[family].measure}", FAMILIES[family], concerned, confidence
            )
    return table


def refusal_table(
    sources: Sequence[Row],
    responses: Mapping[str, ResponseRow],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    judge: str,
    outcomes: Outcomes,
    *,
    cut_off: str | None,
    confidence: float = CONFIDENCE,
) -> list[Row]:
    """The refusal rates of a suite's clean prompts by another judge than the first one: the same
    measures with the judge's name in front."""
    own = {
        id_: outcomes[id_]._replace(
            outcome=outcome(responses[id_], verdicts[id_].get(judge), cut_off=cut_off)
        )
        for row in sources
        if row["id"] in verdicts
        for id_ in ids_of(row["id"], outcomes)
    }
    return [
        {**row, "measure": f"{judge}_{row['measure']}"}
        for row in rate_table(sources, own, (), confidence)
    ]


def _measured(
    measure: str,
    family: Family,
    concerned: Sequence[tuple[Verdict, Counted]],
    confidence: float,
) -> list[Row]:
    if family.counted:
        labels = [_labelled(verdict["label"], answer) for verdict, answer in concerned]
        return rate_rows(measure, labels, family.counted, family.labels, confidence)
    # A score outside 0 to 1, as similarity can have it, counts as the end.
    scores = [
        None if verdict["score"] is None else min(1.0, max(0.0, verdict["score"]))
        for verdict, _ in concerned
    ]
    answers = [answer for _, answer in concerned]
    rows: list[Row] = [
        {"measure": measure, "field": "", "value": "", **_mean_row(scores, answers, confidence)}
    ]
    if rows[0]["cut_off"]:
        finished = _mean_row(
            [None if a.cut_off else score for score, a in zip(scores, answers, strict=True)],
            [a._replace(outcome="cut_off") if a.cut_off else a for a in answers],
            confidence,
        )
        rows.append(
            {"measure": measure, "field": CUT_OFF_FIELD, "value": WITHOUT_CUT_OFF, **finished}
        )
    return rows


def _mean_row(scores: Sequence[float | None], answers: Sequence[Counted], confidence: float) -> Row:
    """A mean score with all that it leaves out."""
    scored = [a for score, a in zip(scores, answers, strict=True) if score is not None]
    return {
        "successes": None,
        "n": len(scored),
        **mean_row(
            scores,
            [answer.cluster for answer in answers],
            confidence,
            prompts=[answer.prompt for answer in answers],
        ),
        "cut_off": sum(answer.cut_off for answer in scored),
        **excluded_counts(
            _labelled(None, answer).outcome
            for score, answer in zip(scores, answers, strict=True)
            if score is None
        ),
    }


def _concerned(verdict: Verdict, row: VerdictRow, outcomes: Outcomes) -> bool:
    """Whether a judge had this row to judge: it gave a verdict, failed, or there was no answer."""
    decided = any(verdict[key] is not None for key in ("label", "score", "error"))
    return decided or outcomes[row["prompt_id"]].outcome not in (*JUDGED, "degenerate")


def _labelled(given: str | None, answer: Counted) -> Counted:
    """An answer with a judge's label, or with the reason why there is none."""
    if given is None:
        given = "unjudged" if answer.outcome in (*JUDGED, "degenerate") else answer.outcome
    return answer._replace(outcome=given)
