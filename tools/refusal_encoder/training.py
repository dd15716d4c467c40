"""Fine-tuning of a BERT, and a linear layer for the classes."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from refract.judges.bert import EPSILON, HEADS, Tokens
from refract.judges.refusal.encoder import CLASSES, tokens_of
from tools.refusal_encoder.augmentation import Writer
from tools.refusal_encoder.data import Example, cases

LAYER_NAMES = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "mixed",
    "attention.output.LayerNorm": "mixed",
    "intermediate.dense": "inner",
    "output.dense": "outer",
    "output.LayerNorm": "outer",
}


@dataclass(frozen=True)
class Recipe:
    """How an encoder is trained."""

    layers: int = 6
    frozen: int = 2  # of these, the first so many stay as they came, and the embeddings too
    epochs: int = 2
    cases: float = 0.7  # share of the written cases that an epoch holds
    echoes: int = 150  # examples in each epoch that repeat a prompt
    batch: int = 32
    rate: float = 1.5e-4
    head_rate: float = 1e-3
    dropout: float = 0.1
    smoothing: float = 0.05
    written: int = 1000  # examples of this project's wordings in each epoch
    most: int = 4000  # examples of one source in each epoch
    least: int = 200  # smaller sources are repeated up to three times towards this
    unknown: float = 0.06  # share of tokens that are hidden
    seed: int = 13


# An encoder's input, and a mark for each class, which the loss reads: 1 where its label allows the class
# and 0 elsewhere, or how likely the class is.
Lesson = tuple[Tokens, Sequence[float]]


def pretrained(folder: Path, layers: int, classes: int = len(CLASSES)) -> dict[str, Any]:
    """The weights of a BERT checkpoint by the names of our network, and classes drawn at random."""
    import torch
    from safetensors.torch import load_file

    given = load_file(folder / "model.safetensors")
    given = {name.removeprefix("bert."): value.float() for name, value in given.items()}
    weights = {
        "word": given["embeddings.word_embeddings.weight"],
        # Every token is of the first kind.
        "position": given["embeddings.position_embeddings.weight"][:256]
        + given["embeddings.token_type_embeddings.weight"][0],
        "embedded.scale": given["embeddings.LayerNorm.weight"],
        "embedded.shift": given["embeddings.LayerNorm.bias"],
    }
    for layer in range(layers):
        for theirs, ours in LAYER_NAMES.items():
            weight, bias = ("scale", "shift") if theirs.endswith("Norm") else ("weight", "bias")
            start = f"encoder.layer.{layer}.{theirs}"
            weights[f"{layer}.{ours}.{weight}"] = given[f"{start}.weight"]
            weights[f"{layer}.{ours}.{bias}"] = given[f"{start}.bias"]
    hidden = weights["word"].shape[1]
    return {name: value.clone() for name, value in weights.items()} | {
        "classes.weight": torch.randn(classes, hidden) * 0.02,
        "classes.bias": torch.zeros(classes),
    }


def most_others(refused: int) -> int:
    """Of a source with so many refusals, how many other answers are trained on: beside few refusals the
    tenth hundred of compliant answers teaches little."""
    return max(250, 2 * refused)


def drawn(examples: list[Example], recipe: Recipe, rng: random.Random) -> list[Example]:
    """The examples of one epoch: those of each source up to a limit, small ones repeated, and as many of
    this project's wordings, cases and echoes as the recipe says."""
    writer = Writer(rng, examples)
    by_source: dict[str, list[Example]] = {}
    for example in examples:
        by_source.setdefault(example.source, []).append(example)
    epoch: list[Example] = []
    for found in by_source.values():
        refused = [e for e in found if e.refused]
        others = [e for e in found if not e.refused]
        rng.shuffle(others)
        rng.shuffle(refused)
        others = others[: most_others(len(refused))]
        found = refused + others
        rng.shuffle(found)
        found = found[: recipe.most]
        times = min(3, max(1, round(recipe.least / len(found))))
        epoch += [writer.varied(example) for _ in range(times) for example in found]
    epoch += writer.drawn(recipe.written)
    epoch += [writer.echo() for _ in range(recipe.echoes)]
    epoch += [case for case in cases() if rng.random() < recipe.cases]
    rng.shuffle(epoch)
    return epoch


