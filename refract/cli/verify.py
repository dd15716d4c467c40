"""``refract verify``: recorded answers checked by one pass over each, without generating them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from refract.core.errors import UsageError
from refract.core.params import definition, grid, run_seed
from refract.core.showing import json_text, say
from refract.evaluate.verification import (
    AnswerSample,
    RecordedAnswers,
    Verification,
    find_recorded,
    recorded_answers,
    verify_answers,
)
from refract.models.protocol import AdapterError
from refract.models.store import open_store
from refract.project import Project, find_project


def verify(
    answers: Annotated[
        str | None,
        Argument(
            metavar="what",
            help="A model of params.yaml, a results file of `refract run` with its rows beside it, or "
            "response rows (a folder or a JSONL file); default: the grid's models with weights here.",
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
    project = find_project()
    drawn = None
    if sample is not None:
        drawn = AnswerSample(sample, run_seed(project.params) if seed is None else seed)
    answers_of_models = _of_grid(project) if answers is None else [find_recorded(answers, project)]
    suites: list[Verification] = []
    with open_store() as store:
        for recorded in answers_of_models:
            try:
                checked = list(
                    verify_answers(recorded, weights, project, store=store, sample=drawn)
                )
            except AdapterError as error:
                if answers is not None:
                    raise
                count = sum(map(len, recorded.rows.values()))
                say(f"{recorded.name}: 0 of {count} answers verified: {error}", file=sys.stderr)
                continue
            suites += checked
            if format_ == "json":
                continue
            counts: Counter[str] = Counter()
            for suite in checked:
                say(suite)
                counts += suite.counts
            if drawn is not None:
                looked_at = counts["holds"] + counts["fails"] + counts["unchecked"]
                text = f"{recorded.name}: {looked_at} of {looked_at + counts['left']} answers "
                text += f"verified, {counts['holds']} hold"
                if counts["certified"]:
                    text += f"; {counts['certified']} others were certified here before"
                say(text)
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
    for name in grid(project.params, "models"):
        defined = definition(project.params, "models", name)
        if defined["adapter"] == "hf" and defined.get("arithmetic") != "fast":
            try:
                yield recorded_answers(name, project)
            except UsageError as error:
                say(error, file=sys.stderr)
