"""What a project holds of one model's answers and verdicts, and the rates that follow from it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.agreement.human_labels import label_table
from refract.agreement.label_files import Labels, answers_of, read_labels
from refract.core.jsonl import read_prompts, read_responses, read_verdicts
from refract.core.params import definition, grid
from refract.core.showing import csv_cell
from refract.core.types import PromptRow, ResponseRow, Row, answered_prompts
from refract.rates import Aggregate, aggregate_suite
from refract.rates.counting import clusters_of, outcome
from refract.suites.rows import load_suite, samples_label


class Stored(NamedTuple):
    """One suite of one model: its name and definition, what it is called in tables (``label``), its
    prompts with their samples and their responses, rates, table rows, and human labels if there are
    any."""

    suite: str
    definition: Mapping[str, Any]
    label: str
    samples: int
    prompts: Sequence[PromptRow]
    responses: Sequence[ResponseRow]
    rates: Aggregate
    table: list[Row]
    labels: Labels | None


def stored_suites(
    root: Path, params: Mapping[str, Any], model: str, confidence: float
) -> Iterator[Stored]:
    """The suites of the grid, as a project's ``data/`` has them for one model.

    Raises FileNotFoundError where something is missing, and
    :class:`refract.core.errors.RefractError` for rows that cannot be used.
    """
    verdict_folder = root / f"data/verdicts/{model}"
    judges = json.loads((verdict_folder / "judges.json").read_text("utf-8"))
    families = json.loads((verdict_folder / "families.json").read_text("utf-8"))
    labels = json.loads((root / "data/prompts/labels.json").read_text("utf-8"))
    for suite in grid(params, "suites"):
        wanted = definition(params, "suites", suite)
        sources = load_suite(root / wanted["file"])
        responses = read_responses(root / f"data/responses/{model}/{suite}.jsonl")
        rows = read_prompts(root / f"data/prompts/{suite}.jsonl")
        prompts = answered_prompts(rows, responses)
        samples = max((row.get("sample", 1) for row in prompts), default=1)
        verdicts = read_verdicts(verdict_folder / f"{suite}.jsonl")
        found = aggregate_suite(
            sources, prompts, responses, verdicts, wanted, judges, families, confidence
        )
        label = samples_label(labels[suite], samples)
        # The values of a suite's fields are texts of whoever wrote it.
        table = [{"suite": label, **row, "value": csv_cell(row["value"])} for row in found.table]
        human = None
        labelled = root / f"data/labels/{model}/{suite}.csv"
        if labelled.is_file():
            by_id = {row["prompt_id"]: row for row in responses}
            # Labels are of all answers, cut off or not, whatever the suite's rates leave out.
            verdict_of = {
                row["prompt_id"]: row["judges"].get(wanted["judges"][0]) for row in verdicts
            }
            outcomes = {id_: outcome(by_id[id_], verdict) for id_, verdict in verdict_of.items()}
            clusters = clusters_of(sources, wanted.get("cluster"))
            answers = answers_of(suite, prompts, by_id, outcomes, clusters, verdict_of)
            human = read_labels(labelled, answers)
            table += [{"suite": label, **row} for row in label_table(answers, human, confidence)]
        yield Stored(suite, wanted, label, samples, prompts, responses, found, table, human)
