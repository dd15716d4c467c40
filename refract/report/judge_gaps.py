"""What is known of the judge's error on each model: rate gaps measured on models that resemble it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from refract.agreement.ledger import LedgerEntry, below_gaps, closest, shown_gap
from refract.rates.rate import Rate
from refract.report.comparisons import Compared
from refract.report.wording import MISSING

NEAREST = 3


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


def nearest_entries(
    rates: Mapping[str, Sequence[Rate]],
    provenance: Mapping[str, Any],
    entries: Sequence[LedgerEntry],
) -> dict[tuple[str, str], Near]:
    """By suite's label and model, where the judge was measured on answers of other models."""
    near = {}
    for model, facts in provenance.items():
        overall = {
            rate.suite: rate.value
            for rate in rates[model]
            if rate.measure == "refusal_rate" and not rate.group
        }
        for suite in facts["suites"].values():
            judge, names = _judge_of(suite, facts)
            rate = overall.get(suite["label"])
            if rate is not None and (closest_ones := closest(entries, names, rate, NEAREST)):
                near[suite["label"], model] = Near(rate, judge, closest_ones)
    return near


def gap_above(
    provenance: Mapping[str, Any], entries: Sequence[LedgerEntry], compared: Compared
) -> float | None:
    """The largest rate gap on the models nearest to two that are compared, if their difference is below
    it; else None."""
    facts, difference = provenance[compared.first], compared.difference
    suite = facts["suites"].get(difference.suite)
    if suite is None:
        return None
    _, names = _judge_of(suite, facts)
    return below_gaps(entries, names, difference.first, difference.second)


def entry_text(entry: LedgerEntry, version: str) -> str:
    """An entry in one cell; its judge's version where that is not the one in use."""
    notes = [f"n {entry.n}", *([] if entry.unseen else ["seen"])]
    if entry.version != version:
        notes.append(f"version {entry.version}, not {version}")
    rate = MISSING if entry.judge_rate is None else f"{entry.judge_rate:.3f}"
    return f"{entry.model}, {entry.source}: {rate}, gap {shown_gap(entry)} ({', '.join(notes)})"


def _judge_of(suite: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[str, set[str]]:
    """The judge that decides a suite, and the names that a ledger may know it by."""
    judge = suite["judges"][0]
    return judge, {judge, facts.get("judges", {}).get(judge, {}).get("kind", judge)}
