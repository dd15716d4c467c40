"""Comparisons of two sides that are smaller than the errors that their judge is known to make."""

from __future__ import annotations

from collections.abc import Sequence

from refract.agreement.ledger import LedgerEntry, below_gaps
from refract.core.types import Row
from refract.results.sources import Side


def gap_notes(a: Side, rows: Sequence[Row], entries: Sequence[LedgerEntry]) -> list[str]:
    """One line that names the differences below the judge's rate gaps on models with such rates.

    ``rows`` are those of :func:`refract.results.sides.compare_sides`; side A says which judge decided.
    Differences that are 0 are left out.
    """
    small = []
    largest = 0.0
    for row in rows:
        result = a.results.get(row["model"].split(" → ")[0])
        if not row["difference"] or row["perturbation"] or not result or not result.provenance:
            continue
        suite = result.provenance["suites"].get(row["suite"])
        if suite is None:
            continue
        judge = suite["judges"][0]
        names = {judge, result.provenance.get("judges", {}).get(judge, {}).get("kind", judge)}
        gap = below_gaps(entries, names, row["rate_a"], row["rate_b"])
        if gap is not None:
            small.append(f"{row['model']} on {row['suite']}, {row['category']}")
            largest = max(largest, gap)
    if not small:
        return []
    shown = ", ".join(small[:5]) + (", …" if len(small) > 5 else "")
    return [
        f"smaller than the rate gaps that the judge was measured to have on models with such rates "
        f"(up to {100 * largest:.1f} points; refract label decides): {shown}"
    ]
