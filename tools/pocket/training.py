"""Training of the pocket models: one tokenizer for all, then each model from random weights."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tools.pocket.corpus import Pair, pair

SEED = "pocket"
THREADS = 1
# Batches that are drawn, sorted by length and shuffled together.
POOL = 16
CONTEXT = 2048
VOCABULARY = 2048
TOKENIZER_PAIRS = 40_000
SPECIAL_TOKENS = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


@dataclass(frozen=True)
class Size:
    """Shape and training of one model; ``harmful`` is the share of harmful requests in its text."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    steps: int
    batch: int
    learning_rate: float
    harmful: float


SIZES = {
    "small": Size(32, 88, 2, 2, 1800, 32, 6e-3, 0.08),
    "medium": Size(96, 256, 3, 4, 1800, 32, 4e-3, 0.21),
    "large": Size(224, 600, 4, 7, 1300, 32, 2e-3, 0.46),
}


def train_tokenizer(seed: str = SEED) -> Any:
    """A byte-level BPE tokenizer (``tokenizers.Tokenizer``) of the training text.

    All 256 bytes are in its alphabet, so that any text, control characters included, becomes tokens.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    rng = random.Random(f"{seed}:tokenizer")
    texts = (
        text
        for example in (pair(rng) for _ in range(TOKENIZER_PAIRS))
        for text in (example.prompt, example.response)
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def training_pairs(name: str, seed: str = SEED, steps: int | None = None) -> Iterator[Pair]:
    """Every pair that the model of this size is trained on, in order; each is seen once."""
    size = SIZES[name]
    rng = random.Random(f"{seed}:{name}:pairs")
    return (pair(rng, size.harmful) for _ in range((steps or size.steps) * size.batch))


def _encode(example: Pair, tokenizer: Any) -> tuple[list[int], int]:
    """Token ids of a whole conversation, and how many of them precede the answer."""
    _, end, system, user, assistant = range(len(SPECIAL_TOKENS))
    ids: list[int] = []
    if example.system is not None:
        ids += [system, *tokenizer.encode(example.system).ids, end]
    ids += [user, *tokenizer.encode(example.prompt).ids, end, assistant]
    return [*ids, *tokenizer.encode(example.response).ids, end], len(ids)


def _batches(
    examples: Iterator[Pair], tokenizer: Any, size: int, order: random.Random
) -> Iterator[list[tuple[list[int], int]]]:
    """Batches of conversations of similar length, so that little is spent on padding."""
    while pool := [_encode(example, tokenizer) for example in islice(examples, size * POOL)]:
        pool.sort(key=lambda item: len(item[0]))
        batches = [pool[start : start + size] for start in range(0, len(pool), size)]
        order.shuffle(batches)
        yield from batches


def train_model(name: str, tokenizer: Any, seed: str = SEED, steps: int | None = None) -> Any:
    """A trained ``LlamaForCausalLM`` in float32; ``steps`` shortens the training (for tests)."""
    import torch

    threads = torch.get_num_threads()
    # The number of threads decides the order of floating-point sums.
    torch.set_num_threads(THREADS)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random.Random(f"{seed}:{name}:weights").randrange(2**31))
            return _train(name, tokenizer, seed, steps or SIZES[name].steps)
    finally:
        torch.set_num_threads(threads)


def _train(name: str, tokenizer: Any, seed: str, total: int) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    size = SIZES[name]
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
        initializer_range=0.05,
    )
    model = LlamaForCausalLM(config)
    model.train()
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=size.learning_rate,
        betas=(0.9, 0.98),
    )
    warmup = max(1, min(100, total // 10))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * step / total))),
    )
    examples = training_pairs(name, seed, total)
    order = random.Random(f"{seed}:{name}:order")
    for batch in _batches(examples, tokenizer, size.batch, order):
        width = max(len(ids) for ids, _ in batch)
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        answer = torch.zeros(len(batch), width, dtype=torch.bool)
        for row, (tokens, start) in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            answer[row, start : len(tokens)] = True
        # Padding is on the right and attention is causal: no mask is needed. Only the answer is
        # learnt, and only its logits are computed.
        hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[answer[:, 1:]])
        loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:][answer[:, 1:]])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def save(model: Any, tokenizer: Any, folder: Path) -> int:
    """Write a model for ``AutoModelForCausalLM`` and ``AutoTokenizer``; returns the bytes written.

    Weights are stored in float16 to keep the repository small, and the configuration says float32:
    transformers widens them when it loads, which is exact.
    """
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: tensor.to(torch.float16).contiguous()
        for name, tensor in sorted(model.state_dict().items())
        if name != "lm_head.weight"  # tied to the embedding
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_diff_dict() | {
        "architectures": ["LlamaForCausalLM"],
        "dtype": "float32",
        "tie_word_embeddings": True,
    }
    pad, end = SPECIAL_TOKENS[:2]
    documents = {
        "config.json": config,
        "generation_config.json": {
            "do_sample": False,
            "eos_token_id": 1,
            "max_new_tokens": 48,
            "pad_token_id": 0,
        },
        "tokenizer.json": json.loads(tokenizer.to_str()),
        "tokenizer_config.json": {
            "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "eos_token": end,
            "model_max_length": CONTEXT,
            "pad_token": pad,
            "padding_side": "left",
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    }
    for name, document in documents.items():
        indent = None if name == "tokenizer.json" else 2
        text = json.dumps(document, ensure_ascii=False, indent=indent, sort_keys=indent is not None)
        (folder / name).write_text(text + "\n", encoding="utf-8", newline="\n")
    return sum(path.stat().st_size for path in folder.iterdir())
