"""The numbers of a project as runs of MLflow or Weights & Biases, one for each
model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.environment import git
from refract.results import results_and_notes
from refract.results.current import result_files
from refract.results.table_rows import key_from_row


class LoggedRun(NamedTuple):
    """One model: its settings, its numbers with their intervals, the commit, and
    files in git."""

    model: str
    settings: dict[str, Any]
    numbers: dict[str, float]
    tags: dict[str, str]
    files: list[Path]


def logged_runs(root: Path, models: Sequence[str] | None) -> list[LoggedRun]:
    """The runs of a project's models, of all where none is named."""
    from pandas import json_normalize

    results, _ = results_and_notes(root, models)
    commit = (git(root, "rev-parse", "HEAD") or "").strip()
    changed = git(root, "status", "--porcelain", "--untracked-files=no")
    tags = {"commit": commit, "uncommitted changes": "yes" if changed else "no"} if commit else {}
    runs = {}
    for name in dict.fromkeys(results.metrics["model"]):
        facts = json.loads((root / f"metrics/provenance/{name}.json").read_text("utf-8"))
        nested = (
            facts["model"]["definition"]
            | {"suites": {key: suite["sha256"] for key, suite in facts["suites"].items()}}
            | {"judges": {key: judge["version"] for key, judge in facts["judges"].items()}}
        )
        (settings,) = json_normalize(nested).to_dict("records")  # names joined by points
        files = [root / path for path in result_files(name)]
        runs[name] = LoggedRun(name, settings, numbers={}, tags=tags, files=files)
    for row in results.metrics.to_dict("records"):
        runs[row["model"]].numbers[f"{row['suite']}/{row['measure']}"] = row["value"]
    overall = results.tables[results.tables["field"] == ""].dropna(subset=["low", "high"])
    for row in overall.to_dict("records"):
        key = f"{row['suite']}/{key_from_row(row).name}"
        numbers = runs[row["model"]].numbers
        if key in numbers:
            numbers |= {f"{key}_low": row["low"], f"{key}_high": row["high"]}
    return list(runs.values())


def to_mlflow(experiment: str, run: LoggedRun) -> None:
    """Logs a run to MLflow, as its own settings say (MLFLOW_TRACKING_URI)."""
    import mlflow

    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=run.model, tags=run.tags):
        mlflow.log_params(run.settings)
        mlflow.log_metrics(run.numbers)
        for path in run.files:
            mlflow.log_artifact(str(path), path.parent.name)


def to_wandb(experiment: str, run: LoggedRun) -> None:
    """Logs a run to Weights & Biases, as its own settings say (WANDB_MODE)."""
    import wandb

    config = run.settings | run.tags
    with wandb.init(project=experiment, name=run.model, config=config) as session:
        session.summary.update(run.numbers)
        files = wandb.Artifact(f"refract-{run.model}", "results")
        for path in run.files:
            files.add_file(str(path), name=f"{path.parent.name}/{path.name}")
        session.log_artifact(files)


TRACKERS = {"mlflow": to_mlflow, "wandb": to_wandb}
