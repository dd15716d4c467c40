"""Every command's help shows an example that is a command line."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from refract.cli import GROUPS, HIDDEN, OLD_NAMES, PLACES, app


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


def test_a_newcomer_sees_about_twenty_commands_in_four_groups_on_one_screen():
    command = [Path(sys.executable).with_name("refract"), "--help"]
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began < 0.5
    assert len(shown.splitlines()) <= 40
    assert re.findall(r"^(\w.*):$", shown, re.M) == ["Options", *GROUPS]
    assert "Example: refract run " in shown
    listed = {name for texts in GROUPS.values() for name in texts}
    below = {name for name in PLACES if "." in name}
    assert {*PLACES} <= listed | below | HIDDEN
    assert HIDDEN.isdisjoint(listed)


@pytest.mark.parametrize("name", OLD_NAMES)
def test_an_old_name_ends_with_one_line_that_says_the_new_one(cli, name):
    done = cli(name, "--format", "json")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"refract: refract {name} is gone; run: {OLD_NAMES[name]}\n"
    program, *words = OLD_NAMES[name].split()
    assert program == "dvc" or {words[0], " ".join(words[:2])} & {*commands()}
