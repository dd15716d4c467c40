"""What each stage says of its last run: kept by name, listed in the pipeline's order."""

from __future__ import annotations

import json

from refract.core.progress import FOLDER, StageRun, last_runs, say_warnings


def test_warnings_are_those_of_the_grid_in_the_order_of_the_pipeline(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for stage, model in (("report", ""), ("aggregate", "b"), ("judge", "a"), ("judge", "gone")):
        run = StageRun(stage, model)
        run.warn("something\x1b[2J")
        run.end("done", answers={"s": 1})
    held = json.loads((tmp_path / FOLDER / "judge@a.json").read_text("utf-8"))
    assert held.pop("seconds") >= 0
    assert held == {"summary": "done", "warnings": ["something\x1b[2J"], "answers": {"s": 1}}
    (tmp_path / FOLDER / "aggregate@a.json").write_text("not json")
    capsys.readouterr()
    say_warnings(tmp_path, ["a", "b"])
    assert capsys.readouterr().out.splitlines() == [
        "warnings (3):",
        "  judge@a: something\\x1b[2J",
        "  aggregate@b: something\\x1b[2J",
        "  report: something\\x1b[2J",
    ]
    assert last_runs(tmp_path / "elsewhere", ["a"]) == {}


def test_what_is_worth_no_line_is_counted_over_all_models(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for model, unjudged in (("a", 2), ("b", 0), ("gone", 7)):
        counted = {"answers": 1309, "not judged": unjudged, "cut off": 0}
        StageRun("aggregate", model).end("done", counted=counted)
    capsys.readouterr()
    say_warnings(tmp_path, ["a", "b"])
    assert capsys.readouterr().out.splitlines() == [
        "counted, beside each rate in the report: of 2,618 answers 2 not judged"
    ]
