"""A low-rank adapter (Hu et al. 2022, arXiv 2106.09685) of the upper layers at the last tokens, which
read the frozen keys and values of the rest."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional as F

from refract.judges.refusal.encoder import CLASSES
from refract.judges.refusal.language_model import (
    FROM,
    HEADS,
    HIDDEN,
    KEYS,
    SIZE,
    TAIL,
    TO,
    base_weights,
    turned,
    turns,
    unit,
)
from tools.refusal_encoder.data import Example
from tools.refusal_encoder.training import loss_of, warmed_up


@dataclass(frozen=True)
class Kept:
    """One example's states, as :mod:`tools.refusal_lm.caching` left them."""

    example: Example
    question: torch.Tensor  # tokens of the question, hidden
    keys: torch.Tensor  # layers, 2, tokens, heads, size


def load(folder: Path, examples: Mapping[str, Example]) -> list[Kept]:
    """What stands in the files of a folder, which stay on disk."""
    found = []
    for path in sorted(folder.glob("*.pt")):
        chunk = torch.load(path, mmap=True)
        keys = chunk["keys"].split(chunk["lengths"], dim=2)
        rows = zip(chunk["digests"], chunk["question"], keys, strict=True)
        found += [Kept(examples[digest], *rest) for digest, *rest in rows]
    return found


def allowed(rows: Sequence[Kept]) -> torch.Tensor:
    """Shape (rows, classes): whether a row's label may mean the class."""
    found = torch.zeros(len(rows), len(CLASSES), dtype=torch.bool)
    for i, row in enumerate(rows):
        found[i, list(row.example.allowed)] = True
    return found


@dataclass(frozen=True)
class Recipe:
    rank: int = 16
    epochs: int = 3
    batch: int = 32
    rate: float = 1e-3
    decay: float = 0.05
    dropout: float = 0.1
    smoothing: float = 0.05
    seed: int = 13


class Adapter(torch.nn.Module):
    """The upper layers at the last tokens, and a linear layer for the classes."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.frozen = {
            name: value.detach()
            for name, value in base_weights(torch.float32).items()
            if name != "tokens" and int(name.split(".")[0]) >= FROM
        }
        torch.manual_seed(recipe.seed)
        self.low = torch.nn.ParameterDict()
        for name, value in self.frozen.items():
            out, into = value.shape
            key = name.replace(".", "_")
            self.low[f"{key}_in"] = torch.nn.Parameter(
                torch.randn(recipe.rank, into) / math.sqrt(into)
            )
            self.low[f"{key}_out"] = torch.nn.Parameter(torch.zeros(out, recipe.rank))
        self.classes = torch.nn.Linear(HIDDEN, len(CLASSES))
        torch.nn.init.zeros_(self.classes.weight)
        torch.nn.init.zeros_(self.classes.bias)

    def linear(self, name: str, value: torch.Tensor) -> torch.Tensor:
        key = name.replace(".", "_")
        low = F.linear(F.dropout(value, self.recipe.dropout, self.training), self.low[f"{key}_in"])
        return F.linear(value, self.frozen[name]) + F.linear(low, self.low[f"{key}_out"])

    def forward(self, rows: Sequence[Kept]) -> torch.Tensor:
        recipe, tail = self.recipe, TAIL
        lengths = torch.tensor([row.keys.shape[2] for row in rows])
        width = int(lengths.max())
        # Keys of earlier tokens stand at the end of their row, those of the tail behind them.
        kept = torch.zeros(TO - FROM, 2, len(rows), width - tail, KEYS, SIZE)
        for i, row in enumerate(rows):
            kept[:, :, i, width - row.keys.shape[2] :] = row.keys[:, :, :-tail]
        begin = (width - lengths)[:, None]
        column = torch.arange(width)
        mask = (column[None, None] >= begin[:, :, None]) & (
            column[None, None] <= (width - tail + torch.arange(tail))[None, :, None]
        )
        cos, sin = turns(width, torch.float32)
        at = lengths[:, None] - tail + torch.arange(tail)
        cos, sin = cos[at][:, :, None], sin[at][:, :, None]
        state = torch.stack([row.question[-tail:] for row in rows]).float()
        for n in range(FROM, TO):
            three = self.linear(f"{n}.three", unit(state)).unflatten(-1, (-1, SIZE))
            query = turned(three[:, :, :HEADS], cos, sin)
            key = turned(three[:, :, HEADS : HEADS + KEYS], cos, sin)
            value = three[:, :, HEADS + KEYS :]
            key = torch.cat([kept[n - FROM, 0], key], 1)
            value = torch.cat([kept[n - FROM, 1], value], 1)
            mixed = F.scaled_dot_product_attention(
                *(part.transpose(1, 2) for part in (query, key, value)),
                mask[:, None],
                enable_gqa=True,
            )
            state = state + self.linear(f"{n}.mixed", mixed.transpose(1, 2).flatten(2))
            gate, up = self.linear(f"{n}.two", unit(state)).chunk(2, -1)
            state = state + self.linear(f"{n}.down", F.silu(gate) * up)
        last = unit(state[:, -1]) * math.sqrt(HIDDEN)
        return self.classes(F.dropout(last, recipe.dropout, self.training))


def batches(rows: Sequence[Kept], size: int, rng: random.Random | None) -> list[list[int]]:
    """Places of rows of about one length, drawn at random where there is a generator."""

    def width(i: int) -> float:
        return rows[i].keys.shape[2] + (rng.random() * 16 if rng else 0)

    order = sorted(range(len(rows)), key=width)
    found = [order[at : at + size] for at in range(0, len(order), size)]
    if rng:
        rng.shuffle(found)
    return found


def scored(adapter: Adapter, rows: Sequence[Kept]) -> torch.Tensor:
    """The logits of rows."""
    adapter.eval()
    found = torch.zeros(len(rows), len(CLASSES))
    with torch.no_grad():
        for some in batches(rows, 64, None):
            found[some] = adapter([rows[i] for i in some])
    return found


def adapted(rows: Sequence[Kept], recipe: Recipe) -> Adapter:
    """An adapter trained on rows."""
    adapter, rng = Adapter(recipe), random.Random(recipe.seed)
    right = allowed(rows)
    optimizer = torch.optim.AdamW(adapter.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    schedule = warmed_up(optimizer, recipe.epochs * math.ceil(len(rows) / recipe.batch))
    for epoch in range(recipe.epochs):
        adapter.train()
        losses = []
        for some in batches(rows, recipe.batch, rng):
            loss = loss_of(adapter([rows[i] for i in some]), right[some], recipe.smoothing)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(adapter.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}", flush=True)
    return adapter
