"""What is learned from the kept states: a logistic regression on the last token's, or a low-rank
adapter (Hu et al. 2022, arXiv 2106.09685) of the upper layers at the tokens behind the answer, which
read the frozen keys and values of the rest."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional as F

from tools.refusal_encoder.data import Example
from tools.refusal_lm.caching import FROM, TO
from tools.refusal_lm.reading import HEADS, HIDDEN, KEYS, SIZE, turned, turns, unit, weights

CLASSES = 4
PARTS = ("attn_three", "attn_output", "ffn_two", "ffn_down")


@dataclass(frozen=True)
class Kept:
    """One example's states, as :mod:`tools.refusal_lm.caching` left them."""

    example: Example
    last: torch.Tensor  # layers, hidden
    question: torch.Tensor  # tokens of the question, hidden
    keys: torch.Tensor  # layers, 2, tokens, heads, size


def load(folder: Path, examples: Mapping[str, Example]) -> list[Kept]:
    """What stands in the files of a folder, which stay on disk."""
    found = []
    for path in sorted(folder.glob("*.pt")):
        chunk = torch.load(path, mmap=True)
        keys = chunk["keys"].split(chunk["lengths"], dim=2)
        rows = zip(chunk["digests"], chunk["last"], chunk["question"], keys, strict=True)
        found += [Kept(examples[digest], *rest) for digest, *rest in rows]
    return found


def allowed(rows: Sequence[Kept]) -> torch.Tensor:
    """Shape (rows, classes): whether a row's label may mean the class."""
    found = torch.zeros(len(rows), CLASSES, dtype=torch.bool)
    for i, row in enumerate(rows):
        found[i, list(row.example.allowed)] = True
    return found


def loss_of(logits: torch.Tensor, right: torch.Tensor, smoothing: float = 0.05) -> torch.Tensor:
    """Of the probability of all classes that a label allows."""
    chances = torch.log_softmax(logits, -1)
    likely = torch.logsumexp(chances.masked_fill(~right, -1e9), -1)
    return -((1 - smoothing) * likely + smoothing * chances.mean(-1))


def logistic(
    train: Sequence[Kept], test: Sequence[Kept], layers: Sequence[int], strength: float
) -> torch.Tensor:
    """Logits of ``test`` by a regression on standardised states of some of the layers."""

    def states(rows: Sequence[Kept]) -> torch.Tensor:
        return unit(torch.stack([row.last[list(layers)].float() for row in rows])).flatten(1)

    given, right = states(train), allowed(train)
    middle, spread = given.mean(0), given.std(0) + 1e-6
    given = (given - middle) / spread
    beta = torch.zeros(given.shape[1] + 1, CLASSES, requires_grad=True)
    search = torch.optim.LBFGS([beta], max_iter=60, line_search_fn="strong_wolfe")

    def step() -> torch.Tensor:
        search.zero_grad()
        loss = loss_of(given @ beta[:-1] + beta[-1], right, 0.0).sum()
        loss = loss + beta[:-1].square().sum() / (2 * strength)
        loss.backward()
        return loss

    search.step(step)
    with torch.no_grad():
        return (states(test) - middle) / spread @ beta[:-1] + beta[-1]


@dataclass(frozen=True)
class Recipe:
    rank: int = 16
    tail: int = 6  # tokens that the adapter reads at, the last ones
    epochs: int = 3
    batch: int = 32
    rate: float = 1e-3
    decay: float = 0.05
    dropout: float = 0.1
    seed: int = 13


class Adapter(torch.nn.Module):
    """The upper layers at the last tokens, and a linear layer for the classes."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.frozen = {
            name: value.detach()
            for name, value in weights(torch.float32).items()
            if name.startswith("blk.") and FROM <= int(name.split(".")[1]) < TO
        }
        torch.manual_seed(recipe.seed)
        self.low = torch.nn.ParameterDict()
        for name, value in self.frozen.items():
            out, into = value.shape
            key = name.replace(".", "_").removesuffix("_weight")
            self.low[f"{key}_in"] = torch.nn.Parameter(
                torch.randn(recipe.rank, into) / math.sqrt(into)
            )
            self.low[f"{key}_out"] = torch.nn.Parameter(torch.zeros(out, recipe.rank))
        self.classes = torch.nn.Linear(HIDDEN, CLASSES)
        torch.nn.init.zeros_(self.classes.weight)
        torch.nn.init.zeros_(self.classes.bias)

    def linear(self, name: str, value: torch.Tensor) -> torch.Tensor:
        key = name.replace(".", "_")
        low = F.linear(F.dropout(value, self.recipe.dropout, self.training), self.low[f"{key}_in"])
        return F.linear(value, self.frozen[f"{name}.weight"]) + F.linear(
            low, self.low[f"{key}_out"]
        )

    def forward(self, rows: Sequence[Kept]) -> torch.Tensor:
        recipe, tail = self.recipe, self.recipe.tail
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
            b = f"blk.{n}"
            three = self.linear(f"{b}.attn_three", unit(state)).unflatten(-1, (-1, SIZE))
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
            state = state + self.linear(f"{b}.attn_output", mixed.transpose(1, 2).flatten(2))
            gate, up = self.linear(f"{b}.ffn_two", unit(state)).chunk(2, -1)
            state = state + self.linear(f"{b}.ffn_down", F.silu(gate) * up)
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
    found = torch.zeros(len(rows), CLASSES)
    with torch.no_grad():
        for some in batches(rows, 64, None):
            found[some] = adapter([rows[i] for i in some])
    return found


def adapted(rows: Sequence[Kept], recipe: Recipe) -> Adapter:
    """An adapter trained on rows."""
    adapter, rng = Adapter(recipe), random.Random(recipe.seed)
    right = allowed(rows)
    total = recipe.epochs * math.ceil(len(rows) / recipe.batch)
    optimizer = torch.optim.AdamW(adapter.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (0.06 * total)) * max(0.0, 1 - step / total)
    )
    for epoch in range(recipe.epochs):
        adapter.train()
        losses = []
        for some in batches(rows, recipe.batch, rng):
            loss = loss_of(adapter([rows[i] for i in some]), right[some]).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(adapter.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}", flush=True)
    return adapter
