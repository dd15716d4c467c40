"""``refract kappa``: do two judges agree?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from refract.agreement import rounded_numbers
from refract.agreement.verdicts import Join, Verdict, join_verdicts, read_verdicts
from refract.cli.options import Confidence
from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.showing import json_text, say
from refract.core.types import Row
from refract.statistics.raters import Kappa, cohen_kappa, confusion

T = TypeVar("T")
NAMED = 10  # how many keys of what did not join are shown


def load_pair(first: Path, second: Path, judges: Sequence[str | None]) -> Join:
    """The joined verdicts of two files or folders; raises where nothing joins."""
    for path in (first, second):
        if not path.exists():
            raise UsageError(f"no file or folder {path}")
    a, b = (read_verdicts(path, judge) for path, judge in zip((first, second), judges, strict=True))
    joined = join_verdicts(a, b)
    if not joined.pairs:
        examples = "; ".join(
            f"{name} has {' '.join(keys[0])}"
            for name, keys in (("A", joined.only_first), ("B", joined.only_second))
            if keys
        )
        raise UsageError(
            f"no verdict of A ({len(a)}) and B ({len(b)}) is on the same answer, by "
            f"{', '.join(joined.by)}: {examples or 'both are empty'}"
        )
    return joined


def report_unjoined(joined: Join) -> None:
    """Says on standard error how many verdicts did not join, and which."""
    for name, keys in (("A", joined.only_first), ("B", joined.only_second)):
        if keys:
            shown = ", ".join(" ".join(key) for key in keys[:NAMED])
            more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
            say(f"only in {name}: {len(keys)} ({shown}{more})", file=sys.stderr)


def unjoined_numbers(joined: Join) -> Row:
    """What did not join, as JSON."""
    return {
        "joined_by": list(joined.by),
        "only_a": [list(key) for key in joined.only_first],
        "only_b": [list(key) for key in joined.only_second],
    }


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
    joined = load_pair(a, b, (judge_a, judge_b))
    report_unjoined(joined)
    refused = [(one.refused, two.refused) for one, two in joined.pairs]
    decided = [(one, two) for one, two in refused if one is not None and two is not None]
    labels = [(one.label, two.label) for one, two in joined.pairs]
    labelled = [(one, two) for one, two in labels if one is not None and two is not None]
    level = float(confidence or 0.95)
    on_refusal = cohen_kappa(*_columns(decided), level)
    table = confusion(*_columns(labelled))
    on_labels = cohen_kappa(*_columns(labelled), level)
    left_out = _left_out(joined.pairs)
    if format_ == "json":
        say(
            json_text(
                {
                    **unjoined_numbers(joined),
                    "joined": len(joined.pairs),
                    "undecided": left_out,
                    "refusal": _numbers(on_refusal),
                    "labels": {
                        **_numbers(on_labels),
                        "confusion": {
                            str(label): dict(zip(map(str, table.labels), counts, strict=True))
                            for label, counts in zip(table.labels, table.counts, strict=True)
                        },
                    },
                }
            )
        )
    else:
        say(
            f"{len(joined.pairs)} answers joined by {', '.join(joined.by)}; refusal undecided: "
            f"{left_out['a']} in A, {left_out['b']} in B"
        )
        print_table(
            ["on", "n", "agree", "by chance", "κ", f"{100 * level:g} % interval"],
            [_row("refused or not", on_refusal), _row("all labels", on_labels)],
        )
        print_table(
            ["A \\ B", *map(str, table.labels)],
            [
                [str(label), *map(str, counts)]
                for label, counts in zip(table.labels, table.counts, strict=True)
            ],
        )
    raise typer.Exit(int(strict and bool(joined.only_first or joined.only_second)))


def _columns(pairs: Sequence[tuple[T, T]]) -> tuple[list[T], list[T]]:
    return [one for one, _ in pairs], [two for _, two in pairs]


def _left_out(pairs: Sequence[tuple[Verdict, Verdict]]) -> dict[str, int]:
    return {
        "a": sum(a.refused is None for a, _ in pairs),
        "b": sum(b.refused is None for _, b in pairs),
    }


def _numbers(kappa: Kappa) -> Row:
    return {
        "n": kappa.n,
        **rounded_numbers({k: v for k, v in kappa._asdict().items() if k not in ("n", "se")}),
    }


def _row(name: str, kappa: Kappa) -> list[str]:
    agreement = [
        "—" if x is None else f"{x:.3f}" for x in (kappa.agreement, kappa.chance_agreement)
    ]
    if kappa.kappa is None:
        return [name, str(kappa.n), *agreement, "undefined", "—"]
    interval = f"{kappa.low:.3f} to {kappa.high:.3f}"
    return [name, str(kappa.n), *agreement, f"{kappa.kappa:.3f}", interval]
