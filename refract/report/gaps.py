"""What is known of the judge's error on each model: rate gaps measured on models that resemble it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refract.agreement.ledger import LedgerEntry, below_gaps, closest, shown_gap
from refract.report.comparisons import Compared
from refract.report.markdown import MISSING, cell, markdown_table, rate_of
from refract.results.tables import Table

NOTE = (
    "**Rate gaps.** The judge's refusal rate minus the rate that people found, in points, on published "
    "answers of other models. For each model and suite, the three of them on which the judge's own "
    "refusal rate was nearest to the one here, nearest first; what resembles in rate may differ in how "
    "it refuses, so that a gap is a warning and not a correction. *Seen*: such answers have shaped the "
    "judge, and on others it errs more. All of them: `refract/agreement/ledger.csv`."
)
NONE = (
    "**Rate gaps.** No judge of the grid was measured on answers of other models, so that nothing is "
    "known of its errors by model."
)
NEAREST = 3


def gaps_section(
    tables: Mapping[str, Table],
    provenance: Mapping[str, Any],
    entries: Sequence[LedgerEntry],
    compared: Sequence[Compared],
) -> list[str]:
    """The entries that come closest to each model, and the comparisons that are smaller than gaps."""
    rows: list[list[object]] = []
    for (label, model), near in nearest(tables, provenance, entries).items():
        versions = {name: held["version"] for name, held in provenance[model]["judges"].items()}
        rows.append(
            [
                label,
                model,
                f"{near.rate:.3f}",
                near.judge,
                *(_shown(entry, versions.get(near.judge, "")) for entry in near.entries),
                *[MISSING] * (NEAREST - len(near.entries)),
            ]
        )
    if not rows:
        return [NONE]
    header = ["Suite", "Model", "Refused", "Judge", "Nearest", "Second", "Third"]
    below = [
        (held, gap)
        for held in compared
        if held[2]["difference"] and (gap := gap_above(provenance, entries, held)) is not None
    ]
    parts = [NOTE, markdown_table(header, rows)]
    if below:
        telling = [
            f"{row['suite']}, {row['category']}: {one} and {two} ({row['difference']:+.3f}; "
            f"gaps of up to {100 * gap:.1f} points)"
            for (one, two, row), gap in below
            if row["p_holm"] is not None and row["p_holm"] <= 0.05
        ]
        parts.append(
            f"**Differences below the rate gaps**: {len(below)} of the differences between two models "
            "are smaller than the largest gap on the models nearest to the two; a judge that errs so on "
            "one of the two alone would make them. Labels of both models decide (`refract label`). "
            "More than chance, and below the gaps: "
            + ("; ".join(map(cell, telling)) or "none")
            + "."
        )
    return parts


class Near(NamedTuple):
    """What is known of the judge of one model on one suite: the share that it called refused here, its
    name, and its entries on models with nearly that share, nearest first."""

    rate: float
    judge: str
    entries: list[LedgerEntry]

    @property
    def gaps(self) -> str:
        """The rate gaps in points, from the lowest to the highest: ``-3.1 to +0.4``."""
        points = [100 * entry.gap for entry in self.entries if entry.gap is not None]
        return f"{min(points):+.1f} to {max(points):+.1f}" if points else MISSING


def nearest(
    tables: Mapping[str, Table], provenance: Mapping[str, Any], entries: Sequence[LedgerEntry]
) -> dict[tuple[str, str], Near]:
    """By suite and model, where the judge was measured on answers of other models."""
    found = {}
    for model, facts in provenance.items():
        for held in facts["suites"].values():
            judge, names = _judge_of(model, held, provenance)
            row = next(
                (
                    row
                    for row in tables[model]
                    if (row["suite"], row["measure"]) == (held["label"], "refusal_rate")
                    and not row["field"]
                ),
                None,
            )
            if row is None or not row["rate"]:
                continue
            rate = rate_of(row)
            if near := closest(entries, names, rate, NEAREST):
                found[held["label"], model] = Near(rate, judge, near)
    return found


def gap_above(
    provenance: Mapping[str, Any], entries: Sequence[LedgerEntry], compared: Compared
) -> float | None:
    """The largest rate gap on the models nearest to two that are compared, if their difference is below
    it; else None."""
    one, _, row = compared
    held = provenance[one]["suites"].get(row["suite"])
    if held is None:
        return None
    _, names = _judge_of(one, held, provenance)
    return below_gaps(entries, names, row["rate_a"], row["rate_b"])


def _shown(entry: LedgerEntry, version: str) -> str:
    """An entry in one cell; the version where it is not the one in use."""
    notes = [f"n {entry.n}", *([] if entry.unseen else ["seen"])]
    if entry.version != version:
        notes.append(f"version {entry.version}, not {version}")
    rate = MISSING if entry.judge_rate is None else f"{entry.judge_rate:.3f}"
    return f"{entry.model}, {entry.source}: {rate}, gap {shown_gap(entry)} ({', '.join(notes)})"


def _judge_of(
    model: str, held: Mapping[str, Any], provenance: Mapping[str, Any]
) -> tuple[str, set[str]]:
    """The judge that decides a suite, and the names that a ledger may know it by."""
    judge = held["judges"][0]
    kinds = provenance[model].get("judges", {})
    return judge, {judge, kinds.get(judge, {}).get("kind", judge)}
