"""``refract correct``: refusal rates corrected by human labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from refract.cli.label import run_answers
from refract.cli.options import Confidence
from refract.cli.printing import estimate_cell, print_table
from refract.core.errors import RowError, UsageError
from refract.core.showing import json_text, say

if TYPE_CHECKING:
    from refract.agreement.corrections import Labelled

# The columns of numbers, and how their signs are shown.
RATE = (
    {
        "raw": "judge (raw)",
        "prediction_powered": "prediction-powered",
        "these_answers": "of these answers alone",
    },
    "",
)
DIFFERENCE = ({"prediction_powered": "difference, first minus second"}, "+")


def correct(
    labels: list[Path],
    model: list[str] | None = None,
    suite: str | None = None,
    rows: list[Path] | None = None,
    confidence: Confidence = None,
    format_: Annotated[Literal["table", "json"], typer.Option("--format")] = "table",
) -> None:
    """Refusal rates from human labels of a part of a run and the judge's verdicts on the rest.

    Two files give the difference of two runs, first minus second.

    Example: refract correct labels.csv --rows rows.jsonl

    Args:
        labels: A CSV of `refract label`, filled in; two of them for a difference of two runs.
        model: The model that was labelled; of two files, one for each in order.
        suite: Its suite; or the suite of --rows.
        rows: Instead of --model: the --rows file of `refract run`, one for each.
        format_: How it is printed.
    """
    from refract.agreement.corrections import corrected_numbers
    from refract.core.params import decision_settings

    level = float(confidence or decision_settings(Path.cwd()).confidence)
    runs: list[tuple[str | None, Path | None]] = [(name, None) for name in model or ()]
    runs += [(None, path) for path in rows or ()]
    if not len(runs) == len(labels) <= 2:
        raise UsageError(
            "give one file of `refract label`, or two for a difference, and for each its run, --model "
            f"(with --suite) or --rows (got {len(labels)} files and {len(runs)} runs)"
        )
    labelled = [
        _labelled(file, name, suite, path) for file, (name, path) in zip(labels, runs, strict=True)
    ]
    numbers = corrected_numbers(*labelled, confidence=level)
    if format_ == "json":
        say(json_text(numbers))
        return
    shown, sign = DIFFERENCE if len(labelled) > 1 else RATE
    print_table(
        ["measure", "answers", "labelled", *shown.values()],
        [
            [
                measure,
                str(row["n"]),
                str(row["labelled"]),
                *(estimate_cell(row.get(x, {}), "rate", sign=sign) for x in shown),
            ]
            for measure, row in numbers["measures"].items()
        ],
    )
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
