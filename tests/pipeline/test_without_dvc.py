"""The way out of DVC: each stage as a command of its own, in order."""

from __future__ import annotations

import shutil


def test_all_stages_in_order_make_the_bytes_of_dvc_repro(project):
    made, models = project.hashed_files(), project.params()["grid"]["models"]
    for path in ("data/prompts", "data/responses", "data/verdicts", "data/inputs", "data/failures"):
        shutil.rmtree(project.folder / path)
    for path in ("metrics", ".dvc", "data/runs"):
        shutil.rmtree(project.folder / path)
    for path in ("dvc.yaml", "dvc.lock"):
        (project.folder / path).unlink()
    cells = [(stage, m) for m in models for stage in ("model-inference", "judge", "aggregate")]
    before, after = ["check-inputs", "generate-perturbations"], ["validate-judges", "report"]
    for stage in (*((x,) for x in before), *cells, *((x,) for x in after)):
        done = project.refract("stage", *stage)
        assert done.exit_code == 0, (stage, done.output, done.exception)
    assert project.hashed_files() == made
    shown = project.refract("show")
    assert shown.exit_code == 0, shown.output
