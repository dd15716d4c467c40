"""``refract compare``: does a difference between two results exceed chance?"""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.options import Confidence
from refract.cli.printing import print_table
from refract.core.showing import csv_cell, json_text, say
from refract.core.types import Row
from refract.report.markdown import cell, markdown_table
from refract.statistics.hypotheses import NOT_WORSE

if TYPE_CHECKING:
    from refract.rates.rate import Difference
    from refract.results.sides import ComparedSides

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

    settings = decision_settings(Path.cwd())
    if confidence:
        settings = settings.model_copy(update={"confidence": float(confidence)})
    first, second = find_side(Path.cwd(), a or "HEAD"), find_side(Path.cwd(), b)
    sides = compare_sides(first, second, settings)
    sides.notes.extend(gap_notes(first, sides.differences, known_entries(Path.cwd())))
    printers = {"json": _json, "csv": _csv, "md": _markdown, "table": _table}
    printers["md" if markdown else format_](sides, flips)
    primary = [difference for difference in sides.differences if difference.drop]
    failed = [difference for difference in primary if _fails(difference, fail_on)]
    for difference in failed:
        shown = difference.drop is not None and difference.drop.regression
        title = "REGRESSION" if shown else "INCONCLUSIVE"
        say(f"{title} {_where(difference)}: {_why(difference)}", file=sys.stderr)
    if fail_on and not primary:
        say("INCONCLUSIVE: no primary measure could be compared", file=sys.stderr)
    raise typer.Exit(int(bool(failed or (fail_on and not primary))))


def _fails(difference: Difference, fail_on: str | None) -> bool:
    drop = difference.drop
    if fail_on is None or drop is None:
        return False
    return drop.regression or (fail_on == "inconclusive" and drop.decision != NOT_WORSE)


def _where(difference: Difference) -> str:
    return f"{difference.model} {difference.suite} {difference.category}"


def _why(difference: Difference) -> str:
    """The refusal rates of a difference, what the unjudged could make of them, and the decision."""
    drop = difference.drop
    assert drop is not None  # it is a primary measure
    rates = "no pair judged on both sides"
    if difference.n:
        rates = f"refusal {difference.first:.3f} → {difference.second:.3f}"
    p = "" if drop.p_worse_holm is None else f", p (Holm) {drop.p_worse_holm:.2g}"
    worst = "" if drop.worst is None else f", worst case {drop.worst:+.3f}"
    why = f" ({drop.reason})" if drop.reason else ""
    return f"{rates}{p}{worst} against a margin of {drop.margin}: {drop.decision}{why}"


FLIP_HEADER = ("model", "suite", "category", "perturbation", "prompt", "flip")


def _flips(sides: ComparedSides) -> list[list[str]]:
    return [
        [x.model, x.suite, x.category, x.perturbation, prompt, kind]
        for x in sides.differences
        for key, kind in FLIPS.items()
        for prompt in x.prompts[key]
    ]


def _header(sides: ComparedSides) -> list[str]:
    return [
        *("model", "suite", "category", "perturbation", "n", "A", "B"),
        f"B − A [{100 * sides.confidence:g} %]",
        *("p (Holm)", *FLIPS.values(), "left out"),
        *("p worse (Holm)", "worst case", "decision", "detectable"),
    ]


def _number(value: float | None, form: str = ".3f") -> str:
    return "—" if value is None else format(value, form)


def _cells(difference: Difference) -> list[str]:
    drop, prompts = difference.drop, difference.prompts
    interval = _number(difference.value, "+.3f")
    if difference.interval is not None:
        interval += " [{:+.3f}, {:+.3f}]".format(*difference.interval)
    left_out = [f"{len(prompts[key])} {kind}" for key, kind in LEFT_OUT.items() if prompts[key]]
    same = difference.clusters == difference.n
    clusters = "" if same else f" ({difference.clusters} clusters)"
    return [
        *(difference.model, difference.suite, difference.category),
        difference.perturbation or "—",
        f"{difference.n}{clusters}",
        _number(difference.first),
        _number(difference.second),
        interval,
        _number(difference.p_adjusted, ".2g"),
        *(str(len(prompts[key])) for key in FLIPS),
        ", ".join(left_out) or "0",
        _number(drop.p_worse_holm if drop else None, ".2g"),
        _number(drop.worst if drop else None, "+.3f"),
        drop.decision if drop else "—",
        _number(drop.detectable if drop else None),
    ]


def _notes(sides: ComparedSides) -> list[str]:
    """The remarks below a table: what it says, and the prompts that could not be paired."""
    drops = [(x, x.drop) for x in sides.differences if x.drop]
    lines = []
    if drops:
        lines.append(
            f"decision: not worse, if the worst case of what was not judged is within the margin of "
            f"{drops[0][1].margin} (one-sided, {100 * sides.confidence:g} %); worse, if a drop "
            f"is shown (one-sided p, Holm over the {len(drops)} primary rows). Detectable: the "
            "smallest drop that this many prompts would show in 80 % of cases"
        )
    lines += [f"{_where(x)}: {drop.reason}" for x, drop in drops if drop.reason]
    lines += sides.notes
    for x in sides.differences:
        for key, kind in LEFT_OUT.items():
            ids = x.prompts[key]
            if ids and key not in ("not_judged", "to_judged"):
                names = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
                lines.append(f"{x.model}, {x.suite}, {x.category}: {len(ids)} {kind}: {names}")
    return lines


def _table(sides: ComparedSides, flips: bool) -> None:
    say(f"A: {sides.a}\nB: {sides.b}")
    print_table(_header(sides), map(_cells, sides.differences))
    for note in _notes(sides):
        say(f"- {note}")
    if flips:
        print_table(FLIP_HEADER, _flips(sides))


def _markdown(sides: ComparedSides, flips: bool) -> None:
    say(f"A: {sides.a}, B: {sides.b}\n")
    drops = [(x, x.drop) for x in sides.differences if x.drop]
    if drops:
        decisions = Counter(drop.decision for _, drop in drops)
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(decisions.items()))
        say(f"**Primary measures: {counts}.**")
        for x, drop in drops:
            if drop.regression:
                say(f"- {cell(f'{_where(x)}: {_why(x)}')}")
        say("")
    say(markdown_table(_header(sides), map(_cells, sides.differences)))
    if notes := _notes(sides):
        say("\n" + "\n".join(f"- {note}" for note in notes))
    if flips:
        say("\n" + markdown_table(FLIP_HEADER, _flips(sides)))


def _rows(sides: ComparedSides) -> list[Row]:
    from refract.results.table_rows import rounded_difference

    return [rounded_difference(difference) for difference in sides.differences]


def _json(sides: ComparedSides, flips: bool) -> None:
    about = {"a": sides.a, "b": sides.b, "notes": sides.notes, "confidence": sides.confidence}
    say(json_text({**about, "rows": _rows(sides)}))


def _csv_number(value: object) -> object:
    """Lists of prompts as their number, true and false as 1 and 0."""
    if isinstance(value, bool):
        return int(value)
    return len(value) if isinstance(value, list) else value


def _csv(sides: ComparedSides, flips: bool) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    lines: list[Sequence[object]] = [FLIP_HEADER, *_flips(sides)]
    if not flips:
        rows = _rows(sides)
        lines = [list(rows[0]), *([_csv_number(cell) for cell in row.values()] for row in rows)]
    writer.writerows([csv_cell(cell) for cell in line] for line in lines)
    say(text.getvalue(), end="")
    for note in [] if flips else sides.notes:
        say(f"refract: {note}", file=sys.stderr)
