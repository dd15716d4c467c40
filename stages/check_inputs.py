"""Runs the stage: ``python -m stages.check_inputs``. It runs at every ``dvc repro``, before all others.

Only files that changed since the last time are hashed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refract.agreement.label_folder import unlabelled_files, unread_label_files
from refract.core.params import grid
from refract.core.progress import StageRun, run_stage
from refract.core.showing import say
from refract.project import read_project
from refract.project.inputs import check_dvc_finds, check_files, write_inputs


def main() -> None:
    """Checks params.yaml as a whole and writes ``data/inputs``. Marks the answers and verdicts of a
    model whose errors may have passed, so that DVC runs their stage again."""
    run = StageRun("check-inputs")
    params = read_project(Path()).params
    check_dvc_finds(params)
    check_files(params)
    check_labels(run, grid(params, "models"), grid(params, "suites"))
    count = write_inputs(params)
    files = f"{count} file{'' if count == 1 else 's'}"
    run.end(f"params.yaml is right, {files} that it names looked at")


def check_labels(run: StageRun, models: Sequence[str], suites: Sequence[str]) -> None:
    """Prints which files of human labels count for nothing in this grid, and why. Raises
    :class:`refract.core.errors.RowError` for one that ``aggregate`` would end at."""
    for text in unlabelled_files(Path(), models, suites):
        say(f"{run.name}: {text}")
    for model, text in unread_label_files(Path(), models, suites):
        say(f"{run.name}: {text}")
        if model not in models:  # of the others aggregate warns, and each warning is listed once
            run.warn(text)


if __name__ == "__main__":
    run_stage("check-inputs", main)
