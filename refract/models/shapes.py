"""The shapes of batches, as functions of a prompt's own length and of the model's device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class BatchShape:
    """How many rows run together, as a function of length only.

    ``prefill_tokens``: rows x width of a batch of prompts. ``rows``: the most slots of a decoding
    group. ``cache_tokens``: slots x length of a decoding group, which bounds its memory.
    """

    prefill_tokens: int
    rows: int
    cache_tokens: int

    def prefill_rows(self, width: int) -> int:
        """Rows of a batch of prompts of this width."""
        return max(1, self.prefill_tokens // width)

    def group_rows(self, length: int) -> int:
        """Slots of a decoding group of this length."""
        return min(self.rows, max(1, self.cache_tokens // length))

    @property
    def smallest(self) -> bool:
        """Whether there is no smaller shape."""
        return self.rows == 1 and self.prefill_tokens == 1

    def halved(self) -> BatchShape:
        """The shape with half of everything."""
        return BatchShape(
            max(1, self.prefill_tokens // 2), max(1, self.rows // 2), max(1, self.cache_tokens // 2)
        )


def prompt_width(length: int, context: int | None) -> int:
    """Padded width of ``length`` tokens: steps of 16, from 256 on of an eighth to a sixteenth."""
    step = max(16, 1 << max(0, length.bit_length() - 5))
    width = max(step, -(-length // step) * step)
    return max(length, min(width, context)) if context else width


def cache_length(needed: int) -> int:
    """Smallest power of two of at least ``needed`` positions, and at least 256. Finer steps mask
    less but make more groups, each of which runs partly empty at its end: measured slower."""
    return max(256, 1 << (needed - 1).bit_length())


def shape_for(model: Any, batch_tokens: int | None = None) -> BatchShape:
    """The batch shape of a model on its device.

    A function of the model and the device's total memory, never of the memory that happens to be
    free: the same machine gives the same shape every time.
    """
    parameters = sum(p.numel() for p in model.parameters())
    device = model.get_input_embeddings().weight.device
    if device.type == "cpu":
        tiny = parameters <= 1_000_000  # whose steps cost less arithmetic than everything else
        shape = BatchShape(512, 64, 16_384) if tiny else BatchShape(256, 32, 8192)
    else:
        shape = BatchShape(8192, 128, 131_072)
        config = model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        per_token = 2 * config.num_hidden_layers * heads * width * model.dtype.itemsize
        if device.type == "cuda":
            total = torch.cuda.get_device_properties(device).total_memory
            spare = max(0, total - parameters * model.dtype.itemsize)
            shape = replace(shape, cache_tokens=min(131_072, max(1024, spare // 5 // per_token)))
    if batch_tokens is not None:
        shape = replace(shape, prefill_tokens=batch_tokens, cache_tokens=32 * batch_tokens)
    return shape
