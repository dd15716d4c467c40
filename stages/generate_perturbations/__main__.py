"""Runs the stage: ``python -m stages.generate_perturbations``."""

from __future__ import annotations

import sys
from pathlib import Path

from stages.generate_perturbations import suite_prompts
from stages.params import ParamsError, grid, load_params
from stages.rows.jsonl import write_json, write_rows
from stages.rows.showing import printable, say
from stages.rows.suites import SuiteError


def main() -> None:
    """Writes ``data/prompts/SUITE.jsonl`` for each suite of the grid."""
    params = load_params()
    labels = {}
    for name in grid(params, "suites"):
        label, sources, rows = suite_prompts(params, name)
        write_rows(Path(f"data/prompts/{name}.jsonl"), rows)
        labels[name] = label
        say(f"{label}: {sources} prompts, {len(rows) - sources} variants")
    write_json(Path("data/prompts/labels.json"), labels)


if __name__ == "__main__":
    try:
        main()
    except (ParamsError, SuiteError, ValueError) as error:
        sys.exit(printable(f"generate-perturbations: {error}", keep="\n"))
