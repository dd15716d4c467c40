"""``refract doctor``: what keeps a project from running, and the command that mends it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from refract.core.errors import RefractError
from refract.core.showing import say

# DVC's record of which of its processes uses which file.
LOCK = Path(".dvc", "tmp", "rwlock")
# Where a torn one is moved to: it is small, and nothing reads it.
TORN = LOCK.with_suffix(".torn")


class Finding(NamedTuple):
    """What was looked at, what is wrong with it (nothing: ""), and what mends it."""

    what: str
    problem: str = ""
    remedy: str = ""


def doctor(
    fix: Annotated[
        bool, typer.Option(help="Move a torn lock of DVC's away, if no DVC runs in this project.")
    ] = False,
) -> None:
    """Look for what keeps `dvc repro` from running here; exit with 1 if there is anything.

    Example: refract doctor
    """
    from refract.project import project_root

    root = project_root()
    if fix:
        _fix_lock(root)
    wrong = 0
    for check in CHECKS:
        for finding in check(root):
            wrong += bool(finding.problem)
            if not finding.problem:
                say(f"ok       {finding.what}")
                continue
            say(f"PROBLEM  {finding.what}: {finding.problem}")
            if finding.remedy:
                say(f"         {finding.remedy}")
    raise typer.Exit(int(wrong > 0))


def check_params(root: Path) -> Iterator[Finding]:
    """Whether params.yaml can be used."""
    from refract.project import read_project

    try:
        read_project(root)
        yield Finding("params.yaml")
    except RefractError as error:
        yield Finding("params.yaml", str(error), "docs/params.md lists every setting")


def check_store(root: Path) -> Iterator[Finding]:
    """Whether answers can be stored."""
    from refract.models.store import open_store

    try:
        with open_store() as store:
            store.claim(())
            off = "" if store.path else " (turned off by REFRACT_CACHE)"
            yield Finding(f"response store {store.path or ''}{off}".strip())
    except RefractError as error:
        yield Finding("response store", str(error))


def check_dvc_lock(root: Path) -> Iterator[Finding]:
    """Whether DVC's lock is whole: DVC writes it in place, so that a kill can leave half of it."""
    running = dvc_processes(root)
    others = f"; DVC runs here: {', '.join(map(str, running))}" if running else ""
    if is_torn(root / LOCK):
        yield Finding(
            f"DVC's lock {LOCK}",
            "it was left half written by a process that was killed, and every `dvc repro` fails "
            f'with "Unable to read RWLock-file"{others}',
            "wait for it to end, then run: refract doctor --fix"
            if running
            else "run: refract doctor --fix",
        )
    else:
        yield Finding(f"DVC's lock{others}")


def check_dvc_files(root: Path) -> Iterator[Finding]:
    """Whether dvc.lock can be read, which DVC writes in place too."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = root / "dvc.lock"
    if not path.exists():
        yield Finding("dvc.lock (none yet: `dvc repro` writes it)")
        return
    try:
        found = YAML(typ="safe").load(path.read_bytes())
        whole = isinstance(found, dict) and "stages" in found
    except (OSError, YAMLError, ValueError):
        whole = False
    if whole:
        yield Finding("dvc.lock")
    else:
        yield Finding(
            "dvc.lock",
            "it cannot be read; a process that was killed left it half written",
            "run: git checkout dvc.lock (or rm dvc.lock), then dvc repro; stored answers are reused",
        )


def check_errors(root: Path) -> Iterator[Finding]:
    """Whether answers of the grid's models are errors that another try could mend."""
    from refract.core.params import grid, load_params
    from refract.project.inputs.named import errors_to_ask_again

    try:
        models = grid(load_params(root / "params.yaml"), "models")
    except RefractError:
        return  # said of params.yaml
    for model in models:
        count = errors_to_ask_again(root / "data/responses" / model)
        if count:
            problem = f"{count} are errors that may pass"
            yield Finding(f"answers of {model}", problem, "run: dvc repro, which asks them again")
        else:
            yield Finding(f"answers of {model}")


CHECKS: tuple[Callable[[Path], Iterator[Finding]], ...] = (
    check_params,
    check_store,
    check_dvc_lock,
    check_dvc_files,
    check_errors,
)


def is_torn(lock: Path) -> bool:
    """Whether DVC's lock is there and is not what DVC writes."""
    try:
        found = json.loads(lock.read_bytes())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RecursionError):
        return True
    return not (
        isinstance(found, dict)
        and all(isinstance(found.get(mode, {}), dict) for mode in ("read", "write"))
    )


def dvc_processes(root: Path) -> list[int]:
    """The numbers of DVC's processes that work in a project, as far as this user may see them."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            words = [Path(word).name for word in process.cmdline()[:4]]
            here = Path(process.cwd()).is_relative_to(root.resolve())
            if here and "dvc" in words and process.pid != os.getpid():
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return sorted(found)


def _fix_lock(root: Path) -> None:
    """Moves a torn lock away, so that DVC makes a new one."""
    if not is_torn(root / LOCK):
        return
    if running := dvc_processes(root):
        raise RefractError(
            f"DVC runs here (process {', '.join(map(str, running))}) and uses {LOCK}; wait for it to "
            "end, then run `refract doctor --fix` again"
        )
    os.replace(root / LOCK, root / TORN)
    say(f"{LOCK}: moved to {TORN}")
