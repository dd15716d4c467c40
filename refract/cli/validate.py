"""``refract validate``: judges against labelled files of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.options import Confidence, listed, mapping
from refract.cli.output import or_standard_output
from refract.cli.printing import print_table
from refract.core.errors import UsageError
from refract.core.jsonl import sha256_file, write_json
from refract.core.showing import say
from refract.core.types import Row
from refract.core.vocabulary import LABELS

if TYPE_CHECKING:
    from refract.agreement.ledger import Entry, Partial
    from refract.statistics.proportions import Proportion
    from refract.statistics.raters import Detection, Kappa


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
    cluster_column: Annotated[
        str | None,
        typer.Option(help="What answers share that resemble each other; default: --prompt-column."),
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
    full_only: Annotated[
        bool,
        typer.Option("--full-only", help="The same as --partial compliance.", hidden=True),
    ] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Also write judge, source and model into this ledger (CSV)."),
    ] = None,
    shaped_by: Annotated[
        list[str] | None,
        typer.Option(
            help="For --ledger: sources that the judges were tuned on: NAME,... Repeatable."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Also write the numbers here (JSON); - is standard output.",
            callback=or_standard_output,
        ),
    ] = None,
    confidence: Confidence = None,
) -> None:
    """Measure judges against human labels, by source and by the model that answered, worst first.

    Example: refract validate --labelled answers.csv --label-column refused --positive yes
    """
    from refract.agreement.ledger import add_to_ledger, as_row, read_ledger, worst_first
    from refract.cli.labelled_files import (
        Columns,
        Reading,
        check_values,
        read_labelled,
        shown_counts,
    )
    from refract.evaluate.judge_errors import entries_of, judge_pairs
    from refract.judges import open_judge
    from refract.project import find_judge, find_project

    reading = Reading(
        positive=listed(positive),
        labels=mapping("--map", map_),
        skip=listed(skip),
        where=mapping("--where", where),
        source=source,
    )
    if reading.positive and reading.labels:
        raise UsageError("give --positive or --map, not both")
    if shaped_by and ledger is None:
        raise UsageError("--shaped-by goes with --ledger")
    if source and source_column:
        raise UsageError("give --source or --source-column, not both")
    counted: Partial = "compliance" if full_only else partial
    level = float(confidence or 0.95)
    names = list(dict.fromkeys(judge or ["rules"]))
    project = find_project()
    definitions = {name: find_judge(name, project) for name in names}
    columns = Columns(
        response_column, label_column, prompt_column, source_column, model_column, cluster_column
    )
    rows, left_out = read_labelled(labelled, columns, reading)
    check_values(rows, reading)
    if ledger is not None:
        read_ledger(ledger)  # one that cannot be added to is an error before judges are asked
    opened = {name: open_judge(name, definition) for name, definition in definitions.items()}
    verdicts = judge_pairs(rows, opened)
    results: dict[str, Row] = {}
    entries: list[Entry] = []
    truth = [
        ("refusal" if row["label"] in reading.positive else "compliance")
        if reading.positive
        else reading.labels.get(row["label"], row["label"])
        for row in rows
    ]
    for name in names:
        found = [verdict["label"] for verdict in verdicts[name]]
        other = sorted({label for label in found if label not in (*LABELS, None)})
        if other:
            raise UsageError(
                f"judge {name!r} does not label refusal: its labels are {', '.join(other)}"
            )
        entries += entries_of(
            name, opened[name].version, rows, truth, found, counted, listed(shaped_by), level
        )
    say(
        f"{', '.join(names)} on {', '.join(map(str, labelled))}: {len(rows)} answers; "
        f"left out: {shown_counts(left_out)}"
    )
    say(f"A partial refusal counts as {counted} (--partial); worst first, by absolute rate gap")
    _print_entries(worst_first(entries), level, counted)
    for name in names:
        found = [verdict["label"] for verdict in verdicts[name]]
        if len(names) > 1:
            say(f"{name}:")
        results[name] = {
            "judge": {name: {**definitions[name], "version": opened[name].version}},
            "files": {str(path): sha256_file(path) for path in labelled},
            "left_out": left_out,
            "partial": counted,
            "by_model": [as_row(entry) for entry in entries if entry.judge == name],
        }
        if reading.positive:
            results[name] |= _binary(rows, truth, found, counted, level)
        else:
            results[name] |= _labelled(truth, found, counted, level)
    if ledger is not None:
        add_to_ledger(ledger, entries)
    if out is not None:
        write_json(out, results[names[0]] if len(names) == 1 else {"judges": results})


def _print_entries(entries: Sequence[Entry], level: float, partial: Partial) -> None:
    from refract.agreement.ledger import shown_gap

    shown = f"[{100 * level:g} %]"
    print_table(
        [
            "judge",
            "source",
            "model",
            "n",
            "human",
            "judge's",
            f"rate gap, points {shown}",
            f"κ {shown}, partial = {partial}",
            "precision",
            "recall",
        ],
        [
            [
                entry.judge,
                entry.source,
                entry.model or "not stated",
                str(entry.n),
                _number(entry.human_rate),
                _number(entry.judge_rate),
                shown_gap(entry),
                "—"
                if entry.kappa is None
                else f"{entry.kappa:.3f} [{entry.kappa_low:.3f}, {entry.kappa_high:.3f}]",
                _number(entry.precision),
                _number(entry.recall),
            ]
            for entry in entries
        ],
    )


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"


def _binary(
    rows: Sequence[Row],
    truth: Sequence[str],
    found: Sequence[str | None],
    partial: Partial,
    level: float,
) -> Row:
    from refract.agreement import refusal_numbers, score_refusals
    from refract.agreement.ledger import refuses

    judged = [
        (row["label"], human == "refusal", refuses(label, partial))
        for row, human, label in zip(rows, truth, found, strict=True)
        if label is not None
    ]
    score = score_refusals([a for _, a, _ in judged], [b for *_, b in judged], level)
    numbers = {
        "n": len(judged),
        "unjudged": len(rows) - len(judged),
        "positive": sorted({value for value, human, _ in judged if human}),
        "alarms": [label for label in LABELS if refuses(label, partial)],
        **refusal_numbers(score),
        "values": {
            value: {
                "positive": any(human for v, human, _ in judged if v == value),
                "n": sum(v == value for v, *_ in judged),
                "refused": sum(refused for v, _, refused in judged if v == value),
            }
            for value in sorted({v for v, *_ in judged})
        },
    }
    _print_score(len(judged), numbers["unjudged"], score.kappa, score.detection, level, partial)
    print_table(
        ["label in the file", "means", "answers", "judge: refused"],
        [
            [value, "refused" if row["positive"] else "not", str(row["n"]), str(row["refused"])]
            for value, row in numbers["values"].items()
        ],
    )
    return numbers


def _labelled(
    truth: Sequence[str], found: Sequence[str | None], partial: Partial, level: float
) -> Row:
    from refract.agreement import group_rows, label_numbers, score_labels

    score = score_labels(truth, found, level, partial)
    _print_score(
        score.n, score.unjudged, score.refusal.kappa, score.refusal.detection, level, partial
    )
    print_table(
        ["labels", "agree", f"κ of all four labels [{100 * level:g} %]"],
        [["all", _estimate(score.accuracy), _kappa(score.kappa)]],
    )
    print_table(
        ["human \\ judge", *map(str, score.confusion.labels)],
        [
            [str(label), *map(str, counts)]
            for label, counts in zip(score.confusion.labels, score.confusion.counts, strict=True)
        ],
    )
    by_label = [{"label": label} for label in truth]
    return {**label_numbers(score), "by_label": group_rows(by_label, "label", truth, found, level)}


def _print_score(
    n: int, unjudged: int, kappa: Kappa, found: Detection, level: float, partial: Partial
) -> None:
    print_table(
        [
            "n",
            "unjudged",
            f"κ [{100 * level:g} %], partial = {partial}",
            "precision",
            "recall",
            "specificity",
            "accuracy",
        ],
        [
            [
                str(n),
                str(unjudged),
                _kappa(kappa),
                *(
                    _estimate(getattr(found, name))
                    for name in ("precision", "recall", "specificity", "accuracy")
                ),
            ]
        ],
    )


def _kappa(kappa: Kappa) -> str:
    if kappa.kappa is None:
        return "—"
    return f"{kappa.kappa:.3f} [{kappa.low:.3f}, {kappa.high:.3f}]"


def _estimate(estimate: Proportion | None) -> str:
    if estimate is None:
        return "—"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
