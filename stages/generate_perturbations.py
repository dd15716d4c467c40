"""Runs the stage: ``python -m stages.generate_perturbations``."""

from __future__ import annotations

from pathlib import Path

from refract.params import grid, load_params
from refract.perturbations import suite_prompts
from refract.progress.runs import StageRun, run_stage
from refract.rows.jsonl import write_json, write_rows
from refract.rows.showing import say


def main() -> None:
    """Writes ``data/prompts/SUITE.jsonl`` for each suite of the grid."""
    run = StageRun("generate-perturbations")
    params = load_params()
    labels = {}
    prompts = variants = 0
    for name in grid(params, "suites"):
        label, sources, rows = suite_prompts(params, name)
        write_rows(Path(f"data/prompts/{name}.jsonl"), rows)
        labels[name] = label
        prompts += sources
        variants += len(rows) - sources
        say(f"{label}: {sources} prompts, {len(rows) - sources} variants")
    write_json(Path("data/prompts/labels.json"), labels)
    run.end(f"{prompts:,} prompts and {variants:,} variants of {len(labels)} suites")


if __name__ == "__main__":
    run_stage("generate-perturbations", main)
