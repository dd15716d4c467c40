"""``refract label``: a sample of a run's answers, to be labelled by people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refract.cli.output import or_standard_output
from refract.core.errors import UsageError
from refract.core.showing import say

if TYPE_CHECKING:
    from refract.agreement.label_files import JudgedAnswer


def run_answers(model: str | None, suite: str | None, rows: Path | None) -> list[JudgedAnswer]:
    """The judged answers of a model of the pipeline to a suite, or of a ``refract run --rows`` file.

    Raises :class:`UsageError` where neither or both are named, or the pipeline has not run.
    """
    from refract.agreement.stored import answers_in, stored_answers
    from refract.project import project_root, read_project

    if rows is not None and model is not None:
        raise UsageError("give --model with --suite, or --rows, not both")
    if rows is not None:
        return answers_in(rows, suite)
    if model is None or suite is None:
        raise UsageError(
            "name the run: --model and --suite of the pipeline, or --rows of `refract run`"
        )
    root = project_root()
    return stored_answers(root, read_project(root).params, model, suite)


def label(
    model: Annotated[
        str | None, typer.Option(help="A model whose results the pipeline has.")
    ] = None,
    suite: Annotated[str | None, typer.Option(help="Its suite; or the suite of --rows.")] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Instead of --model: the --rows file of `refract run`.")
    ] = None,
    n: Annotated[int, typer.Option(min=1, help="How many answers to draw.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The CSV; default: data/labels/MODEL/SUITE.csv; - is standard output.",
            callback=or_standard_output,
        ),
    ] = None,
    terminal: Annotated[
        bool,
        typer.Option(
            "--terminal",
            help="Label in the terminal, one key each; goes on with a file that is there.",
        ),
    ] = False,
    evidence: Annotated[
        bool, typer.Option(help="With --terminal: underline the words that the judge decided by.")
    ] = True,
) -> None:
    """Draw a sample of a run's judged answers as a CSV for people to label, or label it here.

    Where the judge gives probabilities, answers whose label teaches more are drawn more often.

    Example: refract label --model synthetic --suite harmful_helpful --n 100
    """
    from refract.agreement.label_files import all_probable, draw, write_sample
    from refract.cli.label_in_terminal import check_terminal, label_in_terminal
    from refract.project import project_root

    answers = run_answers(model, suite, rows)
    if not answers:
        raise UsageError("the run has no judged answer to label")
    if out is None:
        if model is None:
            raise UsageError("--rows needs --out")
        out = project_root() / f"data/labels/{model}/{suite}.csv"
    if terminal:
        check_terminal(out)
    elif out.exists():
        raise UsageError(
            f"{out} exists and may hold labels; name another file with --out, or go on with --terminal"
        )
    if not out.exists():
        sample = draw(answers, n, seed)
        write_sample(out, sample)
        how = ", drawn by the judge's doubt" if all_probable(answers) else ""
        say(
            f"{out}: {len(sample)} of {len(answers)} judged answers{how}, to be labelled in this order"
        )
    if terminal:
        label_in_terminal(out, answers, evidence=evidence)
