"""``refract compare``: does a difference between two results exceed chance?"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer
from typer import Argument, Option

from refract.cli.options import Confidence, IntervalOf, decided_by
from refract.cli.printing import print_table, print_text
from refract.core.showing import json_text, say

if TYPE_CHECKING:
    from refract.rates.rate import Difference, DropDecision
    from refract.results.sources import ComparedSides

LEFT_OUT = {
    "to_unjudged": "no longer judged",
    "to_judged": "newly judged",
    "not_judged": "not judged",
    "only_a": "only in A",
    "only_b": "only in B",
    "reworded": "reworded",
}
FLIPS = {"to_refusal": "newly refused", "to_compliance": "newly answered"}
FLIP_HEADER = ["model", "suite", "category", "perturbation", "prompt", "flip"]
NONE = "—"


class Primary(NamedTuple):
    """A primary measure: the difference with the decision on its drop."""

    difference: Difference
    drop: DropDecision

    @property
    def name(self) -> str:
        return f"{self.difference.model} {self.difference.suite} {self.difference.category}"


def compare(
    a: Annotated[
        str | None,
        Argument(
            help="A git revision, a model of the grid, REVISION:MODEL, a results file of "
            "`refract run`, or the folder of another project. Default: HEAD."
        ),
    ] = None,
    b: Annotated[str | None, Argument(help="The same. Default: the working tree.")] = None,
    flips: Annotated[bool, Option("--flips", help="List every prompt that flipped.")] = False,
    wide: Annotated[
        bool,
        Option(
            "--wide",
            help="Also p, flips, what was left out and its worst case, and what drop could be detected.",
        ),
    ] = False,
    format_: Annotated[
        Literal["table", "json", "md"],
        Option("--format", help="How it is printed; md is for a comment."),
    ] = "table",
    fail_on: Annotated[
        Literal["regression", "inconclusive"] | None,
        Option(
            help="Exit with 1: regression, if a primary measure is shown to be worse, or answers, most "
            "prompts or models of A vanished so that it cannot be said; inconclusive, unless each is "
            "shown not to be worse by the margin; both, if numbers are not what params.yaml asks for."
        ),
    ] = None,
    confidence: Confidence = None,
    interval: IntervalOf = None,
) -> None:
    """Compare two results prompt by prompt, and decide: worse, not worse than a margin, or unclear.

    Margin and primary measures are `decisions` of params.yaml.

    Example: refract compare main --fail-on regression
    """
    from refract.core.params import decision_settings
    from refract.results.sources import compare_sides, find_side
    from refract.results.table_rows import rounded_difference

    settings = decided_by(decision_settings(Path.cwd()), confidence, interval)
    sides = compare_sides(find_side(Path.cwd(), a or "HEAD"), find_side(Path.cwd(), b), settings)
    primary = [Primary(row, row.drop) for row in sides.differences if row.drop]
    if format_ == "json":
        result = {
            "a": sides.a,
            "b": sides.b,
            "notes": sides.notes,
            "confidence": sides.confidence,
            "rows": [rounded_difference(row) for row in sides.differences],
        }
        say(json_text(result))
    else:
        _print(sides, primary, flips=flips, wide=wide, markdown=format_ == "md")
    failures = _failures(sides, primary, fail_on) if fail_on else []
    for line in failures:
        say(line, file=sys.stderr)
    raise typer.Exit(int(bool(failures)))


def _failures(sides: ComparedSides, primary: Sequence[Primary], fail_on: str) -> list[str]:
    """A line for each reason to exit with 1."""
    from refract.statistics.hypotheses import NOT_WORSE

    lines = []
    for row in primary:
        if row.drop.regression:
            lines.append(f"REGRESSION {row.name}: {_why(row, primary)}")
        elif fail_on == "inconclusive" and row.drop.decision != NOT_WORSE:
            lines.append(f"INCONCLUSIVE {row.name}: {_why(row, primary)}")
    undecided = sides.undecided if primary else ["no primary measure could be compared"]
    return lines + [f"INCONCLUSIVE: {reason}" for reason in undecided]


def _print(
    sides: ComparedSides, primary: Sequence[Primary], *, flips: bool, wide: bool, markdown: bool
) -> None:
    """Prints the decisions, the differences, and the remarks below."""
    from refract.report.comparisons import ORDER
    from refract.report.markdown import cell

    say(f"A: {sides.a}, B: {sides.b}\n")
    decisions = Counter(row.drop.decision for row in primary)
    counts = ", ".join(f"{decisions[kind]} {kind}" for kind in sorted(decisions)) or "none"
    say(f"**Primary measures: {counts}.**" if markdown else f"Primary measures: {counts}.")
    models = list(dict.fromkeys(row.model for row in sides.differences))
    suites = list(dict.fromkeys(row.suite for row in sides.differences))
    # With a single model, or a single pair, its name stands above the table alone.
    known = models[0] if len(models) == 1 else ""
    for row in primary:
        if row.drop.regression:
            line = f"{_without(known, row.name)}: {_why(row, primary)}"
            print_text(f"- {cell(line) if markdown else line}")
    kinds = list(ORDER)

    def order(row: Difference) -> tuple[int, int]:
        kind = kinds.index(row.category) if row.category in kinds else len(kinds)
        return suites.index(row.suite), kind

    header = _header(sides, primary, wide=wide)
    for model in models:
        rows = [row for row in sides.differences if row.model == model]
        cells = [_wide_cells(row) if wide else _cells(row) for row in sorted(rows, key=order)]
        if markdown:
            _print_markdown(model, header, cells)
        else:
            say(f"\n{model}")
            print_table(["suite, category", *header[2:]], _grouped(cells))
    if flips:
        flipped = _flips(sides.differences)
        if markdown:
            _print_markdown("flips", FLIP_HEADER, flipped)
        else:
            say("\nflips")
            print_table(FLIP_HEADER, flipped)
    notes = _notes(sides, primary, known, wide=wide)
    if notes:
        say()
    for note in notes:
        print_text(f"- {note}")


def _without(model: str, text: str) -> str:
    """A text without the model's name at its start."""
    return text.removeprefix(f"{model}: ").removeprefix(f"{model} ") if model else text


