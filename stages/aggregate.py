"""Runs the stage for one model: ``python -m stages.aggregate MODEL``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.agreement.stored import Stored, stored_suites
from refract.core.jsonl import sha256_file, write_json
from refract.core.params import decision_settings, load_params
from refract.core.progress import StageRun, run_stage
from refract.core.showing import say
from refract.core.tables import write_table
from refract.core.types import Row
from refract.core.vocabulary import FAILURE_COLUMNS, outcome_columns
from refract.rates import outcome_lines, usage
from refract.rates.clean_prompts import MIXED_MEASURE, suite_metrics
from refract.rates.counting import coverage_warnings
from refract.rates.protocol_rates import protocol_notes
from refract.rates.rate import Rate, rounded
from refract.results.provenance import suite_provenance
from refract.results.table_rows import write_rates


def main(name: str) -> None:
    """Writes metrics, outcomes, table and provenance of one model into ``metrics/``."""
    run = StageRun("aggregate", name)
    confidence = decision_settings(Path()).confidence
    judges = json.loads(Path(f"data/verdicts/{name}/judges.json").read_text("utf-8"))
    model = json.loads(Path(f"data/responses/{name}/model.json").read_text("utf-8"))
    suites = list(stored_suites(Path(), load_params(), name, confidence))
    for stored in suites:
        for warning in label_warnings(name, stored):
            run.warn(f"{stored.label}: {warning}")
        for rate in over_all(stored.rates.table):
            for warning in coverage_warnings(rate):
                run.warn(f"{stored.label}: {warning}")
    rates = [rate for stored in suites for rate in stored.table]
    outcomes = [line for x in suites for line in outcome_lines(x.suite, x.prompts, x.rates)]
    failures = [{"suite": x.suite, **row} for x in suites for row in x.rates.failures]
    metrics = {stored.label: suite_metrics(stored.rates.table) for stored in suites}
    # By request: prompts that share one took its tokens once.
    answered = {row["request_sha256"]: row for x in suites for row in x.responses}
    write_json(Path(f"metrics/{name}.json"), metrics)
    write_table(Path(f"metrics/outcomes/{name}.csv"), outcome_columns(outcomes), outcomes)
    write_rates(Path(f"metrics/tables/{name}.csv"), rates)
    write_table(Path(f"data/failures/{name}.csv"), FAILURE_COLUMNS, failures)
    write_json(
        Path(f"metrics/provenance/{name}.json"),
        {
            "model": model,
            "usage": usage(list(answered.values()), model["definition"].get("price")),
            "judges": judges,
            "suites": {x.suite: provenance_of(name, x, model, judges) for x in suites},
            "confidence": confidence,
        },
    )
    for label, numbers in metrics.items():
        judged, excluded = numbers.get("n", 0), numbers.get("excluded", 0)
        told = f"{judged} answers judged, {excluded} not" if judged else "nothing could be judged"
        say(f"{name} {label}: {told}")
    for warning in threshold_warnings(rates):
        run.warn(warning)
    counted = answer_counts(rate for x in suites for rate in over_all(x.rates.table))
    less = "".join(f", {counted[kind]:,} {kind}" for kind in list(counted)[1:] if counted[kind])
    run.end(f"{len(outcomes):,} answers of {len(metrics)} suites counted{less}", counted=counted)


def over_all(rates: Iterable[Rate]) -> list[Rate]:
    """The rate of one suite that has all its clean prompts in it."""
    return [rate for rate in rates if rate.measure == MIXED_MEASURE and not rate.group]


def answer_counts(rates: Iterable[Rate]) -> dict[str, int]:
    """The answers behind rates over all of some suites, and of these what was not judged or cut off."""
    counts = [rate.counts for rate in rates]
    return {
        "answers": sum(x.n + x.unjudged for x in counts),
        "not judged": sum(x.unjudged for x in counts),
        "cut off": sum(x.cut_off or 0 for x in counts),
    }


def provenance_of(
    name: str, stored: Stored, model: Mapping[str, Any], judges: Mapping[str, Any]
) -> Row:
    """What the numbers of one suite were made of."""
    suite, definition = stored.suite, stored.definition
    provenance = suite_provenance(
        definition,
        stored.samples,
        label=stored.label,
        sha256=sha256_file(Path(definition["file"])),
        prompts_sha256=sha256_file(Path(f"data/prompts/{suite}.jsonl")),
        # The report shows these texts; their hashes here are what it depends on.
        responses_sha256=sha256_file(Path(f"data/responses/{name}/{suite}.jsonl")),
        verdicts_sha256=sha256_file(Path(f"data/verdicts/{name}/{suite}.jsonl")),
    )
    if definition.get("protocol"):
        provenance["protocol"] = protocol_notes(definition, model, suite, judges, stored.samples)
    return provenance


def label_warnings(name: str, stored: Stored) -> list[str]:
    """What a reader must know of a suite's human labels; how many there are is printed."""
    labels = stored.labels
    if labels is None:
        return []
    say(
        f"{name} {stored.suite}: {len(labels.by_id)} human labels, "
        f"{len(labels.stale)} more of other answers"
    )
    warnings = []
    if labels.blank:
        warnings.append(
            f"{len(labels.blank)} drawn answers have no human label; rates from labels are bounds"
        )
    if labels.stale:
        warnings.append(f"{len(labels.stale)} human labels are of other answers")
    return warnings


def threshold_warnings(rates: Sequence[Rate]) -> list[str]:
    """Which thresholds of a model are missed, and which are neither met nor missed: a line for each."""
    decided = [rate for rate in rates if rate.decision is not None]
    warnings = []
    for decision in ("missed", "inconclusive"):
        found = [
            f"{rate.suite} {rate.measure} "
            f"{'not measured' if rate.value is None else rounded(rate.value)} ({rate.threshold})"
            for rate in decided
            if rate.decision == decision
        ]
        if found:
            count = f"{len(found)} of {len(decided)}"
            warnings.append(f"{count} thresholds {decision}: {'; '.join(found)}")
    return warnings


if __name__ == "__main__":
    run_stage("aggregate", main, "MODEL")
