"""Several processes of one local model: one merged output, the same bytes as one process."""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from stages.model_inference import answer_prompts
from stages.model_inference.processes import ask_in_processes
from stages.models import open_model
from stages.models.answers import AdapterError
from stages.store import ResponseStore
from tests.pipeline import ROOT

DEFINITION = {
    "adapter": "hf",
    "model_id": str(ROOT / "data/pocket/small"),
    "device": "cpu",
    "max_tokens": 12,
}


def prompts(texts: list[str]) -> list[dict]:
    return [
        {
            "prompt_id": str(number),
            "source_id": str(number),
            "suite": "s",
            "category": "helpful",
            "perturbation": None,
            "attempts": [text],
            "seed": None,
        }
        for number, text in enumerate(texts)
    ]


TEXTS = [f"How do I bake {thing}?" for thing in ("bread", "a cake", "ten " * 40 + "pies", "fish")]


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "dtype": "bfloat16"}])
def test_two_processes_give_the_bytes_of_one(tmp_path, monkeypatch, settings):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    definition = DEFINITION | settings
    rows = prompts([*TEXTS, "Too long. " * 4000])
    alone, counts = answer_prompts(
        {"s": rows}, open_model("m", definition), ResponseStore(None), 7, name="m"
    )
    assert (counts["s"].generated, counts["s"].errors) == (5, 1)
    with ResponseStore(tmp_path / "store.sqlite") as store:
        asking = partial(ask_in_processes, 2, definition)
        together, again = (
            answer_prompts(
                {"s": rows}, open_model("m", definition), store, 7, name="m", asking=asking
            )
            for _ in range(2)
        )
    assert together[0] == alone
    assert again[0] == alone
    # The second time only what failed is asked.
    assert (together[1]["s"].generated, again[1]["s"].generated) == (5, 1)


def test_a_process_that_fails_says_why(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    folder = shutil.copytree(ROOT / "data/pocket/small", tmp_path / "broken")
    definition = DEFINITION | {"model_id": str(folder)}
    model = open_model("m", definition)
    (folder / "model.safetensors").write_bytes(b"\x08" + bytes(7) + b'{"a":1}}')
    asking = partial(ask_in_processes, 2, definition)
    with pytest.raises(AdapterError, match="one of 2 processes failed"):
        answer_prompts(
            {"s": prompts(TEXTS)}, model, ResponseStore(None), 7, name="m", asking=asking
        )
