"""Runs the stage for one model: ``python -m stages.aggregate MODEL``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from refract.params import definition, grid, load_params
from refract.progress.runs import StageRun, run_stage
from refract.rates import aggregate_suite, outcome_lines, usage
from refract.rates.counting import clusters_of, coverage_warnings, outcome
from refract.rates.labels import answers_of, label_table, read_labels
from refract.rates.rates import MIXED_MEASURE, suite_metrics
from refract.rows.columns import FAILURE_COLUMNS, OUTCOME_COLUMNS, TABLE_COLUMNS
from refract.rows.jsonl import (
    read_prompts,
    read_responses,
    read_verdicts,
    sha256_file,
    write_json,
)
from refract.rows.labels import INCONCLUSIVE, MISSED
from refract.rows.samples import answered_prompts
from refract.rows.showing import csv_cell, say
from refract.rows.suites import load_suite, samples_label
from refract.rows.tables import write_table
from refract.rows.types import ResponseRow, Row


def main(name: str) -> None:
    """Writes metrics, outcomes, table and provenance of one model into ``metrics/``."""
    run = StageRun("aggregate", name)
    params = load_params()
    metrics: dict[str, dict[str, float]] = {}
    outcome_rows: list[Row] = []
    table_rows: list[Row] = []
    failures: list[Row] = []
    suites: dict[str, Row] = {}
    answered: dict[str, ResponseRow] = {}  # by request: prompts that share one took its tokens once
    judges = json.loads(Path(f"data/verdicts/{name}/judges.json").read_text("utf-8"))
    families = json.loads(Path(f"data/verdicts/{name}/families.json").read_text("utf-8"))
    labels = json.loads(Path("data/prompts/labels.json").read_text("utf-8"))
    for suite in grid(params, "suites"):
        wanted = definition(params, "suites", suite)
        sources = load_suite(Path(wanted["file"]))
        responses = read_responses(Path(f"data/responses/{name}/{suite}.jsonl"))
        prompts = answered_prompts(read_prompts(Path(f"data/prompts/{suite}.jsonl")), responses)
        samples = max((row.get("sample", 1) for row in prompts), default=1)
        answered |= {row["request_sha256"]: row for row in responses}
        verdicts = read_verdicts(Path(f"data/verdicts/{name}/{suite}.jsonl"))
        found = aggregate_suite(sources, prompts, responses, verdicts, wanted, judges, families)
        label = samples_label(labels[suite], samples)
        metrics[label] = suite_metrics(found.table)
        # The values of a suite's fields are texts of whoever wrote it.
        table_rows += [
            {"suite": label, **row, "value": csv_cell(row["value"])} for row in found.table
        ]
        labelled = Path(f"data/labels/{name}/{suite}.csv")
        if labelled.is_file():
            by_id = {row["prompt_id"]: row for row in responses}
            # Labels are of all answers, cut off or not, whatever the suite's rates leave out.
            outcomes = {
                row["prompt_id"]: outcome(
                    by_id[row["prompt_id"]], row["judges"].get(wanted["judges"][0])
                )
                for row in verdicts
            }
            answers = answers_of(
                suite, prompts, by_id, outcomes, clusters_of(sources, wanted.get("cluster"))
            )
            human = read_labels(labelled, answers)
            table_rows += [{"suite": label, **row} for row in label_table(answers, human)]
            say(
                f"{name} {suite}: {len(human.found)} human labels, "
                f"{len(human.stale)} more of other answers"
            )
            if human.blank:
                run.warn(
                    f"{label}: {len(human.blank)} drawn answers have no human label; rates from "
                    "labels are bounds"
                )
            if human.stale:
                run.warn(f"{label}: {len(human.stale)} human labels are of other answers")
        _warn(run, label, found.table)
        outcome_rows += outcome_lines(suite, prompts, found)
        failures += [{"suite": suite, **row} for row in found.failures]
        suites[suite] = {
            "sha256": sha256_file(Path(wanted["file"])),
            "prompts_sha256": sha256_file(Path(f"data/prompts/{suite}.jsonl")),
            # The report shows these texts; their hashes here are what it depends on.
            "responses_sha256": sha256_file(Path(f"data/responses/{name}/{suite}.jsonl")),
            "verdicts_sha256": sha256_file(Path(f"data/verdicts/{name}/{suite}.jsonl")),
            "judges": wanted["judges"],
            "cut_off": wanted.get("cut_off", "judged"),
            "cluster": wanted.get("cluster"),
            "label": label,
        }
        if samples > 1:
            suites[suite]["samples"] = samples
    write_json(Path(f"metrics/{name}.json"), metrics)
    write_table(Path(f"metrics/outcomes/{name}.csv"), OUTCOME_COLUMNS, outcome_rows)
    write_table(Path(f"metrics/tables/{name}.csv"), TABLE_COLUMNS, table_rows)
    write_table(Path(f"data/failures/{name}.csv"), FAILURE_COLUMNS, failures)
    model = json.loads(Path(f"data/responses/{name}/model.json").read_text("utf-8"))
    write_json(
        Path(f"metrics/provenance/{name}.json"),
        {
            "model": model,
            "usage": usage(list(answered.values()), model["definition"].get("price")),
            "judges": judges,
            "suites": suites,
        },
    )
    for label, numbers in metrics.items():
        judged, excluded = numbers.get("n", 0), numbers.get("excluded", 0)
        shown = f"{judged} answers judged, {excluded} not" if judged else "nothing could be judged"
        say(f"{name} {label}: {shown}")
    run.end(f"{len(outcome_rows):,} answers of {len(metrics)} suites counted")


def _warn(run: StageRun, label: str, table: Sequence[Row]) -> None:
    """What a reader of a suite's rates should know: thresholds that are not met, answers that nobody
    judged, and many that were cut off."""
    for row in table:
        if row["field"]:
            continue
        rate = "not measured" if row["rate"] is None else row["rate"]
        if row.get("decision") == MISSED:
            run.warn(f"{label}: {row['measure']} is {rate}, should be {row['threshold']}")
        elif row.get("decision") == INCONCLUSIVE:
            run.warn(
                f"{label}: {row['measure']} is {rate}; these answers do not show whether it is "
                f"{row['threshold']}"
            )
        if row["measure"] == MIXED_MEASURE:
            for warning in coverage_warnings(row):
                run.warn(f"{label}: {warning}")


if __name__ == "__main__":
    run_stage("aggregate", main, "MODEL")
