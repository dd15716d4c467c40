"""Runs the stage: ``python -m stages.validate_judges``."""

from __future__ import annotations

from pathlib import Path

from refract.agreement.ledger import shown_gap, write_ledger
from refract.core.jsonl import read_rows, write_json
from refract.core.params import ValidationSettings, load_definitions, load_params
from refract.core.progress import StageRun, run_stage
from refract.core.settings import read_settings
from refract.core.showing import say
from refract.core.tables import write_table
from refract.evaluate.judge_errors import (
    AGREEMENT_COLUMNS,
    check_pairs,
    validate,
)
from refract.judges import open_judges

PAIRS = Path("data/validation/validation.jsonl")


def main() -> None:
    """Writes ``metrics/judges.json`` and the tables ``metrics/judges_*.csv``."""
    run = StageRun("validate-judges")
    judges = open_judges(load_definitions("validated")["judges"])
    section = load_params().get("validation") or {}
    settings = read_settings(ValidationSettings, "validation", section)
    files = {}
    for path in (PAIRS, *sorted({*PAIRS.parent.glob("*.jsonl")} - {PAIRS})):
        files[path.stem] = read_rows(path)
        check_pairs(files[path.stem], str(path))
    result = validate(files, judges, settings.partial)
    write_json(Path("metrics/judges.json"), result.metrics)
    write_table(Path("metrics/judges_agreement.csv"), AGREEMENT_COLUMNS, result.agreement)
    write_ledger(Path("metrics/judges_by_model.csv"), result.entries)
    for entry in result.entries:
        say(
            f"{entry.judge} on {entry.source}, {entry.model or 'no model stated'}: rate gap "
            f"{shown_gap(entry)} points, n={entry.n} (partial = {settings.partial})"
        )
    for judge, numbers in result.metrics.items():
        shown = ""
        for name in ("kappa", "precision", "recall", "label_kappa"):
            if name in numbers:
                shown += f" {name} {numbers[name]:.4f}"
        say(f"{judge}:{shown}, n={numbers['n']} (partial = {settings.partial})")
        if numbers["unjudged"]:
            run.warn(f"{judge} gave no label to {numbers['unjudged']} labelled pairs")
    count = sum(map(len, files.values()))
    run.end(f"{', '.join(judges) or 'no judge'} measured on {count} labelled pairs")


if __name__ == "__main__":
    run_stage("validate-judges", main)
