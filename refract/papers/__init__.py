"""Published tables, recomputed from recorded answers and labels, each number beside the published one.

To add a paper: write its entry in ``papers.yaml``, with the source of its numbers, and name in
``COUNTED`` the function that counts them from a folder of files. A number without a source is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field

from refract.core.published_text import find_entry, names_in
from refract.core.settings import Settings
from refract.papers import recounts
from refract.papers.cells import Cell, Folder

CATALOGUE = Path(__file__).with_name("papers.yaml")
COUNTED: dict[str, Callable[[Folder, dict[str, Any]], list[Cell]]] = {
    "do_not_answer": recounts.do_not_answer,
    "harmbench": recounts.harmbench,
    "jailbreakbench": recounts.jailbreakbench,
    "refusalbench": recounts.refusalbench,
    "xstest": recounts.xstest,
}


class PaperEntry(Settings):
    """An entry of ``papers.yaml``."""

    title: str
    source: str = Field(description="paper, table and address of the numbers")
    files: list[str] = Field(description="a line for each file to put into the folder")
    published: dict[str, Any] = Field(
        description="the numbers, in the form that they are counted in"
    )


def paper_names() -> list[str]:
    """The names of the papers."""
    return names_in(CATALOGUE)


def open_paper(name: str) -> PaperEntry:
    """The paper of that name. Raises :class:`ParamsError` for an unknown name."""
    return find_entry(CATALOGUE, PaperEntry, "paper", name, "reproduce-paper: the paper")


def paper_cells(name: str, folder: Folder) -> list[Cell]:
    """The cells of a paper's table, counted from the files in a folder."""
    return COUNTED[name](folder, open_paper(name).published)
