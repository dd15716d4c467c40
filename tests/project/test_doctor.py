"""What a kill can leave behind is named, with the command that mends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import RefractError
from refract.project.checkup import LOCK, RECORD, dvc_processes, is_torn

PARAMS = (
    "grid: {models: [m], suites: [s]}\nseed: 1\njudges: {rules: {kind: rules}}\n"
    "suites: {s: {file: s.jsonl, judges: [rules]}}\nmodels: {m: {adapter: synthetic}}\n"
)
TORN = [b"", b"{", b'{"read": {"a": [{"pid', b"\0\0\0"]
WHOLE = [b"{}", b'{"read": {}, "write": {"a": {"pid": 1, "cmd": "x"}}}']


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / "params.yaml").write_text(PARAMS, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path / "store"))
    return tmp_path


def run(*arguments: str):
    return CliRunner().invoke(app, ["lint", *arguments])


def test_a_project_in_order_has_no_problem(project):
    result = run()
    assert (result.exit_code, "PROBLEM" in result.stdout) == (0, False)


@pytest.mark.parametrize(
    ("style", "problem"),
    [
        ('{adapter: openai, model_id: x, base_url: "http://localhost:8000/v1"}', True),
        ('\n    adapter: openai\n    model_id: x\n    base_url: "http://localhost:8000/v1"', False),
    ],
)
def test_a_file_that_dvc_could_not_read_once_it_has_written_it_is_named(project, style, problem):
    models = f"models:\n  m: {{adapter: synthetic}}\n  s: {style}"
    text = PARAMS.replace("models: {m: {adapter: synthetic}}", models)
    (project / "params.yaml").write_text(text, "utf-8")
    result = run()
    assert (result.exit_code, "PROBLEM  params.yaml as DVC" in result.stdout) == (problem, problem)
    assert ("localhost:8000/v1" in result.stdout) == problem


@pytest.mark.parametrize("content", [*TORN, *WHOLE])
def test_a_torn_lock_is_named_and_moved_away_and_a_whole_one_left_alone(project, content):
    lock = project / LOCK
    lock.parent.mkdir(parents=True)
    lock.write_bytes(content)
    assert is_torn(lock) == (content in TORN)
    result = run()
    assert result.exit_code == int(content in TORN)
    assert ("run: refract lint --fix" in result.stdout) == (content in TORN)
    assert run("--fix").exit_code == 0
    assert lock.exists() == (content in WHOLE)


def test_a_lock_in_use_is_not_moved(project):
    lock = project / LOCK
    lock.parent.mkdir(parents=True)
    lock.write_bytes(b"")
    code = "import time; print(1, flush=True); time.sleep(60)"
    other = subprocess.Popen(
        [sys.executable, "-c", code, "dvc"], cwd=project, stdout=subprocess.PIPE
    )
    try:
        other.stdout.readline()
        assert dvc_processes(project) == [other.pid]
        assert isinstance(run("--fix").exception, RefractError)
        assert lock.exists()
    finally:
        other.kill()
        other.communicate()


@pytest.mark.parametrize("content", [b"", b"\n", b"\0\0\0", b"schema: '2.0", b"stages:\n"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_record_of_dvc_that_was_not_written_to_its_end_is_named_and_taken_back(
    project, content, committed
):
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True)

    whole, record = b"schema: '2.0'\nstages: {}\n", project / "dvc.lock"
    record.write_bytes(whole)
    git("init")
    if committed:
        git("add", "dvc.lock")
    assert (run().exit_code, run("--fix").exit_code) == (0, 0)
    assert record.read_bytes() == whole
    record.write_bytes(content)
    result = run()
    assert result.exit_code == 1
    assert "run: git checkout -- dvc.lock, or refract lint --fix" in result.stdout
    assert run("--fix").exit_code == int(not committed)
    assert record.read_bytes() == (whole if committed else content)


def test_settings_and_a_store_that_cannot_be_used_are_named(project):
    (project / "store").mkdir()
    (project / "store/responses.sqlite").write_text("hello " * 999, "utf-8")
    assert "move the file away, set REFRACT_CACHE" in run().stdout
    (project / "params.yaml").write_text(PARAMS.replace("seed: 1", "sede: 1"), "utf-8")
    assert "did you mean 'seed'" in run().stdout


@pytest.mark.parametrize(
    ("file", "says"), [(LOCK, "JSON structure is corrupted"), (RECORD, "validation failed")]
)
def test_dvc_runs_again_after_a_torn_lock_or_an_emptied_record(computed, file, says):
    torn = computed.folder / file
    whole = torn.read_bytes()
    torn.write_bytes(b"")
    failed = computed.run("dvc", "repro", "check-inputs")
    assert (failed.returncode != 0, says in failed.stderr) == (True, True)
    assert computed.refract("lint").exit_code == 1
    computed.command("refract", "lint", "--fix")
    assert file == LOCK or torn.read_bytes() == whole
    computed.command("dvc", "repro", "check-inputs")
