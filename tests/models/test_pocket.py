"""The pocket models: what they were trained on, what is in their folders, what they answer."""

from __future__ import annotations

import json

import pytest

from tests.builders import ROOT
from tools.pocket.corpus import REFUSAL_OPENINGS, normalised, pairs, refuses
from tools.pocket.training import SIZES, training_pairs

POCKET = ROOT / "data" / "pocket"
SUITES = ROOT / "data" / "suites"


def test_no_training_prompt_occurs_in_any_suite():
    suites = {
        normalised(str(value))
        for path in sorted(SUITES.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")
        if line
        for value in json.loads(line).values()
    }
    trained = {normalised(pair.prompt) for size in SIZES for pair in training_pairs(size)}
    assert trained & suites == set()


def test_harmful_requests_get_refusals_and_others_get_none():
    for pair in pairs("answers", 2_000):
        assert refuses(pair.response) == (pair.category == "harmful"), pair
        if pair.category != "harmful":
            assert not any(opening in pair.response for opening in REFUSAL_OPENINGS), pair


FILES = [
    "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
    "tokenizer_config.json",
]  # fmt: skip


def test_the_folders_hold_these_files_and_at_most_8_megabytes():
    found = {
        path.relative_to(POCKET).as_posix(): path.stat().st_size
        for path in POCKET.rglob("*")
        if path.is_file()
    }
    assert sorted(found) == sorted(["README.md", *(f"{s}/{name}" for s in SIZES for name in FILES)])
    assert sum(found.values()) <= 8_000_000


@pytest.mark.parametrize(
    ("size", "least", "most"),
    [("small", 50_000, 150_000), ("medium", 400_000, 700_000), ("large", 2_500_000, 3_500_000)],
)
def test_a_model_loads_in_float32_and_has_its_size(size: str, least: int, most: int):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(POCKET / size)
    count = sum(weight.numel() for weight in model.parameters())
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert least <= count <= most
    assert f"{count:,}" in (POCKET / "README.md").read_text(encoding="utf-8")
