"""``refract log``: the numbers of the last `dvc repro` as runs of an experiment tracker."""

from __future__ import annotations

from typing import Literal

from refract.cli.options import Models, listed
from refract.core.errors import UsageError
from refract.core.showing import say


def log(
    tracker: Literal["mlflow", "wandb"], experiment: str = "refract", models: Models = None
) -> None:
    """Log a run for each model to MLflow or Weights & Biases: settings, rates, intervals, files.

    Example: refract log mlflow

    Args:
        tracker: Where to: as its own settings say (MLFLOW_TRACKING_URI, WANDB_MODE).
        experiment: The experiment of MLflow, or project of Weights & Biases.
    """
    from refract.export.trackers import TRACKERS, logged_runs
    from refract.project import project_root

    for run in logged_runs(project_root(), listed(models) or None):
        try:
            TRACKERS[tracker](experiment, run)
        except ImportError as error:
            raise UsageError(
                f"{tracker} is not installed ({error}); run: pip install 'refract-eval[{tracker}]'"
            ) from None
        say(f"{run.model}: {len(run.numbers)} numbers to {tracker}, {experiment}")
