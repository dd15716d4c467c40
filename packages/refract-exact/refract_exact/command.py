"""``refract verify``: do answers and numbers hold, without making answers again."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from refract.core.errors import UsageError
from refract.core.params import definition, grid
from refract.core.showing import say
from refract.models.protocol import AdapterError
from refract.models.store import open_store
from refract.project import PARAMS, Project, find_project, project_root
from refract.results.stored import number_problems
from refract_exact.verification import RecordedAnswers, find_recorded, verify_answers


def verify(
    what: Annotated[
        str | None,
        Argument(
            help="A model of params.yaml, a results file of `refract run` with its rows beside it, or "
            "the folder of a project or bundle; default: the grid's models with weights here."
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
) -> None:
    """Check recorded answers by weights, and numbers by answers; exit with 0 only if all hold.

    Of a model and of a results file each token must be the exact one: one pass over each answer,
    and float64 for what fast arithmetic leaves open. Results are judged and counted again too, a
    folder's numbers counted from its verdicts.

    Example: refract verify smollm2_135m"""
    if what is not None and (Path(what) / PARAMS).is_file():
        count = 0
        for problem in number_problems(Path(what), lambda note: say(f"note: {note}")):
            say(problem)
            count += 1
        say(f"{what}: {count or 'no'} numbers or files are other than they were written")
        raise typer.Exit(int(bool(count)))
    if what is None:
        project_root()  # raises outside of a project
    project = find_project()
    wrong = False
    counts: Counter[str] = Counter()
    with open_store() as store:
        for recorded in _of_grid(project) if what is None else [find_recorded(what, project)]:
            of_model: Counter[str] = Counter()
            try:
                for suite in verify_answers(recorded, weights, project, store, sample):
                    say(suite)
                    of_model += suite.counts
                    wrong |= bool(suite.problems)
            except AdapterError as error:
                if what is not None:
                    raise
                count = sum(map(len, recorded.rows.values()))
                say(f"{recorded.name}: 0 of {count} answers verified: {error}", file=sys.stderr)
                continue
            if sample is not None:
                number = of_model["read"]
                text = f"{recorded.name}: {number} of {number + of_model['left']} answers verified"
                say(
                    f"{text}, {of_model['holds']} hold; {of_model['certified']} were certified here"
                )
            counts += of_model
    if what is None and not counts:
        text = (
            "no model of the grid has answers to verify; refract verify . counts the numbers again"
        )
        say(text, file=sys.stderr)
    # Without a single answer that holds, nothing was shown; a sample may find all certified before.
    nothing = what is not None and not counts["holds"] + counts["certified"]
    raise typer.Exit(int(wrong or nothing))


def _of_grid(project: Project) -> Iterable[RecordedAnswers]:
    """The answers of the grid's models that have weights and answer exactly; those
    without answers here are named."""
    for name in grid(project.params, "models"):
        defined = definition(project.params, "models", name)
        if defined["adapter"] == "hf" and defined.get("arithmetic") != "fast":
            try:
                yield find_recorded(name, project)
            except UsageError as error:
                say(error, file=sys.stderr)
