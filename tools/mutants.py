"""Which one-line mistakes do the tests notice?

    python -m tools.mutants                      # 100 mutants of the places below
    python -m tools.mutants --only statistics --count 40 --seed 2
    python -m tools.mutants --list               # which they would be; nothing runs

A mutant is a copy of the project with one line changed: a comparison, a sign, a number, a condition, a
value that is returned, two arguments in the other's place, a statement left out. Each must fail a test
of its own folder, in which only the tests run that enter the changed function: the file named like the
module first, quick tests before slow ones, up to the first that fails. What runs past the time limit
failed. Kept libraries (mutmut, cosmic-ray) mutate everything and run one set of tests for all; a sample
that is drawn over several folders would have to be built around them.

Exit code 1 where fewer than nine in ten are noticed. No text, annotation, decorator or error is mutated.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The tests that a module's mutants must fail, by where it lies; of the models, of these two alone.
TESTS = {
    "refract/statistics": ("tests/statistics",),
    "refract/rates": ("tests/rates",),
    "refract/agreement": ("tests/agreement",),
    "refract/judges": ("tests/judges",),
    "refract/models/exact.py": ("tests/models/test_exact.py", "tests/models/test_hf.py"),
    "refract/models/verifying.py": ("tests/models/test_verifying.py",),
}
WANTED = 0.9
LEAST_SECONDS = 60
# Operators as they are written, and what each becomes.
COMPARISONS = {
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",),
    "!=": ("==",), "in": ("not in",), "not in": ("in",), "is": ("is not",), "is not": ("is",),
}  # fmt: skip
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "**": "*", "//": "*"}
EXTREMES = {"min": "max", "max": "min"}
# Their arguments can change places, or say something about types alone.
SYMMETRIC = {"min", "max", "hypot", "isinstance", "issubclass", "cast"}


class Mutant(NamedTuple):
    """A module (its path in the project) of which the bytes from ``start`` to ``end`` are replaced."""

    file: str
    line: int
    start: int
    end: int
    new: str

    def source(self) -> bytes:
        text = (ROOT / self.file).read_bytes()
        return text[: self.start] + self.new.encode() + text[self.end :]

    def shown(self) -> str:
        before = (ROOT / self.file).read_text("utf-8").splitlines()[self.line - 1].strip()
        after = self.source().decode().splitlines()[self.line - 1].strip()
        return f"{self.file}:{self.line}\n    {before}\n    {after}"


def mutants(file: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its syntax tree."""
    raw = (ROOT / file).read_bytes()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: Any) -> tuple[int, int]:
        first, last = starts[node.lineno - 1], starts[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset

    def text(node: Any) -> str:
        return raw[slice(*span(node))].decode()

    def whole(node: Any, new: str) -> Mutant:
        return Mutant(file, node.lineno, *span(node), new)

    def operator(left: Any, right: Any, changes: Mapping[str, Sequence[str]]) -> Iterator[Mutant]:
        """Mutants of the operator between two expressions of one line."""
        start, end = span(left)[1], span(right)[0]
        gap = raw[start:end].decode()
        old = gap.strip(" ()")
        for new in changes.get(old, ()) if "\n" not in gap else ():
            yield Mutant(file, left.end_lineno, start, end, gap.replace(old, new))

    for node in _running(ast.parse(raw)):
        one_line = getattr(node, "lineno", 0) == getattr(node, "end_lineno", 1)
        match node:
            case ast.Compare(left=left, comparators=[right]):
                yield from operator(left, right, COMPARISONS)
            case ast.BinOp(left=left, right=right) if not isinstance(left, ast.JoinedStr):
                yield from operator(left, right, ARITHMETIC)
            case ast.BoolOp(values=values):
                for left, right in pairwise(values):
                    yield from operator(left, right, {"and": ["or"], "or": ["and"]})
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield whole(node, text(operand))
            case ast.Constant(value=bool()):
                yield whole(node, str(not node.value))
            case ast.Constant(value=int() | float()):
                yield whole(node, str(node.value + 1))
                yield whole(node, f"({node.value - 1})")
            case ast.Return(value=ast.expr() as value) if one_line and text(value) != "None":
                yield whole(node, "return None")
            case ast.AugAssign() | ast.Expr(value=ast.Call()) if one_line:
                yield whole(node, "pass")
            case ast.Call(func=ast.Name(id=name)) if name in EXTREMES:
                yield whole(node.func, EXTREMES[name])
            case ast.Call(func=function, args=[left, right, *_]) if one_line:
                starred = isinstance(left, ast.Starred) or isinstance(right, ast.Starred)
                if not (starred or text(left) == text(right) or text(function) in SYMMETRIC):
                    start, end = span(left)[0], span(right)[1]
                    gap = raw[span(left)[1] : span(right)[0]].decode()
                    yield Mutant(file, left.lineno, start, end, text(right) + gap + text(left))


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that decide what a module does, annotations, decorators and errors left out."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not isinstance(
                node, ast.Raise | ast.Assert | ast.JoinedStr
            ):
                yield node
                yield from _running(node)


