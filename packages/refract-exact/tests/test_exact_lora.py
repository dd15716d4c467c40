"""LoRA adapters: exact answers are those of the base with its adapter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from refract.models.lora import WEIGHTS
from refract.models.protocol import AdapterError
from refract_exact.float64 import Reference
from tests.models.test_lora import configured
from tests.small_models import answers, model, prompts, save_adapter, save_model, save_tokenizer

# An output layer that is the embedding too cannot be merged with an adapter of its own.
UNTIED = {"tie_word_embeddings": False}


@pytest.mark.usefixtures("few_bits")
@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        ("Llama", {"target_modules": ["q_proj", "down_proj", "lm_head"], "layers_to_transform": [1]}),
        ("Llama", {"use_rslora": True, "rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 9}}),
        ("GPT2", {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    ],
)  # fmt: skip
def test_exact_answers_are_those_of_the_weights_merged_in_float64(tmp_path, architecture, settings):
    save_tokenizer(tmp_path / "base")
    save_model(tmp_path / "base", architecture=architecture, dtype="bfloat16", **UNTIED)
    folder = save_adapter(tmp_path / "base", tmp_path / "adapter", **settings)
    made = []
    for dtype, batch in (("bfloat16", None), ("float32", 1)):
        settings = {"max_tokens": 8, "dtype": dtype, "batch_tokens": batch}
        adapted = model(tmp_path / "base", adapter_path=str(folder), **settings)
        made.append([answer.tokens for answer in answers(adapted, prompts(4))])
    assert made[0] == made[1]
    plain = answers(model(tmp_path / "base", max_tokens=8), prompts(4))
    assert made[0] != [answer.tokens for answer in plain]
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float64)
    from peft import PeftModel

    merged = PeftModel.from_pretrained(base, folder).double().merge_and_unload()
    ids = torch.arange(40).reshape(2, 20)
    right = Reference(merged)(input_ids=ids).logits
    logits = adapted.loaded().decoder.decider.reference(input_ids=ids).logits
    torch.testing.assert_close(logits, right, rtol=0, atol=1e-11)


def with_other_weight(folder: Path) -> None:
    save_file({**load_file(folder / WEIGHTS), "w": torch.zeros(1)}, folder / WEIGHTS)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / WEIGHTS).write_bytes(b"x"), "not a valid safetensors file"),
        (configured(peft_type="LOHA"), "peft_type: 'LOHA' is not supported; merge it"),
        (configured(use_dora=True), "use_dora: True is not supported; merge it"),
        (configured(init_lora_weights="pissa"), "init_lora_weights: 'pissa' is not supported"),
        (with_other_weight, "w is no LoRA weight of a linear layer; merge it"),
    ],
)
def test_what_is_no_plain_adapter_is_said_before_weights_are_loaded(
    copy, tmp_path, damage, message
):
    folder = save_adapter(copy, tmp_path / "adapter")
    damage(folder)
    (copy / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(AdapterError, match=message):
        answers(model(copy, adapter_path=str(folder)), prompts(1))
