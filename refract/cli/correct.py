"""``refract correct``: refusal rates corrected by human labels."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from refract.cli.label import run_answers
from refract.cli.options import Confidence
from refract.cli.printing import print_table
from refract.core.errors import RowError, UsageError
from refract.core.showing import json_text, say
from refract.core.types import Row
from refract.core.vocabulary import LABELS
from refract.report.markdown import markdown_table
from refract.report.wording import MISSING

if TYPE_CHECKING:
    from refract.agreement.corrections import Labelled
    from refract.agreement.label_files import JudgedAnswer


def correct(
    labels: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A CSV of `refract label`, filled in; two of them for a difference of two runs."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="The model that was labelled; of two files, one for each in order."),
    ] = None,
    suite: Annotated[str | None, typer.Option(help="Its suite; or the suite of --rows.")] = None,
    rows: Annotated[
        list[Path] | None,
        typer.Option(help="Instead of --model: the --rows file of `refract run`, one for each."),
    ] = None,
    calibrate_on: Annotated[
        Path | None,
        typer.Option(
            help="Instead of labels of the run: answers of your own domain with columns response and "
            "label (refusal, partial_refusal, compliance, degenerate), prompt and slice if there are."
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="The judge that --calibrate-on measures; default: the suite's first, with --rows rules."
        ),
    ] = None,
    confidence: Confidence = None,
    format_: Annotated[
        Literal["table", "md", "json"], typer.Option("--format", help="How it is printed.")
    ] = "table",
) -> None:
    """Refusal rates from human labels of a part of a run and the judge's verdicts on the rest.

    Two files give the difference of two runs, first minus second.

    Example: refract correct labels.csv --rows rows.jsonl
    """
    from refract.agreement.corrections import corrected_numbers, difference_numbers
    from refract.core.params import decision_settings, definition
    from refract.project import project_root, read_project

    level = float(confidence or decision_settings(Path.cwd()).confidence)
    files, models, paths = labels or [], model or [], rows or []
    if models and paths:
        raise UsageError("give --model with --suite, or --rows, not both")
    runs: list[tuple[str | None, Path | None]] = [
        *((name, None) for name in models),
        *((None, path) for path in paths),
    ]
    if calibrate_on is not None:
        if files or len(runs) > 1:
            raise UsageError("--calibrate-on takes one run, and no file of labels")
        name, path = runs[0] if runs else (None, None)
        answers = run_answers(name, suite, path)
        if judge is None and name is not None:
            judges = definition(read_project(project_root()).params, "suites", suite or "")[
                "judges"
            ]
            judge = judges[0]
        _print(_calibrated_numbers(answers, calibrate_on, judge or "rules", level), format_)
        return
    if not 1 <= len(files) <= 2:
        raise UsageError(
            f"give one file of `refract label`, two for a difference, or --calibrate-on (got "
            f"{len(files)} files)"
        )
    if judge is not None:
        raise UsageError("--judge goes with --calibrate-on")
    if runs and len(runs) != len(files):
        raise UsageError(
            f"each file of labels needs its run: {len(files)} files, {len(runs)} of "
            f"{'--model' if models else '--rows'}"
        )
    labelled = [
        _labelled(file, run_answers(name, suite, path))
        for file, (name, path) in zip(files, runs or [(None, None)] * len(files), strict=True)
    ]
    numbers_of = corrected_numbers if len(labelled) == 1 else difference_numbers
    _print(numbers_of(*labelled, confidence=level), format_)


def _labelled(file: Path, answers: list[JudgedAnswer]) -> Labelled:
    from refract.agreement.label_files import read_labels

    if not file.is_file():
        raise UsageError(f"no file {file}; `refract label` writes one")
    human = read_labels(file, answers)
    if human.stale:
        raise RowError(
            f"{file}: {len(human.stale)} labels are of other answers than this run's, such as "
            f"{human.stale[0]}; the rest is not a random sample: draw a new one with refract label"
        )
    if not human.by_id:
        raise RowError(f"{file}: no row has a label yet")
    if human.blank:
        say(
            f"refract: {file}: {len(human.blank)} rows before the last labelled one have no label, "
            f"such as {human.blank[0]}; the others are no random sample, so that there are bounds "
            "instead of rates",
            file=sys.stderr,
        )
    return answers, human


def _calibrated_numbers(
    answers: list[JudgedAnswer], file: Path, judge: str, confidence: float
) -> Row:
    from refract.agreement.corrections import calibrated_numbers
    from refract.agreement.labelled_files import LabelColumns, LabelMeaning, read_labelled
    from refract.evaluate.judge_errors import judge_pairs
    from refract.judges import open_judge
    from refract.project import find_judge, find_project
    from refract.suites.importing.file_formats import read_table

    if not file.is_file():
        raise UsageError(f"--calibrate-on: no file {file}")
    prompt = "prompt" if "prompt" in read_table(file).columns else None
    pairs, _ = read_labelled([file], LabelColumns(prompt=prompt), LabelMeaning())
    strange = sorted({pair["label"] for pair in pairs} - set(LABELS))
    if strange:
        raise UsageError(
            f"--calibrate-on {file}: label must be one of {', '.join(LABELS)} (got {strange[0]!r})"
        )
    opened = open_judge(judge, find_judge(judge, find_project()))
    verdicts = judge_pairs(pairs, {judge: opened})[judge]
    numbers = calibrated_numbers(
        answers, pairs, [verdict["label"] for verdict in verdicts], confidence
    )
    return numbers | {"judge": {"name": judge, "version": opened.version, **numbers["judge"]}}


def _print(numbers: Row, format_: str) -> None:
    if format_ == "json":
        say(json_text(numbers))
        return
    table = _corrected_table if "measures" in numbers else _difference_table
    header, lines, notes = (_calibrated_table if "calibrated" in numbers else table)(numbers)
    if format_ == "md":
        say(markdown_table(header, lines) + "\n")
    else:
        print_table(header, lines)
    for note in notes:
        say(note)


Table = tuple[list[str], list[list[str]], list[str]]  # header, rows, and notes below them


def _difference_table(numbers: Row) -> Table:
    lines = [
        [measure, str(row.get("labelled", 0)), str(row.get("blank", 0)), _shown(row, "+")]
        for measure, row in numbers["differences"].items()
    ]
    note = "each rate is prediction-powered by its own labels; answers to one prompt are taken together"
    return ["measure", "labelled", "left blank", "difference, first minus second"], lines, [note]


def _corrected_table(numbers: Row) -> Table:
    header = [
        *("measure", "answers", "judge (raw)", "labelled", "left blank", "human labels"),
        *("prediction-powered", "of these answers alone"),
    ]
    lines = [
        [
            measure,
            str(row["n"]),
            _shown(row["raw"]),
            str(row["labelled"]),
            str(row.get("prediction_powered", {}).get("blank", 0)),
            MISSING if numbers["blank"] or numbers["drawn_by_doubt"] else _shown(row.get("human")),
            _shown(row.get("prediction_powered")),
            _shown(row.get("these_answers")),
        ]
        for measure, row in numbers["measures"].items()
    ]
    kappa = numbers["judge"].get("kappa")
    shown = "undefined" if kappa is None else f"{kappa:.3f}"
    note = f"judge and human labels agree with κ {shown}"
    if numbers["drawn_by_doubt"]:
        note = (
            "answers that the judge is unsure of were drawn more often, and count for less; on the "
            f"labelled ones alone judge and people agree with κ {shown}, which is not that of all"
        )
    return header, lines, [note]


def _calibrated_table(numbers: Row) -> Table:
    lines = []
    for measure, row in numbers["calibrated"].items():
        rate = row["calibrated"]
        corrected = _shown(rate) if "rate" in rate else "none: the judge is no better than chance"
        if rate.get("contradicted"):
            corrected = (
                "contradicted: the judge says this more, or less, often than its errors allow"
            )
        slices = MISSING
        if "slice_lowest" in rate:
            slices = f"{rate['slice_lowest']:.3f} to {rate['slice_highest']:.3f}"
        if rate.get("slices_contradicted"):
            slices += f", {rate['slices_contradicted']} of {rate['slices']} contradicted"
        lines.append([measure, str(row["n"]), _shown(row["raw"]), corrected, slices])
    judge = numbers["judge"]
    notes = [
        f"{judge['name']} on the labelled answers: {judge['found']} of {judge['refusals']} refusals "
        f"found, {judge['left_alone']} of {judge['answers']} other answers left alone",
        "Holds if, given the true label, the judge says the same on the run's answers as on the "
        "labelled ones (label shift). Labels of the run itself need no assumption: refract label",
    ]
    return ["measure", "answers", "judge (raw)", "corrected", "by slice"], lines, notes


def _shown(row: Mapping[str, Any] | None, sign: str = "") -> str:
    if not row:
        return MISSING
    limits = "" if "low" not in row else f" [{row['low']:{sign}.3f}, {row['high']:{sign}.3f}]"
    if "rate" in row:
        return f"{row['rate']:{sign}.3f}{limits or ' (no interval)'}"
    return f"{row['lowest']:{sign}.3f} to {row['highest']:{sign}.3f}{limits}"
