"""How options are read that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from refract.core.errors import UsageError

JudgeModel = Annotated[
    str | None,
    typer.Option(
        help="The model that judges: one of params.yaml, or ADAPTER:MODEL_ID, such as "
        "hf:path/to/folder. Without --judge it says what is a refusal (--judge llm)."
    ),
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
    found = {}
    for pair in pairs or ():
        name, equals, value = pair.rpartition("=")
        if not equals or not name:
            raise UsageError(f"{option} takes name=value (got {pair!r})")
        found[name] = value
    return found
