"""``refract validate`` and ``correct``: judges against human labels, and rates corrected by these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.label import run_answers
from refract.cli.options import (
    AsJson,
    Confidence,
    NumbersFile,
    files_named,
    keep_inputs,
    listed,
    mapping,
)
from refract.cli.printing import estimate_cell, print_table
from refract.cli.verdicts import print_confusion
from refract.core.errors import RowError, UsageError
from refract.core.jsonl import sha256_file, write_json
from refract.core.showing import json_text, say
from refract.core.types import Row
from refract.core.vocabulary import FAMILIES, LABELS

if TYPE_CHECKING:
    from refract.agreement.corrections import Labelled
    from refract.agreement.ledger import LedgerEntry


RATES = ("precision", "recall", "specificity", "accuracy")


def validate(
    labelled: Annotated[list[Path], typer.Option()],
    judge: list[str] | None = None,
    response_column: str = "response",
    label_column: str = "label",
    prompt_column: str | None = None,
    positive: list[str] | None = None,
    map_: Annotated[list[str] | None, typer.Option("--map")] = None,
    skip: list[str] | None = None,
    partial: Literal["refusal", "compliance"] = "refusal",
    out: NumbersFile = None,
    confidence: Confidence = None,
) -> None:
    """Measure judges against human labels, by source and by the model that answered, worst first.

    Example: refract validate --labelled answers.csv --label-column refused --positive yes

    Args:
        labelled: Answers with human labels: CSV, JSONL. Repeatable.
        judge: A judge of params.yaml, or a kind; default: refusal. Repeatable.
        response_column: The answers.
        label_column: The labels; empty and null ones are left out.
        prompt_column: The prompts, for judges that read them.
        positive: Labels that mean refused: VALUE,...; all others mean not. Repeatable.
        map_: Instead of --positive: VALUE=refusal, partial_refusal, compliance or degenerate.
          Repeatable.
        skip: Labels to leave out: VALUE,... Repeatable.
        partial: What a partial refusal counts as, the judge's and people's.
    """
    from refract.agreement.labelled_files import labels_of, read_labelled, shown_counts
    from refract.agreement.ledger import ledger_entries, worst_first
    from refract.agreement.scores import score_labels
    from refract.evaluate.judge_errors import judge_pairs
    from refract.judges import open_judge
    from refract.project import find_judge, find_project

    if positive and map_:
        raise UsageError("give --positive or --map, not both")
    level = float(confidence or 0.95)
    project = find_project()
    definitions = {name: find_judge(name, project) for name in judge or ["refusal"]}
    keep_inputs({"--out": out}, [*labelled, *files_named(definitions)])
    columns = response_column, label_column, prompt_column
    rows, left_out = read_labelled(labelled, *columns, listed(skip))
    values = [row["label"] for row in rows]
    truth = labels_of(values, listed(positive), mapping("--map", map_))
    opened = {name: open_judge(name, definition) for name, definition in definitions.items()}
    for name, judge_ in opened.items():
        if not FAMILIES[judge_.FAMILY].tells_refusal:
            raise UsageError(f"judge {name!r} does not label refusal, but {judge_.FAMILY}")
    entries: list[LedgerEntry] = []
    results: dict[str, Row] = {}
    for name, verdicts in judge_pairs(rows, opened).items():
        labels = [verdict["label"] for verdict in verdicts]
        version = opened[name].version
        by_model = ledger_entries(name, version, rows, truth, labels, partial, confidence=level)
        entries += by_model
        numbers = score_labels(truth, labels, partial, level)
        if positive:  # people did not tell four labels apart
            numbers = {key: numbers[key] for key in numbers if not key.startswith("label_")}
        counts = Counter(zip(values, labels, strict=True))
        numbers["confusion"] = {
            value: {label: counts[value, label] for label in LABELS}
            for value in sorted(set(values))
        }
        results[name] = {
            "judge": {name: {**definitions[name], "version": version}},
            "files": {str(path): sha256_file(path) for path in labelled},
            **{"left_out": left_out, "partial": partial, **numbers},
            "by_model": [{**entry._asdict(), "gap": entry.gap} for entry in by_model],
        }
    files = ", ".join(map(str, labelled))
    say(f"{', '.join(results)} on {files}: {len(rows)} answers; left out: {shown_counts(left_out)}")
    say(f"A partial refusal counts as {partial} (--partial); worst first, by absolute rate gap")
    percent = f"[{100 * level:g} %]"
    _print_entries(worst_first(entries), percent)
    for name, numbers in results.items():
        if len(results) > 1:
            say(f"{name}:")
        _print_scores(numbers, percent)
    if out is not None:
        write_json(out, {"judges": results} if len(results) > 1 else next(iter(results.values())))


def _print_entries(entries: Sequence[LedgerEntry], percent: str) -> None:
    from refract.agreement.ledger import shown_gap

    shares = ("human_rate", "judge_rate", "kappa", "precision", "recall")
    rows = []
    for entry in entries:
        names = [entry.judge, entry.source, entry.model or "not stated", str(entry.n)]
        cells = [estimate_cell(entry._asdict(), name, f"{name}_") for name in shares]
        rows.append([*names, *cells[:2], shown_gap(entry), *cells[2:]])
    header = ["judge", "source", "model", "n", "human", "judge's", f"rate gap, points {percent}"]
    print_table([*header, f"κ {percent}", "precision", "recall"], rows)


def _print_scores(numbers: Row, percent: str) -> None:
    """Prints the scores of a judge over all answers."""
    columns = {"kappa": f"κ {percent}", **{name: name for name in RATES}}
    if "label_accuracy" in numbers:
        columns |= {"label_accuracy": "all four labels", "label_kappa": f"κ of all four {percent}"}
    counts = [str(numbers[name]) for name in ("n", "unjudged")]
    cells = [estimate_cell(numbers, name, f"{name}_") for name in columns]
    print_table(["n", "unjudged", *columns.values()], [[*counts, *cells]])
    print_confusion("human \\ judge", numbers["confusion"])


# The columns of numbers.
RATE = {"raw": "judge (raw)", "prediction_powered": "prediction-powered"}
RATE["these_answers"] = "of these answers alone"
DIFFERENCE = {"prediction_powered": "difference, first minus second"}


def correct(
    labels: list[Path],
    model: list[str] | None = None,
    suite: str | None = None,
    rows: list[Path] | None = None,
    confidence: Confidence = None,
    format_: AsJson = "table",
) -> None:
    """Refusal rates from human labels of a part of a run and the judge's verdicts on the rest.

    Two files give the difference of two runs, first minus second.

    Example: refract correct labels.csv --rows results.rows.jsonl

    Args:
        labels: A CSV of `refract label`, filled in; two of them for a difference of two runs.
        model: The model that was labelled; of two files, one for each in order.
        suite: Its suite; or the suite of --rows.
        rows: Instead of --model: the --rows file of `refract run`, one for each.
    """
    from refract.agreement.corrections import corrected_numbers
    from refract.core.params import decision_settings

    level = float(confidence or decision_settings(Path.cwd()).confidence)
    runs = [*((name, None) for name in model or ()), *((None, path) for path in rows or ())]
    if not len(runs) == len(labels) <= 2:
        raise UsageError(
            "give one file of `refract label`, or two for a difference, and for each its run, --model "
            f"(with --suite) or --rows (got {len(labels)} files and {len(runs)} runs)"
        )
    pairs = zip(labels, runs, strict=True)
    labelled = [_labelled(file, name, suite, path) for file, (name, path) in pairs]
    numbers = corrected_numbers(*labelled, confidence=level)
    if format_ == "json":
        say(json_text(numbers))
        return
    shown, sign = (DIFFERENCE, "+") if len(labelled) > 1 else (RATE, "")
    cells = []
    for measure, row in numbers["measures"].items():
        estimates = (estimate_cell(row.get(x, {}), "rate", sign=sign) for x in shown)
        cells.append([measure, str(row["n"]), str(row["labelled"]), *estimates])
    print_table(["measure", "answers", "labelled", *shown.values()], cells)
    if "judge" in numbers:
        kappa = numbers["judge"].get("kappa")
        said = "undefined" if kappa is None else f"{kappa:.3f}"
        say(f"judge and human labels agree with κ {said}")
    if any(run.inclusion is not None for _, run in labelled):
        say(
            "answers that the judge is unsure of were drawn more often, and count for less; an interval "
            "at which labelling stopped because it was short enough, or showed what was hoped for, "
            "holds less often than it says (simulated: 88 to 97 % instead of 95)"
        )


def _labelled(file: Path, model: str | None, suite: str | None, rows: Path | None) -> Labelled:
    from refract.agreement.label_files import read_labels

    if not file.is_file():
        raise UsageError(f"no file {file}; `refract label` writes one")
    answers = run_answers(model, suite, rows)
    human = read_labels(file, answers)
    if human.stale:
        raise RowError(
            f"{file}: {len(human.stale)} labels are of other answers than this run's, such as "
            f"{human.stale[0]}; the rest is not a random sample: draw a new one with refract label"
        )
    if not human.by_id:
        raise RowError(f"{file}: no row has a label yet")
    if human.blank:
        raise RowError(
            f"{file}: {len(human.blank)} rows before the last labelled one have no label, such as "
            f"{human.blank[0]}; the others are no random sample: label these too"
        )
    return answers, human
