"""Progress of long work, and the last run of each stage: printed, never hashed."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from refract.core.errors import RefractError
from refract.core.jsonl import write_json
from refract.core.showing import print_any_text, printable, say
from refract.core.threads import let_threads_sleep
from refract.core.types import Row

# Seconds between two lines where no terminal shows progress, and before the first.
EVERY_SECONDS = 60.0
# The last run of each stage.
FOLDER = Path("data/runs")
# Where a model's answers and verdicts come from.
RAN_FOLDER = Path("metrics/ran")


class Progress:
    """Counts rows done: on a terminal in one line that changes, elsewhere in one a minute."""

    def __init__(self, label: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            disable=not console.is_terminal,
            speed_estimate_period=600,
            transient=True,
        )
        self._bar.add_task(printable(label), total=total, note="")
        self._task = self._bar.tasks[0]
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def advance(self, rows: int = 1, note: str = "") -> None:
        """Counts ``rows`` more as done; ``note`` is shown beside them (tokens, errors, cost)."""
        task = self._task
        self._bar.update(task.id, advance=rows, note=printable(note))
        now = time.monotonic()
        if self._bar.disable and now - self._said >= EVERY_SECONDS:
            self._said = now
            left = task.time_remaining
            minutes = f"about {left / 60:.0f} min left" if left else ""
            done = f"{task.description}: {task.completed:.0f}/{task.total:.0f} rows"
            say(", ".join(filter(None, (done, minutes, note))), file=sys.stderr, flush=True)


def run_stage(stage: str, work: Callable[..., object], *arguments: str) -> None:
    """What ``python -m stages.STAGE`` does: calls ``work`` with the command line's arguments, whose
    names are ``arguments``. An error that a user can mend ends the stage with its message."""
    if len(sys.argv) != 1 + len(arguments):
        module = stage.replace("-", "_")
        sys.exit(" ".join(["usage: python -m", f"stages.{module}", *arguments]))
    let_threads_sleep()
    print_any_text()
    # Rows come by the ten thousand and hold no cycles. The default of 700 costs a sixth of the time.
    gc.set_threshold(50_000)
    try:
        work(*sys.argv[1:])
    except (RefractError, OSError) as error:
        sys.exit(printable(f"{stage}: {error}", keep="\n"))


class StageRun:
    """One run of a stage, for one model where a stage has one; it begins here."""

    def __init__(self, stage: str, model: str = "") -> None:
        self.name = f"{stage}@{model}" if model else stage
        self.warnings: list[str] = []
        self._started = time.monotonic()

    def warn(self, text: str) -> None:
        """Keeps a warning for the list at the end of the pipeline."""
        self.warnings.append(text)

    def end(self, summary: str, **details: Any) -> None:
        """Prints the run in one line and writes it, with ``details``, to ``data/runs/``."""
        seconds = time.monotonic() - self._started
        count = len(self.warnings)
        warned = f", {count} warning{'' if count == 1 else 's'}" if count else ""
        say(f"{self.name}: {summary} in {seconds:.1f} s{warned}")
        run = {"summary": summary, "seconds": round(seconds, 3), "warnings": self.warnings}
        write_json(FOLDER / f"{self.name}.json", {**run, **details})


def last_runs(root: Path, models: Sequence[str]) -> dict[str, Row]:
    """The last run of each stage, for these models, in the pipeline's order, where it is known."""
    stages = ("model-inference", "judge", "aggregate")
    of_models = [f"{stage}@{model}" for stage in stages for model in models]
    names = ("check-inputs", "generate-perturbations", *of_models, "validate-judges", "report")
    runs = {name: read_object(root / FOLDER / f"{name}.json") for name in names}
    return {name: run for name, run in runs.items() if "warnings" in run}


def warning_lines(root: Path, models: Sequence[str]) -> list[str]:
    """The warnings of the last runs, each once with the models that have it; and counts
    over all models of what needs no warning (``3 of 900 answers not judged``)."""
    common: dict[tuple[str, str], list[str]] = {}
    total: Counter[str] = Counter()
    for name, run in last_runs(root, models).items():
        stage, _, model = name.partition("@")
        total.update(run.get("counted", {}))
        for text in run["warnings"]:
            common.setdefault((stage, text), []).append(model)
    lines = [f"warnings ({sum(map(len, common.values()))}):"] if common else []
    for (stage, text), having in common.items():
        lines.append(f"  {'@'.join(filter(None, (stage, ', '.join(having))))}: {text}")
    answers = total.pop("answers", 0)
    counts = [f"{count:,} {kind}" for kind, count in total.items() if count]
    if counts:
        shares = f"of {answers:,} answers {', '.join(counts)}"
        lines.append(f"counted, beside each rate in the report: {shares}")
    return lines


def ran_file(model: str) -> Path:
    """The file in the project's folder that says where a model's results come from."""
    return RAN_FOLDER / f"{model}.json"


def read_object(path: Path) -> Row:
    """The JSON object in a file; {} where there is none that can be read."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
