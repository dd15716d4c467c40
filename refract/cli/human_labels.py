"""``refract judge validate``, ``label`` and ``correct``: judges and rates against human labels."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from refract.agreement.corrections import corrected_numbers, gainsaid_notes, label_plans
from refract.agreement.label_files import (
    LABEL_FILE,
    JoinedLabels,
    draw,
    keep_labels,
    label_rows,
    write_sample,
)
from refract.agreement.labelled_files import labels_of, read_labelled
from refract.agreement.ledger import LedgerEntry, shown_gap
from refract.cli.options import AsJson, NumbersFile, keep_inputs, listed
from refract.cli.printing import estimate_cell, print_confusion, print_table
from refract.core.errors import UsageError
from refract.core.jsonl import sha256_file, write_json
from refract.core.params import decision_settings
from refract.core.showing import json_text, say
from refract.core.types import Row
from refract.core.vocabulary import FAMILIES, LABELS
from refract.evaluate.judge_errors import Validation
from refract.evaluate.judge_errors import validate as measure_judges
from refract.evaluate.labelled import labelled_answers, run_answers, run_error
from refract.judges import open_judges
from refract.project import find_judge, find_project, project_root
from refract.project.inputs import files_named
from refract.rates.judge_error import JUDGE_NOTE
from refract.statistics.raters import more_labels

# Columns of `refract correct`: the keys of its numbers, and their titles.
RATE = {
    "raw": "judge (raw)",
    "without_labels": "for prompts and judge",
    "with_labels": "and labels",
    "prediction_powered": "prediction-powered",
}
SCORES = {name: name for name in ("precision", "recall", "specificity", "accuracy")}


def validate(
    labelled: Annotated[
        list[Path], Option(help="Answers with human labels: CSV, JSONL. Repeatable.")
    ],
    judge: Annotated[
        list[str] | None,
        Option(help="A judge of params.yaml, or a kind; default: refusal. Repeatable."),
    ] = None,
    positive: Annotated[
        list[str] | None,
        Option(help="Labels that mean refused: VALUE,...; all others mean not. Repeatable."),
    ] = None,
    partial: Annotated[
        Literal["refusal", "compliance"],
        Option(help="What a partial refusal counts as, the judge's and people's."),
    ] = "refusal",
    out: NumbersFile = None,
) -> None:
    """Measure judges against human labels, by source and by the model that answered, worst first.

    Files have the columns response and label, and perhaps prompt, source and model.

    Example: refract judge validate --labelled answers.csv --positive yes
    """
    level = decision_settings(Path.cwd()).confidence
    project = find_project()
    definitions = {name: find_judge(name, project) for name in judge or ["refusal"]}
    keep_inputs({"--out": out}, [*labelled, *files_named(definitions)])
    rows, left_out = read_labelled(labelled)
    values, refused = [row["label"] for row in rows], listed(positive)
    labels = labels_of(values, refused)
    judges = open_judges(definitions)
    for name, opened in judges.items():
        if not FAMILIES[opened.FAMILY].tells_refusal:
            raise UsageError(f"judge {name!r} does not label refusal, but {opened.FAMILY}")
    pairs = [{**row, "label": label} for row, label in zip(rows, labels, strict=True)]
    validation = measure_judges({"labelled": pairs}, judges, partial, level)
    results = {}
    for name, definition in definitions.items():
        results[name] = {
            "judge": {name: {**definition, "version": judges[name].version}},
            "partial": partial,
            **_scores(validation, name, values, four_labels=not refused),
            "files": {str(path): sha256_file(path) for path in labelled},
            "left_out": left_out,
        }
    names, paths = ", ".join(results), ", ".join(map(str, labelled))
    say(f"{names} on {paths}: {len(rows)} answers; without label or response: {left_out}")
    without_prompt = sum(not row["prompt"] for row in rows)
    if without_prompt:
        say(f"{without_prompt} answers have no prompt (column prompt)", file=sys.stderr)
    others = sorted({*values} - {*refused})
    if refused and len(others) > 1:
        shown = ", ".join(others[:20])
        say(f"{len(others)} labels mean not refused: {shown}", file=sys.stderr)
    say(f"A partial refusal counts as {partial} (--partial); worst first, by absolute rate gap")
    _print_scores(validation.entries, results, f"[{100 * level:g} %]")
    if out is not None:
        write_json(out, {"judges": results} if len(results) > 1 else next(iter(results.values())))


def _scores(validation: Validation, judge: str, values: Sequence[str], four_labels: bool) -> Row:
    """The numbers of one judge against the labels ``values`` of a file. ``four_labels``: whether
    people told all four labels apart."""
    counts = Counter(zip(values, validation.labels[judge], strict=True))
    scores = validation.scores[judge]
    if not four_labels:
        scores = {name: scores[name] for name in scores if not name.startswith("label_")}
    entries = [entry for entry in validation.entries if entry.judge == judge]
    return {
        **scores,
        "confusion": {
            value: {label: counts[value, label] for label in LABELS} for value in sorted({*values})
        },
        "by_model": [{**entry._asdict(), "gap": entry.gap} for entry in entries],
    }


def _print_scores(entries: Sequence[LedgerEntry], results: Mapping[str, Row], percent: str) -> None:
    """Each judge by source and model, and over all."""
    table = []
    for entry in entries:
        cells = [entry.judge, entry.source, entry.model or "not stated", str(entry.n)]
        for name in ("human_rate", "judge_rate", "kappa", "precision", "recall"):
            cells.append(estimate_cell(entry._asdict(), name, f"{name}_"))
        cells.insert(6, shown_gap(entry))
        table.append(cells)
    header = ["judge", "source", "model", "n", "human", "judge's", f"rate gap, points {percent}"]
    print_table([*header, f"κ {percent}", "precision", "recall"], table)
    for judge, numbers in results.items():
        columns = {"kappa": f"κ {percent}", **SCORES}
        if "label_accuracy" in numbers:
            columns["label_accuracy"] = "all four labels"
            columns["label_kappa"] = f"κ of all four {percent}"
        cells = [judge, str(numbers["n"]), str(numbers["unjudged"])]
        cells += [estimate_cell(numbers, name, f"{name}_") for name in columns]
        print_table(["judge", "n", "unjudged", *columns.values()], [cells])
        if more_labels(numbers["n"]):
            say(f"κ of {judge}{more_labels(numbers['n'])}")
        print_confusion("human \\ judge", numbers["confusion"])


def label(
    model: Annotated[str | None, Option(help="A model whose results the pipeline has.")] = None,
    suite: Annotated[str | None, Option(help="Its suite; or the suite of --rows.")] = None,
    rows: Annotated[
        Path | None, Option(help="Instead of --model: the --rows file of `refract run`.")
    ] = None,
    n: Annotated[
        int | None, Option(min=1, help="How many answers to draw; default: 100, or all of --keep.")
    ] = None,
    seed: Annotated[int, Option(help="Seed of the draw.")] = 0,
    keep: Annotated[
        Path | None,
        Option(help="An earlier draw, of the same seed: labels of the same answers are kept."),
    ] = None,
    out: Annotated[
        Path | None, Option(help="The CSV; default: data/labels/MODEL/SUITE.csv.")
    ] = None,
) -> None:
    """Draw a sample of a run's judged answers as a CSV for people to label.

    Where the judge gives probabilities, answers whose label teaches more are drawn more often.

    Example: refract label --model synthetic --suite harmful_helpful --n 100
    """
    keep_inputs({"--out": out}, [rows, keep])
    answers = run_answers(model, suite, rows)
    if not answers:
        raise UsageError("the run has no judged answer to label")
    if out is None:
        if model is None:
            raise UsageError("--rows needs --out")
        out = project_root() / LABEL_FILE.format(model=model, suite=suite)
    if out.exists():
        raise UsageError(f"{out} exists and may hold labels; name another file with --out")
    earlier = label_rows(keep) if keep else []
    sample = draw(answers, n or max(100, len(earlier)), seed)
    kept, labelled = keep_labels(sample, earlier, str(keep))
    write_sample(out, sample)
    doubt = ", drawn by the judge's doubt" if "size" in sample[0] else ""
    count = f"{len(sample)} of {len(answers)} judged answers{doubt}"
    say(f"{out}: {count}, to be labelled in this order")
    if keep:
        left = (
            "; the others' answers have changed, were not drawn, or have unlike labels for one text"
        )
        say(f"{kept} of the {labelled} labels in {keep} are kept{left if kept < labelled else ''}")
    plans = label_plans(answers, JoinedLabels({}), run_error(answers, model, rows))
    for plan in plans.values():
        say(plan)
    if plans:
        say(f"{JUDGE_NOTE}. After these labels, refract correct says what more would leave.")


def correct(
    labels: Annotated[
        list[Path], Argument(help="A CSV of `refract label`, filled in.", metavar="LABELS")
    ],
    model: Annotated[str | None, Option(help="The model that was labelled.")] = None,
    suite: Annotated[str | None, Option(help="Its suite; or the suite of --rows.")] = None,
    rows: Annotated[
        Path | None, Option(help="Instead of --model: the --rows file of `refract run`.")
    ] = None,
    format_: AsJson = "table",
) -> None:
    """Refusal rates from human labels of a part of a run and the judge's verdicts on the rest.

    Example: refract correct labels.csv --rows results.rows.jsonl
    """
    level = decision_settings(Path.cwd()).confidence
    if len(labels) != 1:
        raise UsageError(
            f"give one file of `refract label` (got {len(labels)}): correct each run alone, and see "
            "`refract compare` for the difference of two"
        )
    answers, joined = labelled_answers(labels[0], model, suite, rows)
    error = run_error(answers, model, rows)
    numbers = corrected_numbers(answers, joined, level, error)
    if format_ == "json":
        say(json_text(numbers))
        return
    columns = RATE
    if error is None:
        columns = {key: title for key, title in columns.items() if not key.endswith("_labels")}
    table = []
    for measure, row in numbers["measures"].items():
        estimates = []
        for key in columns:
            # The judge's own rate can lie outside what labels leave.
            shown = "middle" if key == "with_labels" else "rate"
            estimates.append(estimate_cell(row.get(key, {}), shown))
        table.append([measure, str(row["n"]), str(row["labelled"]), *estimates])
    print_table(["measure", "answers", "labelled", *columns.values()], table)
    for plan in label_plans(answers, joined, error, level).values():
        say(plan)
    gainsaid = []
    for measure, row in numbers["measures"].items():
        if row.get("with_labels", {}).get("gainsaid"):
            gainsaid.append(measure)
    for note in gainsaid_notes(gainsaid):
        say(note)
    for measure, row in numbers["measures"].items():
        if row["labelled"] and "prediction_powered" not in row:
            say(f"{measure}: all answers are of one cluster, which leaves no interval")
    if error is not None:
        say(JUDGE_NOTE)
    for warning in joined.warnings:
        say(warning)
    if "judge" in numbers:
        kappa = numbers["judge"].get("kappa")
        shown = "undefined" if kappa is None else f"{kappa:.3f}"
        say(f"judge and human labels agree with κ {shown}{more_labels(numbers['judge']['n'])}")
    if joined.inclusion is not None:
        say(
            "answers that the judge is unsure of were drawn more often, and count for less; an interval "
            "at which labelling stopped because it was short enough, or showed what was hoped for, "
            "holds less often than it says (simulated: 91 to 93 % instead of 95)"
        )
