"""The files and folders that params.yaml names, wherever they are, and their hashes.

DVC watches the project's own data. What a definition names beside that (a folder of weights, a file of
answers, a template) reaches it through these hashes. What the last look at the files saw is kept, so
that the next one can tell in milliseconds that nothing changed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refract.core.errors import RefractError
from refract.core.jsonl import parse_line, sha256_file, write_json
from refract.core.params import INPUTS
from refract.core.progress import read_object
from refract.core.showing import say
from refract.judges import SHIPPED
from refract.models import checkpoint
from refract.models.protocol import LASTING_ERRORS

# Counted up when the code would see something else in the same files.
VERSION = 2
PARAMS = Path("params.yaml")
STATE = Path("data/runs/inputs.json")
# Marker file: makes DVC re-run the stage, which retries failed requests.
MARK = "ask_again.json"
# A folder that is no checkpoint is watched file by file, up to so many.
MOST_FILES = 10_000
# How a verdict's error begins whose judge model did not answer.
JUDGE_FAILED = "the judge failed: "
# Settings whose text may be the bare name of a folder.
FOLDERS = ("model_id", "encoder")

Stat = list[int] | None


def stat_of(path: str | Path) -> Stat:
    """Size, times and place of a file or folder: another one, or one written to, has others. None
    where there is none."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return None
    # The time of the last change is set by the system alone.
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def read_state() -> dict[str, Any]:
    """What the last look saw; {} where there was none, or it is not one of this release."""
    state = read_object(STATE)
    return state if state.get("version") == VERSION else {}


def nothing_changed(state: Mapping[str, Any]) -> bool:
    """Whether every file that the last look saw is as it was, what it wrote is still there, and there
    was nothing to ask again."""
    if not state or state["again"]:
        return False
    try:
        return all(stat_of(path) == seen for path, seen in state["watched"].items()) and all(
            (INPUTS / name).read_text("utf-8") == text for name, text in state["written"].items()
        )
    except OSError:
        return False


def texts_of(value: Any, place: str = "", key: str = "") -> Iterator[tuple[str, str, str]]:
    """Each text in a definition, however deep: its place, the key that it stands under, the text."""
    if isinstance(value, Mapping):
        for inner, setting in value.items():
            yield from texts_of(setting, f"{place}.{inner}" if place else str(inner), str(inner))
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from texts_of(entry, f"{place}.{number}", key)
    elif isinstance(value, str) and value:
        yield place, key, value


def named_path(key: str, text: str) -> Path | None:
    """The file or folder here that a setting's text names.

    A folder counts where it is written as a path or the setting may be one, since many a word is also
    the name of a folder; one that holds what the pipeline writes would always have changed."""
    path = Path(text).expanduser()
    if not stat_of(path):
        return None
    if path.is_file():
        return path
    holds_project = Path("data").resolve().is_relative_to(path.resolve())
    return path if (key in FOLDERS or "/" in text) and not holds_project else None


def files_of(path: Path) -> list[Path]:
    """The files that decide what a file or folder is: of a checkpoint those that determine its
    answers; of another folder all."""
    if not path.is_dir():
        return [path]
    if (path / "config.json").is_file():
        try:
            return checkpoint.content_files(path, code=True)
        except RefractError:  # it cannot be loaded either, which its stage says
            return sorted(path.glob("*"))
    return sorted(entry for entry in path.rglob("*") if entry.is_file())[:MOST_FILES]


