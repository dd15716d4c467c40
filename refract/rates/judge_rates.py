"""Rates of a suite's further judges, by the family of their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refract.core.types import ResponseRow, Row, Verdict, VerdictRow
from refract.core.vocabulary import FAMILIES, JUDGED, Family
from refract.rates.clean_prompts import rate_table
from refract.rates.counting import (
    CONFIDENCE,
    WITHOUT_CUT_OFF,
    Counted,
    Outcomes,
    ids_of,
    mean_rate,
    outcome,
    overall_rates,
    without_cut_off,
)
from refract.rates.rate import OVERALL, Group, Rate


def judge_table(
    verdicts: Sequence[VerdictRow],
    outcomes: Outcomes,
    families: Mapping[str, str],
    confidence: float = CONFIDENCE,
) -> list[Rate]:
    """The share or mean that each judge's family is measured by, ``NAME_fail_rate``,
    ``NAME_harmful_rate``, ``NAME_mean_score``, …, over all answers.

    ``families`` maps names of judges to families. Answers that a judge was to label and did not are
    excluded and counted; those that it had nothing to say about (no requirement, no pair) are no
    part of the rate. A judge that had nothing to say about any answer has no row.
    """
    rates = []
    for name, family in families.items():
        concerned = [
            (row["judges"][name], outcomes[row["prompt_id"]])
            for row in verdicts
            if name in row["judges"] and _concerned(row["judges"][name], row, outcomes)
        ]
        if concerned:
            measure = f"{name}_{FAMILIES[family].measure}"
            rates += _family_rates(measure, FAMILIES[family], concerned, confidence)
    return rates


def refusal_table(
    sources: Sequence[Row],
    responses: Mapping[str, ResponseRow],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    judge: str,
    outcomes: Outcomes,
    cut_off: str | None,
    confidence: float = CONFIDENCE,
) -> list[Rate]:
    """The refusal rates of a suite's clean prompts by another judge than the first one: the same
    measures with the judge's name in front."""
    judged = {
        id_: outcomes[id_]._replace(
            outcome=outcome(responses[id_], verdicts[id_].get(judge), cut_off=cut_off)
        )
        for row in sources
        if row["id"] in verdicts
        for id_ in ids_of(row["id"], outcomes)
    }
    return [
        replace(rate, measure=f"{judge}_{rate.measure}")
        for rate in rate_table(sources, judged, (), confidence)
    ]


def _family_rates(
    measure: str,
    family: Family,
    concerned: Sequence[tuple[Verdict, Counted]],
    confidence: float,
) -> list[Rate]:
    if family.counted:
        labels = [_labelled(verdict["label"], answer) for verdict, answer in concerned]
        return overall_rates(measure, labels, family.counted, family.labels, confidence)
    # A score outside 0 to 1, as similarity can have it, counts as the end.
    scores = [
        None if verdict["score"] is None else min(1.0, max(0.0, verdict["score"]))
        for verdict, _ in concerned
    ]
    answers = [answer for _, answer in concerned]
    rates = [_mean_rate(measure, scores, answers, confidence)]
    if rates[0].counts.cut_off:
        finished = [None if a.cut_off else x for x, a in zip(scores, answers, strict=True)]
        answers = without_cut_off(answers)
        rates.append(_mean_rate(measure, finished, answers, confidence, WITHOUT_CUT_OFF))
    return rates


def _mean_rate(
    measure: str,
    scores: Sequence[float | None],
    answers: Sequence[Counted],
    confidence: float,
    group: Group = OVERALL,
) -> Rate:
    """A mean score; an answer without one counts as not judged unless it says why there is none."""
    reasons = [_labelled(None, answer) for answer in answers]
    return mean_rate(measure, scores, reasons, confidence, group)


def _concerned(verdict: Verdict, row: VerdictRow, outcomes: Outcomes) -> bool:
    """Whether a judge had this row to judge: it gave a verdict, failed, or there was no answer."""
    decided = any(verdict[key] is not None for key in ("label", "score", "error"))
    return decided or outcomes[row["prompt_id"]].outcome not in (*JUDGED, "degenerate")


def _labelled(given: str | None, answer: Counted) -> Counted:
    """An answer with a judge's label, or with the reason why there is none."""
    if given is None:
        given = "unjudged" if answer.outcome in (*JUDGED, "degenerate") else answer.outcome
    return answer._replace(outcome=given)
