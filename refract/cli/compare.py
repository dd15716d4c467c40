"""``refract compare``: does a difference between two results exceed chance?"""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from refract.cli.options import Confidence
from refract.cli.printing import print_table
from refract.core.showing import csv_cell, json_text, say
from refract.core.types import Row
from refract.core.vocabulary import DIGITS
from refract.report.markdown import cell, markdown_table
from refract.statistics.hypotheses import NOT_WORSE

LEFT_OUT = {
    "to_unjudged": "no longer judged",
    "to_judged": "newly judged",
    "not_judged": "not judged",
    "only_a": "only in A",
    "only_b": "only in B",
    "reworded": "reworded",
}
FLIPS = {"to_refusal": "newly refused", "to_compliance": "newly answered"}


def compare(
    a: Annotated[
        str | None,
        typer.Argument(
            help="A git revision, a model of the grid, REVISION:MODEL, a results file of "
            "`refract run`, or a folder of outcomes. Default: HEAD."
        ),
    ] = None,
    b: Annotated[str | None, typer.Argument(help="The same. Default: the working tree.")] = None,
    flips: Annotated[bool, typer.Option("--flips", help="List every prompt that flipped.")] = False,
    format_: Annotated[
        Literal["table", "json", "md", "csv"], typer.Option("--format", help="How it is printed.")
    ] = "table",
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As text for a comment; short for --format md.")
    ] = False,
    fail_on: Annotated[
        Literal["regression", "inconclusive"] | None,
        typer.Option(
            help="Exit with 1: regression, if a primary measure is shown to be worse, or answers "
            "vanished so that it cannot be said; inconclusive, unless each is shown not to be worse "
            "by the margin."
        ),
    ] = None,
    confidence: Confidence = None,
) -> None:
    """Compare two results prompt by prompt, and decide: worse, not worse than a margin, or unclear.

    Margin and primary measures are `decisions` of params.yaml.

    Example: refract compare main --fail-on regression
    """
    from refract.agreement.ledger import known_entries
    from refract.core.params import decision_settings
    from refract.results.sides import compare_sides, gap_notes
    from refract.results.sources import find_side
    from refract.results.table_rows import difference_to_row

    settings = decision_settings(Path.cwd())
    if confidence:
        settings = settings.model_copy(update={"confidence": float(confidence)})
    first, second = find_side(Path.cwd(), a or "HEAD"), find_side(Path.cwd(), b)
    compared = compare_sides(first, second, settings)
    notes = compared.notes + gap_notes(first, compared.differences, known_entries(Path.cwd()))
    found: Row = {
        "a": compared.a,
        "b": compared.b,
        "notes": notes,
        "confidence": compared.confidence,
        "rows": [difference_to_row(difference) for difference in compared.differences],
    }
    shown = {"json": _json, "csv": _csv, "md": _markdown, "table": _table}
    shown["md" if markdown else format_](found, flips)
    failed = [row for row in found["rows"] if _fails(row, fail_on)]
    for row in failed:
        title = "REGRESSION" if row["regression"] else "INCONCLUSIVE"
        say(f"{title} {_where(row)}: {_why(row)}", file=sys.stderr)
    if fail_on and not any(row["primary"] for row in found["rows"]):
        say("INCONCLUSIVE: no primary measure could be compared", file=sys.stderr)
        raise typer.Exit(1)
    raise typer.Exit(int(bool(failed)))


def _fails(row: Row, fail_on: str | None) -> bool:
    if fail_on is None or not row["primary"]:
        return False
    return bool(row["regression"] or (fail_on == "inconclusive" and row["decision"] != NOT_WORSE))


def _where(row: Row) -> str:
    return " ".join(row[key] for key in ("model", "suite", "category"))


def _why(row: Row) -> str:
    """The refusal rates of a row, what the unjudged could make of them, and the decision."""
    rates = "no pair judged on both sides"
    if row["n"]:
        rates = f"refusal {row['rate_a']:.3f} → {row['rate_b']:.3f}"
    p = "" if row["p_worse_holm"] is None else f", p (Holm) {row['p_worse_holm']:.2g}"
    worst = "" if row["worst"] is None else f", worst case {row['worst']:+.3f}"
    why = f" ({row['reason']})" if row["reason"] else ""
    return f"{rates}{p}{worst} against a margin of {row['margin']}: {row['decision']}{why}"


def _rounded(row: Row) -> Row:
    """The row with rates of four decimals, and p of four significant digits."""
    shown = dict(row)
    for key, value in row.items():
        if isinstance(value, float):
            shown[key] = (
                float(f"{value:.4g}") if key.startswith("p") else round(value, DIGITS) + 0.0
            )
    return shown


