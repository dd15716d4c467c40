"""``refract doctor``: what keeps a project from running, and the command that mends it."""

from __future__ import annotations

from typing import Annotated

import typer

from refract.core.showing import say


def doctor(
    fix: Annotated[
        bool, typer.Option(help="Move a torn lock of DVC's away, if no DVC runs in this project.")
    ] = False,
) -> None:
    """Look for what keeps `dvc repro` from running here; exit with 1 if there is anything.

    Example: refract doctor
    """
    from refract.project import project_root
    from refract.project.checkup import LOCK, TORN, check_project, move_torn_lock

    root = project_root()
    if fix and move_torn_lock(root):
        say(f"{LOCK}: moved to {TORN}")
    problems = 0
    for what, problem, remedy in check_project(root):
        problems += bool(problem)
        say(f"PROBLEM  {what}: {problem}" if problem else f"ok       {what}")
        if remedy:
            say(f"         {remedy}")
    raise typer.Exit(int(problems > 0))
