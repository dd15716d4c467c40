"""Runs the stage: ``python -m stages.generate_perturbations``."""

from __future__ import annotations

import sys
from pathlib import Path

from stages.generate_perturbations import prompt_rows
from stages.generate_perturbations.kinds import check_definition
from stages.params import ParamsError, definition, grid, load_params, run_seed
from stages.rows.jsonl import write_json, write_rows
from stages.rows.suites import SuiteError, load_suite, sample_rows, suite_label


def main() -> None:
    """Writes ``data/prompts/SUITE.jsonl`` for each suite of the grid."""
    params = load_params()
    seed = run_seed(params)
    labels = {}
    for name in grid(params, "suites"):
        suite = definition(params, "suites", name)
        rows = load_suite(Path(suite["file"]))
        size = suite.get("sample")
        perturbations = {}
        for wanted in suite.get("perturbations") or []:
            perturbations[wanted] = definition(params, "perturbations", wanted)
            check_definition(wanted, perturbations[wanted])
        sampled = sample_rows(rows, size, seed=seed, suite=name)
        variants = list(prompt_rows(sampled, name, seed, perturbations, suite.get("template")))
        write_rows(Path(f"data/prompts/{name}.jsonl"), variants)
        label = suite_label(name, size, len(rows), seed)
        labels[name] = label
        print(f"{label}: {len(sampled)} prompts, {len(variants) - len(sampled)} variants")
    write_json(Path("data/prompts/labels.json"), labels)


if __name__ == "__main__":
    try:
        main()
    except (ParamsError, SuiteError, ValueError) as error:
        sys.exit(f"generate-perturbations: {error}")
