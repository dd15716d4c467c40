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
from refract.models.protocol import AdapterError
from tests.models.test_hf import answers, model, prompts, save_model, save_tokenizer, tiny

__all__ = ["tiny"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Layers of 512 x 640: large enough for threads to share, and for sums that MKL divides."""
    found = tmp_path_factory.mktemp("large")
    save_tokenizer(found)
    save_model(found, hidden_size=512, intermediate_size=640, initializer_range=0.06)
    return found


@pytest.mark.parametrize(("size", "temperature"), [("folder", 0), ("tiny", 0.8)])
def test_an_answer_through_onednn_does_not_depend_on_its_batch(request, size, temperature):
    adapter = model(
        request.getfixturevalue(size),
        max_tokens=12,
        temperature=temperature,
        batch_tokens=256,
        linear="onednn",
    )
    asked = prompts(16)
    whole = answers(adapter, asked)
    assert adapter.runtime["linear"] == "onednn"
    generator = random.Random(2)
    for count in (16, 11, 1):
        picked = generator.sample(range(16), count)
        assert answers(adapter, [asked[i] for i in picked]) == [whole[i] for i in picked]


def test_logits_do_not_depend_on_the_number_of_threads(folder):
    asked = prompts(12)
    made = [
        answers(model(folder, max_tokens=1, score_tokens=["a", "b"], threads=count), asked)
        for count in (1, 2, 3)
    ]
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        ("Llama", {"hidden_size": 512, "intermediate_size": 640}),
        ("GPT2", {"n_embd": 256, "n_layer": 2, "n_head": 4, "n_positions": 500}),
    ],
)
def test_onednn_gives_the_logits_of_pytorch_s_default(tmp_path, architecture, settings):
    save_tokenizer(tmp_path)
    save_model(tmp_path, architecture=architecture, **settings)
    logits = []
    for linear in ("onednn", "torch"):
        adapter = model(tmp_path, max_tokens=1, score_tokens=["a", "b"], linear=linear)
        found = [json.loads(a.response)["logits"]["a"] for a in answers(adapter, prompts(6))]
        assert adapter.runtime["linear"] == linear
        logits.append(found)
    assert logits[0] == pytest.approx(logits[1], rel=1e-3, abs=1e-3)


def test_a_small_model_runs_on_one_thread_through_pytorch_s_default(tiny, folder):
    runtimes = []
    for path in (tiny, folder):
        adapter = model(path, max_tokens=2)
        with running_on(2):
            answers(adapter, prompts(2))
        runtimes.append(adapter.runtime)
    assert [runtime["linear"] for runtime in runtimes] == ["torch", "onednn"]
    assert runtimes[0]["threads"] == 1


def test_threads_can_be_set_and_are_put_back(tiny):
    import torch

    before = torch.get_num_threads()
    adapter = model(tiny, max_tokens=2, threads=3)
    answers(adapter, prompts(2))
    assert adapter.runtime["threads"] == 3
    assert torch.get_num_threads() == before


def test_without_onednn_a_model_runs_on_pytorch_s_default(folder, monkeypatch):
    import torch

    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    adapter = model(folder, max_tokens=2)
    with running_on(2):
        answers(adapter, prompts(2))
    assert (adapter.runtime["linear"], adapter.runtime["threads"]) == ("torch", 2)


def test_onednn_that_cannot_be_had_is_an_error_where_it_is_asked_for(folder):
    adapter = model(folder, max_tokens=2, linear="onednn", dtype="bfloat16")
    with pytest.raises(AdapterError, match=r"models\.m: linear: onednn needs float32 .*bfloat16"):
        answers(adapter, prompts(1))


def test_what_multiplies_is_part_of_a_request_only_where_it_is_set(tiny):
    unset = model(tiny).identity()
    assert "linear" not in unset
    assert model(tiny, threads=2).identity() == unset
    assert model(tiny, linear="onednn").identity() == {**unset, "linear": "onednn"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("PASSIVE", "30000")),
        ({"GOMP_SPINCOUNT": "5"}, ("PASSIVE", "5")),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, ("ACTIVE", None)),
    ],
)
def test_waiting_threads_do_not_keep_a_processor_busy(monkeypatch, given, expected):
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if k not in names})
    os.environ.update(given)
    monkeypatch.setattr(sys, "argv", ["stage"])
    seen = []
    run_stage("stage", lambda: seen.append(tuple(map(os.environ.get, names))))
    assert seen == [expected]