class Hashes:
    """SHA-256 of what definitions name, computed anew only for files that changed.

    ``known`` is what an earlier :attr:`seen` held: the stat and hash by path. ``watched`` is what has to
    be looked at to see that all is the same: the files, and the folders that hold them, in which another
    one may appear."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known
        self.seen: dict[str, tuple[Stat, str]] = {}
        self.watched: set[Path] = set()

    def of_definition(self, definition: Any, before: Mapping[str, str]) -> dict[str, str]:
        """The hash of what each setting names, by place. What is not on this machine is taken to be
        what it was where the answers were made (``before``)."""
        hashes = {}
        for place, key, text in texts_of(definition):
            if (path := named_path(key, text)) is not None:
                hashes[place] = self._of_path(path)
            elif place in before:
                hashes[place] = before[place]
        return hashes

    def _of_path(self, path: Path) -> str:
        """One hash of a file, or of a folder's files with their names, wherever the folder is. Files
        that cannot be read have no part in it."""
        files = files_of(path)
        self.watched.update(files)
        if path.is_dir():
            self.watched.update({path, *(file.parent for file in files)})
        total = hashlib.sha256()
        for file in files:
            stat, before = stat_of(file), self._known.get(str(file))
            try:
                digest = before[1] if before and before[0] == stat else sha256_file(file)
            except OSError:
                continue
            self.seen[str(file)] = (stat, digest)
            name = file.relative_to(path) if file.is_relative_to(path) else Path(file.name)
            total.update(f"{name.as_posix()}\0{digest}\n".encode("utf-8", "backslashreplace"))
        return total.hexdigest()


def errors_to_ask_again(folder: Path) -> int:
    """How many rows of a model's responses or verdicts are errors that another try could mend: of the
    answer, or of a judge that asks a model."""
    count = 0
    for path in sorted(folder.glob("*.jsonl")):
        with open(path, "rb") as file:
            for line in file:
                if b'"error": {' in line or JUDGE_FAILED.encode() in line:
                    row = parse_line(line)
                    types = {row["error"]["type"]} if "error" in row else set()
                    for verdict in row.get("judges", {}).values():
                        before, failed, error = str(verdict["error"]).partition(JUDGE_FAILED)
                        types |= {error.partition(":")[0]} if failed and not before else set()
                    count += bool(types - LASTING_ERRORS)
    return count


def write_inputs(params: Mapping[str, Any], seen: Stat, known: Mapping[str, Any]) -> int:
    """Writes ``data/inputs``: the suites of the grid, the judges in use, and the hashes of the files
    that these and the models name; how many files these are is returned. Marks errors that may have
    passed.

    ``seen`` is the :func:`stat_of` params.yaml before it was read; ``known`` are hashes of an earlier
    look."""
    models = params["grid"]["models"]
    suites = {name: params["suites"][name] for name in params["grid"]["suites"]}
    used = {judge for suite in suites.values() for judge in suite["judges"]}
    judges = {
        name: judge
        for name, judge in params["judges"].items()
        if name in used or judge.get("validate", judge["kind"] in SHIPPED)
    }
    used_by = {name for suite in suites.values() for name in suite.get("perturbations") or ()}
    drawn = used_by or any(suite.get("sample") for suite in suites.values())
    prompts = {
        "grid": {"suites": params["grid"]["suites"]},
        "suites": suites,
        "perturbations": {name: params["perturbations"][name] for name in sorted(used_by)},
        "seed": params["seed"] if drawn else None,
    }
    hashes = Hashes(known)
    again: dict[str, int] = {}
    written: dict[str, Any] = {}
    for name in models:
        path = f"models/{name}.json"
        before = read_object(INPUTS / path)  # written last, here or where answers were made
        written[path] = hashes.of_definition(params["models"][name], before)
        written[f"verdicts/{name}.json"] = _mark_errors(name, again, hashes.watched)
    files = {name: {"file": suite["file"]} for name, suite in suites.items()}
    files |= {f"perturbations.{name}": params["perturbations"][name] for name in used_by}
    for path, catalogue, named in (
        ("suites.json", prompts, files),
        ("judges.json", {"judges": judges}, judges),
    ):
        before = read_object(INPUTS / path).get("files", {})
        written[path] = {**catalogue, "files": hashes.of_definition(named, before)}
    for path, value in written.items():
        write_json(INPUTS / path, value)
    for file in INPUTS.rglob("*.json"):
        if file.relative_to(INPUTS).as_posix() not in written:
            file.unlink()
    looked_at = {
        "version": VERSION,
        "watched": {str(PARAMS): seen, **{str(path): stat_of(path) for path in hashes.watched}},
        "hashes": hashes.seen,
        "written": {path: (INPUTS / path).read_text("utf-8") for path in written},
        "again": again,
    }
    write_json(STATE, looked_at)
    return len(hashes.seen)


def _mark_errors(model: str, again: dict[str, int], watched: set[Path]) -> dict[str, int]:
    """Marks answers of a model that may be asked again; the same of its verdicts is returned, since of
    a judge DVC remembers what came of the same inputs, so that they have to differ."""
    answers, verdicts = Path("data/responses") / model, Path("data/verdicts") / model
    watched.update([answers, verdicts, *answers.glob("*.jsonl"), *verdicts.glob("*.jsonl")])
    for folder, what in ((answers, "answers"), (verdicts, "verdicts")):
        if count := errors_to_ask_again(folder):
            again[str(folder)] = count
            say(f"check-inputs: {model}: {count} {what} are errors that may pass: asked again")
    if str(answers) in again:
        write_json(answers / MARK, {"errors": again[str(answers)]})
    if str(verdicts) not in again:
        return {}
    tries = read_object(INPUTS / f"verdicts/{model}.json").get("tries", 0)
    return {"errors": again[str(verdicts)], "tries": tries + 1}
