"""``refract label``: a sample of a run's answers, to be labelled by people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refract.cli.output import or_standard_output
from refract.core.errors import RowError, UsageError
from refract.core.jsonl import (
    read_prompts,
    read_responses,
    read_rows,
    read_verdicts,
)
from refract.core.showing import say
from refract.core.types import Row, answered_prompts
from refract.core.vocabulary import JUDGED


def run_answers(model: str | None, suite: str | None, rows: Path | None) -> list[Row]:
    """The judged answers of a model of the pipeline to a suite, or of a ``refract run --rows`` file.

    Raises :class:`UsageError` where neither or both are named, or the pipeline has not run.
    """
    if rows is not None:
        if model is not None:
            raise UsageError("give --model with --suite, or --rows, not both")
        return _answers_of_rows(rows, suite)
    if model is None or suite is None:
        raise UsageError(
            "name the run: --model and --suite of the pipeline, or --rows of `refract run`"
        )
    from refract.agreement.label_files import answers_of
    from refract.core.params import definition
    from refract.project import project_root, read_project
    from refract.rates.counting import clusters_of, outcome
    from refract.suites.rows import load_suite

    root = project_root()
    params = read_project(root).params
    wanted = definition(params, "suites", suite)
    files = [
        root / f"data/prompts/{suite}.jsonl",
        root / f"data/responses/{model}/{suite}.jsonl",
        root / f"data/verdicts/{model}/{suite}.jsonl",
    ]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise UsageError(f"no {missing[0]}; run: dvc repro (or dvc pull)")
    prompts, responses, verdicts = (
        read_prompts(files[0]),
        read_responses(files[1]),
        read_verdicts(files[2]),
    )
    prompts = answered_prompts(prompts, responses)
    verdict_of = {row["prompt_id"]: row["judges"].get(wanted["judges"][0]) for row in verdicts}
    response_of = {row["prompt_id"]: row for row in responses}
    # All answers are drawn from, cut off or not, whatever the suite's rates leave out.
    outcomes = {
        id_: outcome(response, verdict_of.get(id_)) for id_, response in response_of.items()
    }
    clusters = clusters_of(load_suite(root / wanted["file"]), wanted.get("cluster"))
    return answers_of(suite, prompts, response_of, outcomes, clusters, verdict_of)


def _answers_of_rows(path: Path, suite: str | None) -> list[Row]:
    if not path.is_file():
        raise UsageError(f"--rows: no file {path}")
    needed = ("suite", "prompt_id", "category", "prompt", "response", "outcome")
    answers = []
    for number, row in enumerate(read_rows(path), 1):
        lacking = [name for name in needed if name not in row]
        if lacking:
            raise RowError(
                f"{path}: row {number} has no {lacking[0]!r}; it needs rows of `refract run --rows`"
            )
        # An answer that the rates leave out for being cut off has its verdict all the same.
        outcome = row.get("label") if row["outcome"] == "cut_off" else row["outcome"]
        if suite in (None, row["suite"]) and outcome in JUDGED:
            answer = {name: row[name] for name in needed} | {"outcome": outcome}
            answers.append(
                answer
                | {
                    "cluster": row.get("cluster") or row["prompt_id"],
                    "probability": row.get("probability"),
                    "evidence": row.get("evidence") or [],
                }
            )
    suites = sorted({answer["suite"] for answer in answers})
    if len(suites) > 1:
        raise UsageError(f"{path} holds several suites; name one with --suite: {', '.join(suites)}")
    return answers


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
