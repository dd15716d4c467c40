"""Runs the stage: ``python -m stages.check_inputs``. It runs at every ``dvc repro``, before all others.

Only files that changed since the last time are hashed again.
"""

from __future__ import annotations

from pathlib import Path

from refract.agreement.label_folder import label_notes
from refract.core.progress import StageRun, run_stage
from refract.project import read_project
from refract.project.inputs import check_dvc_finds, check_files, write_inputs


def main() -> None:
    """Checks params.yaml as a whole and writes ``data/inputs``. Marks the answers and verdicts of a
    model whose errors may have passed, so that DVC runs their stage again."""
    run = StageRun("check-inputs")
    params = read_project(Path()).params
    check_dvc_finds(params)
    check_files(params)
    run.warnings += label_notes(Path(), params["grid"]["models"], params["grid"]["suites"])
    run.end(f"params.yaml is right; files that it names: {write_inputs(params)}")


if __name__ == "__main__":
    run_stage("check-inputs", main)