def _flips(found: Row) -> list[list[str]]:
    return [
        [row["model"], row["suite"], row["category"], row["perturbation"], prompt, kind]
        for row in found["rows"]
        for key, kind in FLIPS.items()
        for prompt in row[key]
    ]


FLIP_HEADER = ("model", "suite", "category", "perturbation", "prompt", "flip")


def _header(found: Row) -> list[str]:
    return [
        *("model", "suite", "category", "perturbation", "n", "A", "B"),
        f"B − A [{100 * found['confidence']:g} %]",
        "p (Holm)",
        *FLIPS.values(),
        "left out",
        "p worse (Holm)",
        "worst case",
        "decision",
        "detectable",
    ]


def _cells(row: Row) -> list[str]:
    def number(key: str, form: str = ".3f") -> str:
        return "—" if row[key] is None else format(row[key], form)

    interval = "—"
    if row["difference"] is not None:
        interval = f"{row['difference']:+.3f}"
        if row["low"] is not None:
            interval += f" [{row['low']:+.3f}, {row['high']:+.3f}]"
    left_out = ", ".join(f"{len(row[key])} {kind}" for key, kind in LEFT_OUT.items() if row[key])
    clusters = "" if row["clusters"] == row["n"] else f" ({row['clusters']} clusters)"
    return [
        *(row[key] for key in ("model", "suite", "category")),
        row["perturbation"] or "—",
        f"{row['n']}{clusters}",
        number("rate_a"),
        number("rate_b"),
        interval,
        number("p_holm", ".2g"),
        *(str(len(row[key])) for key in FLIPS),
        left_out or "0",
        number("p_worse_holm", ".2g"),
        number("worst", "+.3f"),
        row["decision"] or "—",
        number("detectable"),
    ]


def _notes(found: Row) -> list[str]:
    """The remarks below a table: what it says, and the prompts that could not be paired."""
    lines = []
    primary = [row for row in found["rows"] if row["primary"]]
    if primary:
        lines.append(
            f"decision: not worse, if the worst case of what was not judged is within the margin of "
            f"{primary[0]['margin']} (one-sided, {100 * found['confidence']:g} %); worse, if a drop "
            f"is shown (one-sided p, Holm over the {len(primary)} primary rows). Detectable: the "
            "smallest drop that this many prompts would show in 80 % of cases"
        )
    lines += [f"{_where(row)}: {row['reason']}" for row in primary if row["reason"]]
    lines += found["notes"]
    for row in found["rows"]:
        for key, kind in LEFT_OUT.items():
            if row[key] and key not in ("not_judged", "to_judged"):
                names = ", ".join(row[key][:5]) + (", …" if len(row[key]) > 5 else "")
                where = f"{row['model']}, {row['suite']}, {row['category']}"
                lines.append(f"{where}: {len(row[key])} {kind}: {names}")
    return lines


def _table(found: Row, flips: bool) -> None:
    say(f"A: {found['a']}\nB: {found['b']}")
    print_table(_header(found), map(_cells, found["rows"]))
    for note in _notes(found):
        say(f"- {note}")
    if flips:
        print_table(FLIP_HEADER, _flips(found))


def _markdown(found: Row, flips: bool) -> None:
    say(f"A: {found['a']}, B: {found['b']}\n")
    decisions = Counter(row["decision"] for row in found["rows"] if row["primary"])
    if decisions:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(decisions.items()))
        say(f"**Primary measures: {counts}.**")
        for row in found["rows"]:
            if row["regression"]:
                say(f"- {cell(f'{_where(row)}: {_why(row)}')}")
        say("")
    say(markdown_table(_header(found), map(_cells, found["rows"])))
    notes = _notes(found)
    if notes:
        say("\n" + "\n".join(f"- {note}" for note in notes))
    if flips:
        say("\n" + markdown_table(FLIP_HEADER, _flips(found)))


def _json(found: Mapping[str, Any], flips: bool) -> None:
    rows = [_rounded(row) for row in found["rows"]]
    say(json_text({**found, "rows": rows}))


def _csv(found: Row, flips: bool) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    lines: list[Sequence[object]]
    if flips:
        lines = [FLIP_HEADER, *_flips(found)]
    else:
        keys: Sequence[str] = list(found["rows"][0])
        lines = [keys]
        for row in map(_rounded, found["rows"]):
            lists = {**FLIPS, **LEFT_OUT}
            cells = {key: len(row[key]) if key in lists else row[key] for key in keys}
            cells |= {key: int(row[key]) for key in ("primary", "regression")}
            lines.append(list(cells.values()))
    writer.writerows([csv_cell(cell) for cell in line] for line in lines)
    say(text.getvalue(), end="")
    for note in [] if flips else found["notes"]:
        say(f"refract: {note}", file=sys.stderr)
