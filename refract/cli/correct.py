"""``refract correct``: refusal rates corrected by human labels."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from refract.cli.label import run_answers
from refract.cli.options import Confidence
from refract.cli.printing import print_table
from refract.core.errors import RowError, UsageError
from refract.core.showing import json_text, say
from refract.core.types import Row
from refract.core.vocabulary import (
    LABELS,
    REFUSED,
)
from refract.report.markdown import MISSING, markdown_table

if TYPE_CHECKING:
    from refract.agreement.human_labels import HumanRate
    from refract.agreement.label_files import Labels


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
    from refract.core.params import decision_settings

    level = float(confidence or decision_settings(Path.cwd()).confidence)
    files, models, paths = labels or [], model or [], rows or []
    if models and paths:
        raise UsageError("give --model with --suite, or --rows, not both")
    if calibrate_on is not None:
        if files or len(models or paths) > 1:
            raise UsageError("--calibrate-on takes one run, and no file of labels")
        answers = run_answers(*_run(models, paths, 0, suite))
        _print(
            calibrated_numbers(answers, calibrate_on, judge or _first_judge(models, suite), level),
            format_,
        )
        return
    if not 1 <= len(files) <= 2:
        raise UsageError(
            f"give one file of `refract label`, two for a difference, or --calibrate-on (got "
            f"{len(files)} files)"
        )
    if judge is not None:
        raise UsageError("--judge goes with --calibrate-on")
    if (models or paths) and len(models or paths) != len(files):
        raise UsageError(
            f"each file of labels needs its run: {len(files)} files, {len(models or paths)} of "
            f"{'--model' if models else '--rows'}"
        )
    runs = [
        _labelled(file, run_answers(*_run(models, paths, number, suite)))
        for number, file in enumerate(files)
    ]
    if len(runs) == 1:
        _print(corrected_numbers(*runs[0], level), format_)
    else:
        _print(difference_numbers(runs[0], runs[1], level), format_)


def _run(
    models: Sequence[str], paths: Sequence[Path], number: int, suite: str | None
) -> tuple[str | None, str | None, Path | None]:
    one = models[number] if number < len(models) else None
    return one, suite, paths[number] if number < len(paths) else None


def _first_judge(models: Sequence[str], suite: str | None) -> str:
    if not models or suite is None:
        return "rules"
    from refract.core.params import definition
    from refract.project import project_root, read_project

    wanted = definition(read_project(project_root()).params, "suites", suite)
    return str(wanted["judges"][0])


def _labelled(file: Path, answers: list[Row]) -> tuple[list[Row], Labels]:
    from refract.agreement.label_files import read_labels

    if not file.is_file():
        raise UsageError(f"no file {file}; `refract label` writes one")
    human = read_labels(file, answers)
    if human.stale:
        raise RowError(
            f"{file}: {len(human.stale)} labels are of other answers than this run's, such as "
            f"{human.stale[0]}; the rest is not a random sample: draw a new one with refract label"
        )
    if not human.found:
        raise RowError(f"{file}: no row has a label yet")
    if human.blank:
        say(
            f"refract: {file}: {len(human.blank)} rows before the last labelled one have no label, "
            "such as "
            f"{human.blank[0]}; the others are no random sample, so that there are bounds instead of "
            "rates",
            file=sys.stderr,
        )
    return answers, human


def corrected_numbers(answers: list[Row], labels: Labels, confidence: float) -> Row:
    """Rates by measure: the judge's on all answers, the human labels' on theirs, and both together."""
    from refract.agreement import rounded_numbers
    from refract.agreement.human_labels import corrected_rates
    from refract.rates.rates import MEASURES
    from refract.statistics.raters import cohen_kappa

    found = labels.found
    categories = {measure: category for measure, category, _ in MEASURES}
    measures: Row = {}
    rates = corrected_rates(answers, found, labels.blank, confidence, labels.inclusion)
    for measure, rate in rates.items():
        members = [a for a in answers if categories[measure] in (None, a["category"])]
        mine = [answer for answer in members if answer["prompt_id"] in found]
        row: dict[str, Any] = {
            "n": len(members),
            "labelled": len(mine),
            "raw": _rate([(a["outcome"] in REFUSED, a) for a in members], confidence),
        }
        if rate is not None:
            row["human"] = _rate([(found[a["prompt_id"]] in REFUSED, a) for a in mine], confidence)
            row["prediction_powered"] = _numbers(rate)
            row["these_answers"] = _here(rate)
        measures[measure] = row
    both = [(found[a["prompt_id"]], a["outcome"]) for a in answers if a["prompt_id"] in found]
    kappa = cohen_kappa(
        [a in REFUSED for a, _ in both], [b in REFUSED for _, b in both], confidence
    )
    judge = rounded_numbers({"kappa": kappa.kappa, "low": kappa.low, "high": kappa.high})
    return {
        "measures": measures,
        "blank": len(labels.blank),
        "drawn_by_doubt": labels.inclusion is not None,
        "judge": {"n": kappa.n, **judge},
    }


def difference_numbers(
    first: tuple[list[Row], Labels], second: tuple[list[Row], Labels], confidence: float
) -> Row:
    """The difference of two runs by measure, first minus second."""
    from refract.agreement.human_labels import corrected_differences

    return {
        "differences": {
            measure: {} if found is None else _numbers(found)
            for measure, found in corrected_differences(first, second, confidence).items()
        },
        "blank": len(first[1].blank) + len(second[1].blank),
    }


def calibrated_numbers(answers: list[Row], file: Path, judge: str, confidence: float) -> Row:
    """Rates corrected for the errors that a judge makes on a file of labelled answers."""
    from refract.agreement.calibration import calibrate, judge_errors_of
    from refract.cli.labelled_files import Columns, Reading, read_labelled
    from refract.evaluate.judge_errors import judge_pairs
    from refract.judges import open_judge
    from refract.project import find_judge, find_project
    from refract.rates.rates import MEASURES
    from refract.suites.importing.files import read_table

    if not file.is_file():
        raise UsageError(f"--calibrate-on: no file {file}")
    prompt = "prompt" if "prompt" in read_table(file).columns else None
    pairs, _ = read_labelled([file], Columns("response", "label", prompt), Reading())
    strange = sorted({pair["label"] for pair in pairs} - set(LABELS))
    if strange:
        raise UsageError(
            f"--calibrate-on {file}: label must be one of {', '.join(LABELS)} (got {strange[0]!r})"
        )
    opened = open_judge(judge, find_judge(judge, find_project()))
    found = [verdict["label"] for verdict in judge_pairs(pairs, {judge: opened})[judge]]
    errors = judge_errors_of(pairs, found)
    measures: Row = {}
    for measure, category, positive in MEASURES:
        members = [a for a in answers if category in (None, a["category"])]
        if positive == REFUSED and members:
            refused = sum(answer["outcome"] in REFUSED for answer in members)
            measures[measure] = {
                "n": len(members),
                "raw": _rate([(a["outcome"] in REFUSED, a) for a in members], confidence),
                "calibrated": calibrate(refused, len(members), errors, confidence),
            }
    return {
        "calibrated": measures,
        "judge": {"name": judge, "version": opened.version} | errors.numbers,
    }


def _numbers(rate: HumanRate) -> Row:
    from refract.agreement import rounded_numbers

    ends = {} if rate.rate is not None else {"lowest": rate.lowest, "highest": rate.highest}
    return {
        "labelled": rate.labelled,
        "blank": rate.blank,
        **rounded_numbers({"rate": rate.rate, "low": rate.low, "high": rate.high, **ends}),
        **rounded_numbers({"weight": rate.weight}),
    }


def _here(rate: HumanRate) -> Row:
    """The rate with its interval for the run's own answers, of which all could be labelled."""
    from refract.agreement import rounded_numbers

    ends = {} if rate.rate is not None else {"lowest": rate.lowest, "highest": rate.highest}
    return rounded_numbers(
        {"rate": rate.rate, "low": rate.low_here, "high": rate.high_here, **ends}
    )


