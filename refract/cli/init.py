"""``refract init``: a small project in which ``dvc repro`` runs with the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refract.core.showing import say


def init(
    folder: Annotated[Path, typer.Argument(help="Where; it is made if it is not there.")] = Path(),
) -> None:
    """Write a small project: params.yaml, dvc.yaml, a suite, and the versions that computed it.

    Example: refract init my-project
    """
    from refract.project import write_project

    write_project(folder)
    change = "" if folder == Path() else f"cd {folder} && "
    say(f"{folder}: a project with one model and one suite. Now run:")
    say(f"  {change}git init && dvc init && dvc repro && refract show")
