"""A large grid on a cluster: the job of docs/templates, run as SLURM runs its tasks, and its end."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from refract.core.jsonl import read_rows
from refract.models.store import ResponseStore
from tests.builders import ROOT, Project, Reproduction, cells, suite_rows
from tests.fault_server import FaultServer

PROMPTS = 40


def start(project: Project, number: int, shared: Path) -> subprocess.Popen[str]:
    """The task of a model, on a "node" that has nothing but the folder in common."""
    node = shared.parent / f"node{number}"
    node.mkdir(exist_ok=True)
    return subprocess.Popen(
        ["bash", ROOT / "docs/templates/grid.sbatch", shared, "HEAD"],
        cwd=project.folder,
        env=project.environment(SLURM_ARRAY_TASK_ID=str(number), TMPDIR=str(node)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(task: subprocess.Popen[str]) -> tuple[int, Reproduction]:
    printed = task.communicate(timeout=120)[0]
    return task.returncode, Reproduction(printed)


def stored(node: Path) -> int:
    """How many answers are in the store of the task that runs on a node."""
    for path in node.glob("*/store/responses.sqlite"):
        with ResponseStore(path) as store:
            return len(list(store))
    return 0


@pytest.mark.slow
def test_two_tasks_at_a_time_one_stopped_and_submitted_again_make_the_bytes_of_one_clone(tmp_path):
    with FaultServer(latency=0.1) as server:
        served = server.model(max_concurrency=1)
        models = {"synthetic": {"adapter": "synthetic", "refusal_rate": 0.5}, "served": served}
        project = Project.create(
            tmp_path / "main", models, {"s": suite_rows("s", 20, PROMPTS - 20)}, report=False
        )
        shared = tmp_path / "shared"
        shared.mkdir()
        project.command("dvc", "remote", "add", "-d", "cluster", str(shared / "remote"))
        project.commit("Name the remote")

        tasks = [start(project, number, shared) for number in (0, 1)]
        while stored(tmp_path / "node1") < 4 and tasks[1].poll() is None:
            time.sleep(0.01)
        tasks[1].send_signal(signal.SIGTERM)
        (ended, first), (stopped, _) = map(end, tasks)
        # 255 is how DVC ends after Ctrl-C, 143 how bash does after TERM: whichever is heard first.
        assert (ended, stopped in (143, 255)) == (0, True)
        assert first.generated == {("synthetic", "s"): PROMPTS}
        kept = len(read_rows(shared / "answers/served/served/answers.jsonl"))
        assert 4 <= kept < PROMPTS

        again, rest = end(start(project, 1, shared))
        assert (again, rest.generated) == (0, {("served", "s"): PROMPTS - kept})
        # Nothing was asked twice but the call that was under way.
        assert (len(server.calls), server.calls.total() - PROMPTS) in {(PROMPTS, 0), (PROMPTS, 1)}
        # A task leaves nothing on its node.
        assert [list((tmp_path / f"node{number}").iterdir()) for number in (0, 1)] == [[], []]

        whole = Project(tmp_path / "whole")
        project.command("git", "clone", "--quiet", ".", str(whole.folder))
        whole.command("refract", "cache", "import", str(shared / "answers"))
        together = Reproduction(whole.command("dvc", "repro", "--pull"))
        asked = server.calls.total()
        server.latency = 0
        project.repro()

    assert together.generated == {("synthetic", "s"): 0, ("served", "s"): 0}
    assert together.ran == cells("synthetic", "served", stages=("model-inference", "aggregate"))
    assert set(re.findall(r"'(\S+)' is cached", together.output)) == {
        "generate-perturbations",
        *cells("synthetic", "served", stages=("judge",)),
    }
    assert asked == server.calls.total() - PROMPTS
    assert whole.hashed_files() == project.hashed_files()
    with ResponseStore(whole.cache / "responses.sqlite") as store:
        assert len(list(store)) == 2 * PROMPTS
