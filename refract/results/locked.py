"""Inputs of the pipeline that are here, beside their hashes in ``dvc.lock``.

Provenance has the hashes of suites and of what was computed, ``data/inputs`` those of
files that params.yaml names. What else a stage reads (labels of the project, code) DVC
hashes: the same hashes are computed here, without starting DVC, whose own look takes seconds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import ParamsError
from refract.core.jsonl import has_form
from refract.core.params import read_yaml
from refract.results.current import differing, named

STAGES = ("model-inference@{}", "judge@{}", "aggregate@{}")
# What stages write, and other notes are about.
COMPUTED = (
    "data/inputs/",
    "data/null_verdicts/",
    "data/prompts",
    "data/responses/",
    "data/verdicts/",
    "metrics/",
)
CODE = ("refract/", "stages/")
LOCK_FORM: dict[str, Any] = {"stages": {...: {}}}


class ChangedInputs(NamedTuple):
    """What is other than when results were computed. ``reasons`` are data that numbers
    were made of; ``remarks`` what need not move a number: code, and what the report
    alone is made of."""

    reasons: list[str]
    remarks: list[str]


def changed_inputs(root: Path, params: Mapping[str, Any], models: Sequence[str]) -> ChangedInputs:
    """What differs between the files of a project and those that ``dvc.lock`` names for
    the stages of some models; nothing without that file. Files that are not here
    count as unchanged."""
    if not (root / "dvc.lock").is_file():
        return ChangedInputs([], [])
    try:
        lock = read_yaml(root / "dvc.lock")
    except ParamsError:
        lock = {}
    if not has_form(lock, LOCK_FORM):
        return ChangedInputs([], ["dvc.lock names no stage; run: refract doctor --fix"])
    stages = lock["stages"]
    wanted = [stage.format(model) for model in models for stage in STAGES]
    remarks = []
    missing = [stage for stage in wanted if stage not in stages]
    if missing:
        remarks.append(f"dvc.lock has no {named(missing)}, so that inputs are not compared")
    hashes = _hashes(stages, wanted)
    changed = list(_changed(root, hashes))
    code = [path for path in changed if path.startswith(CODE)]
    if code:
        remarks.append(f"{named(code)}: other code than computed these numbers; run: dvc repro")
    for path in _changed(root, _hashes(stages, ["validate-judges"])):
        if not path.startswith(CODE) and path not in hashes:
            remarks.append(f"{path} is not what judges were measured on; run: dvc repro")
    reported = stages.get("report", {}).get("params", {}).get("params.yaml", {})
    if reported:
        was, now = reported.get("decisions") or {}, params.get("decisions") or {}
        lines = differing(was, now, "decisions.")
        remarks += [f"the report has {line}; run: dvc repro" for line in lines]
    reasons = []
    for path in changed:
        if path not in code:
            reasons.append(f"{path} is not what dvc.lock says that numbers were made of")
    return ChangedInputs(reasons, remarks)


def _hashes(stages: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """The hashes of what some stages read, by path."""
    hashes = {}
    for name in names:
        for dependency in stages.get(name, {}).get("deps") or ():
            hashes[str(dependency.get("path"))] = str(dependency.get("md5"))
    return hashes


def _changed(root: Path, paths: Mapping[str, str]) -> Iterator[str]:
    """The paths whose files are here and have another hash."""
    ignored = _ignored_patterns(root)
    for path, md5 in paths.items():
        if path.startswith(COMPUTED) or not (root / path).exists():
            continue
        now = _md5(root / path)
        if md5.endswith(".dir"):
            now = _folder_md5(root, path, ignored)
        if md5 != now:
            yield path


def _ignored_patterns(root: Path) -> list[str]:
    """The patterns of ``.dvcignore``."""
    file = root / ".dvcignore"
    lines = file.read_text("utf-8").splitlines() if file.is_file() else []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _folder_md5(root: Path, folder: str, ignored: Sequence[str]) -> str:
    """DVC's hash of a folder: of the list of its files with theirs, as JSON."""
    entries = []
    for place, _, names in os.walk(root / folder):
        for name in names:
            file = Path(place, name)
            parts = file.relative_to(root).parts
            path = "/".join(parts)
            if not any(fnmatch(part, x) for part in (*parts, path) for x in ignored):
                entries.append((file.relative_to(root / folder).as_posix(), _md5(file)))
    rows = [{"md5": md5, "relpath": path} for path, md5 in sorted(entries)]
    return hashlib.md5(json.dumps(rows, sort_keys=True).encode()).hexdigest() + ".dir"


def _md5(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest()
    except OSError:
        return ""
