"""The library is built in layers: a part imports what lies below it and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
    "project",
    "results",
    "evaluate",
    "report",
    "export",
    "papers",
    "api",
    "checks",
    "cli",
)
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for top in ("refract", "stages")
    for path in sorted((ROOT / top).rglob("*.py"))
}


def imported(path: Path) -> Iterator[str]:
    """The modules of the project that a file imports, anywhere in it.

    Importing ``a.b.c`` runs ``a.b`` too; a package counts as imported only where a name of its own
    is taken, since what its ``__init__`` offers is then what is used.
    """
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in MODULES:
                    yield full
                elif node.module in MODULES:
                    yield node.module


ARROWS = {name: sorted(set(imported(path)) - {name}) for name, path in MODULES.items()}


def part(module: str) -> str:
    return module.split(".")[1]


def test_each_part_of_the_library_has_its_layer():
    assert {part(module) for module in MODULES if module.startswith("refract.")} <= set(LAYERS)


def test_no_part_imports_one_above_it():
    upward = [
        f"{module} imports {target}"
        for module, targets in ARROWS.items()
        if module.startswith("refract.")
        for target in targets
        if target != "refract" and LAYERS.index(part(target)) > LAYERS.index(part(module))
    ]
    assert upward == []


def test_the_library_imports_neither_itself_as_a_whole_nor_a_stage_nor_a_main_module():
    found = [
        f"{module} imports {target}"
        for module, targets in ARROWS.items()
        for target in targets
        if target == "refract" or target.startswith("stages") or target.endswith("__main__")
    ]
    assert found == []


def test_no_module_is_imported_by_what_it_imports():
    """Depth-first search over the imports, which names a circle by its members."""
    done: set[str] = set()
    circles = []

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            circles.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for target in ARROWS[module]:
                visit(target, (*path, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())
    assert circles == []