def drawn(only: str, seed: int, count: int) -> list[Mutant]:
    """So many mutants of the places whose path holds ``only``, drawn with the seed."""
    files: list[Path] = []
    for place in TESTS:
        path = ROOT / place
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    named = [str(file.relative_to(ROOT)) for file in files]
    candidates = [mutant for file in named if only in file for mutant in mutants(file)]
    random.Random(seed).shuffle(candidates)
    return [mutant for mutant in candidates if _compiles(mutant)][:count]


def _compiles(mutant: Mutant) -> bool:
    try:
        ast.parse(mutant.source())
    except SyntaxError:
        return False
    return True


class Watching:
    """A plugin of pytest: keeps how long each test takes and which functions of the project it enters,
    or, given some ``tests``, runs these alone in their order."""

    def __init__(self, folder: Path, tests: Sequence[str] = ()) -> None:
        self.folder = f"{folder}/"
        self.place = {test: index for index, test in enumerate(tests)}
        self.seconds: dict[str, float] = {}
        self.entered: dict[str, set[tuple[str, str]]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.place:
            items[:] = [item for item in items if item.nodeid in self.place]
            items.sort(key=lambda item: self.place[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        entered = self.entered[item.nodeid] = set()

        def trace(frame: Any, event: str, argument: object) -> None:
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            if file.startswith(self.folder):
                entered.add((file.removeprefix(self.folder), name))

        began = time.monotonic()
        sys.settrace(None if self.place else trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seconds[item.nodeid] = time.monotonic() - began


def in_child(work: Callable[[], int], seconds: float, log: Path) -> int:
    """The exit status of a function in a process of its own, which ends after so many seconds."""
    process = os.fork()
    if not process:
        signal.alarm(ceil(seconds))
        with log.open("wb") as stream:
            for number in (1, 2):
                os.dup2(stream.fileno(), number)
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


class Trial:
    """A copy of the project in which mutants are tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.log = folder / "log"
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        )  # fmt: skip
        for name in listed.stdout.split("\0"):
            if name and (ROOT / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.folder / name)
        os.chdir(self.folder)
        os.environ |= {"PYTHONPATH": str(self.folder), "REFRACT_TESTS_FORK": "no"}
        sys.path[:] = [
            str(self.folder),
            *(path for path in sys.path if path not in ("", str(ROOT))),
        ]
        self.watched: dict[tuple[str, ...], Watching] = {}
        self.changes = 0

    def watch(self, tests: tuple[str, ...]) -> Watching:
        """The tests of a place as they run without a mutant; SystemExit where one fails."""
        if tests in self.watched:
            return self.watched[tests]
        watching = self.watched[tests] = Watching(self.folder)
        kept = self.folder.parent / "watched"

        def work() -> int:
            status = pytest.main(["-x", "-q", *tests], plugins=[watching])
            kept.write_bytes(pickle.dumps((watching.seconds, watching.entered)))
            return int(status)

        if in_child(work, 3600, self.log):
            raise SystemExit(f"{' '.join(tests)} must pass first:\n{self.log.read_text('utf-8')}")
        watching.seconds, watching.entered = pickle.loads(kept.read_bytes())
        return watching

    def survives(self, mutant: Mutant) -> bool:
        """Whether no test of its folder fails, of those that enter the changed function."""
        place = next(tests for start, tests in TESTS.items() if mutant.file.startswith(start))
        watched = self.watch(place)
        changed = mutant.file, _function(mutant)
        tests = [test for test, entered in watched.entered.items() if changed in entered]
        tests = tests or list(watched.seconds)
        path = Path(mutant.file)
        near = f"/test_{path.parent.name if path.stem == '__init__' else path.stem}"
        tests.sort(key=lambda test: (near not in test, watched.seconds[test]))
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        limit = LEAST_SECONDS + 5 * sum(watched.seconds[test] for test in tests)

        def work() -> int:
            return int(pytest.main(["-x", "-q", *files], plugins=[Watching(self.folder, tests)]))

        self.write(mutant.file, mutant.source())
        try:
            return in_child(work, limit, self.log) == 0
        finally:
            self.write(mutant.file, (ROOT / mutant.file).read_bytes())

    def write(self, file: str, source: bytes) -> None:
        """Each with a time of its own: compiled files are told by time and size."""
        self.changes += 1
        (self.folder / file).write_bytes(source)
        os.utime(self.folder / file, (self.changes, self.changes))


def _function(mutant: Mutant) -> str:
    """The name of the innermost function around the changed line; "" outside of any."""
    name = ""
    for node in ast.walk(ast.parse((ROOT / mutant.file).read_bytes())):
        if isinstance(node, ast.FunctionDef) and node.lineno <= mutant.line <= (
            node.end_lineno or 0
        ):
            name = node.name
    return name


def preload() -> None:
    """Loads the libraries once for all mutants, of which none is Refract."""
    from tests.forked import HEAVY, LIBRARIES

    for name in ("hypothesis", "statsmodels.api", *LIBRARIES, *HEAVY):
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "refract")]:
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
        for mutant in chosen:
            print(mutant.shown())
        return
    preload()
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trial = Trial(Path(folder))
        for mutant in chosen:
            if trial.survives(mutant):
                survivors += 1
                print(mutant.shown(), flush=True)
        os.chdir(ROOT)
    killed = len(chosen) - survivors
    print(f"{killed} of {len(chosen)} are noticed; {survivors} survive, shown above")
    raise SystemExit(killed < WANTED * len(chosen))


if __name__ == "__main__":
    main()
