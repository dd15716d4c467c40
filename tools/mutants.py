"""Which one-line mistakes do the tests notice?

    python -m tools.mutants                      # 100 mutants of the places below
    python -m tools.mutants --only statistics --count 40 --seed 2
    python -m tools.mutants --list               # which they would be; nothing runs

A mutant is a copy of the project with one line changed: a comparison, a sign, a number, a condition,
a value that is returned, two arguments in each other's place, a statement left out. It must fail a
test of its own folder. The tests that enter the changed function run, those of the file named like
the module first, quick ones before slow ones, up to the first that fails; then the others of that
file. mutmut and cosmic-ray would mutate everything and run the same tests for all.

A mutant is noticed where a test fails, where its module can no longer be imported, or where it loops:
its tests take ten times the processor time that they take without it. One whose tests only wait too
long is not noticed.

Texts, logs, annotations, decorators and errors are not mutated, nor is ``strict=`` of a zip, which
only ever raises. ``equivalent_mutants.toml`` lists mutants that change nothing which can be observed,
each with the reason: they are not drawn. Exit code 1 where fewer than nine in ten are noticed.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Generator, Iterator
from functools import cache
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The tests that a module's mutants must fail, by where it lies.
TESTS = {
    "refract/statistics": ("tests/statistics",),
    "refract/rates": ("tests/rates",),
    "refract/agreement": ("tests/agreement",),
    "refract/judges": ("tests/judges",),
    "packages/refract-exact/refract_exact/deciding.py": ("packages/refract-exact/tests",),
    "packages/refract-exact/refract_exact/verifying.py": ("packages/refract-exact/tests",),
}
MODULE = "<module>"
WANTED = 0.9
LEAST_SECONDS = 60  # of processor time until a mutant counts as one that loops
WAIT = 10  # times as long as that until one counts as one that only waits
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
# What each operator becomes.
OPERATORS = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",),
    "!=": ("==",), "in": ("not in",), "not in": ("in",), "is": ("is not",), "is not": ("is",),
    "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "**": ("*",), "//": ("*",),
    "and": ("or",), "or": ("and",),
}  # fmt: skip
EXTREMES = {"min": "max", "max": "min"}
# Their arguments can change places, or say something about types alone.
SYMMETRIC = {"min", "max", "np.minimum", "np.maximum", "torch.minimum", "torch.maximum", "hypot"}
SYMMETRIC |= {"isinstance", "issubclass", "cast"}


@cache
def original(file: str) -> bytes:
    """A module as it was when mutants were drawn."""
    return (ROOT / file).read_bytes()


class Mutant(NamedTuple):
    """A module (its path in the project) whose bytes from ``start`` to ``end`` are replaced, in a
    function of that name. :data:`MODULE` is outside of any: all tests that enter the file run."""

    file: str
    function: str
    line: int
    start: int
    end: int
    new: str

    def source(self) -> bytes:
        text = original(self.file)
        return text[: self.start] + self.new.encode() + text[self.end :]

    def lines(self) -> tuple[str, str]:
        """The changed line before and after."""
        sources = original(self.file), self.source()
        before, after = (source.decode().splitlines()[self.line - 1] for source in sources)
        return before.strip(), after.strip()

    def shown(self) -> str:
        before, after = self.lines()
        return f"{self.file}:{self.line}\n    {before}\n    {after}"

    def compiles(self) -> bool:
        try:
            ast.parse(self.source())
        except SyntaxError:
            return False
        return True


def mutants(file: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its syntax tree."""
    raw = original(file)
    starts = [0]
    within = MODULE
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: Any) -> tuple[int, int]:
        first, last = starts[node.lineno - 1], starts[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset

    def text(node: Any) -> str:
        return raw[slice(*span(node))].decode()

    def whole(node: Any, new: str) -> Mutant:
        return Mutant(file, within, node.lineno, *span(node), new)

    def operator(left: Any, right: Any) -> Iterator[Mutant]:
        """Mutants of the operator between two expressions of one line."""
        start, end = span(left)[1], span(right)[0]
        gap = raw[start:end].decode()
        old = gap.strip(" ()")
        for new in OPERATORS.get(old, ()) if "\n" not in gap else ():
            yield Mutant(file, within, left.end_lineno, start, end, gap.replace(old, new))

    for node, within in _running(ast.parse(raw), MODULE):
        one_line = getattr(node, "lineno", 0) == getattr(node, "end_lineno", 1)
        match node:
            case ast.Compare(left=left, comparators=[right]) | ast.BinOp(left=left, right=right):
                if not isinstance(left, ast.JoinedStr):
                    yield from operator(left, right)
            case ast.BoolOp(values=values):
                for left, right in pairwise(values):
                    yield from operator(left, right)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield whole(node, text(operand))
            case ast.Constant(value=bool()):
                yield whole(node, str(not node.value))
            case ast.Constant(value=int() | float()):
                yield whole(node, str(node.value + 1))
                yield whole(node, f"({node.value - 1})")
            case ast.Return(value=ast.expr() as value) if one_line:
                if text(value) not in ("None", "False"):
                    yield whole(node, "return None")
            case ast.AugAssign() | ast.Expr(value=ast.Call()) if one_line:
                if not text(node).startswith(("log.", "logging.")):
                    yield whole(node, "pass")
            case ast.Call(func=ast.Name(id=name)) if name in EXTREMES:
                yield whole(node.func, EXTREMES[name])
            case ast.Call(func=called, args=[left, right, *_]) if one_line:
                starred = isinstance(left, ast.Starred) or isinstance(right, ast.Starred)
                if not (starred or text(left) == text(right) or text(called) in SYMMETRIC):
                    start, end = span(left)[0], span(right)[1]
                    gap = raw[span(left)[1] : span(right)[0]].decode()
                    yield Mutant(
                        file, within, left.lineno, start, end, text(right) + gap + text(left)
                    )


def _running(tree: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    """The nodes that decide what a module does, and the innermost function around each."""
    left_out = ast.Raise | ast.Assert | ast.JoinedStr
    function = tree.name if isinstance(tree, ast.FunctionDef) else function
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            strict = isinstance(node, ast.keyword) and node.arg == "strict"
            if isinstance(node, ast.AST) and not isinstance(node, left_out) and not strict:
                yield node, function
                yield from _running(node, function)


def drawn(only: str, seed: int, count: int) -> list[Mutant]:
    """So many mutants of the places whose path holds ``only``, drawn with the seed, without those
    that change nothing. Ends where one of these is none of the project's any more."""
    listed = tomllib.loads(EQUIVALENT.read_text("utf-8"))["mutant"]
    equivalent = {(entry["file"], entry["before"], entry["after"]) for entry in listed}
    candidates: list[Mutant] = []
    seen = set()
    for place in TESTS:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            name = str(file.relative_to(ROOT))
            for mutant in mutants(name) if only in name else ():
                change = (name, *mutant.lines())
                seen.add(change)
                if change not in equivalent:
                    candidates.append(mutant)
    gone = [change for change in sorted(equivalent - seen) if only in change[0]]
    if gone:
        raise SystemExit(f"{EQUIVALENT.name} names what is no mutant: {gone}")
    random.Random(seed).shuffle(candidates)
    chosen: list[Mutant] = []
    for mutant in candidates:
        if len(chosen) < count and mutant.compiles():
            chosen.append(mutant)
    return chosen


class Watching:
    """A plugin of pytest: how long each test takes, and which functions below a folder it enters."""

    def __init__(self, folder: Path) -> None:
        self.folder = f"{folder}/"
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.entered: dict[str, set[tuple[str, str]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        entered = self.entered[item.nodeid] = set()

        def trace(frame: Any, event: str, argument: object) -> None:
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            if file.startswith(self.folder):
                entered.add((file.removeprefix(self.folder), name))

        began = time.process_time()
        sys.settrace(trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seconds[item.nodeid] = time.process_time() - began


class Trial:
    """A copy of the project in which mutants are tried."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder / "project", folder / "log"
        command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
        for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0"):
            if (ROOT / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.folder / name)
        os.chdir(self.folder)
        # The packages of the copy, too, before those that are installed.
        paths = [str(path) for path in (self.folder, *sorted(self.folder.glob("packages/*")))]
        sys.path[:0] = paths
        os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "REFRACT_TESTS_FORK": "no"}
        self.watched: dict[str, Watching] = {}
        self.changes = 0

    def status(self, work: Callable[[], int], seconds: float) -> int:
        """The exit status of a function in a process of its own: the number of a signal below 0
        where it took so much processor time (SIGXCPU), or waited far longer (SIGALRM)."""
        process = os.fork()
        if not process:
            resource.setrlimit(resource.RLIMIT_CPU, (ceil(seconds), ceil(seconds) + 5))
            signal.alarm(ceil(WAIT * seconds))
            with self.log.open("wb") as stream:
                os.dup2(stream.fileno(), 1)
                os.dup2(stream.fileno(), 2)
            os._exit(work())
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def watch(self, place: str) -> Watching:
        """The tests of a place as they run without a mutant; those that fail are left out."""
        watching = self.watched.setdefault(place, Watching(self.folder))
        if not watching.seconds:
            kept = self.folder.parent / "watched"

            def work() -> int:
                pytest.main(["-q", *TESTS[place]], plugins=[watching])
                kept.write_bytes(
                    pickle.dumps((watching.seconds, watching.failed, watching.entered))
                )
                return 0

            self.status(work, 3600)
            watching.seconds, watching.failed, watching.entered = pickle.loads(kept.read_bytes())
            for test in sorted(watching.failed):
                print(f"left out, for it fails without a mutant: {test}", flush=True)
                del watching.entered[test]
        return watching

    def survives(self, mutant: Mutant) -> bool:
        """Whether no test of its folder fails, of those that enter the changed function."""
        watched = self.watch(next(place for place in TESTS if mutant.file.startswith(place)))
        changed = mutant.file, mutant.function
        tests = []
        for test, entered in watched.entered.items():
            files = {file for file, _ in entered}
            if changed in entered or (mutant.function == MODULE and mutant.file in files):
                tests.append(test)
        tests = tests or list(watched.entered)
        path = Path(mutant.file)
        near = f"/test_{path.parent.name if path.stem == '__init__' else path.stem}"
        tests.sort(key=lambda test: (near not in test, watched.seconds[test]))
        # What an earlier test has loaded once, a later one uses without entering it.
        tests += [test for test in watched.entered if near in test and test not in tests]
        limit = LEAST_SECONDS + 10 * sum(watched.seconds[test] for test in tests)
        self.write(mutant.file, mutant.source())
        try:
            status = self.status(lambda: int(pytest.main(["-x", "-q", *tests])), limit)
            if status == pytest.ExitCode.USAGE_ERROR:
                # Tests have other names with the mutant, or nothing can be imported.
                files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
                status = self.status(lambda: int(pytest.main(["-x", "-q", *files])), limit)
            return status in (0, pytest.ExitCode.NO_TESTS_COLLECTED, -signal.SIGALRM)
        finally:
            self.write(mutant.file, original(mutant.file))

    def write(self, file: str, source: bytes) -> None:
        """Each with a time of its own: compiled files are told by time and size."""
        self.changes += 1
        (self.folder / file).write_bytes(source)
        os.utime(self.folder / file, (self.changes, self.changes))


def preload() -> None:
    """Loads the libraries once for all mutants, of which none is Refract."""
    from tests.forked import HEAVY, LIBRARIES

    for name in ("hypothesis", "statsmodels.api", *LIBRARIES, *HEAVY):
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.startswith(("tests", "refract"))]:
        del sys.modules[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", default="", help="part of a path, such as statistics")
    parser.add_argument("--list", action="store_true", help="show the mutants, try none")
    options = parser.parse_args()
    chosen = drawn(options.only, options.seed, options.count)
    if options.list:
        print(*[mutant.shown() for mutant in chosen], sep="\n")
        return
    preload()
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trial = Trial(Path(folder))
        for number, mutant in enumerate(chosen, 1):
            if trial.survives(mutant):
                survivors += 1
                print(f"{number} of {len(chosen)} survives: {mutant.shown()}", flush=True)
        os.chdir(ROOT)
    print(f"{len(chosen) - survivors} of {len(chosen)} are noticed; {survivors} survive")
    raise SystemExit(survivors > (1 - WANTED) * len(chosen))


if __name__ == "__main__":
    main()
