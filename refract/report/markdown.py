"""Markdown as the report and the commands write it, inert whatever a text holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal

from refract.core.vocabulary import DIGITS
from refract.statistics.proportions import wilson

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


def percent(confidence: float) -> str:
    """A confidence for people: ``95 %``."""
    return f"{round(100 * confidence, 6):g} %"


# From this share of cut-off answers on, a rate says so loudly.
LOUD = 0.1


def of_counts(stored: str, successes: int, n: int) -> float:
    """A number of a table before it was rounded: the quotient of its counts, where it is that.

    A rate over several samples of a prompt is the mean of the prompts' means, and stays as stored.
    """
    return successes / n if n and round(successes / n, DIGITS) == float(stored) else float(stored)


def rate_of(row: Mapping[str, str]) -> float:
    """A row's rate, from its counts where it has them: rounding it for people rounds it once."""
    return of_counts(row["rate"], int(row.get("successes") or 0), int(row.get("n") or 0))


def three(stored: str, sign: str = "") -> str:
    """A number that a table alone holds, such as an end of an interval, in three decimals.

    A half rounds away from zero, in decimals: as a float, 0.8295 lies above or below by chance.
    """
    held = Decimal(stored).quantize(Decimal("0.001"), rounding=ROUND_HALF_UP)
    return f"{held:{sign}.3f}"


def shown_rate(row: Mapping[str, str] | None) -> str:
    """A rate with all that limits it, such as ``0.912 [0.850, 0.950] 118/129``.

    Behind the counts, where there are such: how many refusals are partial, the clusters that the rows
    come in, the share of the judged answers that was cut off, and the bounds for what was not judged,
    with their interval.
    """
    if row is None:
        return MISSING
    if not row["rate"]:
        return "; ".join([f"{MISSING} 0/0", *_limits(row)])
    limits = shown_interval(row) or "(no interval)"
    first = f"{rate_of(row):.3f} {limits} {row['successes']}/{row['n']}"
    partial = row.get("partial") not in (None, "", "0")
    first += f" ({row['partial']} partial)" if partial else ""
    return "; ".join([first + _clusters(row), *_limits(row)])


def shown_interval(row: Mapping[str, str], sign: str = "") -> str:
    """An interval in brackets; empty where there is none, as for one request with several attacks."""
    if not row["low"] or not row["high"]:
        return ""
    ends = [three(row["low"], sign), three(row["high"], sign)]
    found = wilson(int(row.get("successes") or 0), int(row.get("n") or 0))
    if found is not None and [f"{end:.{DIGITS}f}" for end in found] == [
        f"{float(row[key]):.{DIGITS}f}" for key in ("low", "high")
    ]:
        # Of the counts, as rate_of has it.
        ends = [f"{end:{sign}.3f}" for end in found]
    return f"[{', '.join(ends)}]"


def _clusters(row: Mapping[str, str]) -> str:
    clusters = row.get("clusters") or row["n"]
    if int(clusters) >= int(row["n"]):
        return ""
    field = row.get("cluster_field")
    one = int(clusters) == 1
    if field:
        return f", {clusters} value{'' if one else 's'} of {field}"
    return f", {clusters} request{'' if one else 's'}"


def cut_off_share(row: Mapping[str, str]) -> float:
    """The share of a rate's judged answers that was cut off at the token limit."""
    return int(row.get("cut_off") or 0) / int(row["n"]) if int(row["n"] or 0) else 0.0


def _limits(row: Mapping[str, str]) -> list[str]:
    parts = []
    share = cut_off_share(row)
    if share:
        parts.append(f"{share:.0%} {'CUT OFF' if share >= LOUD else 'cut off'}".replace("%", " %"))
    unjudged = sum(excluded_counts(row).values())
    if unjudged and row["bound_low"]:
        least, judged = int(row.get("successes") or 0), int(row.get("n") or 0)
        low = of_counts(row["bound_low"], least, judged + unjudged)
        high = of_counts(row["bound_high"], least + unjudged, judged + unjudged)
        shown = f"{low:.3f} to {high:.3f}"
        if row.get("outer_low") and row.get("outer_high"):
            shown += f" [{three(row['outer_low'])}, {three(row['outer_high'])}]"
        parts.append(f"with {unjudged} not judged {shown}")
    return parts


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
