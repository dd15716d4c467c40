"""Runs the stage for one model: ``python -m stages.aggregate MODEL``."""

from __future__ import annotations

from pathlib import Path

from refract.core.jsonl import sha256_file, write_json
from refract.core.params import decision_settings, load_definitions
from refract.core.progress import StageRun, run_stage
from refract.core.vocabulary import EXCLUDED
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
    answers = [x for suite in suites for x in suite.numbers.aggregate.answers.values()]
    unjudged = sum(answer.outcome in EXCLUDED for answer in answers)
    cut_off = sum(answer.cut_off for answer in answers)
    left_out = f", {unjudged:,} not judged" if unjudged else ""
    left_out += f", {cut_off:,} cut off" if cut_off else ""
    of = f"{len(suites)} suite{'' if len(suites) == 1 else 's'}"
    # Of clean prompts, which the report's rates are of.
    counted = coverage([suite.numbers for suite in suites])
    run.end(f"{len(answers):,} answers of {of} counted{left_out}", counted=dict(counted))


if __name__ == "__main__":
    run_stage("aggregate", main, "MODEL")
