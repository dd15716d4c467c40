"""Runs the stage: ``python -m stages.generate_perturbations``."""

from __future__ import annotations

from pathlib import Path

from refract.core.jsonl import write_json, write_rows
from refract.core.params import grid, load_definitions, load_params, run_seed
from refract.core.progress import StageRun, run_stage
from refract.core.showing import say
from refract.core.types import is_last
from refract.suites.perturbations import suite_prompts


def main() -> None:
    """Writes ``data/prompts/SUITE.jsonl`` for each suite of the grid."""
    run = StageRun("generate-perturbations")
    params = {**load_definitions("prompts"), "seed": run_seed(load_params())}
    suites = grid(params, "suites")
    samples: dict[str, int] = {}
    prompts = variants = 0
    for name in suites:
        suite = suite_prompts(params, name)
        write_rows(Path(f"data/prompts/{name}.jsonl"), suite.rows)
        if suite.samples is not None:
            samples[name] = suite.samples
        asked = suite.draw.asked or 0
        if asked > suite.sources:
            run.warn(f"{name}: all {suite.sources} prompts are taken; sample is {asked}")
        turns = sum(not is_last(row) for row in suite.rows)
        changed = len(suite.rows) - suite.sources - turns
        more = f", {turns} turns before the last of conversations" if turns else ""
        prompts += suite.sources
        variants += changed
        say(f"{suite.draw.label(name)}: {suite.sources} prompts, {changed} variants{more}")
    # Apart from params.yaml, so that no other setting of a suite concerns the models' answers.
    path = Path("data/prompts/samples.json")
    path.unlink(missing_ok=True)
    if samples:
        write_json(path, samples)
    run.end(f"{prompts:,} prompts and {variants:,} variants of {len(suites)} suites")


if __name__ == "__main__":
    run_stage("generate-perturbations", main)
