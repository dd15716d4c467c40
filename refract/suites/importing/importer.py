"""What an importer is: a published file in, the rows of a suite and what its card says out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from refract.core.types import Row


class Origin(NamedTuple):
    """Where a suite comes from, as its card says it.

    ``rule`` says in words how rows got their categories. ``context`` is the field, if there is one,
    whose text stands before the prompt, as its publisher sends it.
    """

    title: str
    url: str
    licence: str
    rule: str
    context: str | None = None


@dataclass(frozen=True)
class Options:
    """What a user may add to a file. ``category`` overrides the importer's own rule for every row.

    ``columns`` (of the prompt, the id, the category and the language), ``languages`` (columns with
    prompts, each called by its language), ``source`` and ``licence`` are for files that no importer
    knows; ``values`` maps values of a column to categories. ``language`` is that of every row.
    Without a ``header`` columns are called 1, 2, … ``meta`` is the second of two files; ``address`` is
    where the file was fetched from.
    """

    encoding: str = "utf-8"
    header: bool = True
    category: str | None = None
    language: str | None = None
    languages: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    licence: str | None = None
    meta: Path | None = None
    address: str | None = None


class Contents(NamedTuple):
    """What an importer found: the suite's rows, their origin, the files read, what was decided."""

    rows: list[Row]
    origin: Origin
    files: list[Path]
    notes: list[str]


# A function of the importer's name, the file and the options; raises SuiteError.
Importer = Callable[[str, Path, Options], Contents]
