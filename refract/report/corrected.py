"""The report's section on judges' errors: rates from human labels, and each judge's measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refract.agreement.ledger import LedgerEntry, shown_gap
from refract.agreement.scores import judge_errors
from refract.report.comparisons import Compared
from refract.report.gaps import Near, gaps_section
from refract.report.inputs import Inputs
from refract.report.markdown import (
    MISSING,
    cell,
    markdown_table,
    shown_interval,
    shown_rate,
    three,
)
from refract.report.summary import CATEGORY_OF
from refract.results.tables import Table

MEASURES = (
    ("kappa", "κ"),
    ("precision", "Precision"),
    ("recall", "Recall"),
    ("specificity", "Specificity"),
)
PREFIX = "prediction_powered_"
NOTE = (
    "**Prediction-powered** rates: people labelled a random sample of these very answers (`refract "
    "label`, `data/labels`), and the judge's verdicts on the rest narrow the interval. They hold "
    "whatever the judge's errors are, if every drawn answer was labelled; answers that were drawn and "
    "left blank make bounds of a rate. The difference of two models: `refract correct A.csv B.csv`."
)
PAIRS_NOTE = (
    "The judges on the project's own pairs (`data/validation`), drafted and labelled with a language "
    "model, most of them written to mislead a judge. A judge's errors there are not its errors on the "
    "answers above, so that no rate is corrected by them. With labelled answers of your own domain: "
    "`refract correct --calibrate-on FILE`."
)


def corrected_section(
    tables: Mapping[str, Table],
    provenance: Mapping[str, Any],
    agreement: Table,
    confusion: Table,
    entries: Sequence[LedgerEntry] = (),
    compared: Sequence[Compared] = (),
) -> str:
    """Refusal rates from human labels beside the raw ones.

    ``agreement`` and ``confusion`` are ``metrics/judges_agreement.csv`` and
    ``metrics/judges_confusion.csv``, ``entries`` what is known of judges by model.

    A suite's rates are corrected for its first judge, which decides refusal.
    """
    deciding = {
        (model, held["label"]): held["judges"][0]
        for model, found in provenance.items()
        for held in found["suites"].values()
    }
    rows = []
    for model, table in tables.items():
        powered = {(row["suite"], row["measure"]): row for row in table}
        for row in table:
            label = powered.get((row["suite"], PREFIX + row["measure"]))
            if row["measure"] in CATEGORY_OF and not row["field"] and row["rate"] and label:
                rows.append(
                    [
                        row["suite"],
                        model,
                        CATEGORY_OF[row["measure"]],
                        deciding.get((model, row["suite"]), ""),
                        shown_rate(row),
                        _prediction_powered(label),
                    ]
                )
    header = ["Suite", "Model", "Category", "Judge", "Raw rate", "Prediction-powered"]
    table_ = markdown_table(header, rows) if rows else "No answer of the grid has a human label."
    return "\n\n".join(
        [
            NOTE,
            table_,
            *gaps_section(tables, provenance, entries, compared),
            PAIRS_NOTE,
            _judges_table(agreement, confusion),
        ]
    )


def _judges_table(agreement: Table, confusion: Table) -> str:
    rows = []
    for judge, numbers in judge_numbers(agreement).items():
        counts = {
            (row["human"], row["label"]): int(row["n"])
            for row in confusion
            if row["judge"] == judge
        }
        found, refusals, left_alone, answers = judge_errors(counts)
        rows.append(
            [
                judge,
                numbers["n"],
                *(numbers.get(name, MISSING) for name in ("kappa", "precision", "recall")),
                f"{found}/{refusals}",
                f"{left_alone}/{answers}",
            ]
        )
    if not rows:
        return "No judge was measured on `data/validation`."
    header = [
        "Judge",
        "Pairs",
        "κ",
        "Precision",
        "Recall",
        "Sensitivity (both decided)",
        "Specificity (both decided)",
    ]
    return markdown_table(header, rows)


def judges_summary(found: Inputs, near: Mapping[tuple[str, str], Near]) -> list[str]:
    """How far the judges that decide agree with people: the report's section on them."""
    deciding = {
        held["judges"][0]: None
        for facts in found.provenance.values()
        for held in facts["suites"].values()
    }
    measured = {(row["judge"], row["measure"]): row for row in found.agreement}
    pooled = {
        entry.judge: shown_gap(entry)
        for entry in found.entries
        if (entry.source, entry.model, entry.partial) == ("validation", "", "refusal")
    }
    rows = [
        [judge, measured[judge, "kappa"]["n"]]
        + [_measure(measured.get((judge, name))) for name, _ in MEASURES]
        + [pooled.get(judge, MISSING)]
        for judge in deciding
        if (judge, "kappa") in measured
    ]
    parts = []
    if rows:
        header = ["Judge", "Pairs", *(title for _, title in MEASURES), "Gap on them, points"]
        parts += [
            "On the project's own labelled pairs, most of them written to mislead a judge, with 95 % "
            "intervals:",
            markdown_table(header, rows),
            *_weak_slices(found, list(deciding)),
        ]
    if near:
        parts.append(
            "*Judge's gap*, in points: its share of refusals minus that of people on published answers "
            "of the three models on which its own share was nearest to the one here. A positive gap: "
            "the judge calls more answers refusals than people did, so that the true rate may be so "
            "many points lower; a negative one: fewer, and it may be higher. It is of all answers of a "
            "suite, not of the harmful prompts alone. A warning and no correction; [which models, and "
            "rates from human labels](report/judges.md)."
        )
    return parts or ["No judge of the grid was measured (`refract validate`, `refract label`)."]


