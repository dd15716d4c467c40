"""A large grid on a cluster: the job of docs/grid.sbatch, run as SLURM runs its tasks, and its end."""

from __future__ import annotations

import signal
import subprocess
import time

import pytest

from refract.models.answering import SHARDS
from refract.models.store import known_answers
from tests.builders import ROOT, Project, suite_rows
from tests.fault_server import FaultServer

PROMPTS = 40


def start(project: Project, number: int) -> subprocess.Popen[str]:
    """The task of one of two parts."""
    return subprocess.Popen(
        ["bash", ROOT / "packages/refract-engines/docs/grid.sbatch", "served", "2"],
        cwd=project.folder,
        env=project.environment(SLURM_ARRAY_TASK_ID=str(number)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_two_tasks_at_a_time_one_stopped_and_submitted_again_make_the_bytes_of_one_clone(tmp_path):
    with FaultServer(latency=0.1) as server:
        models = {"served": server.model(max_concurrency=1)}
        suites = {"s": suite_rows("s", 20, PROMPTS - 20)}
        project = Project.create(tmp_path / "main", models, suites, report=False)
        alone = project.copy(tmp_path / "alone")
        shards = project.folder / SHARDS / "served"
        tasks = [start(project, number) for number in (1, 2)]
        while len(list(known_answers(*shards.glob("served-2of2-*.jsonl")))) < 4:
            assert tasks[1].poll() is None
            time.sleep(0.01)
        tasks[1].send_signal(signal.SIGTERM)
        printed = [task.communicate(timeout=120)[0] for task in tasks]
        assert [task.returncode for task in tasks] == [0, -signal.SIGTERM], printed
        kept = len(list(known_answers(*shards.glob("served-2of2-*.jsonl"))))
        again = start(project, 2)
        printed.append(again.communicate(timeout=120)[0])
        assert again.returncode == 0
        assert f", {kept} from the store, " in printed[2]
        assert len(list(shards.iterdir())) == 2
        # Nothing was asked twice but the call that was under way.
        assert (len(server.calls), server.calls.total() - PROMPTS) in {(PROMPTS, 0), (PROMPTS, 1)}
        asked = server.calls.total()
        together = project.repro()
        assert together.generated == {("served", "s"): 0}
        assert server.calls.total() == asked
        server.latency = 0
        alone.repro()
    assert project.hashed_files() == alone.hashed_files()
