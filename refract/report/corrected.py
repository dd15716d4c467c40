"""The report's section on what the judges' errors could do to the rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refract.report.markdown import MISSING, markdown_table, shown_rate
from refract.report.summary import CATEGORY_OF
from refract.results.tables import Table
from refract.statistics.correction import Corrected, rogan_gladen
from refract.validation import judge_errors

PREFIX = "prediction_powered_"
NOTE = (
    "*A sensitivity analysis: the rates above stand as they are.* **Rogan–Gladen** is the rate that a "
    "raw rate would point to if the judge erred on these answers as often as on the labelled pairs of "
    "`data/validation`; its 95 % interval (Lang and Reiczigel) includes how few those pairs are. A "
    "judge's errors on one set of answers do not transfer to another, and most of those pairs were "
    "written to mislead a judge. **Prediction-powered** rates need no such assumption: people "
    "labelled a random sample of these very answers (`refract label`, `data/labels`), and the judge's "
    "verdicts on the rest narrow the interval."
)


def corrected_section(
    tables: Mapping[str, Table], provenance: Mapping[str, Any], judges: Mapping[str, Any]
) -> str:
    """Raw and corrected refusal rates by category; ``judges`` is ``metrics/judges.json``.

    A suite's rates are corrected for its first judge, which decides refusal.
    """
    deciding = {
        (model, held["label"]): held["judges"][0]
        for model, found in provenance.items()
        for held in found["suites"].values()
    }
    rows = []
    for model, table in tables.items():
        for row in table:
            if row["measure"] not in CATEGORY_OF or row["field"] or not row["rate"]:
                continue
            judge = deciding.get((model, row["suite"]), "")
            rows.append(
                [
                    row["suite"],
                    model,
                    CATEGORY_OF[row["measure"]],
                    judge,
                    shown_rate(row),
                    _shown(_corrected(row, judges.get(judge))),
                    _prediction_powered(table, row),
                ]
            )
    if not rows:
        return f"{NOTE}\n\nThere are no rates to correct."
    header = [
        "Suite",
        "Model",
        "Category",
        "Judge",
        "Raw rate",
        "Rogan–Gladen",
        "Prediction-powered",
    ]
    return "\n\n".join([NOTE, _judges_table(judges), markdown_table(header, rows)])


def _judges_table(judges: Mapping[str, Any]) -> str:
    rows = []
    for judge, numbers in judges.items():
        found, refusals, left_alone, answers = judge_errors(numbers)
        rows.append(
            [
                judge,
                numbers["n"],
                numbers.get("kappa", MISSING),
                numbers.get("precision", MISSING),
                numbers.get("recall", MISSING),
                f"{found}/{refusals}",
                f"{left_alone}/{answers}",
            ]
        )
    if not rows:
        return "No judge was measured on `data/validation`."
    header = [
        "Judge",
        "Labelled pairs",
        "κ",
        "Precision",
        "Recall",
        "Sensitivity (both decided)",
        "Specificity (both decided)",
    ]
    return markdown_table(header, rows)


def _corrected(row: Mapping[str, str], numbers: Mapping[str, Any] | None) -> Corrected | None:
    if numbers is None:
        return None
    return rogan_gladen(int(row["successes"]), int(row["n"]), *judge_errors(numbers))


def _shown(corrected: Corrected | None) -> str:
    if corrected is None:
        return MISSING
    rate = MISSING if corrected.rate is None else f"{corrected.rate:.3f}"
    return f"{rate} [{corrected.low:.3f}, {corrected.high:.3f}]"


def _prediction_powered(table: Table, raw: Mapping[str, str]) -> str:
    row = next(
        (
            row
            for row in table
            if row["suite"] == raw["suite"] and row["measure"] == PREFIX + raw["measure"]
        ),
        None,
    )
    if row is None:
        return MISSING
    if not row["rate"]:
        stale = int(row["stale_labels"])
        return f"{stale} labels are of other answers" if stale else MISSING
    rate, low, high = (float(row[key]) for key in ("rate", "low", "high"))
    return f"{rate:.3f} [{low:.3f}, {high:.3f}], {row['labelled']} of {row['n']} labelled"
