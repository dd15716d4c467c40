"""``refract init``, ``doctor`` and ``stage``: a project as a folder, its health, what DVC runs in it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from refract.core.errors import UsageError
from refract.core.showing import say
from refract.project import check_version, default_folder, project_root, write_project
from refract.project.checkup import check_project, mend


def init(
    folder: Annotated[Path, Argument(help="Where; it is made if it is not there.")] = Path(),
) -> None:
    """Write a small project: params.yaml, dvc.yaml, a suite, and the versions that computed it.

    Example: refract init my-project
    """
    write_project(folder)
    change = "" if folder == Path() else f"cd {folder} && "
    say(f"{folder}: a project with one model and one suite. Now run:")
    say(f"  {change}git init && dvc init && dvc repro && refract show")


def doctor(
    fix: Annotated[
        bool,
        Option(
            help="If no DVC runs in this project: move a torn lock of DVC's away, and take a torn "
            "dvc.lock back from git."
        ),
    ] = False,
) -> None:
    """Look for what keeps `dvc repro` from running here; exit with 1 if there is anything.

    Example: refract doctor
    """
    root = project_root()
    if fix:
        for line in mend(root):
            say(line)
    checks = list(check_project(root))
    for check in checks:
        problem = f"PROBLEM  {check.name}: {check.problem}"
        say(problem if check.problem else f"ok       {check.name}")
        if check.remedy:
            say(f"         {check.remedy}")
    raise typer.Exit(int(any(check.problem for check in checks)))


def stage(
    name: Annotated[str, Argument(help="The stage, as dvc.yaml names it.")],
    model: Annotated[str | None, Argument(help="A model, for stages of one model.")] = None,
) -> None:
    """Run one stage of the pipeline in the current project; `dvc repro` calls this.

    Example: refract stage judge synthetic
    """
    root = project_root()
    stages = {}
    for path in sorted((default_folder() / "stages").glob("*.py")):
        stages[path.stem.replace("_", "-")] = str(path)
    if name not in stages:
        raise UsageError(f"no stage {name!r}; there are: {', '.join(stages)}")
    check_version(root)
    sys.argv = [stages[name]] if model is None else [stages[name], model]
    runpy.run_path(stages[name], run_name="__main__")
