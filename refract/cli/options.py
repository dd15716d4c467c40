"""Options that several commands have, and how their values are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from refract.core.errors import UsageError

NumbersFile = Annotated[Path | None, typer.Option(help="Also write the numbers here (JSON).")]
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
