"""Runs the stage for one model: ``python -m stages.aggregate MODEL``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from refract.core.jsonl import sha256_file, write_json
from refract.core.params import decision_settings, load_definitions
from refract.core.progress import StageRun, run_stage
from refract.core.tables import write_table
from refract.core.types import ResponseRow, Row
from refract.core.vocabulary import FAILURE_COLUMNS, outcome_columns
from refract.rates import outcome_lines
from refract.rates.clean_prompts import suite_metrics
from refract.rates.protocol_rates import protocol_notes
from refract.rates.robustness import failing_rows
from refract.rates.thresholds import threshold_warnings
from refract.results.counted import (
    StoredSuite,
    coverage,
    provenance,
    stored_suites,
    suite_provenance,
)
from refract.results.current import ROWS, result_files, suite_inputs
from refract.results.table_rows import write_rates


def main(name: str) -> None:
    """Writes metrics, outcomes, table and provenance of one model into ``metrics/``."""
    run = StageRun("aggregate", name)
    settings = decision_settings(Path())
    params = load_definitions("suites")
    judges = _read_json(f"data/verdicts/{name}/judges.json")
    unread = _read_json(f"data/verdicts/{name}/unread.json")
    model = _read_json(f"data/responses/{name}/model.json")
    suites = list(stored_suites(Path(), params, name, settings))
    facts: dict[str, Row] = {}
    for numbers, _ in suites:
        for warning in numbers.warnings:
            run.warn(f"{numbers.label}: {warning}")
        protocol = None
        hashes = _hashes(name, numbers.suite, numbers.definition)
        if numbers.definition.get("protocol"):
            protocol = protocol_notes(
                numbers.definition,
                model,
                suite=numbers.suite,
                judges=judges,
                samples=numbers.draw.samples,
                sha256=hashes["sha256"],
            )
        facts[numbers.suite] = suite_provenance(
            numbers,
            hashes,
            suite_inputs(params, numbers.suite),
            unread=unread[numbers.suite],
            protocol=protocol,
        )
    rates = [rate for suite in suites for rate in suite.numbers.rates]
    metrics = {suite.numbers.suite: suite_metrics(suite.numbers.rates) for suite in suites}
    write_json(Path(f"metrics/{name}.json"), metrics)
    write_lines(name, suites)
    write_rates(Path(f"metrics/tables/{name}.csv"), rates)
    # The provenance is the last of the results to be written, and holds the hashes of the others.
    *others, last = result_files(name)
    made_of = provenance(model, judges, facts, _responses(suites), settings)
    made_of["files"] = {path: sha256_file(Path(path)) for path in others}
    write_json(Path(last), made_of)
    for warning in threshold_warnings(rates):
        run.warn(warning)
    counted = coverage([suite.numbers for suite in suites])
    left_out = "".join(
        f", {count:,} {kind}" for kind, count in counted.items() if count and kind != "answers"
    )
    lines = sum(len(suite.numbers.aggregate.answers) for suite in suites)
    run.end(f"{lines:,} answers of {len(suites)} suites counted{left_out}", counted=dict(counted))


def _read_json(path: str) -> Row:
    values: Row = json.loads(Path(path).read_text("utf-8"))
    return values


def _hashes(name: str, suite: str, definition: Mapping[str, Any]) -> dict[str, str]:
    """The hashes of a suite's file and rows. The report shows their texts and depends on these."""
    hashes = {"sha256": sha256_file(Path(definition["file"]))}
    for kind, path in ROWS.items():
        hashes[f"{kind}_sha256"] = sha256_file(Path(path.format(model=name, suite=suite)))
    return hashes


def _responses(suites: Sequence[StoredSuite]) -> Iterator[ResponseRow]:
    for suite in suites:
        yield from suite.rows.responses.values()


def write_lines(name: str, suites: Sequence[StoredSuite]) -> None:
    """Writes a line for each outcome, and for each answer that a perturbation changed. Texts are read
    again from disk as lines are written."""
    columns = outcome_columns(dict.fromkeys(suite.numbers.columns) for suite in suites)
    outcomes = (
        outcome_lines(numbers.suite, rows.prompts.values(), numbers.aggregate)
        for numbers, rows in suites
    )
    failures = (
        {"suite": numbers.suite, **row}
        for numbers, rows in suites
        for row in failing_rows(numbers.aggregate.compared, rows.prompts, rows.responses)
    )
    write_table(Path(f"metrics/outcomes/{name}.csv"), columns, chain.from_iterable(outcomes))
    write_table(Path(f"data/failures/{name}.csv"), FAILURE_COLUMNS, failures)


if __name__ == "__main__":
    run_stage("aggregate", main, "MODEL")
