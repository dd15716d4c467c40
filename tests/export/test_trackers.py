"""``refract log``: the numbers of a project as runs of MLflow and Weights & Biases."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.builders import ROOT

MODEL = "pocket_small"


@pytest.fixture(autouse=True)
def _project(monkeypatch):
    monkeypatch.setattr("refract.cli.outputs.project_root", lambda: ROOT)


def limits(logged: dict[str, float]) -> None:
    """What was logged are the numbers of the metrics, some with the ends of their interval."""
    numbers = {}
    metrics = json.loads((ROOT / f"metrics/{MODEL}.json").read_text("utf-8"))
    for suite, held in metrics.items():
        for measure, value in held.items():
            numbers[f"{suite.partition('[')[0]}/{measure}"] = value
    assert {key: logged[key] for key in numbers} == numbers
    ends = set(logged) - set(numbers)
    assert ends
    for key in ends:
        rate = logged[key.removesuffix("_low").removesuffix("_high")]
        assert logged[key] <= rate if key.endswith("_low") else logged[key] >= rate


def test_mlflow_has_a_run_with_settings_numbers_and_files(cli, monkeypatch, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    store = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    mlflow.set_tracking_uri(store)
    mlflow.create_experiment("trial", artifact_location=(tmp_path / "files").as_uri())
    done = cli("log", "mlflow", "--experiment", "trial", "--model", MODEL)
    assert done.code == 0, done.err
    (run,) = mlflow.search_runs(experiment_names=["trial"], output_format="list")
    assert run.info.run_name == MODEL
    assert run.data.params["adapter"] == "hf"
    assert len(run.data.tags["commit"]) == 40
    limits(run.data.metrics)
    files = [path.parts[-2:] for path in (tmp_path / "files").rglob("*") if path.is_file()]
    kinds = {"metrics": "json", "outcomes": "csv", "provenance": "json", "tables": "csv"}
    assert sorted(files) == [(kind, f"{MODEL}.{ending}") for kind, ending in kinds.items()]


def framed(data: bytes) -> Iterator[bytes]:
    """The records of a W&B file: LevelDB's log format behind 7 bytes of the file's own."""
    block, at, whole = 1 << 15, 7, b""
    while at + 7 <= len(data):
        if block - at % block < 7:
            at += block - at % block
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # all of a record, or its last part
            yield whole
            whole = b""


def test_wandb_has_a_run_without_a_network(cli, monkeypatch, tmp_path):
    wandb = pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    for key, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true"}.items():
        monkeypatch.setenv(f"WANDB_{key}", value)
    done = cli("log", "wandb", "--experiment", "trial", "--model", MODEL)
    assert done.code == 0, done.err
    wandb.teardown()  # until then another process may be writing
    (file,) = tmp_path.rglob("*.wandb")
    logged: dict[str, float] = {}
    for data in framed(file.read_bytes()):
        record = Record.FromString(data)
        logged |= {one.key: json.loads(one.value_json) for one in record.summary.update}
    assert f"refract-{MODEL}".encode() in file.read_bytes()  # the files
    limits({key: value for key, value in logged.items() if not key.startswith("_")})


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_a_tracker_that_is_not_installed_is_said(cli, monkeypatch, tracker):
    monkeypatch.setitem(sys.modules, tracker, None)
    done = cli("log", tracker, "--model", MODEL)
    assert done.code == 2
    assert done.err.endswith(f"run: pip install 'refract-eval[{tracker}]'\n")
