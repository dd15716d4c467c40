"""Progress of long work, and what each stage did when it last ran: printed, never hashed."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from refract.core.errors import RefractError
from refract.core.jsonl import write_json
from refract.core.showing import printable, say
from refract.core.types import Row

EVERY_SECONDS = 60.0


class Progress:
    """Counts rows done; ``note`` is shown beside them (tokens, errors, cost)."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.done = label, total, 0
        self._start = self._last = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and self.total:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}", markup=False),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total, rate="", note="")
        return self

    def __exit__(
        self,
        type_: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, rows: int = 1, note: str = "") -> None:
        """Counts ``rows`` more as done."""
        self.done += rows
        now = time.monotonic()
        rate = self.done / max(now - self._start, 1e-9)
        shown = f"{rate:.1f} rows/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, rate=shown, note=note)
        elif now - self._last >= EVERY_SECONDS:
            self._last = now
            say(
                f"{self.label}: {self.done}/{self.total} rows, {shown}{', ' + note if note else ''}",
                file=sys.stderr,
                flush=True,
            )


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


def answer_line(root: Path, models: Sequence[str]) -> str:
    """How many answers came from the store, which all projects of a user share, and how many were
    generated; "" where no model ran on this machine."""
    total: Counter[str] = Counter()
    stores: set[str] = set()
    for model in models:
        try:
            run = json.loads((root / FOLDER / f"model-inference@{model}.json").read_text("utf-8"))
            for counts in run["answers"].values():
                total.update(counts)
            stores.add(run["store"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # it ran elsewhere, or under an earlier release
    if not stores:
        return ""
    others = total["reused"] - total["from_store"]
    return (
        f"answers, when each model last ran here: {total['from_store']:,} from the store "
        f"({', '.join(sorted(stores))}), {others:,} reused from this project's own rows, "
        f"{total['generated']:,} generated"
    )


RAN_FOLDER = Path("metrics/ran")


def ran_file(model: str) -> Path:
    """Where what made a model's results is noted, from the project's folder."""
    return RAN_FOLDER / f"{model}.json"


def read_ran(path: Path) -> Row:
    """What such a file holds; {} where it is not there or cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
