"""``refract compare``: does a difference between two results exceed chance?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from refract.cli.options import Confidence, decided_by
from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.jsonl import read_rows
from refract.core.params import decision_settings
from refract.core.showing import json_text, say
from refract.report.compared_sides import SidesText
from refract.report.markdown import ShownTable, cell, markdown_table
from refract.results.sources import ComparedSides, Side, compare_sides, find_side
from refract.results.table_rows import rounded_difference

if TYPE_CHECKING:
    from refract.models.divergence import FirstTokens
    from refract.models.protocol import Request


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
        Option(
            "--format",
            help="How it is printed; json has every number, md is for a comment.",
        ),
    ] = "table",
    fail_on: Annotated[
        Literal["regression", "inconclusive"] | None,
        Option(
            help="Exit with 1: regression, if a primary measure is shown to be worse, or cannot be "
            "since answers, most prompts or models of A are missing; inconclusive, unless each is shown "
            "not to be worse by the margin; both, if numbers are of other params."
        ),
    ] = None,
    kl: Annotated[
        int | None,
        Option(
            min=1,
            help="Of two local models: the KL divergence of the first so many answer tokens on "
            "harmless prompts, which loads both.",
        ),
    ] = None,
    confidence: Confidence = None,
) -> None:
    """Compare two results prompt by prompt, and decide: worse, not worse than a margin, or unclear.

    Margin and primary measures are `decisions` of params.yaml.

    Example: refract compare main --fail-on regression
    """
    settings = decided_by(decision_settings(Path.cwd()), confidence)
    found = find_side(Path.cwd(), a or "HEAD"), find_side(Path.cwd(), b)
    sides = compare_sides(*found, settings)
    apart = _apart(*found, kl) if kl else None
    texts = SidesText(sides)
    markdown = format_ == "md"
    if format_ == "json":
        result = {
            "a": sides.a,
            "b": sides.b,
            "notes": [note.line() for note in sides.notes],
            "confidence": sides.confidence,
            "rows": [rounded_difference(row) for row in sides.differences],
            "fates": _fates(sides),
            **({"kl": apart._asdict()} if apart else {}),
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
        fates = texts.fates()
        if fates.rows:
            _print_table("What became of answers", fates, markdown=markdown)
        if flips:
            _print_table("flips", texts.flips(), markdown=markdown)
        notes = texts.notes()
        if apart:
            notes.append(str(apart))
        if notes:
            say()
        for note in notes:
            say(f"- {note}")
    failures = texts.failures(fail_on) if fail_on else []
    for line in failures:
        say(line, file=sys.stderr)
    raise typer.Exit(int(bool(failures)))


def _apart(a: Side, b: Side, tokens: int) -> FirstTokens:
    """Raises :class:`UsageError` unless both sides are one local model each, with prompts here."""
    from refract.models import open_model
    from refract.models.divergence import first_tokens
    from refract.models.hf import HF

    models = []
    for side in (a, b):
        facts = [result.provenance for result in side.results.values()]
        definition = facts[0]["model"]["definition"] if len(facts) == 1 and facts[0] else {}
        model = open_model(side.name, definition) if definition.get("adapter") == "hf" else None
        if not isinstance(model, HF):
            raise UsageError(
                f"--kl: {side.name} is not one local model (adapter hf) but "
                f"{definition.get('adapter') or ', '.join(side.results)}; name a model on each side"
            )
        models.append(model)
    requests = _harmless(a)
    if not requests:
        raise UsageError(
            "--kl: no harmless prompts of A are here; run: dvc repro (or refract run --rows "
            f"{Path(a.name).with_suffix('.rows.jsonl')})"
        )
    return first_tokens(models[0], models[1], requests, tokens)


def _harmless(side: Side) -> dict[str, Request]:
    """The clean harmless prompts of a side: of a results file those of its rows, else the project's."""
    from refract.models.answering import request_of

    (result,) = side.results.values()
    suites = dict.fromkeys(row["suite"] for row in result.outcomes)
    rows_file = Path(side.name).with_suffix(".rows.jsonl")
    files = [Path(f"data/prompts/{suite}.jsonl") for suite in suites]
    rows = []
    for file in [rows_file] if Path(side.name).is_file() else files:
        rows += read_rows(file) if file.is_file() else []
    requests = {}
    for row in rows:
        if row["category"] != "harmful" and not row.get("perturbation") and "turn" not in row:
            attempts = row.get("attempts") or [row["prompt"]]
            asked: Any = {"source_id": "", "perturbation": None, **row, "attempts": attempts}
            requests[f"{row['suite']} {row['prompt_id']}"] = request_of(asked, None)
    return requests


def _fates(sides: ComparedSides) -> list[dict[str, object]]:
    """The counts of every change, for JSON."""
    rows: list[dict[str, object]] = []
    for fates in sides.fates:
        for (before, after), count in sorted(fates.counts.items()):
            names = {"model": fates.model, "suite": fates.suite, "category": fates.category}
            rows.append({**names, "a": before, "b": after, "n": count})
    return rows


def _print_table(title: str, table: ShownTable, *, markdown: bool) -> None:
    if markdown:
        say(f"\n**{cell(title)}**\n\n{markdown_table(table.header, table.rows)}")
    else:
        say(f"\n{title}")
        print_table(table.header, table.rows)
