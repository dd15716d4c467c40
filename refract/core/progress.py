"""Progress of long work, and what each stage did when it last ran: printed, never hashed."""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from refract.core.errors import RefractError
from refract.core.jsonl import write_json
from refract.core.showing import printable, say
from refract.core.types import Row

EVERY_SECONDS = 60.0
# From when on there is something to say, of a rate too.
FIRST_SECONDS = 10.0
# What each stage did, as it says itself.
FOLDER = Path("data/runs")
# What made a model's answers and verdicts.
RAN_FOLDER = Path("metrics/ran")


class Progress:
    """Counts rows done, in one line: always there on a terminal, elsewhere printed after ten seconds and
    once a minute."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.done = label, total, 0
        self._start = self._last = time.monotonic()
        self._line: Any = None
        self._first: threading.Timer | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and self.total:
            from rich.console import Console
            from rich.text import Text

            self._line = Console(stderr=True).status(Text(printable(self._text("starting"))))
            self._line.start()
        elif self.total:
            self._first = threading.Timer(FIRST_SECONDS, self._print)
            self._first.daemon = True
            self._first.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._line is not None:
            self._line.stop()
        if self._first is not None:
            self._first.cancel()

    def _print(self, note: str = "") -> None:
        say(self._text(note), file=sys.stderr, flush=True)

    def _text(self, note: str = "") -> str:
        """How many rows are done, and, once that can be told, how fast and what is left."""
        text = f"{self.label}: {self.done}/{self.total} rows"
        passed = time.monotonic() - self._start
        if self.done and passed >= FIRST_SECONDS:
            rate, left = self.done / passed, (self.total - self.done) * passed / self.done
            text += f", {rate:.1f} rows/s" if rate >= 1 else f", {60 * rate:.1f} rows/min"
            text += (
                f", about {left:.0f} s left" if left < 90 else f", about {left / 60:.0f} min left"
            )
        return text + (f", {note}" if note else "")

    def advance(self, rows: int = 1, note: str = "") -> None:
        """Counts ``rows`` more as done; ``note`` is shown beside them (tokens, errors, cost)."""
        self.done += rows
        now = time.monotonic()
        if self._line is not None:
            from rich.text import Text

            self._line.update(Text(printable(self._text(note))))
        elif now - self._last >= EVERY_SECONDS:
            self._last = now
            self._print(note)


def run_stage(stage: str, work: Callable[..., object], *arguments: str) -> None:
    """What ``python -m stages.STAGE`` does: the work with the command line's arguments.

    ``arguments`` are their names. An error that a user can mend ends the stage in one message."""
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
    """Has threads of a model that wait for each other leave the processor to others soon, unless the
    environment says otherwise. It counts only where it comes before PyTorch and NumPy are loaded."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        # A few ten microseconds of spinning first, since to wake a thread takes longer than most waits.
        os.environ.setdefault("GOMP_SPINCOUNT", "30000")


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
        run = {"summary": summary, "seconds": round(seconds, 3), "warnings": self.warnings}
        write_json(FOLDER / f"{self.name}.json", {**run, **details})


def last_runs(root: Path, models: Sequence[str]) -> dict[str, Row]:
    """The last run of each stage and of these models that is known here, in the pipeline's order."""
    stages = ("model-inference", "judge", "aggregate")
    of_models = [f"{stage}@{model}" for stage in stages for model in models]
    names = ("generate-perturbations", *of_models, "validate-judges", "report")
    runs = {name: read_object(root / FOLDER / f"{name}.json") for name in names}
    return {name: run for name, run in runs.items() if "warnings" in run}


def warning_lines(root: Path, models: Sequence[str], *, short: bool = False) -> list[str]:
    """The warnings of the last runs in one place, what several models have in common once; and over all
    models the counts of what is worth no warning: ``3 of 900 answers not judged``. ``short``: without
    these, and but for errors without remarks in brackets, what is to be done, and what the result table
    says (thresholds, cut off, not judged)."""
    runs = last_runs(root, models)
    common: dict[tuple[str, str], list[str]] = {}
    for name, run in runs.items():
        stage, _, model = name.partition("@")
        for text in run["warnings"]:
            if short and " answers are errors" not in text:
                said_above = re.search(r"\d+ of \d+ (thresholds|answers) ", text)
                text = "" if said_above else re.sub(r" \(.*?\)", "", text.partition("; ")[0])
            if text:
                common.setdefault((stage, text), []).append(model)
    lines = [f"warnings ({sum(map(len, common.values()))}):"] if common else []
    for (stage, text), of in common.items():
        named = f"@{', '.join(of)}" if any(of) else ""
        if len(of) == len(models) > 1:
            named = f", each of {len(of)} models"
        lines.append(f"  {stage}{named}: {text}")
    total: Counter[str] = Counter()
    for run in runs.values() if not short else ():
        total.update(run.get("counted", {}))
    answers = total.pop("answers", 0)
    if parts := [f"{n:,} {kind}" for kind, n in total.items() if n]:
        of_all = f"of {answers:,} answers {', '.join(parts)}"
        lines.append(f"counted, beside each rate in the report: {of_all}")
    return lines


def answer_line(root: Path, models: Sequence[str]) -> str:
    """How many answers came from the store, which all projects of a user share, and how many were
    generated; "" where no model ran on this machine."""
    total: Counter[str] = Counter()
    stores: set[str] = set()
    for run in last_runs(root, models).values():
        if "store" in run:
            stores.add(run["store"])
            for counts in run["answers"].values():
                total.update(counts)
    if not stores:
        return ""
    others = total["reused"] - total["from_store"]
    return (
        f"answers, when each model last ran here: {total['from_store']:,} from the store "
        f"({', '.join(sorted(stores))}), {others:,} reused from this project's own rows, "
        f"{total['generated']:,} generated"
    )


def ran_file(model: str) -> Path:
    """Where what made a model's results is noted, from the project's folder."""
    return RAN_FOLDER / f"{model}.json"


def read_object(path: Path) -> Row:
    """The JSON object in a file; {} where there is none that can be read."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
