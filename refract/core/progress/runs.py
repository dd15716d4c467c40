"""What each stage did when it last ran, and what a reader should know of it: printed, never hashed."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from refract.core.errors import RefractError
from refract.core.jsonl import write_json
from refract.core.showing import printable, say

FOLDER = Path("data/runs")
# Turns of a waiting thread before it sleeps, a few ten microseconds: the least of those measured that
# cost nothing on a machine at rest (tests/benchmarks/bench_busy.py).
SPINS = "30000"


def run_stage(stage: str, work: Callable[..., object], *arguments: str) -> None:
    """What ``python -m stages.STAGE`` does: the work with the command line's arguments.

    ``arguments`` are their names. An error that a user can mend ends the stage in one message.
    """
    if len(sys.argv) != 1 + len(arguments):
        module = stage.replace("-", "_")
        sys.exit(f"usage: {' '.join(['python -m', f'stages.{module}', *arguments])}")
    let_threads_sleep()
    # Rows are read by the ten thousand and hold no cycles: the default of 700 looks through them for
    # nothing, for a sixth of a stage's time.
    gc.set_threshold(50_000)
    try:
        work(*sys.argv[1:])
    except (RefractError, OSError) as error:
        sys.exit(printable(f"{stage}: {error}", keep="\n"))


def let_threads_sleep() -> None:
    """Threads of a model that wait for each other soon leave the processor to others instead of
    spinning, unless the environment says otherwise. It counts only where it comes before PyTorch is
    loaded."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        # GNU's OpenMP alone: a short spin first, since to wake a thread takes longer than most waits
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


class StageRun:
    """One run of a stage, for one model where the stage has one for each: begins when it is made."""

    def __init__(self, stage: str, model: str = "") -> None:
        self.name = f"{stage}@{model}" if model else stage
        self.warnings: list[str] = []
        self._started = time.monotonic()

    def warn(self, text: str) -> None:
        """Keeps a warning for the end of the pipeline, where all of them are listed."""
        self.warnings.append(text)

    def end(self, summary: str, **details: Any) -> None:
        """Prints the run in one line and writes it to ``data/runs/``, with ``details``."""
        seconds = time.monotonic() - self._started
        count = len(self.warnings)
        warned = f", {count} warning{'' if count == 1 else 's'}" if count else ""
        say(f"{self.name}: {summary} in {seconds:.1f} s{warned}")
        write_json(
            FOLDER / f"{self.name}.json",
            {
                "summary": summary,
                "seconds": round(seconds, 3),
                "warnings": self.warnings,
                **details,
            },
        )


def warning_lines(root: Path, models: Sequence[str]) -> list[str]:
    """The warnings of the last run of each stage and of these models, in the pipeline's order."""
    return [f"{name}: {line}" for name, run in _runs(root, models) for line in run["warnings"]]


def counted_line(root: Path, models: Sequence[str]) -> str:
    """What is worth no warning of its own, over all models: ``3 of 900 answers not judged``."""
    total: Counter[str] = Counter()
    for _, run in _runs(root, models):
        total.update(run.get("counted", {}))
    answers = total.pop("answers", 0)
    parts = [f"{n:,} {kind}" for kind, n in total.items() if n]
    return f"of {answers:,} answers {', '.join(parts)}" if parts else ""


def _runs(root: Path, models: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The last run of each stage and of these models that is known here, in the pipeline's order."""
    names = ["generate-perturbations"]
    for stage in ("model-inference", "judge", "aggregate"):
        names += [f"{stage}@{model}" for model in models]
    for name in [*names, "validate-judges", "report"]:
        try:
            run = json.loads((root / FOLDER / f"{name}.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue  # it ran elsewhere, or before there were such files
        if isinstance(run, dict) and "warnings" in run:
            yield name, run


def say_warnings(root: Path, models: Sequence[str]) -> None:
    """Prints all warnings in one place, if there are any, and counts what is worth none."""
    lines = warning_lines(root, models)
    counted = counted_line(root, models)
    if lines:
        say(f"warnings ({len(lines)}):")
    for line in lines:
        say(f"  {line}")
    if counted:
        say(f"counted, beside each rate in the report: {counted}")
