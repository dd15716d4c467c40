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
from hypothesis import strategies as st

# How many times the usual number of examples each test draws.
TIMES = int(os.environ.get("FUZZ_TIMES", "1"))

# Texts of any characters, and of those that files, searches and spreadsheets tend to lose.
TEXT = st.text(st.characters(codec=None), max_size=12) | st.text(
    " \t\u200b\ufeff\u00ad\u00a0!?'\"`\u2019\u0301aé\0\ud800，\ufe0f", max_size=4
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def fuzzed(examples: int) -> Callable[[Any], Any]:
    """Marks a property test for ``make fuzz``; usually it draws so many examples."""
    checks = list(HealthCheck)
    most = examples * TIMES
    chosen = settings(max_examples=most, deadline=None, database=None, suppress_health_check=checks)
    return lambda test: pytest.mark.fuzz(chosen(test))


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """The way to each value inside a value."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    return [path, *(place for key, held in inner for place in places(held, (*path, key)))]


def main(seconds: float) -> int:
    """Rounds of all marked tests until the time is up; the exit code."""
    start, rounds = time.monotonic(), 0
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "fuzz", "-p", "no:cacheprovider"]
    folder = Path(__file__).parent
    while time.monotonic() - start < seconds:
        seed = f"--hypothesis-seed={time.time_ns()}"
        env = {**os.environ, "FUZZ_TIMES": "30"}
        done = subprocess.run([*command, seed, str(folder)], cwd=folder.parent, env=env)
        if done.returncode:
            print(f"round {rounds + 1} found something; {seed} draws it again")
            return 1
        rounds += 1
    print(f"{rounds} rounds in {time.monotonic() - start:.0f} s found nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
