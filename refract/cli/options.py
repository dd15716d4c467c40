"""Options that several commands have, and how their values are read."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, TextIO

import typer

from refract.core.errors import UsageError

STANDARD_OUTPUT = Path("-")


def or_standard_output(
    context: typer.Context, option: typer.CallbackParam, path: Path | None
) -> Path | None:
    """Where a command writes: the path given, or, for ``-``, a temporary file that is copied to
    standard output when the command ends. What the command says then goes to standard error.

    Raises :class:`UsageError` for a second ``-``.
    """
    if path != STANDARD_OUTPUT or context.resilient_parsing:
        return path
    if sys.stdout is sys.stderr:
        raise UsageError(f"--{option.name}: only one option can be - (standard output)")
    return context.with_resource(_copied_to(sys.stdout))


@contextlib.contextmanager
def _copied_to(stream: TextIO) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="refract-out-") as folder:
        path = Path(folder, "out")
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield path
        finally:  # a command that exits with 1 has a result too
            if path.is_file():
                stream.flush()
                with open(path, "rb") as file:
                    shutil.copyfileobj(file, stream.buffer)
                stream.buffer.flush()


def several_files(option: typer.CallbackParam, path: Path | None) -> Path | None:
    """A path at which a command writes several files. Raises :class:`UsageError` for ``-``."""
    if path == STANDARD_OUTPUT:
        raise UsageError(
            f"--{option.name}: several files are written, which standard output (-) cannot hold; "
            "name a place"
        )
    return path


NumbersFile = Annotated[
    Path | None,
    typer.Option(
        help="Also write the numbers here (JSON); - is standard output.",
        callback=or_standard_output,
    ),
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        help="The model that judges: one of params.yaml, or ADAPTER:MODEL_ID, such as "
        "hf:path/to/folder. Without --judge it says what is a refusal (--judge llm)."
    ),
]
Models = Annotated[
    list[str] | None, typer.Option("--model", help="Models of the grid: NAME,...; default: all.")
]
Suites = Annotated[
    list[str] | None, typer.Option("--suite", help="Suites: NAME,...; default: all.")
]
Confidence = Annotated[
    Literal[".90", ".95", ".99"] | None,
    typer.Option(
        help="Confidence of intervals and decisions; default: .95, or what the project sets."
    ),
]


def listed(values: Sequence[str] | None) -> list[str]:
    """The values of a repeatable option, each of which may hold several, separated by commas."""
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]


def mapping(option: str, pairs: Sequence[str] | None) -> dict[str, str]:
    """The values of a repeatable option of the form name=value. Raises :class:`UsageError`."""
    values = {}
    for pair in pairs or ():
        name, equals, value = pair.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{option} takes name=value (got {pair!r})")
        values[name] = value
    return values
