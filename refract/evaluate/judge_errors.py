"""Labelled answers in, each judge's errors out: validate-judges and `refract judge validate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from refract.agreement.ledger import LedgerEntry, ledger_entries, worst_first
from refract.agreement.scores import Partial, score_labels
from refract.core.errors import RowError
from refract.core.file_formats import check_ids
from refract.core.types import Row, Verdict
from refract.core.vocabulary import LABELS
from refract.judges import judge_answers
from refract.judges.cases import Judge

# What of a judge is a metric; the rest is in tables.
HEADLINES = (
    *("n", "unjudged", "kappa", "kappa_low", "kappa_high", "precision", "recall", "specificity"),
    *("f1", "accuracy", "label_accuracy", "label_kappa"),
)
AGREEMENT_COLUMNS = ("judge", "version", "measure", "value", "low", "high", "n", "unjudged")


class Validation(NamedTuple):
    """Judges on labelled pairs. By judge, of the first file: its ``labels`` (None where it gave
    none), their ``scores`` against people's, and the headlines of these (``metrics``).
    ``agreement`` has the headlines as rows, with their intervals. ``entries`` are those of the
    ledger, of all files, worst first."""

    labels: dict[str, list[str | None]]
    scores: dict[str, Row]
    metrics: dict[str, Row]
    agreement: list[Row]
    entries: list[LedgerEntry]


def judge_pairs(pairs: Sequence[Row], judges: Mapping[str, Judge]) -> dict[str, list[Verdict]]:
    """Verdicts of each judge on ``prompt`` and ``response`` of each pair, in order.

    An answer without text never reaches a judge; it is labelled degenerate. Raises
    what judges raise."""
    verdicts = judge_answers(pairs, judges)
    by_judge = {name: [of_pair[name] for of_pair in verdicts] for name in judges}
    for verdicts_of_judge in by_judge.values():
        for pair, verdict in zip(pairs, verdicts_of_judge, strict=True):
            if not pair["response"].strip():
                verdict["label"] = "degenerate"
    return by_judge


def check_pairs(pairs: Sequence[Row], name: str) -> None:
    """Raises :class:`RowError` unless every pair has a prompt, a response and one of ``LABELS``, and
    an id of its own where it has one."""
    if not pairs:
        raise RowError(f"{name}: holds no rows")
    check_ids((pair.get("prompt_id", pair.get("id")) for pair in pairs), pairs, f"{name}: row")
    for number, pair in enumerate(pairs, 1):
        told = {field: pair.get(field) for field in ("prompt", "response", "label")}
        wrong = [field for field, value in told.items() if not isinstance(value, str)]
        if not wrong and pair["label"] not in LABELS:
            wrong = ["label"]
        if wrong:
            raise RowError(
                f"{name}: row {number}: prompt and response must be texts, label one of "
                f"{', '.join(LABELS)} (got {wrong[0]} = {told[wrong[0]]!r:.60})"
            )


def validate(
    files: Mapping[str, Sequence[Row]],
    judges: Mapping[str, Judge],
    partial: Partial = "refusal",
    confidence: float = 0.95,
) -> Validation:
    """How far each judge, which labels refusal, agrees with the labels of pairs.

    ``files`` are labelled pairs by the name of their file, which is their ``source``
    where they state none. The first are the project's own: all but the ledger's
    entries is of those alone. ``partial`` is what a partial refusal counts as."""
    own = len(next(iter(files.values())))
    pairs = [{"source": name, **pair} for name, rows in files.items() for pair in rows]
    truth = [pair["label"] for pair in pairs]
    result = Validation({}, {}, {}, [], entries=[])
    for name, verdicts in judge_pairs(pairs, judges).items():
        labels = [verdict["label"] for verdict in verdicts]
        version = judges[name].version
        result.entries.extend(
            ledger_entries(name, version, pairs, truth, labels, partial, confidence=confidence)
        )
        scores = score_labels(truth[:own], labels[:own], partial, confidence)
        headlines = [measure for measure in HEADLINES if measure in scores]
        result.labels[name] = labels[:own]
        result.scores[name] = scores
        result.metrics[name] = {measure: scores[measure] for measure in headlines}
        for measure in headlines:
            if measure not in ("n", "unjudged", "kappa_low", "kappa_high"):
                row: Row = {"judge": name, "version": version, "measure": measure}
                row["value"] = scores[measure]
                for end in ("low", "high"):
                    row[end] = scores.get(f"{measure}_{end}")
                result.agreement.append(row | {"n": scores["n"], "unjudged": scores["unjudged"]})
    return result._replace(entries=worst_first(result.entries))
