"""A package that is installed beside this one brings commands, by entry points."""

from __future__ import annotations

import re
import sys

import pytest
from typer.testing import CliRunner

from refract.cli import app

MODULE = """
import typer

group = typer.Typer()


def greet(name: str, loud: bool = False) -> None:
    '''Greet somebody.'''
    print(f"Hello {name}{'!' if loud else ''}")


@group.command()
def first() -> None:
    print("the first")


@group.command()
def second() -> None:
    print("the second")
"""
POINTS = """
[refract.commands]
greet = greetings:greet
numbers = greetings:group
lint = greetings:greet
broken = greetings.nowhere:command
"""


@pytest.fixture
def package(install):
    install("greetings", POINTS, MODULE)


def refract(*arguments: str):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"})


def test_a_function_and_an_app_of_typer_are_commands(package):
    greeted = refract("greet", "Ada", "--loud")
    assert (greeted.exit_code, greeted.stdout) == (0, "Hello Ada!\n")
    assert refract("numbers", "second").stdout == "the second\n"
    assert "Usage: refract greet [OPTIONS] {name}" in refract("greet", "--help").stdout
    assert refract("greet").exit_code == 2


def test_help_lists_them_behind_our_own_and_imports_nothing(package):
    shown = refract("--help").stdout
    listed = shown[shown.index("Installed packages") :]
    for name in ("greet", "numbers", "broken"):
        assert re.search(rf"{name} +From the package greetings\n", listed)
    assert "greetings" not in sys.modules


def test_a_command_of_our_own_cannot_be_taken(package):
    assert "Check suite files" in refract("lint", "--help").stdout


def test_a_command_that_cannot_be_imported_is_named_with_its_place(package):
    done = refract("broken")
    assert done.exit_code == 1
    assert "refract broken: greetings.nowhere:command cannot be imported" in str(done.exception)
