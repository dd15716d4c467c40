"""The ``refract`` command: assembles the commands, each written in a module of its own.

Exit codes: 0 done, 1 the work failed or a check did not hold, 2 wrong usage. What a command needs
beyond Typer it imports when it runs, so that ``--help`` is there at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from refract.cli import (
    compare,
    gate,
    history,
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
from refract.cli.options import Hinted
from refract.core.errors import RefractError
from refract.core.progress import let_threads_sleep
from refract.core.registry import Registry, find
from refract.core.showing import say

if TYPE_CHECKING:
    from typer._click.core import Command, Context

# Commands of other packages, by entry points; names of our own take precedence.
INSTALLED = Registry({}, "refract.commands")


class InstalledCommand(TyperCommand):
    """A command of another package, which is imported when the command is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """The context of the command itself: a function, or an app of Typer."""
        command = find(INSTALLED, info_name, f"refract {info_name}")
        if not isinstance(command, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(info_name)(command)
            command = alone
        return typer.main.get_command(command).make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """Our own commands, and behind them those of installed packages."""

    def list_commands(self, ctx: Context) -> list[str]:
        """The names of all commands."""
        own = super().list_commands(ctx)
        return own + [name for name in INSTALLED.installed() if name not in own]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of a name."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        place = INSTALLED.installed().get(cmd_name)
        if place is None:
            return None
        text = f"From the package {place.partition('.')[0].partition(':')[0]}."
        return InstalledCommand(cmd_name, help=text, rich_help_panel="Installed packages")


app = typer.Typer(
    cls=Commands,
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
COMMANDS: dict[str, list[Callable[..., object]]] = {
    MEASURE: [
        run.run,
        run.demo,
        models.work,
        project.init,
        models.estimate,
        power.power,
        publications.protocols,
    ],
    RESULTS: [
        outputs.show,
        compare.compare,
        gate.gate,
        history.history,
        outputs.page,
        outputs.table,
        outputs.figures,
        outputs.export,
        outputs.log,
        outputs.appendix,
        verify.verify,
        reproduce.reproduce,
        publications.reproduce_paper,
    ],
    JUDGES: [
        verdicts.judge,
        label.label,
        human_labels.correct,
        human_labels.validate,
        verdicts.kappa,
        verdicts.did,
    ],
    MAINTAIN: [
        suite_files.lint,
        suite_files.import_suite,
        suite_files.rewrite,
        project.doctor,
        project.stage,
    ],
}
for title, commands in COMMANDS.items():
    for command in commands:
        app.command(cls=Hinted, rich_help_panel=title)(command)
app.add_typer(publications.judges, name="judges", rich_help_panel=JUDGES)
app.add_typer(models.store, name="cache", rich_help_panel=MAINTAIN)
app.add_typer(models.weights, name="models", rich_help_panel=MAINTAIN)


def main() -> None:
    """The console script: turns the project's own errors into one message and an exit code."""
    let_threads_sleep()
    try:
        app()
    except (RefractError, OSError) as error:
        say(f"refract: {error}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, RefractError) else 1)
