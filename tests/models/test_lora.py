"""LoRA adapters on small random models: the answers are those of the base with the adapter, on every
machine, and the request's hash holds the adapter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from refract.models.lora import CONFIG, WEIGHTS
from refract.models.protocol import AdapterError
from tests.models.test_hf import answers, model, prompts, save_model, save_tokenizer, tiny

peft = pytest.importorskip("peft")

__all__ = ["tiny"]


def save_adapter(base: Path, folder: Path, **settings: Any) -> Path:
    """An adapter with seeded random weights."""
    weights = transformers.AutoModelForCausalLM.from_pretrained(base)
    settings = {"r": 4, "lora_alpha": 6, "target_modules": "all-linear"} | settings
    adapted = peft.get_peft_model(weights, peft.LoraConfig(**settings))
    generator = torch.Generator().manual_seed(1)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.data = parameter.data + 0.1 * noise
    adapted.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def adapter(tiny, tmp_path_factory) -> Path:
    return save_adapter(tiny, tmp_path_factory.mktemp("adapter"))


@pytest.fixture
def copied(adapter, tmp_path) -> Path:
    return Path(shutil.copytree(adapter, tmp_path / "adapter"))


def merged(base: Path, folder: Path) -> Any:
    """The base with the adapter merged into it in float64, by PEFT."""
    weights = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64)
    return peft.PeftModel.from_pretrained(weights, folder).double().merge_and_unload()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_rslora": True, "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 9}},
        {"lora_bias": True, "target_modules": ["q_proj", "lm_head"], "layers_to_transform": [1]},
        {"use_dora": True},
        {"target_modules": ["embed_tokens", "v_proj"]},
        {"architecture": "GPT2", "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True},
    ],
)
def test_exact(tmp_path, settings):
    base = tmp_path / "base"
    save_tokenizer(base)
    settings = dict(settings)
    save_model(base, dtype="bfloat16", architecture=settings.pop("architecture", "Llama"))
    folder = save_adapter(base, tmp_path / "adapter", **settings)
    definition = {"max_tokens": 16, "adapter_path": str(folder)}
    narrow = model(base, **definition)
    made = answers(narrow, prompts(6))
    assert made != answers(model(base, max_tokens=16), prompts(6))
    ids = torch.arange(40).reshape(2, 20)
    right = merged(base, folder)(ids).logits
    reference = narrow._decoder.exact.reference
    print(float((reference(input_ids=ids).logits - right).abs().max()))
    wide = answers(model(base, dtype="float32", batch_tokens=1, **definition), prompts(6))
    assert [(a.response,a.tokens) for a in wide] == [(a.response,a.tokens) for a in made]