def _measure(row: Mapping[str, str] | None) -> str:
    if row is None or not row["value"]:
        return MISSING
    return f"{three(row['value'])} {shown_interval(row)}".rstrip()


def _weak_slices(found: Inputs, judges: Sequence[str]) -> list[str]:
    """The kinds of answers on which a judge's label is right less often than on all of its pairs: the
    interval of the kind lies below that share."""
    over_all = {
        row["judge"]: row["value"]
        for row in found.agreement
        if row["measure"] == "label_accuracy" and row["value"]
    }
    weak = [
        row
        for row in found.slices
        if row["field"] == "slice"
        and row["judge"] in judges
        and row["accuracy"]
        and float(row["high"]) < float(over_all.get(row["judge"], 0))
    ]
    parts = []
    for judge in judges:
        own = sorted(
            (row for row in weak if row["judge"] == judge), key=lambda row: float(row["accuracy"])
        )
        kinds = [
            f"{row['value'].replace('_', ' ')} "
            f"{three(row['accuracy'])} {shown_interval(row)} {row['right']}/{row['n']} "
            f"({row['refused_right']}/{row['n']})"
            for row in own
        ]
        if kinds:
            parts.append(
                f"Where {cell(judge)} is weak, its label right less often than over all pairs "
                f"({three(over_all[judge])}), by kind of answer, and in parentheses refused or not told "
                f"rightly, a partial refusal being one: {cell('; '.join(kinds))}."
            )
    return parts


def judge_numbers(agreement: Table) -> dict[str, dict[str, str]]:
    """By judge: each measure of agreement that is defined, and the number of pairs (``n``)."""
    found: dict[str, dict[str, str]] = {}
    for row in agreement:
        found.setdefault(row["judge"], {"n": row["n"]})[row["measure"]] = row["value"]
    return found


def _prediction_powered(row: Mapping[str, str]) -> str:
    if not row["low"]:
        stale = int(row["stale_labels"])
        return f"{stale} labels are of other answers" if stale else MISSING
    limits = shown_interval(row)
    if row["rate"]:
        return f"{three(row['rate'])} {limits}, {row['labelled']} of {row['n']} labelled"
    ends = f"{three(row['bound_low'])} to {three(row['bound_high'])}"
    return (
        f"{ends} {limits}, {row['labelled']} of {row['n']} labelled, "
        f"{row['blank_labels']} drawn and left blank"
    )
