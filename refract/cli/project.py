"""``refract init``, ``doctor`` and ``stage``: a project as a folder, its health, what DVC runs in it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from refract.core.errors import UsageError
from refract.core.showing import say


def init(folder: Annotated[Path, typer.Argument()] = Path()) -> None:
    """Write a small project: params.yaml, dvc.yaml, a suite, and the versions that computed it.

    Example: refract init my-project

    Args:
        folder: Where; it is made if it is not there.
    """
    from refract.project import write_project

    write_project(folder)
    change = "" if folder == Path() else f"cd {folder} && "
    say(f"{folder}: a project with one model and one suite. Now run:")
    say(f"  {change}git init && dvc init && dvc repro && refract show")


def doctor(fix: bool = False) -> None:
    """Look for what keeps `dvc repro` from running here; exit with 1 if there is anything.

    Example: refract doctor

    Args:
        fix: If no DVC runs in this project: move a torn lock of DVC's away, and take a torn dvc.lock
          back from git.
    """
    from refract.project import project_root
    from refract.project.checkup import check_project, mend

    root = project_root()
    for line in mend(root) if fix else ():
        say(line)
    problems = 0
    for what, problem, remedy in check_project(root):
        problems += bool(problem)
        say(f"PROBLEM  {what}: {problem}" if problem else f"ok       {what}")
        if remedy:
            say(f"         {remedy}")
    raise typer.Exit(int(problems > 0))


def stage(name: str, model: Annotated[str | None, typer.Argument()] = None) -> None:
    """Run one stage of the pipeline in the current project; `dvc repro` calls this.

    Example: refract stage judge synthetic

    Args:
        name: The stage, as dvc.yaml names it.
        model: A model, for stages of one model.
    """
    from importlib.metadata import version

    from refract.core.environment import pinned_versions
    from refract.project import CONSTRAINTS, default_folder, project_root

    constraints = project_root() / CONSTRAINTS
    folder = default_folder() / "stages"
    known = {path.stem.replace("_", "-"): path for path in sorted(folder.glob("*.py"))}
    if name not in known:
        raise UsageError(f"no stage {name!r}; there are: {', '.join(known)}")
    installed = version("refract-eval")
    text = constraints.read_text("utf-8") if constraints.is_file() else ""
    pinned = pinned_versions(text).get("refract-eval", installed)
    if pinned != installed:
        raise UsageError(
            f"{CONSTRAINTS} names refract-eval=={pinned}, installed is {installed}: install that "
            f"version, or write {installed} there, which makes `dvc repro` compute everything again"
        )
    sys.argv = [str(known[name]), *([model] if model is not None else [])]
    runpy.run_path(str(known[name]), run_name="__main__")
