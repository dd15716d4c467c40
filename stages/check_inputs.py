"""Runs the stage: ``python -m stages.check_inputs``. It runs at every ``dvc repro``, before all others.

Where nothing changed since the last time, that costs a look at the files' sizes and times.
"""

from __future__ import annotations

from pathlib import Path

from refract.core.progress import run_stage
from refract.core.showing import say
from refract.project import read_project
from refract.project.checkup import check_declared
from refract.project.inputs import PARAMS, nothing_changed, read_state, stat_of, write_inputs


def main() -> None:
    """Checks params.yaml as a whole and writes ``data/inputs``. Marks the answers and verdicts of a
    model whose errors may have passed, so that DVC runs their stage again."""
    state = read_state()
    if nothing_changed(state):
        say("check-inputs: params.yaml, and the files that it names, are as they were")
        return
    seen = stat_of(PARAMS)
    params = read_project(Path()).params
    check_declared(Path(), params)
    count = write_inputs(params, seen, state.get("hashes", {}))
    say(f"check-inputs: params.yaml is right; it names {count} file{'' if count == 1 else 's'}")


if __name__ == "__main__":
    run_stage("check-inputs", main)
