"""Runs the stage: ``python -m stages.validate_judges``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refract.agreement.ledger import MEASURED, Entry, Partial, shown_gap, worst_first, write_ledger
from refract.core.errors import ParamsError
from refract.core.jsonl import read_rows, write_json
from refract.core.params import ValidationSettings, definition, load_params
from refract.core.progress import (
    StageRun,
    run_stage,
)
from refract.core.settings import read_settings
from refract.core.showing import say
from refract.core.tables import write_table
from refract.core.types import Row
from refract.evaluate.judge_errors import (
    AGREEMENT_COLUMNS,
    CONFUSION_COLUMNS,
    GROUP_COLUMNS,
    check_pairs,
    entries_of,
    judge_pairs,
    validate,
)
from refract.judges import open_judge
from refract.judges.protocol import Judge

PAIRS = Path("data/validation/validation.jsonl")


def measured_judges(params: dict[str, Any]) -> dict[str, Judge]:
    """The judges of params.yaml to measure: those of kind rules, and others with ``validate: true``.

    Raises :class:`ParamsError` for definitions that cannot be used.
    """
    judges = params.get("judges")
    if not isinstance(judges, dict):
        raise ParamsError(f"params.yaml: judges must be a mapping of names (got {judges!r})")
    measured = {}
    for name in sorted(judges):
        given = definition(params, "judges", name)
        if given.get("validate", given.get("kind") == "rules") is not False:
            measured[name] = open_judge(name, given)
    return measured


def measured_by_model(
    sources: dict[str, list[Row]], judges: dict[str, Judge], partial: Partial
) -> list[Entry]:
    """The entries of each judge on labelled pairs, worst first.

    Pairs that do not say their ``source`` are of that of their file.
    """
    pairs = [{"source": name, **pair} for name, rows in sources.items() for pair in rows]
    truth = [pair["label"] for pair in pairs]
    entries: list[Entry] = []
    for judge, verdicts in judge_pairs(pairs, judges).items():
        found = [verdict["label"] for verdict in verdicts]
        entries += entries_of(judge, judges[judge].version, pairs, truth, found, partial)
    return worst_first(entries)


def main() -> None:
    """Writes ``metrics/judges.json`` and the tables ``metrics/judges*.csv``."""
    run = StageRun("validate-judges")
    params = load_params()
    judges = measured_judges(params)
    partial = read_settings(
        ValidationSettings, "validation", params.get("validation") or {}
    ).partial
    sources = {}
    for path in sorted({PAIRS, *PAIRS.parent.glob("*.jsonl")}):
        sources[path.stem] = read_rows(path)
        check_pairs(sources[path.stem], str(path))
    pairs = sources[PAIRS.stem]
    measured = validate(pairs, judges, partial)
    write_json(Path("metrics/judges.json"), measured.metrics)
    for name, columns, rows in (
        ("judges", GROUP_COLUMNS, measured.groups),
        ("judges_agreement", AGREEMENT_COLUMNS, measured.agreement),
        ("judges_confusion", CONFUSION_COLUMNS, measured.confusion),
    ):
        write_table(Path(f"metrics/{name}.csv"), columns, rows)
    entries = measured_by_model(sources, judges, partial)
    write_ledger(MEASURED, entries)
    for entry in entries:
        say(
            f"{entry.judge} on {entry.source}, {entry.model or 'no model stated'}: rate gap "
            f"{shown_gap(entry)} points, n={entry.n} (partial = {partial})"
        )
    for judge, numbers in measured.metrics.items():
        shown = " ".join(
            f"{name} {numbers[name]:.4f}"
            for name in ("kappa", "precision", "recall", "label_kappa")
            if name in numbers
        )
        say(f"{judge}: {shown}, n={numbers['n']} (partial = {partial})")
        if numbers["unjudged"]:
            run.warn(f"{judge} gave no label to {numbers['unjudged']} labelled pairs")
    run.end(
        f"{', '.join(judges) or 'no judge'} measured on {sum(map(len, sources.values()))} labelled "
        "pairs"
    )


if __name__ == "__main__":
    run_stage("validate-judges", main)
