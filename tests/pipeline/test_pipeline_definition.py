"""dvc.yaml says of each stage exactly what its code imports and reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from refract.core.jsonl import write_rows
from refract.core.params import DecisionSettings, load_params
from tests.builders import LABELLED, ROOT, SMALL_PARAMS, suite_rows
from tests.docs.test_layers import imports_of

PIPELINE = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]


def part_of(path: Path) -> str:
    """The part of the tree a module belongs to: its package, or its file where it has none."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2])


def module_path(name: str) -> Path | None:
    """The folder or file of a module or package of the library; None where it has no such one."""
    folder = ROOT.joinpath(*name.split("."))
    for path in (folder, folder.with_suffix(".py")):
        if path.exists():
            return path
    return None


# Two parts alone are the group of a registry, such as refract.judges.
PLACE = re.compile(r'"(?=[^"]*:|\w+\.\w+\.)(refract(?:\.\w+)+)(?::[\w.]+)?"')


@cache
def reached_by(path: Path) -> set[Path]:
    """What the code of a file or folder imports of the library, as whole parts, and the modules alone
    that it names in texts, such as those of a registry."""
    reached = set()
    for file in [path] if path.is_file() else path.rglob("*.py"):
        for module in filter(None, map(module_path, PLACE.findall(file.read_text("utf-8")))):
            # A package without its modules, which have names of their own.
            is_part = module.parent == ROOT / "refract"
            reached.add(module / "__init__.py" if is_part else module)
        for name, taken in imports_of(file):
            top, *rest = name.split(".")
            assert top not in ("stages", "tools", "tests", "benchmarks"), f"{file} imports {name}"
            if top == "refract":
                for part in rest[:1] or taken:
                    found = module_path(f"refract.{part}")
                    assert found, (
                        f"{file} imports {part} of refract, which offers it to users alone"
                    )
                    reached.add(found)
    return reached


def closure(part: str) -> set[str]:
    """The parts that the code of one part needs, with itself."""
    paths: set[Path] = set()
    waiting = [ROOT / part]
    while waiting:
        current = waiting.pop()
        if current not in paths:
            paths.add(current)
            waiting += reached_by(current)
    return {part_of(path) for path in paths}


@pytest.mark.parametrize("stage", PIPELINE)
def test_a_stage_declares_its_module_and_exactly_the_parts_of_the_library_it_imports(stage):
    declared = {dep for dep in PIPELINE[stage]["deps"] if dep.startswith(("stages/", "refract/"))}
    assert declared == closure(f"stages/{stage.replace('-', '_')}.py")


def test_dvc_expands_the_grid_into_three_stages_a_model_two_more_and_the_validation_of_judges():
    script = (
        "import dvc.repo, json; r = dvc.repo.Repo('.');"
        "print(json.dumps([s.addressing for s in r.index.stages]))"
    )
    done = subprocess.run(
        ["python", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    models = load_params(ROOT / "params.yaml")["grid"]["models"]
    assert set(json.loads(done.stdout)) == {
        "check-inputs",
        "generate-perturbations",
        "report",
        "validate-judges",
        *(f"{s}@{m}" for s in ("model-inference", "judge", "aggregate") for m in models),
    }


def only(params, keys):
    """params with nothing but the given dotted keys."""
    kept: dict = {}
    for key in keys:
        *path, last = key.split(".")
        source, target = params, kept
        for part in path:
            source, target = source[part], target.setdefault(part, {})
        target[last] = source[last]
    return kept


def test_each_stage_runs_with_nothing_but_its_declared_params(tmp_path):
    params = {
        **SMALL_PARAMS,
        "models": {"m": {"adapter": "synthetic", "temperature": 1}},
        "perturbations": {},
        "decisions": DecisionSettings().model_dump(),
        "validation": {},
        "null_answers": {},
    }
    write_rows(tmp_path / "s.jsonl", suite_rows("s"))
    write_rows(tmp_path / "data/validation/validation.jsonl", LABELLED)
    (tmp_path / "constraints.txt").write_text((ROOT / "constraints.txt").read_text("utf-8"))
    for stage, definition in PIPELINE.items():
        keys = [key.replace("${item.model}", "m") for key in definition.get("params", params)]
        YAML().dump(only(params, keys), tmp_path / "params.yaml")
        command = definition["cmd"].replace("${item.model}", "m").split()
        done = subprocess.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "REFRACT_CACHE": "off"},
        )
        assert done.returncode == 0, f"{stage}: {done.stderr}"
    assert Path(tmp_path / "metrics/report.md").is_file()
