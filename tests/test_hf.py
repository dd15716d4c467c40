"""The ``hf`` adapter on small random models, made here, and on a real checkpoint where one is at
hand."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from stages.models.answers import Answer, Request
from stages.models.hf import HF

ROOT = Path(__file__).resolve().parent.parent
STORIES = ROOT.parent / "shared" / "models" / "stories260K"
needs_stories = pytest.mark.skipif(not STORIES.is_dir(), reason="the checkpoint is not at hand")

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


def save_model(folder: Path, *, architecture: str = "Llama", dtype: str = "float32", **settings):
    import torch
    import transformers

    torch.manual_seed(0)
    defaults = {
        "vocab_size": 320,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 1024,
        "tie_word_embeddings": True,
        "initializer_range": 0.2,  # lively enough that answers differ and end
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    config = getattr(transformers, f"{architecture}Config")(**(defaults | settings))
    model = getattr(transformers, f"{architecture}ForCausalLM")(config)
    model.to(getattr(torch, dtype)).save_pretrained(folder)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_tokenizer(folder)
    save_model(folder)
    return folder


@pytest.fixture(scope="session")
def larger(tmp_path_factory) -> Path:
    """5 million parameters in bfloat16: enough for kernels whose sums depend on the batch."""
    folder = tmp_path_factory.mktemp("larger")
    save_tokenizer(folder)
    save_model(
        folder,
        dtype="bfloat16",
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        initializer_range=0.06,
    )
    return folder


@pytest.fixture
def copy(tiny, tmp_path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "copy"))


def ask(text: str, *fallbacks: str, seed: int = 0, system: str | None = None) -> Request:
    before = ({"role": "system", "content": system},) if system else ()
    return Request(
        tuple((*before, {"role": "user", "content": content}) for content in (text, *fallbacks)),
        seed=seed,
    )


def prompts(count: int, seed: int = 1, longest: int = 400) -> list[Request]:
    """Heavy-tailed lengths, no two alike."""
    generator = random.Random(seed)
    texts = []
    for i in range(count):
        length = min(longest, int(8 + generator.paretovariate(1.1) * 8))
        texts.append(f"{i} " + "".join(generator.choices("abcdefgh ijkl", k=length)))
    return [ask(text, seed=i) for i, text in enumerate(texts)]


def model(folder: Path, **definition) -> HF:
    return HF("m", {"adapter": "hf", "model_id": str(folder), "device": "cpu", **definition})


def answers(adapter: HF, requests: list[Request]) -> list[Answer]:
    made = dict(adapter.answer(requests))
    assert sorted(made) == list(range(len(requests)))
    return [made[i] for i in range(len(requests))]


# Batch invariance


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", ["tiny", "larger"])
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_an_answer_is_the_same_alone_in_any_subset_and_in_any_order(
    request, size, dtype, temperature
):
    adapter = model(
        request.getfixturevalue(size),
        dtype=dtype,
        max_tokens=24,
        temperature=temperature,
        batch_tokens=256,
    )
    asked = prompts(24)
    whole = answers(adapter, asked)
    assert len({a.response for a in whole}) > 12
    generator = random.Random(2)
    for count in (24, 17, 5):
        picked = generator.sample(range(24), count)
        assert answers(adapter, [asked[i] for i in picked]) == [whole[i] for i in picked]
    for i in (0, 11, 23):
        assert answers(adapter, [asked[i]]) == [whole[i]]
