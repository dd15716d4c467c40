"""Reads every example once and keeps what training needs on disk.

Of each example: the states of its last token behind several layers, the states of the question's
tokens in front of layer ``FROM``, and keys and values of what stands before the question, of the layers
from there on.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from tools.refusal_encoder.data import Example, cases, read
from tools.refusal_lm.reading import (
    HEADS,
    KEYS,
    SIZE,
    suffix,
    tokens_of,
    turned,
    turns,
    unit,
    weights,
)

STATES = Path(tempfile.gettempdir(), "refusal_lm")
FROM, TO = 14, 24  # layers whose keys and values are kept, the latter not among them
SEEN = (10, 14, 16, 18, 20, 22, 24)  # behind so many layers, the last token's state
OWN = Path("data/validation/validation.jsonl")
# Tokens that are computed at once.
AT_ONCE = 5000
# Examples of a source among the first that are read, which stand for it until the rest is.
FIRST = {
    "xstest": 500,
    "xstest_extension": 450,
    "wildguard": 450,
    "chatgpt_refusals": 450,
    "orfuzz": 300,
    "do_not_answer": 300,
    "own": 200,
    "cases": 700,
    "harmbench": 60,
    "jailbreakeval": 0,
    "refusalbench": 270,  # and all of its refusals, which are few
}


def ordered(files: list[Path]) -> list[Example]:
    """All examples, once each, a sample of every source first."""
    examples = {e.digest: e for path in (*files, OWN) for e in read(path)}
    examples |= {e.digest: e for e in cases()}
    shuffled = sorted(examples.values(), key=lambda e: e.digest)
    random.Random(1).shuffle(shuffled)
    first, rest, counts = [], [], Counter()
    for e in shuffled:
        kind = e.source + "+" * (e.source == "refusalbench" and e.refused)
        counts[kind] += 1
        (first if counts[kind] <= FIRST.get(kind, len(shuffled)) else rest).append(e)
    return first + rest


def states(
    ids: torch.Tensor, lengths: list[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of rows padded behind their end, ``lengths`` with the question: the last states, the question's
    states, and keys and values."""
    w, asked = weights(torch.bfloat16), len(suffix())
    cos, sin = (part[:, None] for part in turns(ids.shape[1], torch.bfloat16))
    ends = torch.tensor(lengths) - 1
    rows = torch.arange(len(ids))
    state = F.embedding(ids, w["token_embd.weight"])
    last, kept, question = [], [], state
    for n in range(TO):
        b = f"blk.{n}."
        if n == FROM:
            question = state[rows[:, None], ends[:, None] - asked + 1 + torch.arange(asked)]
        three = F.linear(unit(state), w[b + "attn_three.weight"]).unflatten(-1, (-1, SIZE))
        both = turned(three[:, :, : HEADS + KEYS], cos, sin)
        query, key, value = both[:, :, :HEADS], both[:, :, HEADS:], three[:, :, HEADS + KEYS :]
        if n >= FROM:
            kept.append(torch.stack([key, value], 1))  # rows, 2, tokens, heads, size
        mixed = F.scaled_dot_product_attention(
            *(part.transpose(1, 2) for part in (query, key, value)), is_causal=True, enable_gqa=True
        )
        state = state + F.linear(mixed.transpose(1, 2).flatten(2), w[b + "attn_output.weight"])
        gate, up = F.linear(unit(state), w[b + "ffn_two.weight"]).chunk(2, -1)
        state = state + F.linear(F.silu(gate).mul_(up), w[b + "ffn_down.weight"])
        if n + 1 in SEEN:
            last.append(state[rows, ends])
    return torch.stack(last, 1), question, torch.stack(kept, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--into", type=Path, default=STATES)
    parser.add_argument("--chunk", type=int, default=480, help="examples of one file")
    parser.add_argument("--numbers", type=int, nargs="+", help="of the files that are written")
    given = parser.parse_args()
    given.into.mkdir(exist_ok=True)
    examples = ordered(given.files)
    question = suffix()
    tokens = tokens_of([e.prompt for e in examples], [e.answer for e in examples])
    tokens = [of + question for of in tokens]
    print(len(examples), "examples,", sum(map(len, tokens)) / len(tokens), "tokens", flush=True)
    chunks = range(math.ceil(len(examples) / given.chunk))
    for number in given.numbers or chunks:
        path = given.into / f"{number:02}.pt"
        if path.exists():
            continue
        began = time.perf_counter()
        first = number * given.chunk
        places = range(first, min(first + given.chunk, len(examples)))
        torch.save(chunk(sorted(places, key=lambda i: len(tokens[i])), examples, tokens), path)
        print(number, len(places), f"{time.perf_counter() - began:.0f} s", flush=True)


def chunk(places: list[int], examples: list[Example], tokens: list[list[int]]) -> dict[str, Any]:
    """The states of some examples, the shortest first."""
    parts: dict[str, list[Any]] = {name: [] for name in ("last", "question", "keys")}
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
            last, asked, kept = states(ids, lengths)
        parts["last"].append(last)
        parts["question"].append(asked)
        parts["keys"] += [kept[row, :, :, :length] for row, length in enumerate(lengths)]
    return {
        "digests": [examples[i].digest for i in places],
        "lengths": [len(tokens[i]) for i in places],
        "last": torch.cat(parts["last"]),
        "question": torch.cat(parts["question"]),
        "keys": torch.cat(parts["keys"], 2),
    }


if __name__ == "__main__":
    main()
