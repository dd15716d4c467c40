"""Runs the stage: ``python -m stages.check_inputs``. It runs at every ``dvc repro``, before all others.

Where nothing changed since the last time, that costs a look at the files' sizes and times.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from refract.core.jsonl import write_json
from refract.core.params import INPUTS
from refract.core.progress import run_stage
from refract.core.showing import say
from refract.project import read_project
from refract.project.inputs import (
    MARK,
    STATE,
    VERSION,
    Hashes,
    errors_to_ask_again,
    nothing_changed,
    read_state,
    stat_of,
)

PARAMS = Path("params.yaml")


def main() -> None:
    """Checks params.yaml as a whole and writes ``data/inputs``: the suites of the grid, the judges in
    use, and the hashes of the files that these and the models name. Marks the answers and verdicts of
    a model whose errors may have passed, so that DVC runs their stage again."""
    state = read_state()
    if nothing_changed(state):
        say("check-inputs: params.yaml, and the files that it names, are as they were")
        return
    seen = stat_of(PARAMS)
    params = read_project(Path()).params
    models = params["grid"]["models"]
    suites = {name: params["suites"][name] for name in params["grid"]["suites"]}
    used = {judge for suite in suites.values() for judge in suite["judges"]}
    judges = {
        name: judge
        for name, judge in params["judges"].items()
        if name in used or judge.get("validate", judge["kind"] == "rules")
    }
    hashes = Hashes(state.get("hashes", {}))
    written: dict[str, Any] = {}
    for name in models:
        path = f"models/{name}.json"
        written[path] = hashes.of_definition(params["models"][name], _read(path))
    grid = {"suites": params["grid"]["suites"]}
    files = {name: {"file": suite["file"]} for name, suite in suites.items()}
    for path, catalogue, named in (
        ("suites.json", {"grid": grid, "suites": suites}, files),
        ("judges.json", {"judges": judges}, judges),
    ):
        sha256 = hashes.of_definition(named, _read(path).get("files", {}))
        written[path] = {**catalogue, "files": sha256}
    again: dict[str, int] = {}
    for name in models:
        written[f"verdicts/{name}.json"] = _mark_errors(name, again, hashes.watched)
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
    count = len(hashes.seen)
    say(f"check-inputs: params.yaml is right; it names {count} file{'' if count == 1 else 's'}")


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
    tries = _read(f"verdicts/{model}.json").get("tries", 0)
    return {"errors": again[str(verdicts)], "tries": tries + 1}


def _read(name: str) -> dict[str, Any]:
    """What the stage wrote the last time, here or where the answers were made."""
    path = INPUTS / name
    held: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return held


if __name__ == "__main__":
    run_stage("check-inputs", main)
