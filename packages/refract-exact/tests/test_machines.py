"""Threads, batches, kernels and types of number: no other arithmetic of a machine changes an exact
answer, its verdict or a number."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from refract.project import default_project
from refract_exact.cpu import running_on
from tests.small_models import answers, model, prompts, save_model, save_tokenizer
from tools.machines import KINDS, Arithmetic, computing, differing, measured

POCKET = default_project().params["models"]["pocket_small"]


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
            made.append(logits(model(folder, max_tokens=1, score_tokens=["a", "b"]), 3))
    assert made[0] == made[1] == made[2]


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


@pytest.fixture(scope="module")
def asked(folder):
    """A pocket model, and one whose layers are large enough for oneDNN and for threads."""
    large = {"adapter": "hf", "model_id": str(folder), "device": "cpu"}
    models = {"pocket_small": POCKET | {"max_tokens": 16}, "large": large | {"max_tokens": 8}}
    return models, dict.fromkeys(models, 4), ["harmful_helpful"]


def here(arithmetic, threads, asked):
    with running_on(threads), computing(arithmetic):
        return measured(arithmetic.settings, *asked)


@pytest.fixture(scope="module")
def first(asked):
    return here(Arithmetic("1 thread"), 1, asked)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize(
    ("arithmetic", "threads"),
    [
        (Arithmetic("MKL alone, rows one by one", rows=1, onednn=False), 2),
        (Arithmetic("bfloat16, 64 rows", settings={"dtype": "bfloat16"}, rows=64), 1),
    ],
    ids=lambda given: getattr(given, "name", None),
)
def test_exact_answers_verdicts_and_metrics_have_the_same_bytes(asked, first, arithmetic, threads):
    found = here(arithmetic, threads, asked)
    assert differing(first["exact"], found["exact"]) == dict.fromkeys(KINDS, 0)
    assert len(first["exact"]["answers"]) == 8
    # what is compared does see another arithmetic
    if arithmetic.settings:
        assert differing(first["fast"], found["fast"])["answers"] > 0
    else:
        assert found["exact"]["error"] != first["exact"]["error"]
