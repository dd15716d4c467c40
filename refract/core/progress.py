"""Progress of long work, and the last run of each stage: printed, never hashed."""

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
# Nothing is printed before, nor a rate.
FIRST_SECONDS = 10.0
# The last run of each stage.
FOLDER = Path("data/runs")
# Where a model's answers and verdicts come from.
RAN_FOLDER = Path("metrics/ran")


class Progress:
    """Counts rows done in one line: always shown on a terminal, elsewhere printed after
    ten seconds and once a minute."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.done = label, total, 0
        self._start = self._last = time.monotonic()
        self._line: Any = None
        self._first: threading.Timer | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and self.total:
            from rich.console import Console

            self._line = Console(stderr=True).status(self._shown("starting"))
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

    def _shown(self, note: str) -> Any:
        from rich.text import Text

        return Text(printable(self._text(note)))

    def _text(self, note: str = "") -> str:
        """How many rows are done; once that is known, how fast, and how long the others take."""
        text = f"{self.label}: {self.done}/{self.total} rows"
        passed = time.monotonic() - self._start
        if self.done and passed >= FIRST_SECONDS:
            rate = self.done / passed
            left = (self.total - self.done) / rate
            text += f", {rate:.1f} rows/s" if rate >= 1 else f", {60 * rate:.1f} rows/min"
            text += f", about {left:.0f} s" if left < 90 else f", about {left / 60:.0f} min"
            text += " left"
        return f"{text}, {note}" if note else text

    def advance(self, rows: int = 1, note: str = "") -> None:
        """Counts ``rows`` more as done; ``note`` is shown beside them (tokens, errors, cost)."""
        self.done += rows
        now = time.monotonic()
        if self._line is not None:
            self._line.update(self._shown(note))
        elif now - self._last >= EVERY_SECONDS:
            self._last = now
            self._print(note)


def run_stage(stage: str, work: Callable[..., object], *arguments: str) -> None:
    """What ``python -m stages.STAGE`` does: calls ``work`` with the command line's
    arguments, whose names are ``arguments``. An error that a user can mend ends the stage
    with its message."""
    if len(sys.argv) != 1 + len(arguments):
        module = stage.replace("-", "_")
        sys.exit(" ".join(["usage: python -m", f"stages.{module}", *arguments]))
    let_threads_sleep()
    # Rows come by the ten thousand and hold no cycles. The default of 700 costs a sixth of the time.
    gc.set_threshold(50_000)
    try:
        work(*sys.argv[1:])
    except (RefractError, OSError) as error:
        sys.exit(printable(f"{stage}: {error}", keep="\n"))


def let_threads_sleep() -> None:
    """Lets a model's threads that wait for each other leave the processor to others soon,
    unless the environment says otherwise. It has to be called before PyTorch and NumPy
    are loaded."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        # They spin for some 30 microseconds first, since waking a thread takes longer than most waits.
        os.environ.setdefault("GOMP_SPINCOUNT", "30000")


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
        """Prints the run in one line and writes it, with ``details``, to
        ``data/runs/``."""
        seconds = time.monotonic() - self._started
        count = len(self.warnings)
        warned = f", {count} warning{'' if count == 1 else 's'}" if count else ""
        say(f"{self.name}: {summary} in {seconds:.1f} s{warned}")
        run = {
            "summary": summary,
            "seconds": round(seconds, 3),
            "warnings": self.warnings,
        }
        write_json(FOLDER / f"{self.name}.json", {**run, **details})


def last_runs(root: Path, models: Sequence[str]) -> dict[str, Row]:
    """The last run of each stage, for these models, in the pipeline's order, where it is
    known."""
    stages = ("model-inference", "judge", "aggregate")
    of_models = [f"{stage}@{model}" for stage in stages for model in models]
    names = ("generate-perturbations", *of_models, "validate-judges", "report")
    runs = {name: read_object(root / FOLDER / f"{name}.json") for name in names}
    return {name: run for name, run in runs.items() if "warnings" in run}


def warning_lines(root: Path, models: Sequence[str], *, short: bool = False) -> list[str]:
    """The warnings of the last runs, each once with the models that have it; and counts
    over all models of what needs no warning (``3 of 900 answers not judged``).

    ``short`` leaves out these counts, what the result table says too (thresholds, cut
    off, not judged), and, but for errors, remarks in brackets and what is to be done."""
    runs = last_runs(root, models)
    common: dict[tuple[str, str], list[str]] = {}
    for name, run in runs.items():
        stage, _, model = name.partition("@")
        for text in run["warnings"]:
            if short and " answers are errors" not in text:
                if re.search(r"\d+ of \d+ (thresholds|answers) ", text):
                    continue
                text = re.sub(r" \(.*?\)", "", text.partition("; ")[0])
            if text:
                common.setdefault((stage, text), []).append(model)
    lines = [f"warnings ({sum(map(len, common.values()))}):"] if common else []
    for (stage, text), having in common.items():
        named = f"@{', '.join(having)}" if any(having) else ""
        if len(having) == len(models) > 1:
            named = f", each of {len(models)} models"
        lines.append(f"  {stage}{named}: {text}")
    if short:
        return lines
    total: Counter[str] = Counter()
    for run in runs.values():
        total.update(run.get("counted", {}))
    answers = total.pop("answers", 0)
    counts = [f"{count:,} {kind}" for kind, count in total.items() if count]
    if counts:
        shares = f"of {answers:,} answers {', '.join(counts)}"
        lines.append(f"counted, beside each rate in the report: {shares}")
    return lines


def answer_line(root: Path, models: Sequence[str]) -> str:
    """How many answers were generated, and how many came from the store, which all
    projects of a user share; "" where no model ran on this machine."""
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
    read = f", {total['read']:,} read from files" if total["read"] else ""
    return (
        f"answers, when each model last ran here: {total['from_store']:,} from the store "
        f"({', '.join(sorted(stores))}), {others:,} reused from this project's own rows, "
        f"{total['generated']:,} generated{read}"
    )


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
