"""What keeps a project from running: its settings, its store, and what a kill of DVC left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refract.core.environment import git
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import iter_rows
from refract.core.params import DecisionSettings, definition, read_yaml
from refract.judges import language_warnings
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
        params = read_project(root).params
        check_declared(root, params)
        yield "params.yaml", "", ""
        for suite, warnings in _unread(root, params):
            yield f"languages of {suite}", "", "; ".join(warnings)
    except RefractError as error:
        yield "params.yaml", str(error), "docs/params.md lists every setting"
    if problem := _unwritable(root / "params.yaml"):
        why = (
            "a text with a colon between braces or brackets, which `dvc exp run -S` writes unquoted"
        )
        yield "params.yaml as DVC writes it", f"{why}: {problem}", "write it on a line of its own"
    try:
        with open_store() as store:
            yield f"response store {store.path or '(turned off by REFRACT_CACHE)'}", "", ""
    except RefractError as error:
        yield "response store", str(error), ""
    killed = "by a process that was killed"
    fix = "refract doctor --fix"
    for what, problem, remedy in (
        (LOCK, f'half written {killed}: "Unable to read RWLock-file"', f"run: {fix}"),
        (
            RECORD,
            f'empty or half written {killed}: "validation failed"',
            f"run: git checkout -- {RECORD}, or {fix}; rm it if git has none",
        ),
    ):
        torn = is_torn(root / what)
        yield f"DVC's {what}", problem if torn else "", remedy if torn else ""


def _unwritable(path: Path) -> str:
    """The line that keeps DVC from reading a file of parameters that it has written anew, or ""."""
    from io import StringIO

    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    written = StringIO()
    try:
        YAML().dump(YAML().load(path.read_text("utf-8")), written)
    except (YAMLError, OSError, ValueError):
        return ""  # which is said elsewhere
    try:
        YAML(typ="safe").load(written.getvalue())
    except YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        return "" if line is None else written.getvalue().splitlines()[line].strip()
    return ""


def _unread(root: Path, params: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Each suite of the grid whose file is here, with what warns of its judges and languages."""
    for name in params["grid"]["suites"]:
        suite = definition(params, "suites", name)
        if (path := root / suite["file"]).is_file():
            judges = {judge: definition(params, "judges", judge) for judge in suite["judges"]}
            yield name, language_warnings(iter_rows(path), judges)


def check_declared(root: Path, params: Mapping[str, Any]) -> None:
    """Raises :class:`ParamsError` for what a stage of dvc.yaml reads of params.yaml and is not there, at
    which DVC would end."""
    stages = read_yaml(root / "dvc.yaml").get("stages") if (root / "dvc.yaml").is_file() else None
    for stage, declared in stages.items() if isinstance(stages, dict) else ():
        names = declared.get("params") if isinstance(declared, dict) else None
        for name in (x for x in names or () if isinstance(x, str) and "$" not in x):
            section, _, key = name.partition(".")
            if (key or section) not in ((params.get(section) or {}) if key else params):
                usual = DecisionSettings.model_validate({}).model_dump()
                add = json.dumps({**usual, **(params.get(section) or {})} if key else {})
                raise ParamsError(
                    f"params.yaml has no {name!r}, which the stage {stage} of dvc.yaml reads; add "
                    f"`{section}: {add}`"
                )


def is_torn(file: Path) -> bool:
    """Whether DVC's lock or record is there and was not written to its end."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        if not file.is_file():
            return False
        if file.name == RECORD.name:
            return "schema" not in YAML(typ="safe").load(file.read_bytes())
        json.loads(file.read_bytes())
    except (YAMLError, TypeError, ValueError):
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


def mend(root: Path) -> Iterator[str]:
    """Moves a torn lock away, so that DVC makes a new one, and takes a torn record back from git; says
    what it did. Raises :class:`RefractError` while DVC runs here."""
    torn = [file for file in (LOCK, RECORD) if is_torn(root / file)]
    if torn and (running := dvc_processes(root)):
        numbers = ", ".join(map(str, running))
        raise RefractError(f"DVC runs here (process {numbers}); once it has ended, run this again")
    if LOCK in torn:
        os.replace(root / LOCK, root / TORN)
        yield f"{LOCK}: moved to {TORN}"
    if RECORD in torn and git(root, "checkout", "--", str(RECORD)) is not None:
        yield f"{RECORD}: as git has it again"
