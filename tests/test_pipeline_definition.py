"""dvc.yaml says of each stage exactly what its code imports and reads."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from stages.params import load_params
from stages.rows.jsonl import write_rows
from tests.pipeline import LABELLED, ROOT, suite_rows

PIPELINE = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]


def rooms_imported_by(room: str) -> set[str]:
    found = set()
    for path in (ROOT / "stages" / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative imports hide a room"
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            found |= {name.split(".")[1] for name in names if name.startswith("stages.")}
    return found


def closure(room: str) -> set[str]:
    rooms, waiting = set(), [room]
    while waiting:
        current = waiting.pop()
        if current not in rooms and (ROOT / "stages" / current).is_dir():
            rooms.add(current)
            waiting += rooms_imported_by(current)
    return rooms


@pytest.mark.parametrize("stage", PIPELINE)
def test_a_stage_declares_exactly_the_rooms_it_imports(stage):
    declared = {dep for dep in PIPELINE[stage]["deps"] if dep.startswith("stages/")}
    assert declared == {f"stages/{room}" for room in closure(stage.replace("-", "_"))}


def test_the_package_itself_holds_no_code_that_a_stage_would_have_to_declare():
    # A loader for users, which no stage calls, and which imports nothing until it is asked for.
    parts = ast.parse((ROOT / "stages/__init__.py").read_text("utf-8")).body
    assert [getattr(part, "name", type(part).__name__) for part in parts] == ["Expr", "__getattr__"]
    for path in (ROOT / "stages").rglob("*.py"):
        assert "from stages import" not in path.read_text("utf-8")


def test_dvc_expands_the_grid_into_three_stages_a_model_two_more_and_the_validation_of_judges():
    script = (
        "import dvc.repo, json; r = dvc.repo.Repo('.');"
        "print(json.dumps([s.addressing for s in r.index.stages]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    models = load_params(ROOT / "params.yaml")["grid"]["models"]
    assert set(json.loads(done.stdout)) == {
        "generate-perturbations",
        "report",
        "validate-judges",
        *(f"{s}@{m}" for s in ("model-inference", "judge", "aggregate") for m in models),
    }


def test_every_name_of_the_grid_is_defined_and_every_definition_is_usable():
    from stages.generate_perturbations.kinds import check_definition
    from stages.judge import KINDS
    from stages.models import open_model

    params = load_params(ROOT / "params.yaml")
    assert set(params["grid"]["models"]) <= set(params["models"])
    assert set(params["grid"]["suites"]) <= set(params["suites"])
    assert set(params["facts"]) <= set(params["models"])
    for name, definition in params["models"].items():
        open_model(name, definition)
    for name, definition in params["perturbations"].items():
        check_definition(name, definition)
    for suite in params["suites"].values():
        assert set(suite["judges"]) <= set(params["judges"])
        assert set(suite["perturbations"] or []) <= set(params["perturbations"])
    assert {judge["kind"] for judge in params["judges"].values()} <= set(KINDS)


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
        "grid": {"models": ["echo"], "suites": ["tiny"]},
        "seed": 1,
        "suites": {"tiny": {"file": "data/suites/tiny.jsonl", "judges": ["rules"]}},
        "judges": {"rules": {"kind": "rules"}},
        "perturbations": {},
        "facts": {},
        "models": {"echo": {"adapter": "synthetic", "temperature": 1}},
    }
    write_rows(tmp_path / "data/suites/tiny.jsonl", suite_rows("tiny"))
    write_rows(tmp_path / "data/validation/validation.jsonl", LABELLED)
    (tmp_path / "constraints.txt").write_text((ROOT / "constraints.txt").read_text("utf-8"))
    for stage, definition in PIPELINE.items():
        keys = [key.replace("${item.model}", "echo") for key in definition["params"]]
        YAML().dump(only(params, keys), tmp_path / "params.yaml")
        command = definition["cmd"].replace("${item.model}", "echo").split()
        done = subprocess.run(
            [sys.executable, *command[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "REFRACT_CACHE": "off"},
        )
        assert done.returncode == 0, f"{stage}: {done.stderr}"
    assert Path(tmp_path / "metrics/report.md").is_file()
