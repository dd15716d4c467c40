"""What keeps a project from running: its settings, its store, and what a kill of DVC left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.environment import git
from refract.core.errors import ParamsError, RefractError
from refract.core.jsonl import iter_rows
from refract.core.params import DecisionSettings, definition, read_yaml
from refract.judges import reading_warnings
from refract.models.store import open_store
from refract.project import PARAMS, read_project

# DVC's record of which of its processes uses which file. DVC writes it in place: a
# kill can leave half.
LOCK = Path(".dvc", "tmp", "rwlock")
# Where a torn lock is moved to. It is small, and nothing reads it.
TORN = LOCK.with_suffix(".torn")
# DVC's record of what was computed from what.
RECORD = Path("dvc.lock")
UNQUOTED = "a text with a colon between braces or brackets, which `dvc exp run -S` writes unquoted"


class Check(NamedTuple):
    """What was looked at, what is wrong with it ("": nothing), and what mends it."""

    name: str
    problem: str = ""
    remedy: str = ""


def check_project(root: Path) -> Iterator[Check]:
    """Looks at everything that can keep a project from running."""
    try:
        params = read_project(root).params
        check_declared(root, params)
        yield Check(PARAMS)
        for name in params["grid"]["suites"]:
            suite = definition(params, "suites", name)
            path = root / suite["file"]
            if path.is_file():
                judges = {judge: definition(params, "judges", judge) for judge in suite["judges"]}
                warnings = reading_warnings(iter_rows(path), judges)
                yield Check(f"languages of {name}", remedy="; ".join(warnings))
    except RefractError as error:
        yield Check(PARAMS, str(error), "docs/params.md lists every setting")
    line = _unwritable(root / PARAMS)
    if line:
        problem = f"{UNQUOTED}: {line}"
        yield Check(f"{PARAMS} as DVC writes it", problem, "write it on a line of its own")
    try:
        with open_store() as store:
            yield Check(f"response store {store.path or '(turned off by REFRACT_CACHE)'}")
    except RefractError as error:
        yield Check("response store", str(error))
    by = "by a process that was killed"
    git_has_it = f"run: git checkout -- {RECORD}, or refract lint --fix; rm it if git has none"
    for file, problem, remedy in (
        (LOCK, f'half written {by}: "Unable to read RWLock-file"', "run: refract lint --fix"),
        (RECORD, f'empty or half written {by}: "validation failed"', git_has_it),
    ):
        torn = is_torn(root / file)
        yield Check(f"DVC's {file}", problem if torn else "", remedy if torn else "")


def _unwritable(path: Path) -> str:
    """The line that keeps DVC from reading a file of parameters that it has written anew, or ""."""
    from io import StringIO

    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    written = StringIO()
    try:
        YAML().dump(YAML().load(path.read_text("utf-8")), written)
    except (YAMLError, OSError, ValueError):
        return ""  # another check says so
    try:
        YAML(typ="safe").load(written.getvalue())
    except MarkedYAMLError as error:
        if error.problem_mark is not None:
            number: int = error.problem_mark.line
            return written.getvalue().splitlines()[number].strip()
    except YAMLError:
        pass
    return ""


def check_declared(root: Path, params: Mapping[str, Any]) -> None:
    """Raises :class:`ParamsError` for a setting that a stage of dvc.yaml reads and
    params.yaml lacks, at which DVC would end."""
    file = root / "dvc.yaml"
    stages = read_yaml(file).get("stages") if file.is_file() else None
    if not isinstance(stages, dict):
        return
    for stage, declared in stages.items():
        names = declared.get("params") if isinstance(declared, dict) else None
        for name in names or ():
            if not isinstance(name, str) or "$" in name:
                continue
            section, _, key = name.partition(".")
            settings = (params.get(section) or {}) if key else params
            if (key or section) not in settings:
                missing: dict[str, Any] = {}
                if key:
                    missing = {**DecisionSettings.model_validate({}).model_dump(), **settings}
                raise ParamsError(
                    f"{PARAMS} has no {name!r}, which the stage {stage} of dvc.yaml reads; add "
                    f"`{section}: {json.dumps(missing)}`"
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
        except (psutil.Error, OSError):
            continue
        if here and "dvc" in words and process.pid != os.getpid():
            numbers.append(process.pid)
    return sorted(numbers)


def mend(root: Path) -> Iterator[str]:
    """Moves a torn lock away, so that DVC makes a new one, and takes a torn record
    back from git; a line for each. Raises :class:`RefractError` while DVC runs here."""
    torn = [file for file in (LOCK, RECORD) if is_torn(root / file)]
    running = dvc_processes(root) if torn else []
    if running:
        numbers = ", ".join(map(str, running))
        raise RefractError(f"DVC runs here (process {numbers}); once it has ended, run this again")
    if LOCK in torn:
        os.replace(root / LOCK, root / TORN)
        yield f"{LOCK}: moved to {TORN}"
    if RECORD in torn and git(root, "checkout", "--", str(RECORD)) is not None:
        yield f"{RECORD}: as git has it again"
