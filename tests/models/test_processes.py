"""Several processes of one local model: one merged output, the same bytes as one process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from refract.models import open_model
from refract.models.answering import answer_prompts
from refract.models.generating import generate_in_processes, generator
from refract.models.protocol import AdapterError
from refract.models.store import ResponseStore
from tests.builders import ROOT, Project, prompt_row

DEFINITION = {
    "adapter": "hf",
    "model_id": str(ROOT / "data/pocket/small"),
    "device": "cpu",
    "max_tokens": 12,
}


def answered(definition: dict, rows: list[dict], store: ResponseStore, model=None):
    """Responses and counts with two processes."""
    definition = definition | {"processes": 2}
    model = model or open_model("m", definition)
    return answer_prompts(
        {"s": rows}, model, store, 7, name="m", generator=generator(model, definition)
    )


TEXTS = [f"How do I bake {thing}?" for thing in ("bread", "a cake", "ten " * 40 + "pies", "fish")]
ROWS = [prompt_row(str(number), text) for number, text in enumerate(TEXTS)]


def test_two_processes_give_the_bytes_of_one(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    definition = DEFINITION | {"temperature": 1.0, "dtype": "bfloat16"}
    rows = [*ROWS, prompt_row("long", "Too long. " * 4000)]
    alone, counts = answer_prompts(
        {"s": rows}, open_model("m", definition), ResponseStore(None), 7, name="m"
    )
    assert (counts["s"].generated, counts["s"].errors) == (5, 1)
    with ResponseStore(tmp_path / "store.sqlite") as store:
        together, again = (answered(definition, rows, store) for _ in range(2))
        assert len(list(store)) == 4
    assert together[0] == alone
    assert again[0] == alone
    # The second time only the request that failed is sent.
    assert (together[1]["s"].generated, again[1]["s"].generated) == (5, 1)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (b"\x08" + bytes(7) + b'{"a":1}}', r"rank 1: .* cannot be loaded"),
        (None, "rank 1: the model here is not that of rank 0: other weights"),
    ],
    ids=["damaged", "other"],
)
def test_the_reason_of_a_failed_process_is_in_the_error(tmp_path, monkeypatch, weights, message):
    monkeypatch.chdir(ROOT)
    folder = shutil.copytree(ROOT / "data/pocket/small", tmp_path / "weights")
    definition = DEFINITION | {"model_id": str(folder)}
    model = open_model("m", definition)
    if weights is None:
        model.identity()  # of the weights before
        shutil.copytree(ROOT / "data/pocket/medium", folder, dirs_exist_ok=True)
    else:
        (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(AdapterError, match=message):
        answered(definition, ROWS, ResponseStore(None), model)


@pytest.mark.parametrize("moment", ["before it starts", "while it answers"])
def test_a_process_that_is_killed_ends_the_run_with_its_output(tmp_path, monkeypatch, moment):
    """The rank's interpreter is replaced by one that ends at a chosen moment."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    ending = "import os; print('out of luck', flush=True); os._exit(9)"
    hook = {
        "before it starts": f"if 'refract.models.generating' in ' '.join(sys.orig_argv): {ending}",
        "while it answers": (
            "import threading, time\n"
            "def watch():\n"
            "    while 'refract.models.decoding' not in sys.modules: time.sleep(0.01)\n"
            f"    {ending}\n"
            "if 'refract.models.generating' in ' '.join(sys.orig_argv):\n"
            "    threading.Thread(target=watch, daemon=True).start()"
        ),
    }[moment]
    (tmp_path / "sitecustomize.py").write_text(f"import sys\n{hook}\n")
    model = open_model("m", DEFINITION)
    generating = partial(generate_in_processes, 2, model, DEFINITION)
    with pytest.raises(AdapterError, match=r"(?s)ended.*out of luck"):
        answer_prompts({"s": ROWS}, model, ResponseStore(None), 7, name="m", generator=generating)


def test_where_nothing_is_missing_no_process_is_started(tmp_path, monkeypatch):
    with ResponseStore(tmp_path / "store.sqlite") as store:
        answer_prompts({"s": ROWS}, open_model("m", DEFINITION), store, 7, name="m")
        monkeypatch.setattr(subprocess, "Popen", None)
        _, counts = answered(DEFINITION, ROWS, store)
    assert (counts["s"].reused, counts["s"].generated) == (4, 0)


def on_two_machines(first: Path, second: Path, stores: Path) -> list[subprocess.CompletedProcess]:
    """The stage for model m, started by torchrun on each of two "machines": folders of one clone
    each, with a store each."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = []
    for rank, folder in enumerate((first, second)):
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2"]
        command += [
            "--nproc_per_node=1",
            f"--node_rank={rank}",
            "--master_addr=127.0.0.1",
            f"--master_port={port}",
        ]
        command += ["-m", "stages.model_inference", "m"]
        variables = {"REFRACT_CACHE": str(stores / f"{rank}"), "OMP_NUM_THREADS": "1"}
        environment = os.environ | variables
        started.append(
            subprocess.Popen(
                command, cwd=folder, env=environment, text=True, stdout=-1, stderr=subprocess.STDOUT
            )
        )
    return [
        subprocess.CompletedProcess(p.args, p.wait(), out)
        for p, out in [(p, p.communicate(timeout=900)[0]) for p in started]
    ]


def test_two_machines_give_the_bytes_of_one_and_the_second_needs_no_inputs(tmp_path):
    rows = [{"id": f"s-{n}", "category": "helpful", "prompt": t} for n, t in enumerate(TEXTS)]
    one, first, second = (
        Project.create(tmp_path / name, {"m": DEFINITION}, {"s": rows})
        for name in ("one", "first", "second")
    )
    for project in (one, first):
        project.command("python", "-m", "stages.generate_perturbations")
    one.command("python", "-m", "stages.model_inference", "m")
    ended = on_two_machines(first.folder, second.folder, tmp_path)
    assert [done.returncode for done in ended] == [0, 0], ended
    assert "m s: 0 reused, 4 generated" in ended[0].stdout
    responses = "data/responses/m/s.jsonl"
    assert (first.folder / responses).read_bytes() == (one.folder / responses).read_bytes()
    assert not (second.folder / responses).exists()
    with ResponseStore(tmp_path / "1/responses.sqlite") as store:
        assert len(list(store)) == 2  # half of them were made there
