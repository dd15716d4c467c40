"""Property tests over params, suites, replies and stores, and repeating them for some time.

``python -m tests.fuzz 600`` runs every test that :func:`fuzzed` marks again and again for ten minutes,
each round with other examples, and ends with 1 at the first failure.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# How many times the usual number of examples each test draws.
TIMES = int(os.environ.get("FUZZ_TIMES", "1"))


def fuzzed(examples: int) -> Callable[[Any], Any]:
    """Marks a property test for ``make fuzz``; usually it draws so many examples."""
    chosen = settings(
        max_examples=examples * TIMES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    def mark(test: Any) -> Any:
        return pytest.mark.fuzz(chosen(test))

    return mark


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """The way to each value inside a value."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [path, *(place for key, held in inner for place in places(held, (*path, key)))]


def main(seconds: float) -> int:
    """Rounds of all marked tests until the time is up; the exit code."""
    start, rounds = time.monotonic(), 0
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "fuzz", "-p", "no:cacheprovider"]
    while time.monotonic() - start < seconds:
        seed = f"--hypothesis-seed={time.time_ns()}"
        done = subprocess.run(
            [*command, seed, str(Path(__file__).parent)],
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "FUZZ_TIMES": "30"},
        )
        if done.returncode:
            print(f"round {rounds + 1} found something; {seed} draws it again")
            return 1
        rounds += 1
    print(f"{rounds} rounds in {time.monotonic() - start:.0f} s found nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
