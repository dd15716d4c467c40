"""``refract stage``: what DVC runs in a project that ``refract init`` wrote."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from refract.core.errors import UsageError

CONSTRAINTS = Path("constraints.txt")


def stage(
    name: Annotated[str, typer.Argument(help="The stage, as dvc.yaml names it.")],
    model: Annotated[str | None, typer.Argument(help="A model, for stages of one model.")] = None,
) -> None:
    """Run one stage of the pipeline in the current project; `dvc repro` calls this.

    Example: refract stage judge synthetic
    """
    from refract.project import default_folder, project_root

    project_root()
    folder = default_folder() / "stages"
    known = {path.stem.replace("_", "-"): path for path in sorted(folder.glob("*.py"))}
    if name not in known:
        raise UsageError(f"no stage {name!r}; there are: {', '.join(known)}")
    _check_version()
    sys.argv = [str(known[name]), *([model] if model is not None else [])]
    runpy.run_path(str(known[name]), run_name="__main__")


def _check_version() -> None:
    """Raises :class:`UsageError` where the project was computed by another version than this one."""
    from importlib.metadata import version

    from refract.core.environment import pinned_versions

    installed = version("refract-eval")
    text = CONSTRAINTS.read_text("utf-8") if CONSTRAINTS.is_file() else ""
    pinned = pinned_versions(text).get("refract-eval", installed)
    if pinned != installed:
        raise UsageError(
            f"{CONSTRAINTS} names refract-eval=={pinned}, installed is {installed}: install that "
            f"version, or write {installed} there, which makes `dvc repro` compute everything again"
        )
