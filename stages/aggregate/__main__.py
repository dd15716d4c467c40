"""Runs the stage for one model: ``python -m stages.aggregate MODEL``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stages.aggregate import EXCLUDED, aggregate_suite, suite_metrics
from stages.params import ParamsError, definition, grid, load_params
from stages.rows.jsonl import Row, RowError, read_rows, sha256_file, write_json
from stages.rows.suites import SuiteError, load_suite
from stages.rows.tables import write_table

OUTCOME_COLUMNS = ("suite", "prompt_id", "outcome")
TABLE_COLUMNS = (
    "suite",
    "measure",
    "field",
    "value",
    "successes",
    "n",
    "rate",
    "low",
    "high",
    "p",
    "bound_low",
    "bound_high",
    *(f"excluded_{label}" for label in EXCLUDED),
    "threshold",
    "passed",
)


def main(name: str) -> None:
    """Writes metrics, outcomes, table and provenance of one model into ``metrics/``."""
    params = load_params()
    metrics: dict[str, dict[str, float]] = {}
    outcome_rows: list[Row] = []
    table_rows: list[Row] = []
    suites: dict[str, Row] = {}
    labels = json.loads(Path("data/prompts/labels.json").read_text("utf-8"))
    for suite in grid(params, "suites"):
        wanted = definition(params, "suites", suite)
        sources = load_suite(Path(wanted["file"]))
        outcomes, table = aggregate_suite(
            sources,
            read_rows(Path(f"data/prompts/{suite}.jsonl")),
            read_rows(Path(f"data/responses/{name}/{suite}.jsonl")),
            read_rows(Path(f"data/verdicts/{name}/{suite}.jsonl")),
            wanted,
        )
        label = labels[suite]
        metrics[label] = suite_metrics(table)
        table_rows += [{"suite": label, **row} for row in table]
        outcome_rows += [
            {"suite": suite, "prompt_id": prompt_id, "outcome": found}
            for prompt_id, found in outcomes.items()
        ]
        suites[suite] = {
            "sha256": sha256_file(Path(wanted["file"])),
            "prompts_sha256": sha256_file(Path(f"data/prompts/{suite}.jsonl")),
            "judges": wanted["judges"],
            "label": label,
        }
    write_json(Path(f"metrics/{name}.json"), metrics)
    write_table(Path(f"metrics/outcomes/{name}.csv"), OUTCOME_COLUMNS, outcome_rows)
    write_table(Path(f"metrics/tables/{name}.csv"), TABLE_COLUMNS, table_rows)
    write_json(
        Path(f"metrics/provenance/{name}.json"),
        {
            "model": json.loads(Path(f"data/responses/{name}/model.json").read_text("utf-8")),
            "judges": json.loads(Path(f"data/verdicts/{name}/judges.json").read_text("utf-8")),
            "suites": suites,
        },
    )
    for label, numbers in metrics.items():
        rate = numbers.get("refusal_rate")
        shown = "nothing could be judged" if rate is None else f"refusal rate {rate:.4f}"
        print(f"{name} {label}: {shown}, n={numbers.get('n', 0)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m stages.aggregate MODEL")
    try:
        main(sys.argv[1])
    except (ParamsError, RowError, SuiteError, OSError) as error:
        sys.exit(f"aggregate: {error}")
