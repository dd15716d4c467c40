"""Markdown as the report and the commands write it, inert whatever a text holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

MISSING = "—"

# Markdown's own marks, the backslash included: unescaped, it would undo the next escape.
ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", **{mark: f"\\{mark}" for mark in "\\|`[]*~$"}},
)


def cell(text: object) -> str:
    """A text as one cell of a Markdown table, inert whatever it holds."""
    shown = "".join(c if c.isprintable() else " " for c in str(text))
    return shown.translate(ESCAPED)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table: the first column left-aligned, the others right-aligned."""
    lines = [
        f"| {' | '.join(map(cell, header))} |",
        f"|{'|'.join([':--', *['--:'] * (len(header) - 1)])}|",
    ]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines)


def shown_rate(row: Mapping[str, str] | None) -> str:
    """A rate with its interval and counts, such as ``0.912 [0.850, 0.950] 118/129``."""
    if row is None:
        return MISSING
    if not row["rate"]:
        return f"{MISSING} 0/0"
    rate, low, high = (f"{float(row[key]):.3f}" for key in ("rate", "low", "high"))
    return f"{rate} [{low}, {high}] {row['successes']}/{row['n']}"


def shown_p(text: str) -> str:
    """A p-value; one that rounds to nothing is below what the tables keep, not zero."""
    if not text:
        return MISSING
    return f"{float(text):.4f}" if float(text) else "<0.0001"


def excluded_counts(row: Mapping[str, str]) -> dict[str, int]:
    """The excluded outcomes of a rate that occurred, with their counts."""
    return {
        key.removeprefix("excluded_").replace("_", " "): int(value)
        for key, value in row.items()
        if key.startswith("excluded_") and value and int(value)
    }


def left_out(row: Mapping[str, str]) -> str:
    """The excluded outcomes of a rate in words: ``2 cut off, 1 error``; ``0`` where none occurred."""
    return ", ".join(f"{n} {kind}" for kind, n in excluded_counts(row).items()) or "0"