def _rate(rows: Sequence[tuple[bool, Row]], confidence: float) -> Row:
    from refract.agreement import rounded_numbers
    from refract.statistics.clusters import clustered_mean

    found = clustered_mean(
        [float(refused) for refused, _ in rows],
        [answer.get("cluster") or answer["prompt_id"] for _, answer in rows],
        confidence,
    )
    if found is None:
        return {}
    return rounded_numbers({"rate": found.value, "low": found.low, "high": found.high})


def _print(found: Row, format_: str) -> None:
    if format_ == "json":
        say(json_text(found))
        return
    if "measures" in found:
        header = [
            "measure",
            "answers",
            "judge (raw)",
            "labelled",
            "left blank",
            "human labels",
            "prediction-powered",
            "of these answers alone",
        ]
        lines = [
            [
                measure,
                str(row["n"]),
                _shown(row["raw"]),
                str(row["labelled"]),
                str(row.get("prediction_powered", {}).get("blank", 0)),
                MISSING if found["blank"] or found["drawn_by_doubt"] else _shown(row.get("human")),
                _shown(row.get("prediction_powered")),
                _shown(row.get("these_answers")),
            ]
            for measure, row in found["measures"].items()
        ]
        kappa = found["judge"].get("kappa")
        shown = "undefined" if kappa is None else f"{kappa:.3f}"
        notes = [f"judge and human labels agree with κ {shown}"]
        if found["drawn_by_doubt"]:
            notes = [
                "answers that the judge is unsure of were drawn more often, and count for less; on the "
                f"labelled ones alone judge and people agree with κ {shown}, which is not that of all"
            ]
    elif "differences" in found:
        header = ["measure", "labelled", "left blank", "difference, first minus second"]
        lines = [
            [measure, str(row.get("labelled", 0)), str(row.get("blank", 0)), _shown(row, "+")]
            for measure, row in found["differences"].items()
        ]
        notes = [
            "each rate is prediction-powered by its own labels; answers to one prompt are taken together"
        ]
    else:
        header = ["measure", "answers", "judge (raw)", "corrected", "by slice"]
        lines = [
            [measure, str(row["n"]), _shown(row["raw"]), *_calibrated(row["calibrated"])]
            for measure, row in found["calibrated"].items()
        ]
        judge = found["judge"]
        notes = [
            f"{judge['name']} on the labelled answers: {judge['found']} of {judge['refusals']} refusals "
            f"found, {judge['left_alone']} of {judge['answers']} other answers left alone",
            "Holds if, given the true label, the judge says the same on the run's answers as on the "
            "labelled ones (label shift). Labels of the run itself need no assumption: refract label",
        ]
    if format_ == "md":
        say(markdown_table(header, lines) + "\n")
    else:
        print_table(header, lines)
    for note in notes:
        say(note)


def _calibrated(row: Mapping[str, Any]) -> list[str]:
    if row.get("contradicted"):
        corrected = "contradicted: the judge says this more, or less, often than its errors allow"
    else:
        corrected = _shown(row) if "rate" in row else "none: the judge is no better than chance"
    slices = MISSING
    if "slice_lowest" in row:
        slices = f"{row['slice_lowest']:.3f} to {row['slice_highest']:.3f}"
    if row.get("slices_contradicted"):
        slices += f", {row['slices_contradicted']} of {row['slices']} contradicted"
    return [corrected, slices]


def _shown(row: Mapping[str, Any] | None, sign: str = "") -> str:
    if not row:
        return MISSING
    limits = "" if "low" not in row else f" [{row['low']:{sign}.3f}, {row['high']:{sign}.3f}]"
    if "rate" in row:
        return f"{row['rate']:{sign}.3f}{limits or ' (no interval)'}"
    return f"{row['lowest']:{sign}.3f} to {row['highest']:{sign}.3f}{limits}"
