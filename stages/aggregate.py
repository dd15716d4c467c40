"""Runs the stage for one model: ``python -m stages.aggregate MODEL``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from refract.agreement.stored import Stored, stored_suites
from refract.core.jsonl import sha256_file, write_json
from refract.core.params import decision_settings, load_definitions
from refract.core.progress import StageRun, run_stage
from refract.core.tables import write_table
from refract.core.types import Row
from refract.core.vocabulary import FAILURE_COLUMNS, outcome_columns
from refract.rates import asked_once, outcome_lines, usage
from refract.rates.clean_prompts import MIXED_MEASURE, suite_metrics
from refract.rates.counting import coverage_warnings
from refract.rates.protocol_rates import protocol_notes
from refract.rates.rate import Rate
from refract.rates.robustness import failing_rows
from refract.rates.thresholds import threshold_warnings
from refract.results.current import ROWS, result_files, suite_inputs
from refract.results.sources import suite_provenance
from refract.results.table_rows import write_rates


def main(name: str) -> None:
    """Writes metrics, outcomes, table and provenance of one model into ``metrics/``."""
    run = StageRun("aggregate", name)
    settings = decision_settings(Path())
    judges = json.loads(Path(f"data/verdicts/{name}/judges.json").read_text("utf-8"))
    model = json.loads(Path(f"data/responses/{name}/model.json").read_text("utf-8"))
    unread = json.loads(Path(f"data/verdicts/{name}/unread.json").read_text("utf-8"))
    rates: list[Rate] = []
    every: list[Stored] = []  # without texts, which are read again as lines are written
    metrics: dict[str, dict[str, float]] = {}
    suites: dict[str, Row] = {}
    counted = Counter({"answers": 0, "not judged": 0, "cut off": 0})
    params = load_definitions("suites")
    for stored in stored_suites(Path(), params, name, settings):
        definition, suite = stored.definition, stored.suite
        warnings = stored.labels.warnings if stored.labels else []
        for rate in stored.rates.table:
            if rate.measure == MIXED_MEASURE and not rate.group:
                warnings += coverage_warnings(rate)
                unjudged, cut_off = rate.counts.unjudged, rate.counts.cut_off or 0
                answers = rate.counts.n + unjudged
                counted.update({"answers": answers, "not judged": unjudged, "cut off": cut_off})
        for warning in warnings:
            run.warn(f"{stored.label}: {warning}")
        metrics[stored.label] = suite_metrics(stored.table)
        rates += stored.table
        every.append(stored)
        # The report shows these texts; their hashes here are what it depends on.
        hashes = {
            f"{kind}_sha256": sha256_file(Path(path.format(model=name, suite=suite)))
            for kind, path in ROWS.items()
        }
        origin = {"label": stored.label, "sha256": sha256_file(Path(definition["file"])), **hashes}
        suites[suite] = suite_provenance(definition, stored.samples, stored.judge_error, **origin)
        suites[suite]["definition"] = suite_inputs(params, suite)
        suites[suite]["unread"] = unread[suite]
        if definition.get("protocol"):
            of = (definition, model, suite, judges, stored.samples, suites[suite]["sha256"])
            suites[suite]["protocol"] = protocol_notes(*of)
    responses = chain.from_iterable(stored.rows.responses.values() for stored in every)
    used = usage(asked_once(responses), model["definition"].get("price"))
    provenance = {"model": model, "usage": used, "judges": judges, "suites": suites}
    write_json(Path(f"metrics/{name}.json"), metrics)
    write_lines(name, every)
    write_rates(Path(f"metrics/tables/{name}.csv"), rates)
    # The provenance is the last of the results to be written, and holds the hashes of the others.
    *others, last = result_files(name)
    files = {path: sha256_file(Path(path)) for path in others}
    decisions = {"confidence": settings.confidence, "interval": settings.interval}
    write_json(Path(last), {**provenance, **decisions, "files": files})
    for warning in threshold_warnings(rates):
        run.warn(warning)
    less = "".join(f", {n:,} {kind}" for kind, n in counted.items() if n and kind != "answers")
    lines = sum(len(stored.rates.answers) for stored in every)
    end = f"{lines:,} answers of {len(metrics)} suites counted{less}"
    run.end(end, counted=dict(counted))


def write_lines(name: str, every: Sequence[Stored]) -> None:
    """Writes a line for each outcome, and for each answer that a perturbation changed."""
    columns = outcome_columns(dict.fromkeys(stored.columns) for stored in every)
    outcomes = (
        outcome_lines(stored.suite, stored.rows.prompts.values(), stored.rates) for stored in every
    )
    failures = (
        {"suite": stored.suite, **row}
        for stored in every
        for row in failing_rows(stored.rates.compared, stored.rows.prompts, stored.rows.responses)
    )
    write_table(Path(f"metrics/outcomes/{name}.csv"), columns, chain.from_iterable(outcomes))
    write_table(Path(f"data/failures/{name}.csv"), FAILURE_COLUMNS, failures)


if __name__ == "__main__":
    run_stage("aggregate", main, "MODEL")
