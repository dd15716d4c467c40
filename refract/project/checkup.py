"""What keeps a project from running: its settings, its store, and what a kill of DVC left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from refract.core.environment import git
from refract.core.errors import RefractError
from refract.models.store import open_store
from refract.project import read_project

# DVC's record of which of its processes uses which file. DVC writes it in place: a kill can leave half.
LOCK = Path(".dvc", "tmp", "rwlock")
# Where a torn one is moved to: it is small, and nothing reads it.
TORN = LOCK.with_suffix(".torn")
# DVC's record of what was computed of what.
RECORD = Path("dvc.lock")


def check_project(root: Path) -> Iterator[tuple[str, str, str]]:
    """Everything that is looked at, what is wrong with it (nothing: ""), and what mends it."""
    try:
        read_project(root)
        yield "params.yaml", "", ""
    except RefractError as error:
        yield "params.yaml", str(error), "docs/params.md lists every setting"
    try:
        with open_store() as store:
            yield f"response store {store.path or '(turned off by REFRACT_CACHE)'}", "", ""
    except RefractError as error:
        yield "response store", str(error), ""
    if is_torn(root / LOCK):
        problem = 'half written by a process that was killed: "Unable to read RWLock-file"'
        wait = "wait for DVC to end, then " if dvc_processes(root) else ""
        yield f"DVC's lock {LOCK}", problem, f"{wait}run: refract doctor --fix"
    else:
        yield "DVC's lock", "", ""
    problem, remedy = "", ""
    if is_torn_record(root):
        problem = 'empty or half written by a process that was killed: "validation failed"'
        remedy = f"run: git checkout -- {RECORD}, or refract doctor --fix; rm it if git has none"
    yield f"DVC's record {RECORD}", problem, remedy


def is_torn_record(root: Path) -> bool:
    """Whether DVC's record is there and DVC cannot read it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        record = root / RECORD
        return record.is_file() and "schema" not in YAML(typ="safe").load(record.read_bytes())
    except (YAMLError, TypeError, ValueError):
        return True


def restore_record(root: Path) -> bool:
    """Takes DVC's record back from git where it is torn; whether git had one. Raises
    :class:`RefractError` while DVC runs here."""
    if not is_torn_record(root):
        return False
    _refuse_while_dvc_runs(root, RECORD)
    return git(root, "checkout", "--", str(RECORD)) is not None


def is_torn(lock: Path) -> bool:
    """Whether DVC's lock is there and was not written to its end."""
    try:
        json.loads(lock.read_bytes() if lock.exists() else b"{}")
    except ValueError:
        return True
    return False


def dvc_processes(root: Path) -> list[int]:
    """The numbers of DVC's processes that work in a project, as far as this user may see them."""
    import psutil

    numbers = []
    for process in psutil.process_iter():
        try:
            words = [Path(word).name for word in process.cmdline()[:4]]
            here = Path(process.cwd()).is_relative_to(root.resolve())
            if here and "dvc" in words and process.pid != os.getpid():
                numbers.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return sorted(numbers)


def move_torn_lock(root: Path) -> bool:
    """Moves a torn lock away, so that DVC makes a new one; whether there was one. Raises
    :class:`RefractError` while DVC runs here."""
    if not is_torn(root / LOCK):
        return False
    _refuse_while_dvc_runs(root, LOCK)
    os.replace(root / LOCK, root / TORN)
    return True


def _refuse_while_dvc_runs(root: Path, file: Path) -> None:
    if running := dvc_processes(root):
        raise RefractError(
            f"DVC runs here (process {', '.join(map(str, running))}) and uses {file}; wait for it to "
            "end, then run `refract doctor --fix` again"
        )
