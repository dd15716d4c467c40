"""``refract log``: the numbers of the last `dvc repro` as runs of an experiment tracker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from refract.cli.options import listed
from refract.core.errors import UsageError
from refract.core.showing import say


class Logged(NamedTuple):
    """One model: its settings, its numbers with their intervals, the commit, and files in git."""

    model: str
    settings: dict[str, Any]
    numbers: dict[str, float]
    tags: dict[str, str]
    files: list[Path]


def log(
    tracker: Annotated[
        Literal["mlflow", "wandb"],
        typer.Argument(help="Where to: as its own settings say (MLFLOW_TRACKING_URI, WANDB_MODE)."),
    ],
    experiment: Annotated[
        str, typer.Option(help="The experiment of MLflow, or project of Weights & Biases.")
    ] = "refract",
    model: Annotated[
        list[str] | None, typer.Option(help="Models of the grid: NAME,...; default: all.")
    ] = None,
) -> None:
    """Log a run for each model to MLflow or Weights & Biases: settings, rates, intervals, files.

    Run it after `dvc repro`; what DVC hashes does not know of it.

    Example: refract log mlflow
    """
    from refract.project import project_root

    send = {"mlflow": _to_mlflow, "wandb": _to_wandb}[tracker]
    for one in _read(project_root(), listed(model) or None):
        try:
            send(experiment, one)
        except ImportError as error:
            raise UsageError(
                f"{tracker} is not installed ({error}); run: pip install 'refract-eval[{tracker}]'"
            ) from None
        say(f"{one.model}: {len(one.numbers)} numbers to {tracker}, {experiment}")


def _read(root: Path, models: list[str] | None) -> list[Logged]:
    import json

    from refract.core.environment import git
    from refract.results import results_and_notes
    from refract.results.current import result_files
    from refract.results.tables import plain

    results, _ = results_and_notes(root, models)
    commit = (git(root, "rev-parse", "HEAD") or "").strip()
    changed = git(root, "status", "--porcelain", "--untracked-files=no")
    tags = {"commit": commit, "uncommitted changes": "yes" if changed else "no"} if commit else {}
    found = []
    for name in dict.fromkeys(results.metrics["model"]):
        files = [root / path for path in result_files(name)]
        held = json.loads((root / f"metrics/provenance/{name}.json").read_text("utf-8"))
        numbers = {
            f"{plain(row)}/{row['measure']}": row["value"]
            for row in results.metrics[results.metrics["model"] == name].to_dict("records")
        }
        rates = results.tables[(results.tables["model"] == name) & (results.tables["field"] == "")]
        for row in rates.to_dict("records"):
            key = f"{plain(row)}/{row['measure']}"
            if key in numbers and row["low"] == row["low"]:  # not a missing number
                numbers |= {f"{key}_low": row["low"], f"{key}_high": row["high"]}
        settings = _flat(held["model"]["definition"])
        settings |= {f"suites.{key}": one["sha256"] for key, one in held["suites"].items()}
        settings |= {f"judges.{key}": one["version"] for key, one in held["judges"].items()}
        found.append(Logged(name, settings, numbers, tags, files))
    return found


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[before + key] = value
    return flat


def _to_mlflow(experiment: str, logged: Logged) -> None:
    import mlflow

    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=logged.model, tags=logged.tags):
        mlflow.log_params(logged.settings)
        mlflow.log_metrics(logged.numbers)
        for path in logged.files:
            mlflow.log_artifact(str(path), path.parent.name)


def _to_wandb(experiment: str, logged: Logged) -> None:
    import wandb

    config = logged.settings | logged.tags
    with wandb.init(project=experiment, name=logged.model, config=config) as run:
        run.summary.update(logged.numbers)
        files = wandb.Artifact(f"refract-{logged.model}", "results")
        for path in logged.files:
            files.add_file(str(path), name=f"{path.parent.name}/{path.name}")
        run.log_artifact(files)
