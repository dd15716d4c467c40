"""Every command's help shows an example that is a command line."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from refract.cli import app


def commands() -> dict[str, object]:
    """Every command of the app with its name, those of groups included."""

    def walk(group, path=()):
        for name, command in group.commands.items():
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


def test_the_help_of_the_command_itself_shows_an_example():
    assert "Example: refract run " in CliRunner().invoke(app, ["--help"]).stdout
