"""Threads of local models, and what multiplies by their weights: neither changes an answer."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

import pytest

from refract.core.progress import run_stage
from refract.models import threads
from refract.models.hf import HF
from refract.models.linear import Int8Linear
from refract.models.protocol import AdapterError
from refract.models.threads import Others, free_threads, running_on, usable_processors
from tests.models.test_hf import answers, model, prompts, save_model, save_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Layers of 512 x 640: large enough for threads to share, and for sums that MKL divides."""
    found = tmp_path_factory.mktemp("large")
    save_tokenizer(found)
    save_model(found, hidden_size=512, intermediate_size=640, initializer_range=0.06)
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("small")
    save_tokenizer(found)
    save_model(found)
    return found


@pytest.mark.parametrize("temperature", [0, 0.8])
@pytest.mark.parametrize("size", ["folder", "small"])
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


@pytest.mark.parametrize("size", ["folder", "small"])
def test_an_answer_with_weights_in_8_bits_does_not_depend_on_its_batch(request, size):
    folder = request.getfixturevalue(size)
    adapter = model(folder, max_tokens=12, quantization="int8", device="cpu")
    asked = prompts(16)
    whole = answers(adapter, asked)
    assert (adapter.runtime["linear"], adapter.runtime["dtype"]) == ("int8", "bfloat16")
    generator = random.Random(2)
    for count in (16, 11, 1):
        picked = generator.sample(range(16), count)
        assert answers(adapter, [asked[i] for i in picked]) == [whole[i] for i in picked]


@pytest.mark.parametrize(
    ("inputs", "outputs"), [(16, 5), (48, 1), (512, 640)], ids=["few", "one output", "many"]
)
def test_weights_in_8_bits_give_the_product_but_for_their_rounding(inputs, outputs):
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(inputs, outputs, dtype=torch.bfloat16)
    rounded, x = Int8Linear(layer), torch.randn(3, 2, inputs, dtype=torch.bfloat16)
    expected = x.double() @ layer.weight.double().t() + layer.bias.double()
    assert rounded(x).shape == expected.shape
    # half a step of each weight, and bfloat16's 8 bits of what is added
    bound = x.double().abs().sum(-1, keepdim=True) * rounded.scale.double() * 0.6
    bound += expected.abs().amax() / 100
    assert ((rounded(x).double() - expected).abs() <= bound).all()


def test_weights_in_8_bits_are_a_setting_of_a_cpu_in_bfloat16():
    with pytest.raises(ValueError, match=r"int8 computes in bfloat16.*got dtype: 'float32'"):
        HF.Settings(model_id="x", quantization="int8", dtype="float32")
    with pytest.raises(ValueError, match="linear: 'onednn'"):
        HF.Settings(model_id="x", quantization="int8", linear="onednn")


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


def test_a_small_model_runs_on_one_thread_through_pytorch_s_default(small, folder):
    runtimes = []
    for path in (small, folder):
        adapter = model(path, max_tokens=2)
        with running_on(2):
            answers(adapter, prompts(2))
        runtimes.append(adapter.runtime)
    assert [runtime["linear"] for runtime in runtimes] == ["torch", "onednn"]
    assert runtimes[0]["threads"] == 1


def test_threads_can_be_set_and_are_put_back(small):
    import torch

    before = torch.get_num_threads()
    adapter = model(small, max_tokens=2, threads=3)
    answers(adapter, prompts(2))
    assert adapter.runtime["threads"] == 3
    assert torch.get_num_threads() == before


def test_without_onednn_a_model_runs_as_before_and_how_busy_the_machine_is_does_not_count(
    folder, monkeypatch
):
    import torch

    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.setattr(threads.Others, "busy", lambda self: 1000.0)
    monkeypatch.setattr(threads, "usable_processors", lambda: 2)
    adapter = model(folder, max_tokens=2)
    with running_on(2):
        answers(adapter, prompts(2))
    assert (adapter.runtime["linear"], adapter.runtime["threads"]) == ("torch", 2)


def test_onednn_that_cannot_be_had_is_an_error_where_it_is_asked_for(folder):
    adapter = model(folder, max_tokens=2, linear="onednn", dtype="bfloat16")
    with pytest.raises(AdapterError, match=r"models\.m: linear: onednn needs float32 .*bfloat16"):
        answers(adapter, prompts(1))


def test_what_multiplies_is_part_of_a_request_only_where_it_is_set(small):
    unset = model(small).identity()
    assert "linear" not in unset
    assert model(small, threads=2).identity() == unset
    assert model(small, linear="onednn").identity() == {**unset, "linear": "onednn"}


# How many threads


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/\n", {}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "150000 100000\n"}, 1),
        ("0::/host/path\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        (
            "4:memory:/x\n3:cpu,cpuacct:/x\n",
            {"cpu/x/cpu.cfs_quota_us": "300000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            3,
        ),
        (
            "3:cpu:/x\n",
            {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        ("torn", {"cpu.max": "100000 0\n"}, None),
    ],
)
def test_a_cgroup_s_quota_limits_the_processors(tmp_path, monkeypatch, membership, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert usable_processors(membership, tmp_path) == (expected or 8)


@pytest.mark.parametrize(
    ("busy", "expected"), [(0, 4), (0.2, 4), (0.5, 3), (1, 3), (2.5, 1), (4, 1), (60, 1)]
)
def test_processors_that_others_keep_busy_are_left_to_them(monkeypatch, busy, expected):
    monkeypatch.setattr(threads, "usable_processors", lambda: 4)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(Others, "busy", lambda self: busy)
    with running_on(4):
        assert free_threads(Others()) == expected
        assert free_threads() == 4
    with running_on(2):  # as OMP_NUM_THREADS=2
        assert free_threads() == 2


def test_others_are_what_is_busy_beside_this_process(monkeypatch):
    start = time.monotonic() - 10
    times = iter([(start, 5000.0, 7.0), (start + 10, 5018.0, 15.0)])
    monkeypatch.setattr(threads, "_times", lambda: next(times))
    assert Others().busy() == pytest.approx(1.0)


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
