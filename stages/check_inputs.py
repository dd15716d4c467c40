"""Runs the stage: ``python -m stages.check_inputs``. It runs at every ``dvc repro``, before all others.

Where nothing changed since the last time, that costs a look at the files' sizes and times.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from refract.core.jsonl import write_json
from refract.core.progress import run_stage
from refract.core.showing import say
from refract.project.inputs import (
    FOLDER,
    MARK,
    nothing_changed,
    read_state,
    stat_of,
    stats_of,
    write_state,
)

PARAMS = Path("params.yaml")


def main() -> None:
    """Checks params.yaml as a whole and writes ``data/inputs``: the hashes of the files that its
    suites, judges and models name. Marks the answers and verdicts of a model whose errors may have
    passed, so that DVC runs their stage again."""
    state = read_state()
    if nothing_changed(state):
        say("check-inputs: params.yaml, and the files that it names, are as they were")
        return
    from refract.project import read_project
    from refract.project.inputs.named import (
        Hashes,
        errors_to_ask_again,
        files_of,
        named_paths,
        watched_of,
    )

    seen = stat_of(PARAMS)
    params = read_project(Path()).params
    in_grid = [params["suites"][name] for name in params["grid"]["suites"]]
    suites = {name: {"file": params["suites"][name]["file"]} for name in params["grid"]["suites"]}
    used = {judge for suite in in_grid for judge in suite["judges"]}
    judges = {
        name: judge
        for name, judge in params["judges"].items()
        if name in used or judge.get("validate", judge["kind"] == "rules")
    }
    models = {name: params["models"][name] for name in params["grid"]["models"]}
    hashes = Hashes(state.get("hashes", {}))
    watched: set[Path] = set()

    def found_in(definition: dict[str, Any], before: dict[str, str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for setting, path in named_paths(definition):
            files = files_of(path)
            watched.update(watched_of(path, files))
            found[setting] = hashes.of_all(path, files)
        # What is not on this machine is taken to be what it was where the answers were made.
        absent = {setting: text for setting, text in before.items() if setting not in found}
        return found | {s: text for s, text in absent.items() if _setting(definition, s)}

    written: dict[str, Any] = {
        f"models/{name}.json": found_in(model, _read(f"models/{name}.json"))
        for name, model in models.items()
    }
    for kind, definitions in (("judges", judges), ("suites", suites)):
        before = _read(f"{kind}.json")
        written[f"{kind}.json"] = {
            name: found
            for name, definition in sorted(definitions.items())
            if (found := found_in(definition, before.get(name, {})))
        }
    again = {}
    for name in models:
        answers, verdicts = Path("data/responses") / name, Path("data/verdicts") / name
        if count := errors_to_ask_again(answers):
            again[str(answers)] = count
            write_json(answers / MARK, {"errors": count})
            say(f"check-inputs: {name}: {count} answers are errors that may pass: asked again")
        # Of a judge DVC remembers what came of the same inputs, so they have to differ.
        tries: dict[str, int] = {}
        if count := errors_to_ask_again(verdicts):
            again[str(verdicts)] = count
            tries = {"errors": count, "tries": _read(f"verdicts/{name}.json").get("tries", 0) + 1}
            say(f"check-inputs: {name}: {count} verdicts are errors that may pass: asked again")
        written[f"verdicts/{name}.json"] = tries
        watched.update([answers, verdicts, *answers.glob("*.jsonl"), *verdicts.glob("*.jsonl")])
    for name, value in written.items():
        write_json(FOLDER / name, value)
    for path in FOLDER.rglob("*.json"):
        if str(path.relative_to(FOLDER).as_posix()) not in written:
            path.unlink()
    write_state(
        watched={str(PARAMS): seen, **stats_of(watched)},
        hashes=hashes.seen,
        written={name: (FOLDER / name).read_text("utf-8") for name in written},
        again=again,
    )
    count = len(hashes.seen)
    say(f"check-inputs: params.yaml is right; it names {count} file{'' if count == 1 else 's'}")


def _read(name: str) -> dict[str, Any]:
    """What the stage wrote the last time, here or where the answers were made."""
    try:
        found = json.loads((FOLDER / name).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _setting(definition: Any, place: str) -> bool:
    """Whether a definition still has a setting."""
    for part in place.split("."):
        if isinstance(definition, list) and part.isdigit() and int(part) < len(definition):
            definition = definition[int(part)]
        elif isinstance(definition, dict) and part in definition:
            definition = definition[part]
        else:
            return False
    return isinstance(definition, str)


if __name__ == "__main__":
    run_stage("check-inputs", main)