def train(
    examples: list[Example],
    folder: Path,
    recipe: Recipe,
    start: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The weights after training. It begins with the base model in ``folder``, or with the weights
    ``start``."""
    import torch

    torch.manual_seed(recipe.seed)
    rng = random.Random(recipe.seed)
    weights = dict(start) if start else pretrained(folder, recipe.layers)
    epochs: list[list[Lesson]] = []
    for _ in range(recipe.epochs):
        epoch = drawn(examples, recipe, rng)
        inputs = tokens_of([example.answer for example in epoch])
        marks = [[float(c in e.allowed) for c in range(len(CLASSES))] for e in epoch]
        epochs.append(list(zip(inputs, marks, strict=True)))
    return fitted(weights, epochs, recipe, rng, partial(loss_of, smoothing=recipe.smoothing))


def fitted(
    weights: dict[str, Any],
    epochs: Sequence[Sequence[Lesson]],
    recipe: Recipe,
    rng: random.Random,
    loss: Callable[[Any, Any], Any],
) -> dict[str, Any]:
    """The weights after some epochs; the word vectors and the first layers stay as they came. ``loss``
    takes logits, and marks of the same shape."""
    import torch

    fixed = ("word", "position", "embedded", *(f"{n}." for n in range(recipe.frozen)))
    trained = {n: v.requires_grad_() for n, v in weights.items() if not n.startswith(fixed)}
    head = [value for name, value in trained.items() if name.startswith("classes")]
    plain = [v for n, v in trained.items() if not n.startswith("classes") and v.dim() < 2]
    body = [v for n, v in trained.items() if not n.startswith("classes") and v.dim() > 1]
    groups = [
        {"params": body, "lr": recipe.rate, "weight_decay": 0.01},
        {"params": plain, "lr": recipe.rate, "weight_decay": 0.0},
        {"params": head, "lr": recipe.head_rate, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups)
    schedule = warmed_up(optimizer, sum(math.ceil(len(epoch) / recipe.batch) for epoch in epochs))
    # Where the processor has no bfloat16, float32 is fifteen times as fast.
    has_bfloat16 = torch.backends.cpu.get_cpu_capability() != "AVX2"
    for number, epoch in enumerate(epochs):
        started, losses = time.perf_counter(), []
        for ids, mask, marks in _batches(epoch, recipe, rng):
            with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16):
                scores = logits(weights, ids, mask, recipe.dropout)
            off = loss(scores.float(), marks)
            optimizer.zero_grad()
            off.backward()
            torch.nn.utils.clip_grad_norm_(list(trained.values()), 1.0)
            optimizer.step()
            schedule.step()
            losses.append(off.item())
        took = time.perf_counter() - started
        print(
            f"epoch {number + 1}: {len(epoch)} examples, loss {sum(losses) / len(losses):.4f}, "
            f"{took:.0f} s",
            flush=True,
        )
    return {name: value.detach() for name, value in weights.items()}


def warmed_up(optimizer: Any, total: int) -> Any:
    """A schedule of so many steps: the rate rises for the first of them and then falls to zero."""
    import torch

    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (0.06 * total)) * max(0.0, 1 - step / total)
    )


def loss_of(logits: Any, allowed: Any, smoothing: float) -> Any:
    """Of the probability of all classes that each row's label allows, the mean over rows. ``allowed``
    has the shape of ``logits`` (rows, classes)."""
    import torch

    chances = torch.log_softmax(logits, -1)
    right = torch.logsumexp(chances.masked_fill(allowed == 0, -1e9), -1)
    return -((1 - smoothing) * right + smoothing * chances.mean(-1)).mean()


def against_chances(logits: Any, chances: Any) -> Any:
    """The cross entropy with each row's chances, the mean over rows."""
    import torch

    return -(chances * torch.log_softmax(logits, -1)).sum(-1).mean()


def _batches(epoch: Sequence[Lesson], recipe: Recipe, rng: random.Random) -> Any:
    """Batches of inputs of about one length, in random order."""
    import torch

    order = sorted(range(len(epoch)), key=lambda i: len(epoch[i][0]) + rng.random() * 12)
    groups = [order[at : at + recipe.batch] for at in range(0, len(order), recipe.batch)]
    rng.shuffle(groups)
    for group in groups:
        rows, marks = zip(*[epoch[i] for i in group], strict=True)
        hidden = [
            [100 if t > 999 and rng.random() < recipe.unknown else t for t in tokens]
            for tokens in rows
        ]
        yield *padded(hidden), torch.tensor(marks, dtype=torch.float32)


def padded(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """The tokens of each row, and where there is one; both of shape (rows, width of the longest)."""
    import torch

    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
    return ids, mask


def mean(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of several runs' weights, of one base (Wortsman et al. 2022, arXiv 2203.05482)."""
    return {name: sum(run[name] for run in runs) / len(runs) for name in runs[0]}


def quantized(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Matrices as 8-bit integers with one scale for each row, vectors as they are."""
    import torch

    stored: dict[str, Any] = {}
    for name, value in weights.items():
        if value.dim() < 2:
            stored[name] = value.float().contiguous()
            continue
        scale = value.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / 127
        stored[name] = (value.float() / scale).round().to(torch.int8).contiguous()
        stored[f"{name}:scale"] = scale
    return stored


def logits(weights: Mapping[str, Any], ids: Any, mask: Any, dropout: float = 0.0) -> Any:
    """What the judge computes in NumPy, by PyTorch: shape (rows, classes). ``ids`` and ``mask`` are
    of shape (rows, width): token numbers, and whether there is a token."""
    from torch.nn import functional as F

    width = ids.shape[1]
    state = F.embedding(ids, weights["word"]) + weights["position"][:width]
    state = F.dropout(_normed(weights, "embedded", state), dropout, dropout > 0)
    seen = mask[:, None, None, :].bool()
    layers = sum(name.endswith(".query.weight") for name in weights)
    for layer in range(layers):
        asking = state if layer < layers - 1 else state[:, :1]
        state = _layer(weights, f"{layer}", asking, state, seen)
    return _linear(weights, "classes", F.dropout(state[:, 0], dropout, dropout > 0))


def _layer(weights: Mapping[str, Any], layer: str, asking: Any, state: Any, seen: Any) -> Any:
    from torch.nn import functional as F

    def heads(name: str, of: Any) -> Any:
        return _linear(weights, f"{layer}.{name}", of).unflatten(-1, (HEADS, -1)).transpose(1, 2)

    mixed = F.scaled_dot_product_attention(
        heads("query", asking), heads("key", state), heads("value", state), attn_mask=seen
    )
    mixed = _linear(weights, f"{layer}.mixed", mixed.transpose(1, 2).flatten(2))
    state = _normed(weights, f"{layer}.mixed", asking + mixed)
    inner = F.gelu(_linear(weights, f"{layer}.inner", state))
    return _normed(weights, f"{layer}.outer", state + _linear(weights, f"{layer}.outer", inner))


def _linear(weights: Mapping[str, Any], name: str, value: Any) -> Any:
    from torch.nn import functional as F

    return F.linear(value, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _normed(weights: Mapping[str, Any], name: str, value: Any) -> Any:
    from torch.nn import functional as F

    scale = weights[f"{name}.scale"]
    return F.layer_norm(value, scale.shape, scale, weights[f"{name}.shift"], EPSILON)
