"""``refract label`` and ``refract correct``: human labels of a part of a run, and corrected rates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from refract.cli.printing import print_table
from refract.errors import UsageError
from refract.report.markdown import markdown_table
from refract.rows.jsonl import RowError, read_rows
from refract.rows.labels import JUDGED, REFUSED
from refract.rows.samples import answered_prompts
from refract.rows.showing import json_text, say
from refract.rows.types import Row


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
    from refract.params import definition, load_params
    from refract.project import project_root
    from refract.rates.counting import outcome
    from refract.rates.labels import answers_of

    root = project_root()
    params = load_params(root / "params.yaml")
    wanted = definition(params, "suites", suite)
    files = [
        root / f"data/prompts/{suite}.jsonl",
        root / f"data/responses/{model}/{suite}.jsonl",
        root / f"data/verdicts/{model}/{suite}.jsonl",
    ]
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise UsageError(f"no {missing[0]}; run: dvc repro (or dvc pull)")
    prompts, responses, verdicts = map(read_rows, files)
    prompts = answered_prompts(prompts, responses)
    verdict_of = {row["prompt_id"]: row["judges"].get(wanted["judges"][0]) for row in verdicts}
    response_of = {row["prompt_id"]: row for row in responses}
    # All answers are drawn from, cut off or not, whatever the suite's rates leave out.
    outcomes = {
        id_: outcome(response, verdict_of.get(id_)) for id_, response in response_of.items()
    }
    return answers_of(suite, prompts, response_of, outcomes)


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
            answers.append({name: row[name] for name in needed} | {"outcome": outcome})
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
        Path | None, typer.Option(help="The CSV; default: data/labels/MODEL/SUITE.csv.")
    ] = None,
) -> None:
    """Draw a random sample of a run's judged answers as a CSV for people to label.

    Example: refract label --model synthetic --suite harmful_helpful --n 100
    """
    from refract.project import project_root
    from refract.rates.labels import draw, write_sample

    answers = run_answers(model, suite, rows)
    if not answers:
        raise UsageError("the run has no judged answer to label")
    if out is None:
        if model is None:
            raise UsageError("--rows needs --out")
        out = project_root() / f"data/labels/{model}/{suite}.csv"
    if out.exists():
        raise UsageError(f"{out} exists and may hold labels; name another file with --out")
    sample = draw(answers, n, seed)
    write_sample(out, sample)
    say(f"{out}: {len(sample)} of {len(answers)} judged answers, to be labelled in this order")


def correct(
    labels: Annotated[Path, typer.Argument(help="A CSV of `refract label`, filled in.")],
    model: Annotated[str | None, typer.Option(help="The model that was labelled.")] = None,
    suite: Annotated[str | None, typer.Option(help="Its suite; or the suite of --rows.")] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Instead of --model: the --rows file of `refract run`.")
    ] = None,
    format_: Annotated[
        Literal["table", "md", "json"], typer.Option("--format", help="How it is printed.")
    ] = "table",
) -> None:
    """Refusal rates from human labels of a part of a run and the judge's verdicts on the rest.

    Prints raw and prediction-powered rates.

    Example: refract correct labels.csv --rows rows.jsonl
    """
    from refract.rates.labels import read_labels

    if not labels.is_file():
        raise UsageError(f"no file {labels}; `refract label` writes one")
    answers = run_answers(model, suite, rows)
    human = read_labels(labels, answers)
    if human.stale:
        raise RowError(
            f"{labels}: {len(human.stale)} labels are of other answers than this run's, such as "
            f"{human.stale[0]}; the rest is not a random sample: draw a new one with refract label"
        )
    if not human.found:
        raise RowError(f"{labels}: no row has a label yet")
    if human.blank:
        say(
            f"refract: {human.blank} rows before the last labelled one have no label; if they were "
            "passed over for being hard, the rates are off",
            file=sys.stderr,
        )
    found = corrected_numbers(answers, human.found)
    if format_ == "json":
        say(json_text(found))
        return
    header = ["measure", "answers", "judge (raw)", "labelled", "human labels", "prediction-powered"]
    lines = [
        [
            measure,
            str(row["n"]),
            _shown(row["raw"]),
            str(row["labelled"]),
            _shown(row.get("human")),
            _shown(row.get("prediction_powered")),
        ]
        for measure, row in found["measures"].items()
    ]
    kappa = found["judge"].get("kappa")
    if format_ == "md":
        say(markdown_table(header, lines) + "\n")
    else:
        print_table(header, lines)
    shown = "undefined" if kappa is None else f"{kappa:.3f}"
    say(f"judge and human labels agree with κ {shown}")


def corrected_numbers(answers: list[Row], labels: dict[str, str]) -> Row:
    """Rates by measure: the judge's on all answers, the human labels' on theirs, and both together."""
    from refract.rates.labels import corrected_rates
    from refract.rates.rates import MEASURES
    from refract.statistics.agreement import cohen_kappa
    from refract.validation import rounded_numbers

    rates = corrected_rates(answers, labels)
    categories = {measure: category for measure, category, _ in MEASURES}
    measures: Row = {}
    for measure, rate in rates.items():
        members = [a for a in answers if categories[measure] in (None, a["category"])]
        mine = [labels[a["prompt_id"]] for a in members if a["prompt_id"] in labels]
        row: dict[str, Any] = {
            "n": len(members),
            "labelled": len(mine),
            "raw": _rate(sum(a["outcome"] in REFUSED for a in members), len(members)),
        }
        if rate is not None:
            row["human"] = _rate(sum(label in REFUSED for label in mine), len(mine))
            row["prediction_powered"] = rounded_numbers(
                {"rate": rate.rate, "low": rate.low, "high": rate.high, "weight": rate.weight}
            )
        measures[measure] = row
    both = [(labels[a["prompt_id"]], a["outcome"]) for a in answers if a["prompt_id"] in labels]
    kappa = cohen_kappa([a in REFUSED for a, _ in both], [b in REFUSED for _, b in both])
    judge = rounded_numbers({"kappa": kappa.kappa, "low": kappa.low, "high": kappa.high})
    return {"measures": measures, "judge": {"n": kappa.n, **judge}}


def _rate(successes: int, n: int) -> Row:
    from refract.statistics.proportions import wilson
    from refract.validation import rounded_numbers

    low, high = wilson(successes, n) or (None, None)
    return rounded_numbers({"rate": successes / n if n else None, "low": low, "high": high})


def _shown(row: Row | None) -> str:
    return f"{row['rate']:.3f} [{row['low']:.3f}, {row['high']:.3f}]" if row else "—"
