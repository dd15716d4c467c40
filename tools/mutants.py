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
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

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
COMPARISONS = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Pow: ("**", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"),
}
EXTREMES = {"min": "max", "max": "min"}
# Their arguments can change places, or say something about types alone.
SYMMETRIC = {"min", "max", "hypot", "isinstance", "issubclass", "cast", "gcd"}


class Mutant(NamedTuple):
    """A module (its path in the project) of which the bytes from ``start`` to ``end`` are replaced."""

    file: str
    line: int
    start: int
    end: int
    new: str

    def source(self, folder: Path = ROOT) -> bytes:
        text = (folder / self.file).read_bytes()
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

    def begin(node: ast.expr | ast.stmt) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def end(node: ast.expr | ast.stmt) -> int:
        return starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[operator]

    def text(node: ast.expr | ast.stmt) -> str:
        return raw[begin(node) : end(node)].decode()

    def whole(node: ast.expr | ast.stmt, new: str) -> Mutant:
        return Mutant(file, node.lineno, begin(node), end(node), new)

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Mutant]:
        gap = raw[end(left) : begin(right)].decode()
        if gap.count(old) == 1 and "\n" not in gap:
            changed = gap.replace(old, new)
            yield Mutant(file, left.end_lineno or 0, end(left), begin(right), changed)

    for node in _running(ast.parse(raw)):
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                old, others = COMPARISONS[type(operator)]
                for new in others:
                    yield from between(left, right, old, new)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC:
                if not isinstance(left, ast.Constant | ast.JoinedStr) or text(left)[0].isdigit():
                    old, new = ARITHMETIC[type(operator)]
                    yield from between(left, right, old, new)
            case ast.BoolOp(op=operator, values=values):
                old, new = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
                for left, right in zip(values, values[1:], strict=False):
                    yield from between(left, right, old, new)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield whole(node, text(operand))
            case ast.Constant(value=bool()):
                yield whole(node, str(not node.value))
            case ast.Constant(value=int() | float()):
                yield whole(node, str(node.value + 1))
                yield whole(node, f"({node.value - 1})")
            case ast.Return(value=ast.expr() as value) if text(value) != "None":
                if node.lineno == node.end_lineno:
                    yield whole(node, "return None")
            case ast.AugAssign() | ast.Expr(value=ast.Call()) if node.lineno == node.end_lineno:
                yield whole(node, "pass")
            case ast.Call(func=ast.Name(id=name)) if name in EXTREMES:
                yield whole(node.func, EXTREMES[name])
            case ast.Call(func=function, args=[left, right, *_]):
                starred = isinstance(left, ast.Starred) or isinstance(right, ast.Starred)
                alike = text(left) == text(right) or left.lineno != right.end_lineno
                if not (starred or alike or text(function) in SYMMETRIC):
                    swapped = text(right) + raw[end(left) : begin(right)].decode() + text(left)
                    yield Mutant(file, left.lineno, begin(left), end(right), swapped)


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
    """A plugin of pytest that keeps how long each test takes, and which functions it enters."""

    def __init__(self, folder: Path) -> None:
        self.folder = f"{folder}/"
        self.seconds: dict[str, float] = {}
        self.entered: dict[str, set[tuple[str, str]]] = defaultdict(set)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        entered, folder, began = self.entered[item.nodeid], self.folder, time.monotonic()
        size = len(folder)

        def trace(frame, event, argument):  # type: ignore[no-untyped-def]
            code = frame.f_code
            if code.co_filename.startswith(folder):
                entered.add((code.co_filename[size:], code.co_name))

        sys.settrace(trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seconds[item.nodeid] = time.monotonic() - began


class Ordered:
    """A plugin of pytest that runs these tests alone, in this order."""

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: index for index, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.place]
        items.sort(key=lambda item: self.place[item.nodeid])


def in_child(work: Callable[[], int], seconds: float, log: Path) -> int:
    """The exit status of a function in a process of its own, which a time limit kills."""
    process = os.fork()
    if not process:
        os.setsid()
        with log.open("wb") as stream:
            for number in (1, 2):
                os.dup2(stream.fileno(), number)
        os._exit(work())
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return -signal.SIGKILL


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

    def pytest(self, *plugins: object, files: list[str]) -> int:
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        return int(pytest.main([*options, *files], plugins=list(plugins)))

    def watch(self, tests: tuple[str, ...]) -> Watching:
        """The tests of a place as they run without a mutant; SystemExit where one fails."""
        if tests in self.watched:
            return self.watched[tests]
        kept = self.folder.parent / "watched"

        def work() -> int:
            watching = Watching(self.folder)
            status = self.pytest(watching, files=list(tests))
            kept.write_bytes(pickle.dumps((watching.seconds, dict(watching.entered))))
            return status

        status = in_child(work, 3600, self.log)
        if status:
            raise SystemExit(f"{' '.join(tests)} must pass first:\n{self.log.read_text('utf-8')}")
        watching = self.watched[tests] = Watching(self.folder)
        watching.seconds, watching.entered = pickle.loads(kept.read_bytes())
        return watching

    def survives(self, mutant: Mutant) -> bool:
        """Whether no test of its folder fails, of those that enter the changed function."""
        place = next(tests for start, tests in TESTS.items() if mutant.file.startswith(start))
        watching = self.watch(place)
        function = _function(mutant)
        tests = [t for t, entered in watching.entered.items() if (mutant.file, function) in entered]
        tests = tests or list(watching.seconds)
        stem = Path(mutant.file).stem
        stem = Path(mutant.file).parent.name if stem == "__init__" else stem
        near = f"/test_{stem}"
        tests.sort(key=lambda test: (near not in test, watching.seconds[test]))
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        limit = LEAST_SECONDS + 5 * sum(watching.seconds[test] for test in tests)
        self.write(mutant.file, mutant.source())
        try:
            work = partial(self.pytest, Ordered(tests), files=files)
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