def _worse_title(primary: Sequence[Primary]) -> str:
    """The title of p for a drop, with how many were corrected together."""
    return f"p worse (Holm, {sum(row.drop.p_worse_holm is not None for row in primary)})"


def _tested(sides: ComparedSides) -> int:
    return sum(row.p_adjusted is not None for row in sides.differences)


def _header(sides: ComparedSides, primary: Sequence[Primary], *, wide: bool) -> list[str]:
    header = ["suite", "category", "n", "A", "B", f"B − A [{100 * sides.confidence:g} %]"]
    if wide:
        header += ["p", f"p (Holm, {_tested(sides)})", *FLIPS.values(), "left out"]
        header += [_worse_title(primary), "worst case", "detectable"]
    return [*header, "decision"]


def _flips(differences: Sequence[Difference]) -> list[list[str]]:
    rows = []
    for row in differences:
        names = [row.model, row.suite, row.category, row.perturbation]
        for key, kind in FLIPS.items():
            rows += [[*names, prompt, kind] for prompt in row.prompts[key]]
    return rows


def _notes(
    sides: ComparedSides, primary: Sequence[Primary], known: str, *, wide: bool
) -> list[str]:
    """The remarks below the tables; ``known`` is the one model that they are about, or ""."""
    reasons: dict[str, list[str]] = {}
    for row in primary:
        if row.drop.reason and not row.drop.regression:
            reasons.setdefault(row.drop.reason, []).append(_without(known, row.name))
    notes = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    notes += [_without(known, note) for note in sides.notes]
    if primary:
        notes.append(
            f"decision: not worse, if the worst case of what was not judged is within the margin of "
            f"{primary[0].drop.margin} (one-sided, {100 * sides.confidence:g} %); worse, if a drop "
            f"is shown (one-sided p, Holm over the {len(primary)} primary rows)"
        )
    tests = _tested(sides)
    if tests and wide:
        notes.append(
            f"cite p (Holm, {tests}), corrected for the {tests} rows that were tested, or of a primary "
            "row the decision and p worse; p alone is of a row named before the answers were seen"
        )
    if primary and wide:
        notes.append("detectable: the smallest drop that prompts as alike show in 80 % of cases")
    if any(row.judge_interval for row in sides.differences):
        notes.append(
            "intervals, worst cases and decisions of two models hold the judge's error on both (p does "
            "not); --interval prompts leaves it out, labels of both runs replace it (refract correct)"
        )
    return notes


