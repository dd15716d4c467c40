"""LoRA adapters on small random models: answers are those of the base with its adapter under every
arithmetic, and requests' hashes hold it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from refract.core.errors import MissingPackage
from refract.models.float64 import Reference
from refract.models.lora import CONFIG, WEIGHTS
from refract.models.protocol import AdapterError
from tests.models.test_hf import answers, model, prompts, save_model, save_tokenizer

# An output layer that is the embedding too cannot be merged with an adapter of its own.
UNTIED = {"tie_word_embeddings": False}


def save_adapter(base: Path, folder: Path, **settings: Any) -> Path:
    """An adapter with seeded random weights."""
    peft = pytest.importorskip("peft")
    plain = transformers.AutoModelForCausalLM.from_pretrained(base)
    config = {"r": 4, "lora_alpha": 6, "target_modules": "all-linear", **settings}
    adapted = peft.get_peft_model(plain, peft.LoraConfig(**config))
    generator = torch.Generator().manual_seed(1)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            parameter.data = 0.2 * torch.randn(parameter.shape, generator=generator)
    adapted.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(tiny, tmp_path_factory) -> Path:
    return save_adapter(tiny, tmp_path_factory.mktemp("adapter"))


@pytest.fixture
def adapter(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "adapter"))


@pytest.mark.usefixtures("few_bits")
@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        (
            "Llama",
            {"target_modules": ["q_proj", "down_proj", "lm_head"], "layers_to_transform": [1]},
        ),
        (
            "Llama",
            {"use_rslora": True, "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 9}},
        ),
        ("GPT2", {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    ],
)
def test_exact_answers_are_those_of_the_weights_merged_in_float64(tmp_path, architecture, settings):
    save_tokenizer(tmp_path / "base")
    save_model(tmp_path / "base", architecture=architecture, dtype="bfloat16", **UNTIED)
    folder = save_adapter(tmp_path / "base", tmp_path / "adapter", **settings)
    made = []
    for dtype, batch in (("bfloat16", None), ("float32", 1)):
        adapted = model(
            tmp_path / "base",
            adapter_path=str(folder),
            max_tokens=8,
            dtype=dtype,
            batch_tokens=batch,
        )
        made.append([answer.tokens for answer in answers(adapted, prompts(4))])
    assert made[0] == made[1]
    assert made[0] != [
        a.tokens for a in answers(model(tmp_path / "base", max_tokens=8), prompts(4))
    ]
    peft = pytest.importorskip("peft")
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float64)
    merged = peft.PeftModel.from_pretrained(base, folder).double().merge_and_unload()
    ids = torch.arange(40).reshape(2, 20)
    right = Reference(merged)(input_ids=ids).logits
    logits = adapted._decoder.exact.reference(input_ids=ids).logits
    torch.testing.assert_close(logits, right, rtol=0, atol=1e-11)


@pytest.mark.parametrize("settings", [{"quantization": "4bit"}, {"arithmetic": "fast"}])
def test_an_adapter_is_put_on_quantised_weights_and_used_with_fast_arithmetic(
    tiny, saved, settings
):
    plain = answers(model(tiny, max_tokens=8, **settings), prompts(3))
    adapted = answers(model(tiny, max_tokens=8, adapter_path=str(saved), **settings), prompts(3))
    assert all(a.response != b.response for a, b in zip(plain, adapted, strict=True))


def test_requests_hold_the_content_of_both_files_and_nothing_without_an_adapter(tiny, adapter):
    plain, first = model(tiny).identity(), model(tiny, adapter_path=str(adapter)).identity()
    assert first == {**plain, "peft": {"sha256": first["peft"]["sha256"]}}
    (adapter / "README.md").write_text("Nothing that counts.")
    moved = adapter.rename(adapter.with_name("moved"))
    assert model(tiny, adapter_path=str(moved)).identity() == first
    hashes = {first["peft"]["sha256"]}
    settings = json.loads((moved / CONFIG).read_text("utf-8"))
    (moved / CONFIG).write_text(json.dumps({**settings, "lora_alpha": 7}), "utf-8")
    hashes.add(model(tiny, adapter_path=str(moved)).identity()["peft"]["sha256"])
    change(moved, lambda weights: next(iter(weights.values())).add_(1))
    hashes.add(model(tiny, adapter_path=str(moved)).identity()["peft"]["sha256"])
    assert len(hashes) == 3


def change(folder: Path, changed: Any) -> None:
    weights = load_file(folder / WEIGHTS)
    changed(weights)
    save_file(weights, folder / WEIGHTS)


def configured(**settings: Any) -> Any:
    """Changes ``adapter_config.json`` to these settings."""

    def damage(folder: Path) -> None:
        stated = json.loads((folder / CONFIG).read_text("utf-8"))
        (folder / CONFIG).write_text(json.dumps(stated | settings), "utf-8")

    return damage


def pickled(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "is no folder here"),
        (lambda folder: (folder / CONFIG).unlink(), "has no adapter_config.json"),
        (lambda folder: (folder / WEIGHTS).unlink(), r"has no adapter_model.safetensors. Save"),
        (pickled, r"adapter_model.bin can run code"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b"x"), "not a valid safetensors file"),
        (configured(peft_type="LOHA"), "of type 'LOHA', and LORA is supported; merge it"),
        (configured(use_dora=True), "use_dora: True is not supported; merge it"),
        (configured(init_lora_weights="pissa"), "init_lora_weights: 'pissa' is not supported"),
        (
            lambda folder: change(folder, lambda weights: weights.update(w=torch.zeros(1))),
            "w is no LoRA weight of a linear layer; merge it",
        ),
    ],
)
def test_what_is_no_supported_adapter_is_said_before_weights_are_loaded(
    tiny, adapter, damage, message
):
    damage(adapter)
    with pytest.raises(AdapterError, match=message):
        model(tiny, adapter_path=str(adapter)).identity()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (configured(r=5), "size mismatch"),
        (configured(target_modules=["other"]), "not found in the base model"),
        (lambda folder: change(folder, dict.popitem), "1 of its weights fit nothing"),
    ],
)
def test_an_adapter_of_another_base_is_an_error(tiny, adapter, damage, message):
    damage(adapter)
    with pytest.raises(AdapterError, match=f"cannot be put on .*{message}.*; name the base"):
        answers(model(tiny, adapter_path=str(adapter)), prompts(1))


def test_without_peft_an_adapter_names_the_package(tiny, adapter, monkeypatch):
    from importlib import util

    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "peft" else find(name))
    with pytest.raises(MissingPackage, match="peft is not installed"):
        answers(model(tiny, adapter_path=str(adapter)), prompts(1))
