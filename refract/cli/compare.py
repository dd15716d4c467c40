"""``refract compare``: does a difference between two results exceed chance?"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.options import Confidence, IntervalOf, decided_by
from refract.cli.printing import print_table, print_text
from refract.core.showing import json_text, say
from refract.report.markdown import cell, markdown_table
from refract.report.wording import cluster_notes, estimate_text, short_estimate
from refract.statistics.hypotheses import NOT_WORSE

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
FLIP_HEADER = ("model", "suite", "category", "perturbation", "prompt", "flip")


def compare(
    a: Annotated[str | None, typer.Argument()] = None,
    b: Annotated[str | None, typer.Argument()] = None,
    flips: Annotated[bool, typer.Option("--flips")] = False,
    wide: Annotated[bool, typer.Option("--wide")] = False,
    format_: Annotated[Literal["table", "json", "md"], typer.Option("--format")] = "table",
    fail_on: Literal["regression", "inconclusive"] | None = None,
    confidence: Confidence = None,
    interval: IntervalOf = None,
) -> None:
    """Compare two results prompt by prompt, and decide: worse, not worse than a margin, or unclear.

    Margin and primary measures are `decisions` of params.yaml.

    Example: refract compare main --fail-on regression

    Args:
        a: A git revision, a model of the grid, REVISION:MODEL, a results file of `refract run`, or the
          folder of another project. Default: HEAD.
        b: The same. Default: the working tree.
        flips: List every prompt that flipped.
        wide: Also p, flips, what was left out and its worst case, and what drop could be detected.
        format_: How it is printed; md is for a comment.
        fail_on: Exit with 1: regression, if a primary measure is shown to be worse, or answers, most
          prompts or models of A vanished so that it cannot be said; inconclusive, unless each is shown
          not to be worse by the margin; both, if numbers are not what params.yaml asks for.
    """
    from refract.core.params import decision_settings
    from refract.results.sources import compare_sides, find_side
    from refract.results.table_rows import rounded_difference

    settings = decided_by(decision_settings(Path.cwd()), confidence, interval)
    sides = compare_sides(find_side(Path.cwd(), a or "HEAD"), find_side(Path.cwd(), b), settings)
    drops = [(f"{x.model} {x.suite} {x.category}", x, x.drop) for x in sides.differences if x.drop]
    named = f"p worse (Holm, {sum(drop.p_worse_holm is not None for _, _, drop in drops)})"
    if format_ == "json":
        about = {"a": sides.a, "b": sides.b, "notes": sides.notes, "confidence": sides.confidence}
        say(json_text({**about, "rows": [rounded_difference(x) for x in sides.differences]}))
    else:
        _print(sides, drops, named, flips, wide=wide, markdown=format_ == "md")
    failed = False
    for where, difference, drop in drops if fail_on else ():
        if drop.regression or (fail_on == "inconclusive" and drop.decision != NOT_WORSE):
            failed = True
            title = "REGRESSION" if drop.regression else "INCONCLUSIVE"
            say(f"{title} {where}: {_why(difference, drop, named)}", file=sys.stderr)
    undecided = sides.undecided if drops else ["no primary measure could be compared"]
    for reason in undecided if fail_on else ():
        failed = True
        say(f"INCONCLUSIVE: {reason}", file=sys.stderr)
    raise typer.Exit(int(failed))


def _print(
    sides: ComparedSides,
    drops: list[tuple[str, Difference, DropDecision]],
    named: str,
    flips: bool,
    *,
    wide: bool,
    markdown: bool,
) -> None:
    """The decisions, the differences, and the remarks below. A drop's p is ``named`` so."""
    from refract.report.comparisons import ORDER

    say(f"A: {sides.a}, B: {sides.b}\n")
    decisions = Counter(drop.decision for *_, drop in drops)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(decisions.items())) or "none"
    say(f"**Primary measures: {counts}.**" if markdown else f"Primary measures: {counts}.")
    models = list(dict.fromkeys(x.model for x in sides.differences))
    suites = list(dict.fromkeys(x.suite for x in sides.differences))
    kinds = {kind: place for place, kind in enumerate(ORDER)}
    ordered = sorted(
        sides.differences, key=lambda x: (suites.index(x.suite), kinds.get(x.category, len(kinds)))
    )
    # Of one model, or one pair, the name stands above the table alone.
    of = f"{models[0]} " if len(models) == 1 else ""
    for where, difference, drop in drops:
        if drop.regression:
            line = f"{where.removeprefix(of)}: {_why(difference, drop, named)}"
            print_text(f"- {cell(line) if markdown else line}")
    tests = sum(x.p_adjusted is not None for x in sides.differences)
    header = ["suite", "category", "n", "A", "B", f"B − A [{100 * sides.confidence:g} %]"]
    more = ["p", f"p (Holm, {tests})", *FLIPS.values(), "left out"]
    header += [*more, named, "worst case", "detectable", "decision"] if wide else ["decision"]
    for model in models:
        rows = [_cells(x, wide=wide) for x in ordered if x.model == model]
        _print_table(model, header, rows, markdown)
    if flips:
        flipped = [
            [x.model, x.suite, x.category, x.perturbation, prompt, kind]
            for x in sides.differences
            for key, kind in FLIPS.items()
            for prompt in x.prompts[key]
        ]
        _print_table("flips", FLIP_HEADER, flipped, markdown)
    reasons: dict[str, list[str]] = {}
    for where, _, drop in drops:
        if drop.reason and not drop.regression:
            reasons.setdefault(drop.reason, []).append(where.removeprefix(of))
    notes = [f"{', '.join(places)}: {reason}" for reason, places in reasons.items()]
    notes += [
        note.removeprefix(f"{of[:-1]}: ").removeprefix(of) if of else note for note in sides.notes
    ]
    for _, _, drop in drops[:1]:
        notes.append(
            f"decision: not worse, if the worst case of what was not judged is within the margin of "
            f"{drop.margin} (one-sided, {100 * sides.confidence:g} %); worse, if a drop "
            f"is shown (one-sided p, Holm over the {len(drops)} primary rows)"
        )
    if tests and wide:
        notes.append(
            f"cite p (Holm, {tests}), corrected for the {tests} rows that were tested, or of a primary "
            "row the decision and p worse; p alone is of a row named before the answers were seen"
        )
    if drops and wide:
        notes.append("detectable: the smallest drop that prompts as alike show in 80 % of cases")
    if any(x.judge_interval for x in sides.differences):
        notes.append(
            "intervals, worst cases and decisions of two models hold the judge's error on both (p does "
            "not); --interval prompts leaves it out, labels of both runs replace it (refract correct)"
        )
    if notes:
        say()
    for note in notes:
        print_text(f"- {note}")


