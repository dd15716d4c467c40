"""``refract appendix``: a paper's appendix from a project's results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refract.core.showing import say


def appendix(out: Annotated[Path, typer.Option()]) -> None:
    """Write a paper's appendix from the results: what they were made of, with a script that verifies it.

    Example: refract appendix --out paper/appendix

    Args:
        out: Folder to write to.
    """
    from refract.export.paper import write_appendix
    from refract.project import project_root

    for line in write_appendix(project_root(), out):
        say(line)
