"""``refract appendix``: a paper's appendix from a project's results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from refract.core.showing import say


def appendix(
    out: Annotated[Path, typer.Option()],
    digits: Annotated[Literal["2", "3"], typer.Option()] = "2",
) -> None:
    """Write a paper's appendix: methods, tables, figures, a checklist, references, and a bundle of what
    the numbers were made of, with a script that computes them again.

    Example: refract appendix --out paper/appendix

    Args:
        out: Folder to write to.
        digits: Decimals of the tables.
    """
    from refract.export.paper import write_appendix
    from refract.project import project_root

    for line in write_appendix(project_root(), out, int(digits)):
        say(line)
