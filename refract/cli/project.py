"""``refract demo``, ``init``, ``lint`` and ``stage``: a project as a folder, its checks, its stages."""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from refract.core.errors import RefractError, UsageError
from refract.core.showing import say
from refract.project import check_version, default_folder, project_root, write_project
from refract.report.report_files import PAGE
from refract.suites.rows import check_suite


def init(
    folder: Annotated[str, Argument(help="Where; it is made if it is not there.")] = ".",
) -> None:
    """Write a small project: params.yaml, dvc.yaml, a suite, and the versions that computed it.

    Example: refract init my-project
    """
    path = _named(folder)
    write_project(path)
    # Behind `cd` a name that starts with a dash would be an option.
    place = f"./{path}" if str(path).startswith("-") else str(path)
    change = "" if path == Path() else f"cd {shlex.quote(place)} && "
    say(f"{path}: a project with one model and one suite. Now run:")
    say(f"  {change}git init && dvc init && dvc repro && refract show")


def demo(
    folder: Annotated[str, Argument(help="Where; it must be new.")] = "refract-demo",
) -> None:
    """Measure four synthetic models in a small project, up to the report's page; needs no network.

    Example: refract demo
    """
    project = _named(folder)
    write_project(project, demo=True)
    # DVC calls `refract`, which need not be on the path where this environment is not active.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    for words in (["init", "--no-scm", "--quiet"], ["repro"]):
        dvc = [sys.executable, "-m", "dvc", *words]
        if subprocess.run(dvc, cwd=project, env={**os.environ, "PATH": path}).returncode:
            raise RefractError(f"dvc {words[0]} failed in {project}")
    say(f"page: {project / PAGE} (open it in a browser)")
    say("Its models are hashes of their prompts. Your own: refract init my-project")


def _named(folder: str) -> Path:
    """The folder of a name. Raises UsageError for an empty one, which would be the current folder: an
    unset variable of a script gives it."""
    if not folder.strip():
        raise UsageError(
            f"the folder's name is empty (got {folder!r}); the current one is called ."
        )
    return Path(folder)


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
