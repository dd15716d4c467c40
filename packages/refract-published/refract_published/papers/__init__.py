"""Published tables, recomputed from recorded answers and labels, each number beside the published
one.

To add a paper: write its entry in ``papers.yaml`` with the source of its numbers, a function in
``recounts`` that counts them from a folder of files, and a :class:`Paper` here, which ``PAPERS``
names. A number without a source is left out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from refract.core.registry import Registry
from refract.core.settings import Settings
from refract_published.catalogues import find_entry
from refract_published.papers import recounts
from refract_published.papers.cells import Cell, Folder

CATALOGUE = Path(__file__).with_name("papers.yaml")


class PaperEntry(Settings):
    """An entry of ``papers.yaml``."""

    title: str
    source: str = Field(description="paper, table and address of the numbers")
    files: list[str] = Field(description="a line for each file to put into the folder")
    published: dict[str, Any] = Field(
        description="the numbers, in the form that they are counted in"
    )


class Paper:
    """A paper with published numbers, and the function that counts them again."""

    def __init__(self, name: str, count: Callable[[Folder, dict[str, Any]], list[Cell]]) -> None:
        self.name = name
        self._count = count

    @cached_property
    def entry(self) -> PaperEntry:
        """Title, source, files and published numbers."""
        return find_entry(CATALOGUE, PaperEntry, noun="paper", name=self.name, where="the paper")

    def cells(self, folder: Path) -> list[Cell]:
        """The cells of the paper's table, counted from the files in a folder."""
        return self._count(Folder(folder), self.entry.published)


# Other packages add theirs by the entry points of the group.
PAPERS = Registry(
    {
        name: f"refract_published.papers:{name}"
        for name in ("harmbench", "lm_refusal_eval", "xstest")
    },
    "refract.papers",
    "entry",
    "cells",
)

harmbench = Paper("harmbench", recounts.harmbench)
lm_refusal_eval = Paper("lm_refusal_eval", recounts.lm_refusal_eval)
xstest = Paper("xstest", recounts.xstest)
