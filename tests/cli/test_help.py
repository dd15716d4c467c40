"""Every command's help shows an example that is a command line."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from refract.cli import COMMANDS, OTHER_NAMES, app
from refract.models import ADAPTERS


def commands() -> dict[str, object]:
    """Every command of the app with its name, those of groups included."""

    def walk(group, path=()):
        for name in group.list_commands(None):
            command = group.get_command(None, name)
            if hasattr(command, "commands"):
                yield from walk(command, (*path, name))
            else:
                yield " ".join((*path, name)), command

    return dict(walk(typer.main.get_command(app)))


@pytest.mark.parametrize("name", commands())
def test_the_help_of_every_command_shows_an_example_that_is_a_command_line(name):
    done = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "400"})
    assert done.exit_code == 0
    (example,) = re.findall(r"Example: (refract .*?)\s*$", done.stdout, re.M)
    words = example.split()[1:]
    assert words[: len(name.split())] == name.split()
    # Its options are the command's own.
    options = {option for parameter in commands()[name].params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_options_are_in_panels_and_say_what_their_values_are():
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "80"}).stdout
    titles = re.findall(r"─ (.*?) ─", shown)
    assert titles == [
        *("Options", "What to measure", "With what model", "How it answers", "Who judges", "Output")
    ]
    assert "list[str]" not in shown
    (adapter,) = [p for p in commands()["run"].params if p.name == "adapter"]
    assert adapter.metavar.split("|") == list(ADAPTERS)
    # Every name of another tool that is pointed out leads to an option that a command has.
    own = {option for command in commands().values() for p in command.params for option in p.opts}
    assert {ours.split(" ")[0] for ours in OTHER_NAMES} <= own
    others = " ".join(OTHER_NAMES.values()).split()
    assert len(others) == len(set(others))
    assert not {*others} & {o for p in commands()["run"].params for o in p.opts}


def test_commands_are_shown_in_groups():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout
    assert re.findall(r"─ (.*?) ─", shown) == ["Options", *COMMANDS]
    assert "Example: refract run " in shown
