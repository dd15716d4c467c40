"""Runs the stage: ``python -m stages.generate_perturbations``."""

from __future__ import annotations

import sys
from pathlib import Path

from stages.generate_perturbations import suite_prompts
from stages.params import ParamsError, grid, load_params
from stages.progress.runs import StageRun
from stages.rows.jsonl import write_json, write_rows
from stages.rows.showing import printable, say
from stages.rows.suites import SuiteError


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
    try:
        main()
    except (ParamsError, SuiteError, ValueError) as error:
        sys.exit(printable(f"generate-perturbations: {error}", keep="\n"))
