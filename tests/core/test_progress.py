"""What each stage says of its last run: kept by name, listed in the pipeline's order."""

from __future__ import annotations

import json
import os
import sys

import pytest

from refract.core.progress import FOLDER, Progress, StageRun, last_runs, run_stage, warning_lines


def test_warnings_are_those_of_the_grid_in_the_order_of_the_pipeline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for stage, model in (("report", ""), ("aggregate", "b"), ("judge", "a"), ("judge", "gone")):
        run = StageRun(stage, model)
        run.warn("something\x1b[2J")
        run.end("done", answers={"s": 1})
    held = json.loads((tmp_path / FOLDER / "judge@a.json").read_text("utf-8"))
    assert held.pop("seconds") >= 0
    assert held == {"summary": "done", "warnings": ["something\x1b[2J"], "answers": {"s": 1}}
    (tmp_path / FOLDER / "aggregate@a.json").write_text("not json")
    assert warning_lines(tmp_path, ["a", "b"]) == [
        "warnings (3):",
        "  judge@a: something\x1b[2J",
        "  aggregate@b: something\x1b[2J",
        "  report: something\x1b[2J",
    ]
    assert last_runs(tmp_path / "elsewhere", ["a"]) == {}


def test_a_warning_that_concerns_several_models_is_said_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for model in "abc":
        run = StageRun("judge", model)
        run.warn("suite: not measured in 8 rows")
        if model != "c":
            run.warn("suite: odd")
        run.end("done", counted={"answers": 9, "cut off": 1})
    assert warning_lines(tmp_path, ["a", "b", "c"]) == [
        "warnings (5):",
        "  judge@a, b, c: suite: not measured in 8 rows",
        "  judge@a, b: suite: odd",
        "counted, beside each rate in the report: of 27 answers 3 cut off",
    ]


def test_where_there_is_no_terminal_progress_is_a_line_a_minute(monkeypatch, capsys):
    now = "refract.core.progress.time.monotonic"
    monkeypatch.setattr(now, lambda: 0.0)
    with Progress("m", 309) as progress:
        progress.advance(1, "5 tokens")
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(now, lambda: 60.0)
        progress.advance(2, "9 tokens")
    printed = capsys.readouterr().err
    assert printed.startswith("m: 3/309 rows")
    assert printed.endswith("9 tokens\n")


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, ("PASSIVE", "30000")), ({"OMP_WAIT_POLICY": "ACTIVE"}, ("ACTIVE", None))],
)
def test_waiting_threads_do_not_keep_a_processor_busy(monkeypatch, given, expected):
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if k not in names})
    os.environ.update(given)
    monkeypatch.setattr(sys, "argv", ["stage"])
    seen = []
    run_stage("stage", lambda: seen.append(tuple(map(os.environ.get, names))))
    assert seen == [expected]
