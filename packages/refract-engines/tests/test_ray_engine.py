"""Ray as the engine, on a cluster of several nodes on this machine: the answers are one process's."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from refract.core.errors import ParamsError
from refract.core.jsonl import write_rows
from refract.judges import open_judge
from refract.judges.processes import judged_by_processes
from refract.models import engine, open_model
from refract.models.answering import generate
from refract.models.protocol import AdapterError, Model
from refract.models.store import ResponseStore
from refract_engines import ray_engine
from test_shards import POCKET, certificates, infer
from tests.builders import ROOT, ask, small_project, suite_rows
from tests.gate import Gate
from tests.judges.test_processes import cases

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


def gate(tmp_path: Path, **more: object) -> Model:
    folder = tmp_path / "notes"
    folder.mkdir(exist_ok=True)
    return open_model("m", {"adapter": Gate.adapter, "folder": str(folder), **more})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with one processor each."""
    pytest.importorskip("ray", reason="Ray is not installed (pip install 'refract-eval[ray]')")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # The nodes find the model of these tests wherever the run was started from.
        path = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        head = NODE | {"include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=head)
        made.add_node(**NODE)
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        import ray

        ray.shutdown()
        made.shutdown()


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """Actors of a test end with it, so that the next one has the nodes."""
    yield
    for actors in ray_engine._open:
        actors.close()
    ray_engine._open.clear()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, dict[str, bytes], dict]:
    """What one process makes of a suite with a local model."""
    folder = tmp_path_factory.mktemp("whole")
    small_project(folder, POCKET, suite_rows("own", 12, 12))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("REFRACT_CACHE", "off")
        patch.setenv("REFRACT_ENGINE", "process")
        outputs = infer()
    return folder, outputs, json.loads((folder / "metrics/ran/m.json").read_text())


def test_actors_make_the_bytes_of_one_process(cluster, whole, tmp_path, monkeypatch, capsys):
    folder, outputs, ran = whole
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "data/suites", "data/suites")
    params = YAML().load(folder / "params.yaml")
    params["models"]["m"] |= {"cpus": 0.5, "actors": 2}
    YAML().dump(params | {"engine": "ray"}, Path("params.yaml"))
    monkeypatch.setenv("REFRACT_CACHE", "off")
    assert infer() == outputs
    assert "m: answered by actors of Ray" in capsys.readouterr().err
    noted = json.loads(Path("metrics/ran/m.json").read_text())
    assert certificates(noted) == certificates(ran)
    assert {run["device"] for run in noted["runs"]} == {"cpu"}
    assert None not in {run for suite in noted["suites"].values() for run, _ in suite["runs"]}


def test_a_lost_node_loses_no_answer_and_one_that_joins_answers_too(cluster, tmp_path):
    """The run ends only where an actor of a third node has begun: some prompts wait for it."""
    texts = [f"{'wait ' if n % 7 == 6 else ''}{n}" for n in range(120)]
    actors = ray_engine.actors_of(gate(tmp_path, nodes=3))
    notes = tmp_path / "notes"
    with ThreadPoolExecutor() as pool:  # Ray starts nodes from the main thread alone
        answering = pool.submit(lambda: list(actors.answer([ask(text) for text in texts])))
        while len(begun := {path.name for path in notes.iterdir()}) < 2:
            assert not answering.done()
            time.sleep(0.05)
        lost = next(node for node in cluster.worker_nodes if node.node_id in begun)
        cluster.remove_node(lost, allow_graceful=False)
        cluster.add_node(**NODE)
        got = answering.result()
    assert len(list(notes.iterdir())) == 3
    assert {(n, answer.response) for n, answer in got} == {
        (n, f"echo: {text}") for n, text in enumerate(texts)
    }
    assert len(got) == len(texts)


