"""``refract judge``, ``kappa`` and ``did``: verdicts on given answers, and two judges compared."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.options import (
    AsJson,
    Confidence,
    JudgeBaseUrl,
    JudgeModel,
    NumbersFile,
    files_named,
    keep_inputs,
)
from refract.cli.printing import estimate_cell, print_table
from refract.core.errors import UsageError
from refract.core.jsonl import write_json, write_rows
from refract.core.showing import json_text, say
from refract.core.types import Row
from refract.report.markdown import markdown_table

if TYPE_CHECKING:
    from refract.agreement.two_judges import Join


def judge(
    in_: Annotated[Path, typer.Option("--in")],
    out: Annotated[Path, typer.Option()],
    judge: str | None = None,
    judge_model: JudgeModel = None,
    judge_base_url: JudgeBaseUrl = None,
) -> None:
    """Judge answers that already exist: one verdict row for each row, in order.

    Example: refract judge --judge refusal --in answers.jsonl --out verdicts.jsonl

    Args:
        in_: Rows with id or prompt_id, prompt and response (JSONL), or a log of Inspect or
          lm-evaluation-harness.
        out: Where the verdict rows go (JSONL).
        judge: A judge of params.yaml, a kind of judge, or llm (refusal, by --judge-model); default:
          refusal.
    """
    from refract.api import judge_rows
    from refract.models.recorded import read_answers
    from refract.project import MODEL_JUDGE, find_judge, find_project

    if not in_.is_file():
        raise UsageError(f"--in: no file {in_}")
    wanted = judge or ("refusal" if judge_model is None else MODEL_JUDGE)
    definition = find_judge(wanted, find_project(), judge_model, judge_base_url)
    keep_inputs({"--out": out}, [in_, *files_named(definition)])
    write_rows(out, judge_rows(read_answers(in_), wanted, definition, f"{in_}: row"))


NAMED = 10  # how many keys of what did not join are shown
LAYERS = {"inner": "inner alone", "outer": "outer alone", "system": "system (either)"}
LAYERS |= {"both": "both", "gain": "gain of the outer (system minus inner)"}


def kappa(
    a: Path,
    b: Path,
    judge_a: str | None = None,
    judge_b: str | None = None,
    strict: Annotated[bool, typer.Option("--strict")] = False,
    format_: AsJson = "table",
    out: Path | None = None,
    confidence: Confidence = None,
) -> None:
    """Compare two judges' verdicts, or two people's labels, on the same answers: Cohen's κ.

    Example: refract kappa data/verdicts/m/s.jsonl other.jsonl --judge-a rules

    Args:
        a: Verdicts: a JSONL file, or a folder of them; or a person's CSV of `refract label`.
        b: The same, of another judge or person.
        judge_a: Which judge of A, where rows have several.
        judge_b: The same, of B.
        strict: Exit with 1 unless every verdict joined.
        out: Of two people: write A here with blanks where B differs, which `refract label --terminal`
            then asks for.
    """
    from refract.agreement.two_judges import join_files, judge_agreement, write_agreed

    people = a.suffix == b.suffix == ".csv"
    keep_inputs({"--out": out}, [a, b])
    if out is not None and not people:
        raise UsageError(f"--out goes with two CSVs of `refract label` (got {a} and {b})")
    joined = join_files(a, b, (judge_a, judge_b))
    _say_unjoined(joined)
    level = float(confidence or 0.95)
    numbers = judge_agreement(joined.pairs, level)
    unequal = [(x, y) for x, y in joined.pairs if people and x.label != y.label]
    differing = [[str(x.suite), x.prompt_id, str(x.label), str(y.label)] for x, y in unequal]
    if out is not None:
        write_agreed(a, joined, out)
    if format_ == "json":
        listed = {"disagreements": differing} if people else {}
        say(json_text({**joined.numbers, "joined": len(joined.pairs), **numbers, **listed}))
    else:
        undecided = "{a} in A, {b} in B".format(**numbers["undecided"])
        by = ", ".join(joined.by)
        say(f"{len(joined.pairs)} answers joined by {by}; refusal undecided: {undecided}")
        rows = []
        for name, row in (
            ("refused or not", numbers["refusal"]),
            ("all labels", numbers["labels"]),
        ):
            shares = (estimate_cell(row, x, f"{x}_") for x in ("agreement", "chance_agreement"))
            rows.append([name, str(row["n"]), *shares, estimate_cell(row, "kappa")])
        print_table(["on", "n", "agree", "by chance", f"κ [{100 * level:g} %]"], rows)
        print_confusion("A \\ B", numbers["labels"]["confusion"])
        if differing:
            say("To be settled:")
            print_table(["suite", "prompt", "A", "B"], differing)
    raise typer.Exit(int(strict and bool(joined.only_first or joined.only_second)))


def did(
    inner: Annotated[Path, typer.Option()],
    outer: Annotated[Path, typer.Option()],
    inner_judge: str | None = None,
    outer_judge: str | None = None,
    format_: Annotated[Literal["md", "json"], typer.Option("--format")] = "md",
    out: NumbersFile = None,
    confidence: Confidence = None,
) -> None:
    """Defense in depth: what two layers stop alone and together, on the same answers.

    Example: refract did --inner rules.jsonl --outer llm.jsonl

    Args:
        inner: Verdicts of the inner layer: a file or a folder.
        outer: Verdicts of the outer layer, on the same answers.
        inner_judge: Which judge of --inner, where rows have several.
        outer_judge: The same, of --outer.
        format_: How it is printed.
    """
    from refract.agreement.two_judges import defense, join_files

    keep_inputs({"--out": out}, [inner, outer])
    joined = join_files(inner, outer, (inner_judge, outer_judge))
    _say_unjoined(joined)
    level = float(confidence or 0.95)
    first, second = ([pair[place].refused for pair in joined.pairs] for place in (0, 1))
    numbers = {**defense(first, second, level), **joined.numbers}
    if out is not None:
        write_json(out, numbers)
    say(json_text(numbers) if format_ == "json" else _page(numbers, level))


def _say_unjoined(joined: Join) -> None:
    """Says on standard error how many verdicts did not join, and which."""
    for name, keys in (("A", joined.only_first), ("B", joined.only_second)):
        if keys:
            shown = ", ".join(" ".join(key) for key in keys[:NAMED])
            more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
            say(f"only in {name}: {len(keys)} ({shown}{more})", file=sys.stderr)


def print_confusion(corner: str, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Prints how often labels of two raters met, by the first rater's label and the second's."""
    columns = list(dict.fromkeys(label for row in counts.values() for label in row))
    rows = [[label, *(str(of.get(x, 0)) for x in columns)] for label, of in counts.items()]
    print_table([corner, *columns], rows)


def _page(numbers: Row, confidence: float) -> str:
    rows = []
    for layer, name in LAYERS.items():
        rate, interval = "{rate:.4f},{low:.4f} to {high:.4f}".format(**numbers[layer]).split(",")
        rows.append([name, numbers[layer]["stopped"], numbers["n"], rate, interval])
    header = ("Layer", "Stopped", "of", "Rate", f"{100 * confidence:g} % interval")
    unjudged = numbers["unjudged"]
    return (
        f"{markdown_table(header, rows)}\n\n"
        "The gain is the share that the outer layer alone stops, with its Wilson interval; "
        "answers to one request count as independent.\n\n"
        f"Left out as unjudged: {sum(unjudged.values())} (by the inner layer "
        f"{unjudged['inner']}, by the outer {unjudged['outer']}, by both {unjudged['both']})."
    )
