"""Runs the stage: ``python -m stages.validate_judges``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refract.errors import ParamsError
from refract.judge_errors import check_pairs, validate
from refract.judges import open_judge
from refract.judges.protocol import Judge
from refract.params import definition, load_params
from refract.progress.runs import StageRun, run_stage
from refract.rows.jsonl import read_rows, write_json
from refract.rows.showing import say
from refract.rows.tables import write_table

PAIRS = Path("data/validation/validation.jsonl")
COLUMNS = (
    "judge",
    "version",
    "field",
    "value",
    "n",
    "unjudged",
    "right",
    "refused_right",
    "accuracy",
    "low",
    "high",
)


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


def main() -> None:
    """Writes ``metrics/judges.json`` and ``metrics/judges.csv``."""
    run = StageRun("validate-judges")
    judges = measured_judges(load_params())
    pairs = read_rows(PAIRS)
    check_pairs(pairs, str(PAIRS))
    metrics, table = validate(pairs, judges)
    write_json(Path("metrics/judges.json"), metrics)
    write_table(Path("metrics/judges.csv"), COLUMNS, table)
    for judge, numbers in metrics.items():
        shown = " ".join(
            f"{name} {numbers[name]:.4f}"
            for name in ("kappa", "precision", "recall", "label_kappa")
            if name in numbers
        )
        say(f"{judge}: {shown}, n={numbers['n']}")
        if numbers["unjudged"]:
            run.warn(f"{judge} gave no label to {numbers['unjudged']} labelled pairs")
    run.end(f"{', '.join(judges) or 'no judge'} measured on {len(pairs)} labelled pairs")


if __name__ == "__main__":
    run_stage("validate-judges", main)
