"""Options that name a file to write, for which ``-`` is standard output."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

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