def _print_markdown(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from refract.report.markdown import cell, markdown_table

    say(f"\n**{cell(title)}**\n\n{markdown_table(header, rows)}")


def _grouped(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows with the suite above its categories, and a category above its perturbations."""
    grouped: list[list[str]] = []
    last = ("", "")
    for suite, name, *numbers in rows:
        category, _, perturbation = name.partition(", ")
        if suite != last[0]:
            grouped.append([suite, *[""] * len(numbers)])
        indented = f"  {name}"
        if perturbation and (suite, category) == last:
            indented = f"    {perturbation}"
        grouped.append([indented, *numbers])
        last = (suite, category)
    return grouped


def _why(row: Primary, primary: Sequence[Primary]) -> str:
    """The refusal rates of a difference, what the unjudged could make of them, and the decision."""
    difference, drop = row.difference, row.drop
    text = "no pair judged on both sides"
    if difference.n:
        text = f"refusal {difference.first:.3f} → {difference.second:.3f}"
    if drop.p_worse_holm is not None:
        text += f", {_worse_title(primary)} {drop.p_worse_holm:.2g}"
    if drop.worst is not None:
        text += f", worst case {drop.worst:+.3f}"
    reason = f" ({drop.reason})" if drop.reason else ""
    return f"{text} against a margin of {drop.margin}: {drop.decision}{reason}"


def _names(difference: Difference) -> list[str]:
    category = difference.category.replace("borderline_discrimination", "harmful − borderline")
    category = category.replace("discrimination", "harmful − helpful")
    if difference.perturbation:
        category += f", {difference.perturbation}"
    return [difference.suite, category]


def _cells(difference: Difference) -> list[str]:
    from refract.report.wording import short_estimate

    return [
        *_names(difference),
        str(difference.n),
        _number(difference.first, ".2f"),
        _number(difference.second, ".2f"),
        short_estimate(difference.value, difference.shown, "+"),
        difference.drop.decision if difference.drop else NONE,
    ]


def _wide_cells(difference: Difference) -> list[str]:
    from refract.report.wording import cluster_notes, estimate_text

    drop, prompts = difference.drop, difference.prompts
    n = str(difference.n)
    if difference.clusters != difference.n:
        notes = [f"{difference.clusters} clusters"]
        notes += cluster_notes(difference.clusters, difference)
        n += f" ({', '.join(notes)})"
    left_out = [f"{len(prompts[key])} {kind}" for key, kind in LEFT_OUT.items() if prompts[key]]
    decision = [NONE] * 4
    if drop:
        decision = [
            _number(drop.p_worse_holm, ".2g"),
            _number(drop.worst, "+.3f"),
            _number(drop.detectable),
            drop.decision,
        ]
    return [
        *_names(difference),
        n,
        _number(difference.first),
        _number(difference.second),
        estimate_text(difference.value, difference.shown, "+"),
        _number(difference.p, ".2g"),
        _number(difference.p_adjusted, ".2g"),
        *[str(len(prompts[key])) for key in FLIPS],
        ", ".join(left_out) or "0",
        *decision,
    ]


def _number(value: float | None, form: str = ".3f") -> str:
    return NONE if value is None else format(value, form)
