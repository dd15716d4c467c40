"""The ``refract`` command: assembles the commands, each written in a module of its own.

Exit codes: 0 done, 1 the work failed or a check did not hold, 2 wrong usage. What a command needs
beyond rows, statistics and Typer it imports when it runs, so that ``--help`` is there at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from refract.cli import (
    compare,
    gate,
    human_labels,
    label,
    models,
    outputs,
    power,
    project,
    publications,
    reproduce,
    run,
    suite_files,
    verdicts,
    verify,
)
from refract.cli.options import Hinted, documented
from refract.core.errors import RefractError
from refract.core.progress import let_threads_sleep
from refract.core.showing import say

app = typer.Typer(
    name="refract",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Example: refract run --model synthetic --suite harmful_helpful --out results.json",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"refract {version('refract-eval')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Measure how often language models refuse, and how far perturbed prompts bend answers."""


# What `refract --help` shows together.
MEASURE, RESULTS, JUDGES, MAINTAIN = "Measure", "Results", "Judges", "Suites, models and projects"
COMMANDS: dict[str, tuple[Callable[..., object], ...]] = {
    MEASURE: (
        *(run.run, run.demo, models.work, project.init, models.estimate, power.power),
        publications.protocols,
    ),
    RESULTS: (
        *(outputs.show, compare.compare, gate.gate, outputs.page, outputs.table, outputs.figures),
        *(outputs.export, outputs.log, outputs.appendix, verify.verify, reproduce.reproduce),
        publications.reproduce_paper,
    ),
    JUDGES: (
        *(verdicts.judge, label.label, human_labels.correct, human_labels.validate),
        *(verdicts.kappa, verdicts.did),
    ),
    MAINTAIN: (
        *(suite_files.lint, suite_files.import_suite, suite_files.rewrite),
        *(project.doctor, project.stage),
    ),
}
for title, commands in COMMANDS.items():
    for command in commands:
        app.command(cls=Hinted, rich_help_panel=title)(documented(command))
app.add_typer(publications.judges, name="judges", rich_help_panel=JUDGES)

store = typer.Typer(no_args_is_help=True, help="The response store: info, clear, import, export.")
store.command()(models.info)
store.command()(documented(models.clear))
store.command("import")(documented(models.import_folder))
store.command("export")(documented(models.export_folder))
app.add_typer(store, name="cache", rich_help_panel=MAINTAIN)

weights = typer.Typer(no_args_is_help=True, help="Models: fetch the weights of one.")
weights.callback()(lambda: None)
weights.command()(documented(models.fetch))
app.add_typer(weights, name="models", rich_help_panel=MAINTAIN)


def main() -> None:
    """The console script: turns the project's own errors into one message and an exit code."""
    let_threads_sleep()
    try:
        app()
    except (RefractError, OSError) as error:
        say(f"refract: {error}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, RefractError) else 1)
