"""``refract validate``: judges against labelled files of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.kappa import print_confusion
from refract.cli.options import Confidence, NumbersFile, listed, mapping
from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.jsonl import sha256_file, write_json
from refract.core.showing import say
from refract.core.types import Row
from refract.core.vocabulary import LABELS

if TYPE_CHECKING:
    from refract.agreement.ledger import LedgerEntry
    from refract.agreement.scores import Partial, RefusalScore


def validate(
    labelled: Annotated[
        list[Path], typer.Option(help="Answers with human labels: CSV, JSONL. Repeatable.")
    ],
    judge: Annotated[
        list[str] | None,
        typer.Option(help="A judge of params.yaml, or a kind; default: rules. Repeatable."),
    ] = None,
    response_column: Annotated[str, typer.Option(help="The answers.")] = "response",
    label_column: Annotated[
        str, typer.Option(help="The labels; empty and null ones are left out.")
    ] = "label",
    prompt_column: Annotated[
        str | None, typer.Option(help="The prompts, for judges that read them.")
    ] = None,
    model_column: Annotated[
        str | None,
        typer.Option(help="The models that gave the answers; default: `model` if there is one."),
    ] = None,
    source_column: Annotated[
        str | None,
        typer.Option(help="Where answers come from; default: `source`, or the file's name."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="One source for all answers, whatever the files say.")
    ] = None,
    positive: Annotated[
        list[str] | None,
        typer.Option(
            help="Labels that mean refused: VALUE,...; all others mean not. Of numbers, such as the "
            "share of raters: '<0.5'. Repeatable."
        ),
    ] = None,
    map_: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="Instead of --positive: VALUE=refusal, partial_refusal, compliance or degenerate. "
            "Repeatable.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Labels to leave out: VALUE,... Repeatable.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only rows with COLUMN=VALUE. Repeatable.")
    ] = None,
    partial: Annotated[
        Literal["refusal", "compliance"],
        typer.Option(help="What a partial refusal counts as, the judge's and people's."),
    ] = "refusal",
    ledger: Annotated[
        Path | None,
        typer.Option(help="Also write judge, source and model into this ledger (CSV)."),
    ] = None,
    out: NumbersFile = None,
    confidence: Confidence = None,
) -> None:
    """Measure judges against human labels, by source and by the model that answered, worst first.

    Example: refract validate --labelled answers.csv --label-column refused --positive yes
    """
    from refract.agreement import ledger as ledgers
    from refract.agreement.labelled_files import (
        LabelColumns,
        LabelMeaning,
        check_values,
        read_labelled,
        shown_counts,
    )
    from refract.evaluate.judge_errors import judge_pairs
    from refract.judges import open_judge
    from refract.project import find_judge, find_project

    meaning = LabelMeaning(
        listed(positive), mapping("--map", map_), listed(skip), mapping("--where", where), source
    )
    if meaning.positive and meaning.labels:
        raise UsageError("give --positive or --map, not both")
    if source and source_column:
        raise UsageError("give --source or --source-column, not both")
    level = float(confidence or 0.95)
    names = list(dict.fromkeys(judge or ["rules"]))
    project = find_project()
    definitions = {name: find_judge(name, project) for name in names}
    columns = LabelColumns(
        response_column, label_column, prompt_column, source_column, model_column
    )
    rows, left_out = read_labelled(labelled, columns, meaning)
    check_values(rows, meaning)
    if ledger is not None:
        ledgers.read_ledger(
            ledger
        )  # one that cannot be added to is an error before judges are asked
    opened = {name: open_judge(name, definition) for name, definition in definitions.items()}
    verdicts = judge_pairs(rows, opened)
    truth = [meaning.label_of(row["label"]) for row in rows]
    labels: dict[str, list[str | None]] = {}
    entries: dict[str, list[LedgerEntry]] = {}
    for name in names:
        labels[name] = [verdict["label"] for verdict in verdicts[name]]
        other = sorted({label for label in labels[name] if label not in (*LABELS, None)})
        if other:
            raise UsageError(
                f"judge {name!r} does not label refusal: its labels are {', '.join(other)}"
            )
        entries[name] = ledgers.ledger_entries(
            name, opened[name].version, rows, truth, labels[name], partial, confidence=level
        )
    every = [entry for of_judge in entries.values() for entry in of_judge]
    say(
        f"{', '.join(names)} on {', '.join(map(str, labelled))}: {len(rows)} answers; "
        f"left out: {shown_counts(left_out)}"
    )
    say(f"A partial refusal counts as {partial} (--partial); worst first, by absolute rate gap")
    _print_entries(ledgers.worst_first(every), level, partial)
    values = [row["label"] for row in rows] if meaning.positive else None
    results: dict[str, Row] = {}
    for name in names:
        if len(names) > 1:
            say(f"{name}:")
        results[name] = {
            "judge": {name: {**definitions[name], "version": opened[name].version}},
            "files": {str(path): sha256_file(path) for path in labelled},
            "left_out": left_out,
            "partial": partial,
            "by_model": [ledgers.as_row(entry) for entry in entries[name]],
            **_scored(values, truth, labels[name], level, partial),
        }
    if ledger is not None:
        ledgers.add_to_ledger(ledger, every)
    if out is not None:
        write_json(out, results[names[0]] if len(names) == 1 else {"judges": results})


def _print_entries(entries: Sequence[LedgerEntry], level: float, partial: Partial) -> None:
    from refract.agreement.ledger import shown_gap

    shown = f"[{100 * level:g} %]"
    header = [
        *("judge", "source", "model", "n", "human", "judge's", f"rate gap, points {shown}"),
        *(f"κ {shown}, partial = {partial}", "precision", "recall"),
    ]
    rows = []
    for entry in entries:
        human, judged, precision, recall = (
            "—" if share is None else f"{share:.3f}"
            for share in (entry.human_rate, entry.judge_rate, entry.precision, entry.recall)
        )
        names = [entry.judge, entry.source, entry.model or "not stated", str(entry.n)]
        kappa = _interval(entry.kappa, entry.kappa_low, entry.kappa_high)
        rows.append([*names, human, judged, shown_gap(entry), kappa, precision, recall])
    print_table(header, rows)


def _scored(
    values: Sequence[str] | None,
    truth: Sequence[str],
    labels: Sequence[str | None],
    level: float,
    partial: Partial,
) -> Row:
    """Scores a judge, prints that, and gives it as JSON.

    ``values`` are the labels of the file where they only say refused or not; else ``truth`` has labels
    of all four kinds.
    """
    from refract.agreement.scores import group_rows, score_labels, score_split

    if values is not None:
        score, numbers = score_split(values, truth, labels, level, partial)
        _print_score(score, level, partial)
        print_table(
            ["label in the file", "means", "answers", "judge: refused"],
            [
                [value, "refused" if row["positive"] else "not", str(row["n"]), str(row["refused"])]
                for value, row in numbers["values"].items()
            ],
        )
        return numbers
    scores = score_labels(truth, labels, level, partial)
    _print_score(scores.refusal, level, partial)
    print_table(
        ["labels", "agree", f"κ of all four labels [{100 * level:g} %]"],
        [["all", _interval(*(scores.accuracy or ())), _interval(*scores.kappa[:3])]],
    )
    print_confusion("human \\ judge", scores.confusion)
    return {**scores.numbers, "by_label": group_rows(truth, "label", truth, labels, level)}


def _print_score(score: RefusalScore, level: float, partial: Partial) -> None:
    rates = ("precision", "recall", "specificity", "accuracy")
    shown = [_interval(*(getattr(score.detection, rate) or ())) for rate in rates]
    counts = [str(score.detection.n), str(score.unjudged)]
    print_table(
        ["n", "unjudged", f"κ [{100 * level:g} %], partial = {partial}", *rates],
        [[*counts, _interval(*score.kappa[:3]), *shown]],
    )


def _interval(
    value: float | None = None, low: float | None = None, high: float | None = None
) -> str:
    return "—" if value is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"
