"""Reads every example once and keeps what training needs on disk: of each example the states of the
question's tokens in front of layer ``FROM``, and keys and values of the layers from there on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from refract.judges.refusal.language_model import (
    FROM,
    HEADS,
    KEYS,
    SIZE,
    TO,
    base_weights,
    suffix,
    tokens_of,
    turned,
    turns,
    unit,
)
from tools.refusal_encoder.data import Example

# Tokens that are computed at once, and examples of one file.
AT_ONCE, CHUNK = 5000, 480


def states(ids: torch.Tensor, lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of rows padded behind their end, ``lengths`` with the question: the question's states, and keys
    and values."""
    w, asked = base_weights(torch.bfloat16), len(suffix())
    cos, sin = (part[:, None] for part in turns(ids.shape[1], torch.bfloat16))
    ends = torch.tensor(lengths) - 1
    rows = torch.arange(len(ids))
    state = F.embedding(ids, w["tokens"])
    kept, question = [], state
    for n in range(TO):
        if n == FROM:
            question = state[rows[:, None], ends[:, None] - asked + 1 + torch.arange(asked)]
        three = F.linear(unit(state), w[f"{n}.three"]).unflatten(-1, (-1, SIZE))
        both = turned(three[:, :, : HEADS + KEYS], cos, sin)
        query, key, value = both[:, :, :HEADS], both[:, :, HEADS:], three[:, :, HEADS + KEYS :]
        if n >= FROM:
            kept.append(torch.stack([key, value], 1))  # rows, 2, tokens, heads, size
        mixed = F.scaled_dot_product_attention(
            *(part.transpose(1, 2) for part in (query, key, value)), is_causal=True, enable_gqa=True
        )
        state = state + F.linear(mixed.transpose(1, 2).flatten(2), w[f"{n}.mixed"])
        gate, up = F.linear(unit(state), w[f"{n}.two"]).chunk(2, -1)
        state = state + F.linear(F.silu(gate).mul_(up), w[f"{n}.down"])
    return question, torch.stack(kept, 1)


def cache(examples: Sequence[Example], folder: Path) -> None:
    """Writes files of the states of examples, those that are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    question = suffix()
    tokens = tokens_of([e.prompt for e in examples], [e.answer for e in examples])
    tokens = [of + question for of in tokens]
    for first in range(0, len(examples), CHUNK):
        path = folder / f"{first // CHUNK:02}.pt"
        if path.exists():
            continue
        began = time.perf_counter()
        places = range(first, min(first + CHUNK, len(examples)))
        torch.save(chunk(sorted(places, key=lambda i: len(tokens[i])), examples, tokens), path)
        print(path.stem, len(places), f"{time.perf_counter() - began:.0f} s", flush=True)


def chunk(
    places: Sequence[int], examples: Sequence[Example], tokens: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """The states of some examples, the shortest first."""
    parts: dict[str, list[Any]] = {name: [] for name in ("question", "keys")}
    batches: list[list[int]] = [[]]
    for place in places:
        if len(tokens[place]) * (len(batches[-1]) + 1) > AT_ONCE:
            batches.append([])
        batches[-1].append(place)
    for batch in batches:
        lengths = [len(tokens[i]) for i in batch]
        ids = torch.zeros(len(batch), max(lengths), dtype=torch.long)
        for row, i in enumerate(batch):
            ids[row, : len(tokens[i])] = torch.tensor(tokens[i])
        with torch.inference_mode():
            asked, kept = states(ids, lengths)
        parts["question"].append(asked)
        parts["keys"] += [kept[row, :, :, :length] for row, length in enumerate(lengths)]
    return {
        "digests": [examples[i].digest for i in places],
        "lengths": [len(tokens[i]) for i in places],
        "question": torch.cat(parts["question"]),
        "keys": torch.cat(parts["keys"], 2),
    }
