"""Small random models that tests make, and requests for them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from refract.models import open_model
from refract.models.hf import HF
from refract.models.protocol import Request
from tests.builders import ask
from tests.builders import in_order as answers

__all__ = ["answers", "ask"]

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<pad>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>"]


def save_tokenizer(folder: Path, template: str | None = TEMPLATE) -> None:
    """A tokenizer of single bytes that adds a BOS of its own, as Llama's do."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(SPECIAL + letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.chat_template = template
    fast.save_pretrained(folder)


SMALL = {
    **{"vocab_size": 320, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **{"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024},
    "tie_word_embeddings": True,
    "initializer_range": 0.2,  # lively enough that answers differ and end
}


def network(architecture: str = "Llama", dtype: str = "float32", **settings: Any) -> Any:
    """A model with seeded random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{architecture}Config")(**(SMALL | settings))
    made = transformers.AutoModelForCausalLM.from_config(config)
    return made.to(getattr(torch, dtype)).eval()


def save_model(
    folder: Path, *, architecture: str = "Llama", dtype: str = "float32", **settings: Any
) -> None:
    network(architecture, dtype, **settings).save_pretrained(folder)


def change_weights(folder: Path, change: Callable[[dict], object]) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def seeded(text: str, seed: int) -> Request:
    return replace(ask(text), seed=seed)


def prompts(count: int, seed: int = 1, longest: int = 400) -> list[Request]:
    """Heavy-tailed lengths, no two alike."""
    generator = random.Random(seed)
    texts = []
    for i in range(count):
        length = min(longest, int(8 + generator.paretovariate(1.1) * 8))
        texts.append(f"{i} " + "".join(generator.choices("abcdefgh ijkl", k=length)))
    return [seeded(text, i) for i, text in enumerate(texts)]


def opened(settings: dict) -> HF:
    return open_model("m", {"adapter": "hf", **settings})


def model(folder: Path, **definition: Any) -> HF:
    return opened({"model_id": str(folder), "device": "cpu", **definition})


def tokens_of(adapter: HF, request: Request) -> list[int]:
    """The tokens that a request becomes."""
    adapter.prompting.load()
    return adapter.prompting.prepare(request).tokens
