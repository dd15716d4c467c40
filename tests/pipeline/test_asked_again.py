"""Errors that may have passed are asked again by the next ``dvc repro``, and nothing else is."""

from __future__ import annotations

from refract.core.jsonl import read_rows
from tests.builders import Project, suite_rows
from tests.fault_server import FaultServer

FAILING = 4


def errors(project: Project) -> int:
    responses = read_rows(project.folder / "data/responses/api/alpha.jsonl")
    return sum(row["error"] is not None for row in responses)


def test_errors_that_may_pass_are_asked_again_and_those_that_the_prompt_brings_about_are_not(
    tmp_path,
):
    rows = suite_rows("alpha")
    for row in rows[:FAILING]:
        row["prompt"] += " [[crash*2]]"
    for row in rows[-2:]:
        row["prompt"] += " [[too_long]]"
    with FaultServer() as server:
        models = {"api": server.model(max_retries=0)}
        project = Project.create(tmp_path / "project", models, {"alpha": rows}, report=False)
        project.compute_for_dvc()
        assert errors(project) == FAILING + 2
        assert "`dvc repro` asks 4 of them again" in project.command("refract", "show")
        arrived = server.arrived
        # The server still fails: the same rows, so that nothing behind them runs.
        again = project.repro()
        assert again.ran == {"model-inference@api"}
        # Once the stage runs, all that failed is asked.
        assert server.arrived == arrived + FAILING + 2
        mended = project.repro()
        assert {"model-inference@api", "judge@api"} <= mended.ran
        assert (server.arrived, errors(project)) == (arrived + 2 * (FAILING + 2), 2)
        # Nothing is left of it in what DVC keeps.
        names = {path.name for path in (project.folder / "data/responses/api").iterdir()}
        assert names == {"alpha.jsonl", "model.json"}
        lock = (project.folder / "dvc.lock").read_bytes()
        assert project.repro().ran == set()
        assert (project.folder / "dvc.lock").read_bytes() == lock
        assert server.arrived == arrived + 2 * (FAILING + 2)


def test_a_judge_that_failed_is_asked_again(tmp_path):
    with FaultServer() as server:
        rows = suite_rows("alpha")
        for row in rows[:2]:
            row["prompt"] += " [[crash]]"
        models, suites = {"one": {"adapter": "synthetic"}}, {"alpha": rows}
        project = Project.create(tmp_path / "project", models, suites, report=False)
        params = project.params()
        params["judges"]["asked"] = {"kind": "llm_refusal", "model": server.model(max_retries=0)}
        params["suites"]["alpha"]["judges"] = ["rules", "asked"]
        project.set_params(params)
        project.compute_for_dvc()
        verdicts = read_rows(project.folder / "data/verdicts/one/alpha.jsonl")
        failed = ["the judge failed" in str(row["judges"]["asked"]["error"]) for row in verdicts]
        assert failed == [True] * 2 + [False] * 10
        assert project.repro().ran == {"judge@one"}
        names = {path.name for path in (project.folder / "data/verdicts/one").iterdir()}
        assert names == {"alpha.jsonl", "families.json", "judges.json", "unread.json"}
