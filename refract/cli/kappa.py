"""``refract kappa``: do two judges agree?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.options import Confidence
from refract.cli.printing import print_table
from refract.core.showing import json_text, say

if TYPE_CHECKING:
    from refract.agreement.two_judges import Join
    from refract.statistics.raters import Confusion, Kappa

NAMED = 10  # how many keys of what did not join are shown


def say_unjoined(joined: Join) -> None:
    """Says on standard error how many verdicts did not join, and which."""
    for name, keys in (("A", joined.only_first), ("B", joined.only_second)):
        if keys:
            shown = ", ".join(" ".join(key) for key in keys[:NAMED])
            more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
            say(f"only in {name}: {len(keys)} ({shown}{more})", file=sys.stderr)


def kappa(
    a: Annotated[Path, typer.Argument(help="Verdicts: a JSONL file, or a folder of them.")],
    b: Annotated[Path, typer.Argument(help="The same, of another judge.")],
    judge_a: Annotated[
        str | None, typer.Option(help="Which judge of A, where rows have several.")
    ] = None,
    judge_b: Annotated[str | None, typer.Option(help="The same, of B.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 unless every verdict joined.")
    ] = False,
    format_: Annotated[
        Literal["table", "json"], typer.Option("--format", help="How it is printed.")
    ] = "table",
    confidence: Confidence = None,
) -> None:
    """Compare two judges' verdicts on the same answers: Cohen's κ with its interval.

    Example: refract kappa data/verdicts/m/s.jsonl other.jsonl --judge-a rules
    """
    from refract.agreement.two_judges import join_files, judge_agreement

    joined = join_files(a, b, (judge_a, judge_b))
    say_unjoined(joined)
    level = float(confidence or 0.95)
    agreement = judge_agreement(joined.pairs, level)
    if format_ == "json":
        say(json_text({**joined.numbers, "joined": len(joined.pairs), **agreement.numbers}))
    else:
        say(
            f"{len(joined.pairs)} answers joined by {', '.join(joined.by)}; refusal undecided: "
            f"{agreement.undecided['a']} in A, {agreement.undecided['b']} in B"
        )
        print_table(
            ["on", "n", "agree", "by chance", "κ", f"{100 * level:g} % interval"],
            [
                _row("refused or not", agreement.refusal),
                _row("all labels", agreement.labels),
            ],
        )
        print_confusion("A \\ B", agreement.confusion)
    raise typer.Exit(int(strict and bool(joined.only_first or joined.only_second)))


def print_confusion(corner: str, table: Confusion) -> None:
    """Prints how often the labels of two raters met, under the first rater's name and the second's."""
    rows = zip(map(str, table.labels), table.counts, strict=True)
    print_table(
        [corner, *map(str, table.labels)], [[label, *map(str, counts)] for label, counts in rows]
    )


def _row(name: str, kappa: Kappa) -> list[str]:
    agreement = [
        "—" if share is None else f"{share:.3f}"
        for share in (kappa.agreement, kappa.chance_agreement)
    ]
    if kappa.kappa is None:
        return [name, str(kappa.n), *agreement, "undefined", "—"]
    interval = f"{kappa.low:.3f} to {kappa.high:.3f}"
    return [name, str(kappa.n), *agreement, f"{kappa.kappa:.3f}", interval]
