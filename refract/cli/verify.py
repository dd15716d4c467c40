"""``refract verify``: recorded answers checked by one pass over each, without generating them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from refract.core.showing import json_text, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from refract.evaluate.verification import RecordedAnswers, Verification
    from refract.project import Project


def verify(
    answers: Annotated[
        str | None,
        Argument(
            metavar="what",
            help="A model of params.yaml (its answers in data/answers and data/responses), a results "
            "file of `refract run` with its rows beside it, or response rows: a folder or a JSONL "
            "file; default: the grid's models whose weights are here.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        Option(help="The model of params.yaml whose weights answer; default: the model itself."),
    ] = None,
    sample: Annotated[
        int | None,
        Option(
            min=1,
            metavar="N",
            help="Only so many of each model's answers that nothing certified here.",
        ),
    ] = None,
    seed: Annotated[
        int | None, Option(metavar="N", help="What draws them; default: the project's seed.")
    ] = None,
    format_: Annotated[
        Literal["text", "json"], Option("--format", help="How it is printed.")
    ] = "text",
) -> None:
    """Check recorded answers against a model's weights, without generating them; exit with 0 only if
    all rows are there and each token is the exact one.

    One pass over each answer; what fast arithmetic leaves open, float64 decides. An answer without token
    ids (of a server, say) has its text tokenised.

    Example: refract verify smollm2_135m
    """
    from refract.core.params import run_seed
    from refract.evaluate.verification import AnswerSample, find_recorded, verify_answers
    from refract.models.protocol import AdapterError
    from refract.models.store import open_store
    from refract.project import find_project

    project = find_project()
    drawn = None
    if sample is not None:
        drawn = AnswerSample(sample, run_seed(project.params) if seed is None else seed)
    answers_of_models = _of_grid(project) if answers is None else [find_recorded(answers, project)]
    suites: list[Verification] = []
    with open_store() as store:
        for recorded in answers_of_models:
            try:
                checked = list(verify_answers(recorded, weights, project, store, drawn))
            except AdapterError as error:
                if answers is not None:
                    raise
                count = sum(map(len, recorded.rows.values()))
                say(f"{recorded.name}: 0 of {count} answers verified: {error}", file=sys.stderr)
                continue
            suites += checked
            if format_ == "text":
                for suite in checked:
                    say(suite)
                if drawn is not None:
                    say(_in_sum(recorded.name, checked))
    if format_ == "json":
        rows = []
        for suite in suites:
            wrong = {"failures": suite.failures, "differences": suite.differences}
            rows.append({"suite": suite.suite, **suite.counts, "bound": suite.bound, **wrong})
        say(json_text(rows))
    # Without a single answer that holds, nothing was shown; a sample may find all certified before.
    nothing = answers is not None and not any(
        suite.counts["holds"] or suite.counts["certified"] for suite in suites
    )
    raise typer.Exit(int(nothing or not all(suite.passed for suite in suites)))


def _of_grid(project: Project) -> Iterable[RecordedAnswers]:
    """The answers of the grid's models that have weights and answer exactly; those
    without answers here are named."""
    from refract.core.errors import UsageError
    from refract.core.params import definition, grid
    from refract.evaluate.verification import recorded_answers

    for name in grid(project.params, "models"):
        defined = definition(project.params, "models", name)
        if defined["adapter"] != "hf" or defined.get("arithmetic") == "fast":
            continue
        try:
            yield recorded_answers(name, project)
        except UsageError as error:
            say(error, file=sys.stderr)


def _in_sum(name: str, suites: Iterable[Verification]) -> str:
    """How many of a model's answers were read by the weights, and hold."""
    counts = {"holds": 0, "fails": 0, "unchecked": 0, "left": 0, "certified": 0}
    for suite in suites:
        for kind in counts:
            counts[kind] += suite.counts[kind]
    stated = sum(counts.values()) - counts["certified"]
    looked_at = stated - counts["left"]
    text = f"{name}: {looked_at} of {stated} answers verified, {counts['holds']} hold"
    if counts["certified"]:
        text += f"; {counts['certified']} others were certified here before"
    return text
