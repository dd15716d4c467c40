"""validate-judges: labelled prompt-response pairs in, each judge's errors out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from refract.agreement import group_rows, label_numbers, score_labels
from refract.agreement.ledger import Answer, Entry, Partial, measure
from refract.core.errors import RowError
from refract.core.types import Row, Verdict, given_prompt, given_response
from refract.core.vocabulary import LABELS
from refract.judges import judge_suite
from refract.judges.protocol import Judge

GROUPS = ("slice", "language")
# What of a judge is a metric; the rest is in tables.
HEADLINES = (
    *("n", "unjudged", "kappa", "kappa_low", "kappa_high", "precision", "recall", "specificity"),
    *("f1", "accuracy", "label_accuracy", "label_kappa"),
)
AGREEMENT_COLUMNS = ("judge", "version", "measure", "value", "low", "high", "n", "unjudged")
CONFUSION_COLUMNS = ("judge", "version", "human", "label", "n")
GROUP_COLUMNS = (
    *("judge", "version", "field", "value", "n", "unjudged", "right", "refused_right"),
    *("accuracy", "low", "high"),
)


class Measured(NamedTuple):
    """Judges on labelled pairs: ``metrics``, the headline numbers by judge, and rows under the columns
    above: ``agreement`` has all numbers with their intervals, ``confusion`` how many pairs have which
    human label and which of the judge's, ``groups`` the accuracy by slice and language."""

    metrics: dict[str, Row]
    agreement: list[Row]
    confusion: list[Row]
    groups: list[Row]


def judge_pairs(pairs: Sequence[Row], judges: Mapping[str, Judge]) -> dict[str, list[Verdict]]:
    """Verdicts of each judge on ``prompt`` and ``response`` of each pair, in order.

    An answer without text never reaches a judge; it is labelled degenerate. Raises what judges
    raise.
    """
    names = [str(number) for number in range(len(pairs))]
    prompts = [given_prompt(name, pair["prompt"]) for name, pair in zip(names, pairs, strict=True)]
    responses = [
        given_response(name, pair["response"]) for name, pair in zip(names, pairs, strict=True)
    ]
    sources = {name: {**pair, "id": name} for name, pair in zip(names, pairs, strict=True)}
    rows = judge_suite(prompts, responses, sources, judges)
    found: dict[str, list[Verdict]] = {}
    for judge in judges:
        found[judge] = [row["judges"][judge] for row in rows]
        for pair, verdict in zip(pairs, found[judge], strict=True):
            if not pair["response"].strip():
                verdict["label"] = "degenerate"
    return found


def entries_of(
    judge: str,
    version: str,
    pairs: Sequence[Row],
    truth: Sequence[str],
    found: Sequence[str | None],
    partial: Partial = "refusal",
    shaped_by: Sequence[str] = (),
    confidence: float = 0.95,
) -> list[Entry]:
    """The ledger's entries of one judge's labels on pairs, by their ``source`` and ``model``.

    Pairs with the same ``cluster``, or else the same prompt, are taken as one cluster.
    """
    return measure(
        judge,
        version,
        [
            Answer(
                str(pair.get("source") or ""),
                str(pair.get("model") or ""),
                human,
                label,
                pair.get("cluster") or pair["prompt"] or number,
            )
            for number, (pair, human, label) in enumerate(zip(pairs, truth, found, strict=True))
        ],
        partial,
        shaped_by,
        confidence,
    )


def check_pairs(pairs: Sequence[Row], name: str) -> None:
    """Raises :class:`RowError` unless every pair has a prompt, a response and one of ``LABELS``."""
    if not pairs:
        raise RowError(f"{name}: holds no rows")
    for number, pair in enumerate(pairs, 1):
        for field in ("prompt", "response"):
            if not isinstance(pair.get(field), str):
                raise RowError(
                    f"{name}: row {number} needs a text as {field!r} (got {pair.get(field)!r:.60})"
                )
        if pair.get("label") not in LABELS:
            raise RowError(
                f"{name}: row {number}: label must be one of {', '.join(LABELS)} "
                f"(got {pair.get('label')!r:.60})"
            )


def validate(
    pairs: Sequence[Row], judges: Mapping[str, Judge], partial: Partial = "refusal"
) -> Measured:
    """How far each judge, which labels refusal, agrees with the labels of pairs; ``partial`` is what a
    partial refusal counts as."""
    measured = Measured({}, [], [], [])
    truth = [pair["label"] for pair in pairs]
    for judge, verdicts in judge_pairs(pairs, judges).items():
        found = [verdict["label"] for verdict in verdicts]
        score = score_labels(truth, found, partial=partial)
        numbers = label_numbers(score)
        own = {"judge": judge, "version": judges[judge].version}
        measured.metrics[judge] = {name: numbers[name] for name in HEADLINES if name in numbers}
        measured.agreement.extend(
            own
            | {"measure": name, "value": numbers[name]}
            | {end: numbers.get(f"{name}_{end}") for end in ("low", "high")}
            | {count: numbers[count] for count in ("n", "unjudged")}
            for name in HEADLINES
            if name in numbers and name not in ("n", "unjudged", "kappa_low", "kappa_high")
        )
        measured.confusion.extend(
            own | {"human": human, "label": label, "n": count}
            for human, counts in numbers["confusion"].items()
            for label, count in counts.items()
        )
        measured.groups.extend(
            own | row for field in GROUPS for row in group_rows(pairs, field, truth, found)
        )
    return measured