def _print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], markdown: bool
) -> None:
    """A table under a title. In a terminal what several rows have in common stands above them."""
    if markdown:
        return say(f"\n**{cell(title)}**\n\n{markdown_table(header, rows)}")
    say(f"\n{title}")
    if header[-2] == FLIP_HEADER[-2]:
        return print_table(header, rows)
    grouped, last = list[Sequence[str]](), ("", "")
    for suite, named, *numbers in rows:
        category, _, perturbation = named.partition(", ")
        if suite != last[0]:
            grouped.append([suite, *[""] * len(numbers)])
        below = perturbation and (suite, category) == last
        grouped.append([f"    {perturbation}" if below else f"  {named}", *numbers])
        last = (suite, category)
    print_table(["suite, category", *header[2:]], grouped)


def _why(difference: Difference, drop: DropDecision, named: str) -> str:
    """The refusal rates of a difference, what the unjudged could make of them, and the decision."""
    rates = "no pair judged on both sides"
    if difference.n:
        rates = f"refusal {difference.first:.3f} → {difference.second:.3f}"
    p = "" if drop.p_worse_holm is None else f", {named} {drop.p_worse_holm:.2g}"
    worst = "" if drop.worst is None else f", worst case {drop.worst:+.3f}"
    why = f" ({drop.reason})" if drop.reason else ""
    return f"{rates}{p}{worst} against a margin of {drop.margin}: {drop.decision}{why}"


def _cells(difference: Difference, *, wide: bool) -> list[str]:
    drop, prompts = difference.drop, difference.prompts
    category = difference.category.replace("borderline_discrimination", "harmful − borderline")
    names = [difference.suite, category.replace("discrimination", "harmful − helpful")]
    names[1] += f", {difference.perturbation}" if difference.perturbation else ""
    decision = drop.decision if drop else "—"
    if not wide:
        rates = (_number(value, ".2f") for value in (difference.first, difference.second))
        estimate = short_estimate(difference.value, difference.shown, "+")
        return [*names, str(difference.n), *rates, estimate, decision]
    left_out = [f"{len(prompts[key])} {kind}" for key, kind in LEFT_OUT.items() if prompts[key]]
    notes = [f"{difference.clusters} clusters", *cluster_notes(difference.clusters, difference)]
    clusters = "" if difference.clusters == difference.n else f" ({', '.join(notes)})"
    return [
        *names,
        f"{difference.n}{clusters}",
        _number(difference.first),
        _number(difference.second),
        estimate_text(difference.value, difference.shown, "+"),
        _number(difference.p, ".2g"),
        _number(difference.p_adjusted, ".2g"),
        *(str(len(prompts[key])) for key in FLIPS),
        ", ".join(left_out) or "0",
        *([_number(drop.p_worse_holm, ".2g"), _number(drop.worst, "+.3f")] if drop else "——"),
        _number(drop.detectable if drop else None),
        decision,
    ]


def _number(value: float | None, form: str = ".3f") -> str:
    return "—" if value is None else format(value, form)
