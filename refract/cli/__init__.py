"""The ``refract`` command: assembles the commands, each written in a module of its own.

Exit codes: 0 done, 1 the work failed or a check did not hold, 2 wrong usage. What a command needs
beyond rows, statistics and Typer it imports when it runs, so that ``--help`` is there at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from refract.cli import (
    cache,
    compare,
    correct,
    did,
    doctor,
    estimate,
    export,
    figures,
    gate,
    import_suite,
    init,
    judge,
    judges,
    kappa,
    label,
    lint,
    log,
    models,
    page,
    power,
    protocols,
    reproduce,
    reproduce_paper,
    run,
    stage,
    table,
    validate,
)
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


app.command()(init.init)
app.command()(lint.lint)
app.command()(judge.judge)
app.command()(run.run)
app.command()(run.demo)
app.command()(page.show)
app.command()(page.page)
app.command()(estimate.estimate)
app.command()(gate.gate)
app.command()(import_suite.import_suite)
app.command()(compare.compare)
app.command()(power.power)
app.command()(validate.validate)
app.command()(kappa.kappa)
app.command()(did.did)
app.command()(label.label)
app.command()(correct.correct)
app.command()(table.table)
app.command()(figures.figures)
app.command()(export.export)
app.command()(log.log)
app.command()(reproduce.reproduce)
app.command()(reproduce_paper.reproduce_paper)
app.command()(stage.stage)
app.command()(doctor.doctor)

app.add_typer(judges.judges, name="judges")
app.command()(protocols.protocols)
store = typer.Typer(no_args_is_help=True, help="The response store: info, clear, import, export.")
store.command()(cache.info)
store.command()(cache.clear)
store.command("import")(cache.import_folder)
store.command("export")(cache.export_folder)
app.add_typer(store, name="cache")

weights = typer.Typer(no_args_is_help=True, help="Models: fetch the weights of one.")
weights.callback()(lambda: None)
weights.command()(models.fetch)
app.add_typer(weights, name="models")


def main() -> None:
    """The console script: turns the project's own errors into one message and an exit code."""
    let_threads_sleep()
    try:
        app()
    except (RefractError, OSError) as error:
        say(f"refract: {error}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, RefractError) else 1)
