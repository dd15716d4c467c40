"""Runs the stage for one model: ``python -m stages.aggregate MODEL``."""

from __future__ import annotations

from pathlib import Path

from refract.agreement.label_folder import unread_label_files
from refract.core.jsonl import sha256_file, write_json
from refract.core.params import decision_settings, grid, load_definitions
from refract.core.progress import StageRun, run_stage
from refract.rates.clean_prompts import suite_metrics
from refract.rates.thresholds import threshold_warnings
from refract.results.counted import coverage
from refract.results.current import result_files
from refract.results.stored import stored_provenance, stored_suites, write_lines
from refract.results.table_rows import write_rates


def main(name: str) -> None:
    """Writes metrics, outcomes, table and provenance of one model into ``metrics/``."""
    run = StageRun("aggregate", name)
    settings = decision_settings(Path())
    params = load_definitions("suites")
    for model, unread in unread_label_files(Path(), [name], grid(params, "suites")):
        if model == name:  # what belongs to no model of the grid, check-inputs says
            run.warn(unread)
    suites = list(stored_suites(Path(), params, name, settings=settings))
    for numbers, _ in suites:
        for warning in numbers.warnings:
            run.warn(f"{numbers.label}: {warning}")
    rates = [rate for suite in suites for rate in suite.numbers.rates]
    metrics = {suite.numbers.suite: suite_metrics(suite.numbers.rates) for suite in suites}
    write_json(Path(f"metrics/{name}.json"), metrics)
    write_lines(name, suites)
    write_rates(Path(f"metrics/tables/{name}.csv"), rates)
    # The provenance is the last of the results to be written, and holds the hashes of the others.
    *others, last = result_files(name)
    provenance = stored_provenance(params, name, suites, settings=settings)
    provenance["files"] = {path: sha256_file(Path(path)) for path in others}
    write_json(Path(last), provenance)
    for warning in threshold_warnings(rates):
        run.warn(warning)
    counted = coverage([suite.numbers for suite in suites])
    left_out = "".join(
        f", {count:,} {kind}" for kind, count in counted.items() if count and kind != "answers"
    )
    lines = sum(len(suite.numbers.aggregate.answers) for suite in suites)
    run.end(f"{lines:,} answers of {len(suites)} suites counted{left_out}", counted=dict(counted))


if __name__ == "__main__":
    run_stage("aggregate", main, "MODEL")
