"""Cases that are judged by several processes, with the verdicts of one.

Each process is a Python of its own, with one thread: a fork would copy the locks of
libraries' threads, and multiprocessing's "spawn" runs a user's script again.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain

from refract.core.environment import loaded_by_processes, loaded_libraries
from refract.core.errors import ParamsError, RefractError
from refract.core.types import Verdict
from refract.judges.cases import Case, Judge

PROCESSES = "REFRACT_PROCESSES"
# Shares of the cases for each process, so that all end at about the same time.
SHARES_A_PROCESS = 8
# Cases of a share: at most, and a multiple of this. Neighbours are compared with the same text.
_MOST, _TOGETHER = 256, 16
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def most_processes() -> int:
    """As many as the variable REFRACT_PROCESSES says, or the cores that this process may use.

    Raises :class:`ParamsError` where that is no number from 1.
    """
    value = os.environ.get(PROCESSES)
    if value is None:
        usable = getattr(os, "sched_getaffinity", None)
        return len(usable(0)) if usable else os.cpu_count() or 1
    if not value.isdecimal() or int(value) < 1:
        raise ParamsError(f"{PROCESSES} must be a number from 1 (got {value!r})")
    return int(value)


def judged_by_processes(judge: Judge, cases: Sequence[Case]) -> list[Verdict]:
    """What ``judge.judge(cases)`` gives.

    Processes start where there are cases for two, by the judge's ``cases_a_process``.
    Those that are there judge fewer, too. Raises what the judge raises, and
    :class:`RefractError` where a process ends too early.
    """
    if judge.cases_a_process is None:
        return judge.judge(cases)
    worth = len(cases) // judge.cases_a_process
    processes = most_processes()
    if processes < 2 or (worth < 2 and not _idle):
        return judge.judge(cases)
    shares = divided(cases, SHARES_A_PROCESS * processes)
    # The longest first: a long one at the end would keep the other processes waiting.
    lengths = [sum(len(case.answer) for case in share) for share in shares]
    order = sorted(range(len(shares)), key=lengths.__getitem__, reverse=True)
    with processes_stay(), ThreadPoolExecutor(min(processes, len(shares))) as threads:
        judged = threads.map(lambda index: _ask(judge, shares[index]), order)
        by_share = dict(zip(order, judged, strict=True))
    return list(chain.from_iterable(by_share[index] for index in range(len(shares))))


def divided(cases: Sequence[Case], parts: int) -> list[Sequence[Case]]:
    """About so many shares of the cases, in order."""
    size = min(math.ceil(len(cases) / parts / _TOGETHER) * _TOGETHER, _MOST)
    return [cases[start : start + size] for start in range(0, len(cases), size)]


class _Process:
    """A process that judges what it is sent until its standard input ends."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self.running = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(_THREADS, "1"), "PYTHONPATH": paths},
        )

    def ask(self, judge: Judge, cases: Sequence[Case]) -> list[Verdict] | RefractError:
        """The verdicts, or what the judge raised."""
        assert self.running.stdin is not None
        assert self.running.stdout is not None
        try:
            pickle.dump((judge, cases), self.running.stdin)
            self.running.stdin.flush()
            result: list[Verdict] | RefractError
            result, libraries = pickle.load(self.running.stdout)
        except (BrokenPipeError, EOFError):
            raise RefractError(
                f"{judge.name}: a process that judged ended with code {self.end()}; where memory ran "
                f"out, {PROCESSES}=1 needs less"
            ) from None
        loaded_by_processes.update(libraries)
        return result

    def end(self) -> int:
        self.running.communicate()
        return self.running.returncode


# Processes that wait for cases, and how many callers want them to stay.
_idle: list[_Process] = []
_callers = 0


@contextmanager
def processes_stay() -> Iterator[None]:
    """Processes that judged wait for more until this context ends: each takes a second to
    load weights."""
    global _callers
    _callers += 1
    try:
        yield
    finally:
        _callers -= 1
        while _idle and not _callers:
            _idle.pop().end()


def _ask(judge: Judge, cases: Sequence[Case]) -> list[Verdict]:
    try:
        process = _idle.pop()
    except IndexError:
        process = _Process()
    result = process.ask(judge, cases)
    _idle.append(process)
    if isinstance(result, RefractError):
        raise result
    return result


def main() -> None:
    """Reads judges and their cases from standard input, and writes the verdicts or the error
    to standard output, until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is reported by the parent
    # Kept whole: a text stream that nobody refers to closes what it writes to.
    output = sys.stdout
    sys.stdout = sys.stderr  # what a judge prints
    while True:
        try:
            judge, cases = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            result = judge.judge(cases)
        except RefractError as error:
            result = error
        pickle.dump((result, loaded_libraries()), output.buffer)
        output.flush()
