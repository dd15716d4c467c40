"""``refract compare``: does a difference between two results exceed chance?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from refract.api import named_side
from refract.cli.printing import print_table
from refract.core.params import decision_settings
from refract.core.showing import json_text, say
from refract.report.compared_sides import SidesText
from refract.report.markdown import ShownTable, cell, markdown_table
from refract.results.sources import compare_sides
from refract.results.table_rows import rounded_difference


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
    format_: Annotated[
        Literal["table", "json", "md"],
        Option("--format", help="How it is printed; json has every number, md is for a comment."),
    ] = "table",
    fail_on: Annotated[
        Literal["regression", "inconclusive"] | None,
        Option(
            help="Exit with 1: regression, if a primary measure is shown to be worse, or cannot be "
            "since answers, most prompts or models of A are missing; inconclusive, unless each is shown "
            "not to be worse by the margin; both, if numbers are of other params."
        ),
    ] = None,
) -> None:
    """Compare two results prompt by prompt, and decide: worse, not worse than a margin, or unclear.

    Margin, primary measures and confidence are `decisions` of params.yaml.

    Example: refract compare main --fail-on regression
    """
    settings = decision_settings(Path.cwd())
    side_a, side_b = named_side(a or "HEAD"), named_side(b)
    sides = compare_sides(side_a, side_b, settings)
    texts = SidesText(sides)
    markdown = format_ == "md"
    if format_ == "json":
        result = {
            "a": sides.a,
            "b": sides.b,
            "notes": [note.line() for note in sides.notes],
            "confidence": sides.confidence,
            "rows": [rounded_difference(row) for row in sides.differences],
        }
        say(json_text(result))
    else:
        say(f"A: {sides.a}, B: {sides.b}\n")
        title = f"Primary measures: {texts.counts()}."
        say(f"**{title}**" if markdown else title)
        for line in texts.regressions():
            say(f"- {cell(line) if markdown else line}")
        for model in texts.models:
            _print_table(model, texts.table(model), markdown=markdown)
        if flips:
            _print_table("flips", texts.flips(), markdown=markdown)
        notes = texts.notes()
        if notes:
            say()
        for note in notes:
            say(f"- {note}")
    failures = texts.failures(fail_on) if fail_on else []
    for line in failures:
        say(line, file=sys.stderr)
    raise typer.Exit(int(bool(failures)))


def _print_table(title: str, table: ShownTable, *, markdown: bool) -> None:
    if markdown:
        say(f"\n**{cell(title)}**\n\n{markdown_table(table.header, table.rows)}")
    else:
        say(f"\n{title}")
        print_table(table.header, table.rows)
