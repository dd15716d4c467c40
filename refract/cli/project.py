"""``refract init``, ``lint`` and ``stage``: a project as a folder, its checks, its stages."""

from __future__ import annotations

import runpy
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from refract.core.errors import UsageError
from refract.core.showing import say
from refract.project import check_version, default_folder, project_root, write_project
from refract.suites.rows import check_suite


def init(
    folder: Annotated[str, Argument(help="Where; it is made if it is not there.")] = ".",
) -> None:
    """Write a small project: params.yaml, dvc.yaml, a suite, and the versions that computed it.

    Example: refract init my-project
    """
    if not folder.strip():  # as an unset variable of a script gives it
        raise UsageError(
            f"the folder's name is empty (got {folder!r}); the current one is called ."
        )
    path = Path(folder)
    write_project(path)
    # Behind `cd` a name that starts with a dash would be an option.
    place = f"./{path}" if str(path).startswith("-") else str(path)
    change = "" if path == Path() else f"cd {shlex.quote(place)} && "
    say(f"{path}: a project with one model and one suite. Now run:")
    say(f"  {change}git init && dvc init && dvc repro && refract show")


def lint(files: Annotated[list[Path], Argument(help="Suite files (JSONL).")]) -> None:
    """Check suite files and list every problem with its line; exit with 1 if there is anything.

    Example: refract lint data/suites/harmful_helpful.jsonl
    """
    count = 0
    for path in files:
        try:
            rows, problems = check_suite(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
        for problem in problems:
            say(f"{path}:{problem.line}: {problem.message}", file=sys.stderr)
        count += len(problems)
        if not problems:
            say(f"{path}: {len(rows)} rows, no problems")
    raise typer.Exit(int(count > 0))


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
