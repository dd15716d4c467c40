"""``refract history``: a measure over the commits of a branch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from refract.cli.options import PIPELINE, AsJson, Models, Suites, keep_inputs, listed
from refract.cli.printing import print_table, print_text
from refract.core.decimals import MISSING, estimate_text
from refract.core.jsonl import write_bytes
from refract.core.params import decision_settings
from refract.core.showing import json_text, say
from refract.core.types import Row
from refract.project import project_root
from refract.report.history_page import history_page
from refract.results.commits import Change, commits_of, read_history
from refract.results.table_rows import rounded_difference


def history(
    measures: Annotated[
        list[str] | None,
        Argument(
            metavar="[measure]...",
            help="Measures, as metrics/MODEL.json names them; default: refusal by category.",
        ),
    ] = None,
    models: Models = None,
    suites: Suites = None,
    rev: Annotated[str, Option(help="A branch, or a range such as v1..main.")] = "HEAD",
    last: Annotated[
        int | None, Option(min=1, help="So many commits that changed metrics/; default: all.")
    ] = None,
    wide: Annotated[bool, Option("--wide", help="Also the values before and after.")] = False,
    format_: AsJson = "table",
    page: Annotated[Path | None, Option(help="Also draw it, as a page (HTML), here.")] = None,
) -> None:
    """A measure over the commits of a branch, and what changed where it moved; from git alone.

    A line stands for a commit at which the rate or its interval differs from the commit before. The
    change is that on the prompts of both; outside of chance where its interval leaves out 0.

    Example: refract history harmful_refusal_rate --last 10
    """
    keep_inputs({"--page": page}, PIPELINE)
    root = project_root()
    series = read_history(
        root,
        commits_of(root, rev, last),
        measures=listed(measures),
        models=listed(models),
        suites=listed(suites),
        settings=decision_settings(root),
    )
    if format_ == "json":
        rows = [_row(change) for change in series.changes]
        say(json_text({"changes": rows, "skipped": series.skipped}))
    else:
        for title, changes in series.by_series().items():
            say(title)
            _print(changes, wide=wide)
            say()
        for sentence in series.skipped:
            print_text(sentence)
    if page is not None:
        write_bytes(page, [history_page(series).encode("utf-8", "backslashreplace")])
        say(f"page: {page}", file=sys.stderr)


def _print(changes: list[Change], *, wide: bool) -> None:
    rows = []
    for change in changes:
        rate, difference = change.rate, change.difference
        moved = estimate_text(difference.value, difference.shown, "+") if difference else MISSING
        shown = estimate_text(rate.value, rate.shown) if rate else MISSING
        rows.append([change.commit.short, change.commit.date, shown, moved, change.reason])
    print_table(["commit", "date", "rate", "change", "what changed"], rows, rule=False)
    if wide:
        for change in changes:
            for kind, lines in change.causes.items():
                for line in lines:
                    print_text(f"  {change.commit.short} {kind}: {line}")


def _row(change: Change) -> Row:
    rate, difference = change.rate, change.difference
    low, high = (rate.shown if rate else None) or (None, None)
    return {
        "model": change.key.model,
        "suite": change.key.suite,
        "measure": change.key.name,
        "commit": change.commit.sha,
        "date": change.commit.date,
        "rate": rate.value if rate else None,
        "low": low,
        "high": high,
        "n": rate.counts.n if rate else None,
        "causes": change.causes,
        "difference": rounded_difference(difference) if difference else None,
    }
