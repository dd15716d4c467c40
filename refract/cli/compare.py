"""``refract compare``: does a difference between two results exceed chance?"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from refract.cli.printing import print_table
from refract.report.markdown import markdown_table
from refract.rows.labels import DIGITS
from refract.rows.showing import csv_cell, json_text, say
from refract.rows.types import Row

LISTS = ("to_refusal", "to_compliance", "not_judged", "only_a", "only_b", "reworded")
HEADER = (
    "model",
    "suite",
    "category",
    "perturbation",
    "n",
    "A",
    "B",
    "B − A [95 %]",
    "p",
    "p (Holm)",
    "newly refused",
    "newly answered",
    "left out",
)


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
    fail_on: Annotated[
        Literal["regression"] | None,
        typer.Option(
            help="Exit with 1 if harmful prompts are refused less, or others more, by more than "
            "chance (Holm-adjusted p at most .05)."
        ),
    ] = None,
) -> None:
    """Compare two results prompt by prompt: B minus A, with paired intervals and McNemar's p.

    Example: refract compare main --fail-on regression
    """
    from refract.results.sides import compare_sides
    from refract.results.sources import find_side

    found = compare_sides(find_side(Path.cwd(), a or "HEAD"), find_side(Path.cwd(), b))
    shown = {"json": _json, "csv": _csv, "md": _markdown, "table": _table}[format_]
    shown(found, flips)
    worse = [row for row in found["rows"] if row["regression"]]
    for row in worse if fail_on else ():
        say(
            f"REGRESSION {row['model']} {row['suite']} {row['category']} {row['perturbation']}: "
            f"refusal {row['rate_a']:.3f} → {row['rate_b']:.3f}, p (Holm) {row['p_holm']:.2g}",
            file=sys.stderr,
        )
    raise typer.Exit(int(bool(fail_on and worse)))


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
        for key, kind in (("to_refusal", "newly refused"), ("to_compliance", "newly answered"))
        for prompt in row[key]
    ]


FLIP_HEADER = ("model", "suite", "category", "perturbation", "prompt", "flip")


def _cells(row: Row) -> list[str]:
    def number(key: str, form: str = ".3f") -> str:
        return "—" if row[key] is None else format(row[key], form)

    interval = "—"
    if row["difference"] is not None:
        interval = f"{row['difference']:+.3f}"
        if row["low"] is not None:
            interval += f" [{row['low']:+.3f}, {row['high']:+.3f}]"
    left_out = ", ".join(
        f"{len(row[key])} {key.replace('_', ' ')}" for key in LISTS[2:] if row[key]
    )
    return [
        *(row[key] for key in ("model", "suite", "category")),
        row["perturbation"] or "—",
        str(row["n"]),
        number("rate_a"),
        number("rate_b"),
        interval,
        number("p", ".2g"),
        number("p_holm", ".2g"),
        str(len(row["to_refusal"])),
        str(len(row["to_compliance"])),
        left_out or "0",
    ]


def _notes(found: Row) -> list[str]:
    """The remarks below a table, with the names of the prompts that could not be paired."""
    lines = list(found["notes"])
    for row in found["rows"]:
        for key in LISTS[3:]:
            if row[key]:
                names = ", ".join(row[key][:5]) + (", …" if len(row[key]) > 5 else "")
                where = f"{row['model']}, {row['suite']}, {row['category']}"
                lines.append(f"{where}: {len(row[key])} {key.replace('_', ' ')}: {names}")
    return lines


def _table(found: Row, flips: bool) -> None:
    say(f"A: {found['a']}\nB: {found['b']}")
    print_table(HEADER, map(_cells, found["rows"]))
    for note in _notes(found):
        say(f"- {note}")
    if flips:
        print_table(FLIP_HEADER, _flips(found))


def _markdown(found: Row, flips: bool) -> None:
    say(f"A: {found['a']}, B: {found['b']}\n")
    say(markdown_table(HEADER, map(_cells, found["rows"])))
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
            cells = {key: len(row[key]) if key in LISTS else row[key] for key in keys}
            cells["regression"] = int(row["regression"])
            lines.append(list(cells.values()))
    writer.writerows([csv_cell(cell) for cell in line] for line in lines)
    say(text.getvalue(), end="")
    for note in [] if flips else found["notes"]:
        say(f"refract: {note}", file=sys.stderr)
