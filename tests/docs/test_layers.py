"""The library is built in layers: a part imports what lies below it and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.builders import ROOT

# From the ground up. A part may import those before it. A new part takes the lowest place it can.
LAYERS = (
    "statistics",
    "core",
    "suites",
    "models",
    "judges",
    "rates",
    "agreement",
    "results",
    "project",
    "evaluate",
    "report",
    "export",
    "api",
    "checks",
    "cli",
)
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for top in ("refract", "stages")
    for path in sorted((ROOT / top).rglob("*.py"))
}


def imports_of(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The modules that a file imports, anywhere in it, each with the names that are taken of it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            yield str(node.module), [alias.name for alias in node.names]


def imported(path: Path) -> Iterator[str]:
    """The modules of the project that a file imports.

    Importing ``a.b.c`` runs ``a.b`` too; a package counts as imported only where a name of its own
    is taken, since what its ``__init__`` offers is then what is used.
    """
    for module, names in imports_of(path):
        for full in [f"{module}.{name}" for name in names] or [module]:
            found = full if full in MODULES else module
            if found in MODULES:
                yield found


@cache
def arrows() -> dict[str, list[str]]:
    """What each module imports."""
    return {name: sorted(set(imported(path)) - {name}) for name, path in MODULES.items()}


def part(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def test_each_part_imports_what_lies_below_it_and_nothing_else():
    wrong = []
    for module, targets in arrows().items():
        for target in targets:
            outside = target == "refract" or target.startswith("stages") or "__main__" in target
            above = module.startswith("refract.") and not outside
            if above:
                above = LAYERS.index(part(target)) > LAYERS.index(part(module))
            if outside or above:
                wrong.append(f"{module} imports {target}")
    assert wrong == []
    assert {part(module) for module in MODULES if module.startswith("refract.")} <= set(LAYERS)


def test_no_module_is_imported_by_what_it_imports():
    """Depth-first search over the imports, which names a circle by its members."""
    done: set[str] = set()
    circles = []

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            circles.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for target in arrows()[module]:
                visit(target, (*path, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())
    assert circles == []


def test_no_two_modules_and_no_two_public_classes_have_one_name():
    names = []
    for name, path in MODULES.items():
        if not name.startswith("refract."):
            continue
        if path.stem != "__init__":
            names.append(path.stem)
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                names.append(node.name)
    assert sorted(names) == sorted(set(names))
