"""Runs the stage for one model: ``python -m stages.aggregate MODEL``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from refract.agreement.stored import stored_suites
from refract.core.jsonl import sha256_file, write_json
from refract.core.params import decision_settings, load_params
from refract.core.progress import (
    StageRun,
    run_stage,
)
from refract.core.showing import say
from refract.core.tables import write_table
from refract.core.types import ResponseRow, Row
from refract.core.vocabulary import (
    EXCLUDED,
    FAILURE_COLUMNS,
    INCONCLUSIVE,
    MISSED,
    TABLE_COLUMNS,
    outcome_columns,
)
from refract.rates import outcome_lines, usage
from refract.rates.counting import coverage_warnings
from refract.rates.protocols import protocol_notes
from refract.rates.rates import MIXED_MEASURE, suite_metrics
from refract.results.provenance import suite_provenance

# What the end of a run counts over all suites; the first is of what the others are a part.
COUNTED = ("answers", "not judged", "cut off")


def main(name: str) -> None:
    """Writes metrics, outcomes, table and provenance of one model into ``metrics/``."""
    run = StageRun("aggregate", name)
    params = load_params()
    metrics: dict[str, dict[str, float]] = {}
    outcome_rows: list[Row] = []
    table_rows: list[Row] = []
    failures: list[Row] = []
    suites: dict[str, Row] = {}
    counted = dict.fromkeys(COUNTED, 0)
    answered: dict[str, ResponseRow] = {}  # by request: prompts that share one took its tokens once
    confidence = decision_settings(Path()).confidence
    judges = json.loads(Path(f"data/verdicts/{name}/judges.json").read_text("utf-8"))
    model = json.loads(Path(f"data/responses/{name}/model.json").read_text("utf-8"))
    for stored in stored_suites(Path(), params, name, confidence):
        suite, label, human = stored.suite, stored.label, stored.labels
        answered |= {row["request_sha256"]: row for row in stored.responses}
        metrics[label] = suite_metrics(stored.rates.table)
        table_rows += stored.table
        if human is not None:
            say(
                f"{name} {suite}: {len(human.by_id)} human labels, "
                f"{len(human.stale)} more of other answers"
            )
            if human.blank:
                run.warn(
                    f"{label}: {len(human.blank)} drawn answers have no human label; rates from "
                    "labels are bounds"
                )
            if human.stale:
                run.warn(f"{label}: {len(human.stale)} human labels are of other answers")
        count_answers(counted, stored.rates.table)
        for row in stored.rates.table:
            if row["measure"] == MIXED_MEASURE and not row["field"]:
                for warning in coverage_warnings(row):
                    run.warn(f"{label}: {warning}")
        outcome_rows += outcome_lines(suite, stored.prompts, stored.rates)
        failures += [{"suite": suite, **row} for row in stored.rates.failures]
        suites[suite] = suite_provenance(
            stored.definition,
            stored.samples,
            label=label,
            sha256=sha256_file(Path(stored.definition["file"])),
            prompts_sha256=sha256_file(Path(f"data/prompts/{suite}.jsonl")),
            # The report shows these texts; their hashes here are what it depends on.
            responses_sha256=sha256_file(Path(f"data/responses/{name}/{suite}.jsonl")),
            verdicts_sha256=sha256_file(Path(f"data/verdicts/{name}/{suite}.jsonl")),
        )
        if stored.definition.get("protocol"):
            suites[suite]["protocol"] = protocol_notes(
                stored.definition, model, suite, judges, stored.samples
            )
    write_json(Path(f"metrics/{name}.json"), metrics)
    write_table(Path(f"metrics/outcomes/{name}.csv"), outcome_columns(outcome_rows), outcome_rows)
    write_table(Path(f"metrics/tables/{name}.csv"), TABLE_COLUMNS, table_rows)
    write_table(Path(f"data/failures/{name}.csv"), FAILURE_COLUMNS, failures)
    write_json(
        Path(f"metrics/provenance/{name}.json"),
        {
            "model": model,
            "usage": usage(list(answered.values()), model["definition"].get("price")),
            "judges": judges,
            "suites": suites,
            "confidence": confidence,
        },
    )
    for label, numbers in metrics.items():
        judged, excluded = numbers.get("n", 0), numbers.get("excluded", 0)
        shown = f"{judged} answers judged, {excluded} not" if judged else "nothing could be judged"
        say(f"{name} {label}: {shown}")
    for warning in threshold_warnings(table_rows):
        run.warn(warning)
    less = "".join(f", {counted[kind]:,} {kind}" for kind in COUNTED[1:] if counted[kind])
    run.end(
        f"{len(outcome_rows):,} answers of {len(metrics)} suites counted{less}", counted=counted
    )


def count_answers(counted: dict[str, int], table: Sequence[Row]) -> None:
    """Adds the answers of one suite to what is ``COUNTED``."""
    for row in table:
        if row["measure"] == MIXED_MEASURE and not row["field"]:
            unjudged = sum(row[f"excluded_{label}"] for label in EXCLUDED)
            for kind, n in zip(
                COUNTED, (row["n"] + unjudged, unjudged, row["cut_off"]), strict=True
            ):
                counted[kind] += n


def threshold_warnings(table: Sequence[Row]) -> list[str]:
    """Which thresholds of a model are missed, and which are neither met nor missed: a line for each."""
    decided = [row for row in table if "decision" in row]
    warnings = []
    for decision, what in ((MISSED, "missed"), (INCONCLUSIVE, "inconclusive")):
        found = [
            f"{row['suite']} {row['measure']} "
            f"{'not measured' if row['rate'] is None else row['rate']} ({row['threshold']})"
            for row in decided
            if row["decision"] == decision
        ]
        if found:
            warnings.append(f"{len(found)} of {len(decided)} thresholds {what}: {'; '.join(found)}")
    return warnings


if __name__ == "__main__":
    run_stage("aggregate", main, "MODEL")
