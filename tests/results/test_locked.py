"""Inputs that params.yaml does not hold: what became of them since is said, or nothing is decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from refract.project import read_project
from refract.project.inputs import changed_files
from refract.results.locked import ChangedInputs, changed_inputs
from refract.results.sources import read_side
from tests.builders import MODELS, Project


def found(project: Project) -> ChangedInputs:
    return changed_inputs(project.folder, read_project(project.folder).params, MODELS)


def test_the_hashes_of_a_pipeline_that_ran_are_those_of_dvc(project):
    (project.folder / "refract/judges/__pycache__").mkdir(exist_ok=True)
    (project.folder / "refract/judges/__pycache__/odd.pyc").write_bytes(b"1")
    assert found(project) == ChangedInputs([], [])
    assert read_side(project.folder).remarks == []
    (project.folder / "dvc.lock").unlink()
    assert found(project) == ChangedInputs([], [])


def test_nothing_is_decided_on_data_that_are_others_than_numbers_were_made_of(project):
    path = "data/labels"
    (project.folder / path / "none").write_text("another")
    reason = f"{path} is not what dvc.lock says that numbers were made of"
    assert found(project) == ChangedInputs([reason], [])
    done = project.refract("gate")
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"not decided: these numbers are not what params.yaml asks for: {reason}; run" in str(
        done.exception
    )
    for command in ("show", "table"):
        assert reason in project.refract(command).output
    (project.folder / path / "none").unlink()
    assert found(project).reasons == [reason]


def test_a_suite_that_no_grid_names_is_nothing_to_say(project):
    (project.folder / "data/suites/more.jsonl").write_text("")
    assert found(project) == ChangedInputs([], [])


@pytest.mark.parametrize(
    ("path", "old", "new", "remark"),
    [
        (
            "refract/judges/strings.py",
            '"""',
            '"""Now: ',
            "refract/judges: other code than computed these numbers; run: dvc repro",
        ),
        (
            "data/validation/validation.jsonl",
            '"label": "refusal"',
            '"label": "compliance"',
            "data/validation is not what judges were measured on; run: dvc repro",
        ),
        (
            "params.yaml",
            "margin: 0.05",
            "margin: 0.5",
            "the report has decisions.margin: 0.05 → 0.5; run: dvc repro",
        ),
    ],
)
def test_what_need_not_move_a_number_is_said(project, path, old, new, remark):
    text = (project.folder / path).read_text("utf-8")
    assert old in text
    (project.folder / path).unlink()
    (project.folder / path).write_text(text.replace(old, new, 1), "utf-8")
    assert found(project) == ChangedInputs([], [remark])
    for command in ("show", "table"):
        assert f"note: {remark}" in project.refract(command).output


@pytest.mark.parametrize("text", ["", "stages: 7\n", "a: [\n"])
def test_an_empty_lock_is_said(project, text):
    (project.folder / "dvc.lock").write_text(text)
    assert found(project) == ChangedInputs(
        [], ["dvc.lock names no stage; run: refract doctor --fix"]
    )


def test_weights_that_a_definition_names_elsewhere_are_watched(project, tmp_path, monkeypatch):
    answers = tmp_path / "elsewhere.jsonl"
    answers.write_text('{"id": "a", "response": "b"}\n')
    params = project.params()
    params["models"]["greedy"] = {"adapter": "recorded", "path": str(answers)}
    project.set_params(params)
    monkeypatch.chdir(project.folder)
    from stages import check_inputs

    check_inputs.main()
    read = read_project(Path()).params
    assert changed_files(read) == []
    answers.write_text('{"id": "a", "response": "c"}\n')
    assert changed_files(read) == ["greedy.path is another file"]