def test_a_request_that_loses_every_actor_is_an_error_and_the_others_are_answered(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(ray_engine, "MOST_LOSSES", 2)
    monkeypatch.setattr(ray_engine, "MOST_GIVEN", 16)
    model = gate(tmp_path, actors=1)
    texts = [f"{'die ' if n == 5 else ''}{n}" for n in range(20)]
    got = dict(ray_engine.actors_of(model).answer([ask(text) for text in texts]))
    assert got.pop(5).error["type"] == "ActorLost"
    assert {n: answer.response for n, answer in got.items()} == {
        n: f"echo: {n}" for n in range(20) if n != 5
    }


def test_actors_that_only_get_lost_end_in_an_error(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine, "MOST_LOSSES", 0)
    with pytest.raises(AdapterError, match=r"models.m: 3 actors were lost one after the other"):
        list(ray_engine.actors_of(gate(tmp_path, actors=1)).answer([ask("die"), ask("die too")]))


def test_each_actor_opens_the_model_once_and_what_was_answered_before_a_failure_is_stored(
    cluster, tmp_path
):
    model = gate(tmp_path)
    requests = {str(n): ask(str(n)) for n in range(40)}
    with ResponseStore(tmp_path / "store") as store:
        _, made = generate(model, requests, store)
        assert made == set(requests)
        more = {f"more {n}": ask(f"{'fail ' if n == 6 else ''}{n}") for n in range(7)}
        with pytest.raises(AdapterError, match=r"^the model is broken$") as raised:
            generate(model, more, store)
        assert "gate.py" in str(raised.value.__cause__)  # where it was raised
        assert set(store.get(more)) == {f"more {n}" for n in range(6)}
        assert all(made["started_at"] for made in store.origins(requests).values())
    processes = [set(path.read_text().split()) for path in (tmp_path / "notes").iterdir()]
    assert [len(of) for of in processes] == [1] * len(processes)


def test_what_no_node_has_is_told(cluster, tmp_path):
    with pytest.raises(AdapterError, match=r"'GPU': 0\.5}; they have .*'CPU': 1\.0, 'GPU': 0"):
        list(ray_engine.actors_of(gate(tmp_path, gpus=0.5)).answer([ask("a")]))


# Without a cluster.


@pytest.mark.parametrize(
    ("params", "variables", "expected"),
    [
        ({}, {}, "process"),
        ({}, {"RAY_ADDRESS": "auto"}, "ray"),
        ({"engine": "process"}, {"RAY_ADDRESS": "auto"}, "process"),
        ({"engine": "ray"}, {}, "ray"),
        ({"engine": "ray"}, {"REFRACT_ENGINE": "process"}, "process"),
        (None, {"REFRACT_ENGINE": "ray"}, "ray"),
        ({"engine": "rai"}, {}, None),
        ({}, {"REFRACT_ENGINE": "slurm"}, None),
    ],
)
def test_what_says_which_engine(params, variables, expected, tmp_path, monkeypatch):
    for name in ("RAY_ADDRESS", "REFRACT_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    if params is not None:
        YAML().dump(params | {"seed": 1}, Path("params.yaml"))
    if expected:
        assert engine() == expected
    else:
        with pytest.raises(ParamsError, match="engine must be one of process, ray"):
            engine()


@pytest.fixture
def no_ray(monkeypatch):
    """Ray is not there for the engine; its own modules that are loaded still find it."""
    imported = builtins.__import__

    def without(name, globals=None, *rest, **named):
        if name == "ray" and (globals or {}).get("__name__") == ray_engine.__name__:
            raise ImportError(name)
        return imported(name, globals, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)


def test_without_ray_the_error_says_what_to_install(tmp_path, no_ray):
    with pytest.raises(AdapterError, match=r"pip install 'refract-eval\[ray\]'"):
        ray_engine.actors_of(gate(tmp_path))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:{port}", r"RAY_ADDRESS=127\.0\.0\.1:\d+;.*refused"),
        ("ray://127.0.0.1:10001", "name the cluster, as HOST:6379"),
        ("", "RAY_ADDRESS=None;.*RAY_AUTH_MODE=token sends.*: the node timed out"),
    ],
)
def test_a_cluster_that_cannot_be_used_ends_in_an_error(address, message, monkeypatch, tmp_path):
    ray = pytest.importorskip(
        "ray", reason="Ray is not installed (pip install 'refract-eval[ray]')"
    )

    def init(**_: object) -> None:
        raise Exception("the node timed out")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", address.format(port=closed.getsockname()[1]))
        with pytest.raises(AdapterError, match=message):
            ray_engine.actors_of(gate(tmp_path))


def test_a_run_is_told_the_engine_and_its_command_does_not_hold_it(
    cli, monkeypatch, no_ray, tmp_path
):
    monkeypatch.setenv("REFRACT_ENGINE", "process")
    write_rows(tmp_path / "own.jsonl", suite_rows("own", 2, 2))
    run = ("run", "--adapter", "synthetic", "--suite", "own.jsonl", "--out", "out.json", "--engine")
    assert "pip install 'refract-eval[ray]'" in cli(*run, "ray").err
    assert cli(*run, "process").code == 0
    assert "--engine" not in json.loads(Path("out.json").read_text())["command"]


def test_tasks_judge_as_one_process_does(cluster, monkeypatch):
    judge = open_judge("refusal", {"kind": "refusal"})
    alone = judge.judge(cases())
    monkeypatch.setattr(type(judge), "cases_a_process", 10)
    monkeypatch.setenv("REFRACT_ENGINE", "ray")
    # Tasks are pickled by the class's name: this process has no judge any more.
    monkeypatch.setattr(type(judge), "judge", None)
    assert judged_by_processes(judge, cases()) == alone
