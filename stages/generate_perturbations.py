"""Runs the stage: ``python -m stages.generate_perturbations``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refract.core.jsonl import write_json, write_rows
from refract.core.params import definition, grid, load_params
from refract.core.progress import StageRun, run_stage
from refract.core.showing import say
from refract.core.types import is_last
from refract.suites.perturbations import suite_prompts

SAMPLES = Path("data/prompts/samples.json")
# What the protocols of suites fix of generation, by suite.
GENERATION = Path("data/prompts/generation.json")


def main() -> None:
    """Writes ``data/prompts/SUITE.jsonl`` for each suite of the grid."""
    run = StageRun("generate-perturbations")
    params = load_params()
    labels = {}
    samples = {}
    fixed: dict[str, Any] = {}
    prompts = variants = 0
    for name in grid(params, "suites"):
        label, sources, rows, own, generation = suite_prompts(params, name)
        write_rows(Path(f"data/prompts/{name}.jsonl"), rows)
        labels[name] = label
        if generation is not None:
            fixed[name] = generation
        if own is not None:
            samples[name] = own
        wanted = definition(params, "suites", name).get("sample") or 0
        if wanted > sources:
            run.warn(f"{name}: all {sources} prompts are taken; sample is {wanted}")
        turns = sum(not is_last(row) for row in rows)
        more = f", {turns} turns before the last of conversations" if turns else ""
        prompts += sources
        variants += len(rows) - sources - turns
        say(f"{label}: {sources} prompts, {len(rows) - sources - turns} variants{more}")
    write_json(Path("data/prompts/labels.json"), labels)
    # So that no other setting of a suite concerns the models' answers.
    for path, held in ((SAMPLES, samples), (GENERATION, fixed)):
        path.unlink(missing_ok=True)
        if held:
            write_json(path, held)
    run.end(f"{prompts:,} prompts and {variants:,} variants of {len(labels)} suites")


if __name__ == "__main__":
    run_stage("generate-perturbations", main)
