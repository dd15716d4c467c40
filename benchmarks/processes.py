"""A command as a process of its own, and what it used."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes


class Used(NamedTuple):
    """Wall and processor seconds, and peak memory in MB, of a process and those that it waited for."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def run_python(folder: Path, *arguments: str, **variables: str) -> Used:
    """Runs this Python in a folder, with this project's code and one thread of each library, and ends
    the benchmark where it fails. Its standard output is not shown."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(arguments)} failed")
    cpu = used.ru_utime + used.ru_stime
    return Used(time.perf_counter() - start, cpu, used.ru_maxrss * RSS_UNIT / 1e6)
