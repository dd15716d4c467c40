"""What a kill can leave behind is named, with the command that mends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refract.cli import app
from refract.core.errors import RefractError
from refract.project.checkup import LOCK, dvc_processes, is_torn

PARAMS = (
    "grid: {models: [m], suites: [s]}\nseed: 1\njudges: {rules: {kind: rules}}\n"
    "suites: {s: {file: s.jsonl, judges: [rules]}}\nmodels: {m: {adapter: synthetic}}\n"
)
TORN = [b"", b"{", b'{"read": {"a": [{"pid', b"\0\0\0"]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    (tmp_path / "params.yaml").write_text(PARAMS, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFRACT_CACHE", str(tmp_path / "store"))
    return tmp_path


def run(*arguments: str):
    return CliRunner().invoke(app, ["doctor", *arguments])


def test_a_project_in_order_has_no_problem(project):
    result = run()
    assert (result.exit_code, "PROBLEM" in result.stdout) == (0, False)


@pytest.mark.parametrize("content", TORN)
def test_a_torn_lock_is_named_and_moved_away(project, content):
    lock = project / LOCK
    lock.parent.mkdir(parents=True)
    lock.write_bytes(content)
    assert is_torn(lock)
    result = run()
    assert result.exit_code == 1
    assert "run: refract doctor --fix" in result.stdout
    assert run("--fix").exit_code == 0
    assert not lock.exists()


@pytest.mark.parametrize(
    "content", [b"{}", b'{"read": {}, "write": {"a": {"pid": 1, "cmd": "x"}}}']
)
def test_a_whole_lock_is_left_alone(project, content):
    lock = project / LOCK
    lock.parent.mkdir(parents=True)
    lock.write_bytes(content)
    assert run("--fix").exit_code == 0
    assert lock.read_bytes() == content


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


def test_settings_and_a_store_that_cannot_be_used_are_named(project):
    (project / "store").mkdir()
    (project / "store/responses.sqlite").write_text("hello " * 999, "utf-8")
    assert "move the file away, set REFRACT_CACHE" in run().stdout
    (project / "params.yaml").write_text(PARAMS.replace("seed: 1", "sede: 1"), "utf-8")
    assert "did you mean 'seed'" in run().stdout


def test_dvc_runs_again_after_a_torn_lock(computed):
    (computed.folder / LOCK).write_bytes(b"")
    failed = computed.run("dvc", "repro", "check-inputs")
    assert failed.returncode != 0
    assert "JSON structure is corrupted" in failed.stderr
    computed.command("refract", "doctor", "--fix")
    computed.command("dvc", "repro", "check-inputs")
