"""Threads of local models, and what multiplies by their weights: neither changes an answer."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest

from refract.core.progress import run_stage
from refract.models.cpu import running_on
from tests.models.test_hf import answers, model, prompts, save_model, save_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Layers of 512 x 640: large enough for threads to share, and for sums that MKL divides."""
    found = tmp_path_factory.mktemp("large")
    save_tokenizer(found)
    save_model(found, hidden_size=512, intermediate_size=640, initializer_range=0.06)
    return found


def logits(adapter, count: int) -> list[float]:
    return [json.loads(a.response)["logits"]["a"] for a in answers(adapter, prompts(count))]


def test_an_answer_through_onednn_does_not_depend_on_its_batch(folder):
    adapter = model(folder, max_tokens=12, batch_tokens=256)
    asked = prompts(10)
    whole = answers(adapter, asked)
    assert adapter.runtime["linear"] == "onednn"
    generator = random.Random(2)
    for count in (10, 4, 1):
        picked = generator.sample(range(10), count)
        assert answers(adapter, [asked[i] for i in picked]) == [whole[i] for i in picked]


def test_logits_do_not_depend_on_the_number_of_threads(folder):
    made = []
    for count in (1, 2, 3):
        with running_on(count):
            made.append(logits(model(folder, max_tokens=1, score_tokens=["a", "b"]), 6))
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [("Llama", {"hidden_size": 512, "intermediate_size": 640}), ("GPT2", {"hidden_size": 320})],
)
def test_onednn_gives_the_logits_of_pytorch_s_default(
    tmp_path, monkeypatch, architecture, settings
):
    import torch

    save_tokenizer(tmp_path)
    save_model(tmp_path, architecture=architecture, **settings)
    made = []
    for linear in ("onednn", "torch"):
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda on=linear: on == "onednn")
        adapter = model(tmp_path, max_tokens=1, score_tokens=["a", "b"])
        made.append(logits(adapter, 6))
        assert adapter.runtime["linear"] == linear
    assert made[0] == pytest.approx(made[1], rel=1e-3, abs=1e-3)


def test_a_small_model_runs_on_one_thread_through_pytorch_s_default(tiny, folder):
    import torch

    runtimes = []
    for path in (tiny, folder):
        adapter = model(path, max_tokens=2)
        with running_on(2):
            answers(adapter, prompts(2))
            assert torch.get_num_threads() == 2
        runtimes.append((adapter.runtime["linear"], adapter.runtime["threads"]))
    assert runtimes == [("torch", 1), ("onednn", 2)]


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
