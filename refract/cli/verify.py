"""``refract verify``: recorded answers checked by one pass over each, without generating them."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer import Argument, Option

from refract.core.showing import json_text, say


def verify(
    answers: Annotated[
        str,
        Argument(
            metavar="what",
            help="A model of params.yaml (its answers in data/answers and data/responses), a results "
            "file of `refract run` with its rows beside it, or response rows: a folder or a JSONL "
            "file.",
        ),
    ],
    weights: Annotated[
        str | None,
        Option(help="The model of params.yaml whose weights answer; default: the model itself."),
    ] = None,
    format_: Annotated[
        Literal["text", "json"], Option("--format", help="How it is printed.")
    ] = "text",
) -> None:
    """Check recorded answers against a model's weights, without generating them; exit with 1 unless
    each token is the exact one.

    One pass over each answer; what fast arithmetic leaves open, float64 decides. An answer without token
    ids (of a server, say) has its text tokenised.

    Example: refract verify smollm2_135m
    """
    from refract.evaluate.verification import find_recorded, verify_answers
    from refract.project import find_project

    project = find_project()
    recorded = find_recorded(answers, project)
    suites = list(verify_answers(recorded, weights, project))
    if format_ == "json":
        rows = []
        for suite in suites:
            numbers = {"bound": suite.bound, "failures": suite.failures}
            rows.append({"suite": suite.suite, **suite.counts, **numbers})
        say(json_text(rows))
    else:
        for suite in suites:
            say(suite)
    # Of a model of params.yaml, the pipeline takes no answer to a request that is not known either.
    unknown = "unknown" if "identity" in recorded.model else "fails"
    wrong = any(suite.counts["fails"] or suite.counts[unknown] for suite in suites)
    raise typer.Exit(int(wrong or not any(suite.counts["holds"] for suite in suites)))
