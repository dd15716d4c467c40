"""Cases that are judged by several processes, or by the engine, with the verdicts of one.

Each process is a Python of its own, with one thread: a fork would copy the locks of
libraries' threads, and multiprocessing's "spawn" runs a user's script again.
"""

from __future__ import annotations

import os
import pickle
import pkgutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from refract.core.errors import ParamsError, RefractError
from refract.core.types import Verdict
from refract.judges.cases import Case, Judge
from refract.models import engine

# Engines that judge as well as answer, and what does it: a function of a judge, cases and how
# many shares of them are worth a process, which gives what the judge gives.
JUDGING_ENGINES = {"ray": "refract.engines.ray_judging:judge"}
PROCESSES = "REFRACT_PROCESSES"
# Neighbours are alike, in length and in what they are compared with.
_TOGETHER = 16
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
    """What ``judge.judge(cases)`` gives, by the engine where that judges.

    Each process gets at least as many cases as the judge wants for one. Raises what
    the judge raises, and :class:`refract.models.protocol.AdapterError` where the engine
    cannot be used.
    """
    worth = len(cases) // judge.cases_a_process if judge.cases_a_process else 1
    if worth < 2:
        return judge.judge(cases)
    by_engine = JUDGING_ENGINES.get(engine())
    if by_engine:
        verdicts: list[Verdict] = pkgutil.resolve_name(by_engine)(judge, cases, worth)
        return verdicts
    processes = min(most_processes(), worth)
    if processes < 2:
        return judge.judge(cases)
    shares = divided(len(cases), processes)
    with ThreadPoolExecutor(processes) as pool:
        waiting = [pool.submit(_ask, judge, [cases[index] for index in share]) for share in shares]
        return put_together(shares, [future.result() for future in waiting])


def divided(cases: int, parts: int) -> list[list[int]]:
    """The numbers of so many cases, divided so that neighbours stay together."""
    shares: list[list[int]] = [[] for _ in range(parts)]
    for index in range(cases):
        shares[index // _TOGETHER % parts].append(index)
    return [share for share in shares if share]


def put_together(
    shares: Sequence[Sequence[int]], verdicts: Sequence[Sequence[Verdict]]
) -> list[Verdict]:
    """The verdicts of all cases, in order, from those of their shares."""
    by_case: dict[int, Verdict] = {}
    for share, judged in zip(shares, verdicts, strict=True):
        by_case.update(zip(share, judged, strict=True))
    return [by_case[index] for index in sorted(by_case)]


def _ask(judge: Judge, cases: list[Case]) -> list[Verdict]:
    """The verdicts of a process that lives for them alone."""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import main; main()"],
        input=pickle.dumps((judge, cases)),
        stdout=subprocess.PIPE,
        env={**os.environ, **dict.fromkeys(_THREADS, "1"), "PYTHONPATH": paths},
    )
    if done.returncode:
        raise RuntimeError(f"a process that judged ended with code {done.returncode}")
    result: list[Verdict] | RefractError = pickle.loads(done.stdout)
    if isinstance(result, RefractError):
        raise result
    return result


def main() -> None:
    """Reads a judge and cases from standard input, and writes the verdicts or the error
    to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is reported by the parent
    output, sys.stdout = sys.stdout, sys.stderr
    judge, cases = pickle.load(sys.stdin.buffer)
    result: list[Verdict] | RefractError
    try:
        result = judge.judge(cases)
    except RefractError as error:
        result = error
    output.buffer.write(pickle.dumps(result))
    output.flush()
