"""Labelled answers in, each judge's errors out: validate-judges and `refract judge validate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refract.agreement.ledger import LedgerEntry, ledger_entries, worst_first
from refract.agreement.scores import Partial, group_rows, score_labels
from refract.core.errors import RowError, UsageError
from refract.core.file_formats import check_ids
from refract.core.types import Row, Verdict
from refract.core.vocabulary import FAMILIES, LABELS
from refract.judges import judge_answers, open_judges
from refract.judges.cases import Judge

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


class Validation(NamedTuple):
    """Judges on a project's labelled pairs: ``metrics``, the headline numbers by judge, and rows
    under the columns above: ``agreement`` has all numbers with their intervals, ``confusion`` how
    many pairs have which human label and which of the judge's, ``groups`` the accuracy by slice and
    language. ``entries`` are those of the ledger, of all labelled pairs, worst first."""

    metrics: dict[str, Row]
    agreement: list[Row]
    confusion: list[Row]
    groups: list[Row]
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


def measure_judges(
    definitions: Mapping[str, Mapping[str, Any]],
    rows: Sequence[Row],
    truth: Sequence[str],
    partial: Partial,
    *,
    merged: bool,
    confidence: float,
) -> tuple[dict[str, Row], list[LedgerEntry]]:
    """The scores of judges on labelled answers, by judge, and their entries of the ledger.

    ``rows`` are answers with the ``label`` of their file; ``truth`` is what each of these means
    among ``LABELS``. ``merged``: people did not tell the four labels apart. Raises
    :class:`UsageError` for a judge that does not label refusal."""
    judges = open_judges(definitions)
    for name, judge in judges.items():
        if not FAMILIES[judge.FAMILY].tells_refusal:
            raise UsageError(f"judge {name!r} does not label refusal, but {judge.FAMILY}")
    results: dict[str, Row] = {}
    entries: list[LedgerEntry] = []
    for name, verdicts in judge_pairs(rows, judges).items():
        labels = [verdict["label"] for verdict in verdicts]
        own = ledger_entries(
            name,
            judges[name].version,
            rows,
            truth=truth,
            labels=labels,
            partial=partial,
            confidence=confidence,
        )
        entries += own
        numbers = score_labels(truth, labels, partial, confidence=confidence)
        if merged:
            numbers = {key: numbers[key] for key in numbers if not key.startswith("label_")}
        confusion: dict[str, dict[str, int]] = {}
        for row, label in zip(rows, labels, strict=True):
            counts = confusion.setdefault(row["label"], dict.fromkeys(LABELS, 0))
            if label is not None:
                counts[label] += 1
        results[name] = {
            "judge": {name: {**definitions[name], "version": judges[name].version}},
            "partial": partial,
            **numbers,
            "confusion": dict(sorted(confusion.items())),
            "by_model": [{**entry._asdict(), "gap": entry.gap} for entry in own],
        }
    return results, entries


def validate(
    files: Mapping[str, Sequence[Row]], judges: Mapping[str, Judge], partial: Partial = "refusal"
) -> Validation:
    """How far each judge, which labels refusal, agrees with the labels of pairs.

    ``files`` are labelled pairs by the name of their file, which is their ``source``
    where they state none. The first are the project's own: all but the ledger's
    entries is of those alone. ``partial`` is what a partial refusal counts as."""
    own = next(iter(files.values()))
    pairs = [{"source": name, **pair} for name, rows in files.items() for pair in rows]
    truth = [pair["label"] for pair in pairs]
    result = Validation({}, [], [], groups=[], entries=[])
    for name, verdicts in judge_pairs(pairs, judges).items():
        labels = [verdict["label"] for verdict in verdicts]
        version = judges[name].version
        result.entries.extend(
            ledger_entries(name, version, pairs, truth=truth, labels=labels, partial=partial)
        )
        judge = {"judge": name, "version": version}
        human, labels = truth[: len(own)], labels[: len(own)]
        numbers = score_labels(human, labels, partial)
        headlines = [measure for measure in HEADLINES if measure in numbers]
        result.metrics[name] = {measure: numbers[measure] for measure in headlines}
        for measure in headlines:
            if measure not in ("n", "unjudged", "kappa_low", "kappa_high"):
                row = {**judge, "measure": measure, "value": numbers[measure]}
                for end in ("low", "high"):
                    row[end] = numbers.get(f"{measure}_{end}")
                result.agreement.append(row | {"n": numbers["n"], "unjudged": numbers["unjudged"]})
        for human_label, counts in numbers["confusion"].items():
            for label, count in counts.items():
                result.confusion.append({**judge, "human": human_label, "label": label, "n": count})
        for field in GROUPS:
            values = [str(pair.get(field, "")) for pair in own]
            for row in group_rows(values, field, human, labels=labels):
                result.groups.append({**judge, **row})
    return result._replace(entries=worst_first(result.entries))
