"""The ``refract`` command. Each command is a function of a module here, which is imported when
the command is called, or its help is shown.

Exit codes: 0 done, 1 the work failed or a check did not hold, 2 wrong usage.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from refract.core.errors import RefractError, UsageError
from refract.core.progress import let_threads_sleep
from refract.core.registry import Registry, find, missing_package
from refract.core.showing import say

if TYPE_CHECKING:
    from typer._click.core import Command, Context

# Our options, with the names that other tools give them.
OTHER_NAMES = {
    "--limit": "--sample --num-samples --max-samples --max-examples",
    "--samples": "--epochs --repeats --num-generations",
    "--suite": "--task --tasks --dataset",
    "--out": "--output --output-path --log-dir",
    "--rows": "--log-samples",
    "--max-tokens": "--max-new-tokens --max-gen-toks --max-length",
    "--system-prompt": "--system --system-instruction --system-message",
    "--base-url": "--api-base --model-base-url --url",
    "--judge-model": "--grader --scorer --judge-llm",
    "--as": "--format",
    "--set KEY=VALUE": "--model-args --generation-config --gen-kwargs",
    "--set device=VALUE": "--device",
    "--set batch_size=VALUE": "--batch-size",
    "--set top_p=VALUE": "--top-p",
}


class Hinted(TyperCommand):
    """A command that says what the option of another tool is called here."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Raises :class:`UsageError` for the name of another tool."""
        own: set[str] = set()
        for parameter in self.params:
            own.update(parameter.opts)
        for word in args:
            name = word.partition("=")[0]
            plain = name.replace("_", "-")
            if not name.startswith("--") or name in own:
                continue
            for ours, others in (*OTHER_NAMES.items(), (plain, plain)):
                if plain in others.split() and ours.split(" ")[0] in own:
                    raise UsageError(f"there is no option {name}; it is called {ours} here")
        return super().parse_args(ctx, args)


# By heading of `refract --help`, module.function; a group of commands is a Typer app.
COMMANDS = {
    "Measure": (
        "run.run",
        "run.demo",
        "project.init",
        "models.estimate",
        "power.power",
    ),
    "Results": (
        "outputs.show",
        "compare.compare",
        "gate.gate",
        "outputs.page",
        "outputs.figures",
        "outputs.export",
        "reproduce.reproduce",
    ),
    "Judges": (
        "verdicts.judge",
        "label.label",
        "human_labels.correct",
        "human_labels.validate",
        "verdicts.kappa",
        "verdicts.did",
    ),
    "Suites, models and projects": (
        "suite_files.lint",
        "project.doctor",
        "project.stage",
        "models.cache",
        "models.models",
    ),
}
# Commands that are gone, and what does the same.
OLD_NAMES = {
    "appendix": "run: refract export --as appendix --out FOLDER",
    "history": "run: refract compare REVISION (git log -- metrics lists the commits that moved numbers)",
    "log": "`dvc exp show` has the numbers of runs, metrics/MODEL.json those of one",
    "table": "run: refract export --as latex --out FOLDER",
}
# Commands of other packages are entry points; names of our own take precedence.
PLACES = Registry({}, "refract.commands")
PANELS = {}
for panel, places in COMMANDS.items():
    for place in places:
        module, _, function = place.partition(".")
        PLACES[function.replace("_", "-")] = f"refract.cli.{module}:{function}"
        PANELS[function.replace("_", "-")] = panel


def built(name: str, panel: str = "") -> Command:
    """The command of a name, as Typer makes it of a function or an app."""
    command = find(PLACES, name, f"refract {name}")
    if not isinstance(command, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name, cls=Hinted, rich_help_panel=panel)(command)
        return typer.main.get_command(alone)
    group = typer.main.get_command(command)
    vars(group).update(name=name, rich_help_panel=panel)
    return group


class InstalledCommand(TyperCommand):
    """A command of another package, which is imported when the command is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """The context of the command itself."""
        return built(str(info_name)).make_context(info_name, args, parent, **extra)


class Commands(TyperGroup):
    """Our own commands, and behind them those of installed packages."""

    def __init__(self, **settings: Any) -> None:
        settings["commands"] = dict.fromkeys(PLACES)  # names that a misspelt one is compared with
        super().__init__(**settings)

    def list_commands(self, ctx: Context) -> list[str]:
        """The names of all commands."""
        return [*PLACES, *PLACES.installed()]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of a name."""
        if cmd_name in PLACES:
            return built(cmd_name, PANELS[cmd_name])
        if cmd_name in OLD_NAMES:
            raise UsageError(f"refract {cmd_name} is gone; {OLD_NAMES[cmd_name]}")
        place = PLACES.installed().get(cmd_name)
        package = PLACES.package_of(cmd_name)
        if place is None and package:
            raise missing_package(f"the command {cmd_name}", package)
        if place is None:
            return None
        if package:
            return built(cmd_name, f"From refract-{package}")
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


def main() -> None:
    """The console script: turns the project's own errors into one message and an exit code."""
    let_threads_sleep()
    try:
        app()
    except (RefractError, OSError) as error:
        say(f"refract: {error}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, RefractError) else 1)
