"""``refract init``: a small project in which ``dvc repro`` runs with the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes
from refract.core.showing import say

TEMPLATES = Path(__file__).parent / "project"
# Names of files that would take effect in this repository under their own.
RENAMED = {"gitignore": ".gitignore", "pipeline.yaml": "dvc.yaml"}


def init(
    folder: Annotated[Path, typer.Argument(help="Where; it is made if it is not there.")] = Path(),
) -> None:
    """Write a small project: params.yaml, dvc.yaml, a suite, and the versions that computed it.

    Example: refract init my-project
    """
    from importlib.metadata import version

    from refract.core.environment import library_versions

    targets = {
        path: folder / path.relative_to(TEMPLATES).with_name(RENAMED.get(path.name, path.name))
        for path in sorted(TEMPLATES.rglob("*"))
        if path.is_file()
    }
    constraints = folder / "constraints.txt"
    present = [str(target) for target in (*targets.values(), constraints) if target.exists()]
    if present:
        raise UsageError(f"not written, since these exist: {', '.join(present)}")
    for path, target in targets.items():
        write_bytes(target, [path.read_bytes()])
    versions = {"refract-eval": version("refract-eval")} | library_versions()
    text = "".join(f"{name}=={number}\n" for name, number in versions.items())
    write_bytes(constraints, [text.encode()])
    change = "" if folder == Path() else f"cd {folder} && "
    say(f"{folder}: a project with one model and one suite. Now run:")
    say(f"  {change}git init && dvc init && dvc repro && refract show")
