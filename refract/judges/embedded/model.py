"""The shipped weights, and the logits that they give.

An answer's logits depend on the answer alone: batches have a fixed number of rows and a width that
is a function of each input's own length, so that the same kernels see it whatever stands beside it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refract.core.errors import ParamsError
from refract.core.jsonl import sha256_file
from refract.judges.embedded.network import Weights, logits
from refract.judges.embedded.reading import WIDTH, tokens_of
from refract.models.threads import free_threads, running_on

FOLDER = Path(__file__).with_name("weights")
# Rows of a batch, and the step of its widths: small, since rows and widths are filled up, and large
# enough to keep the processor busy.
ROWS, STEP = 8, 8


@functools.cache
def description(folder: Path = FOLDER) -> dict[str, Any]:
    """What stands beside the weights: their hash, and how they were trained."""
    found: dict[str, Any] = json.loads((folder / "encoder.json").read_text("utf-8"))
    return found


@functools.cache
def load(folder: Path = FOLDER) -> Weights:
    """The weights in float32. Raises :class:`ParamsError` where they are not the described ones."""
    from safetensors.torch import load_file

    path = folder / "encoder.safetensors"
    if not path.is_file() or sha256_file(path) != description(folder)["sha256"]:
        raise ParamsError(
            f"{path} is not the file that encoder.json describes; install the package again"
        )
    return dequantized(load_file(path))


def quantized(weights: Weights) -> dict[str, Any]:
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


def dequantized(stored: Weights) -> Weights:
    """The weights in float32 again."""
    return {
        name: value.float() * stored[f"{name}:scale"] if f"{name}:scale" in stored else value
        for name, value in stored.items()
        if not name.endswith(":scale")
    }


def logits_of(
    answers: Sequence[str], prompts: Sequence[str], folder: Path = FOLDER
) -> list[tuple[float, ...]]:
    """The logits of each answer, in the order of the classes."""
    return scored(load(folder), tokens_of(answers, prompts, folder / "vocabulary.txt"))


def scored(
    weights: Weights, inputs: Sequence[tuple[list[int], list[int]]]
) -> list[tuple[float, ...]]:
    """The logits of inputs, each as :func:`refract.judges.embedded.reading.tokens_of` makes it."""
    import torch

    by_width: dict[int, list[int]] = {}
    for index, (tokens, _) in enumerate(inputs):
        width = min(-(-len(tokens) // STEP) * STEP, WIDTH)
        by_width.setdefault(width, []).append(index)
    found: list[tuple[float, ...]] = [()] * len(inputs)
    with torch.inference_mode(), running_on(free_threads()):
        for width, members in sorted(by_width.items()):
            for start in range(0, len(members), ROWS):
                batch = members[start : start + ROWS]
                filled = batch + batch[:1] * (ROWS - len(batch))
                padded = [_padded(*inputs[index], width) for index in filled]
                ids, kinds, mask = (torch.tensor(part) for part in zip(*padded, strict=True))
                rows = logits(weights, ids, kinds, mask).tolist()
                for index, row in zip(batch, rows, strict=False):
                    found[index] = tuple(row)
    return found


def _padded(
    tokens: list[int], kinds: list[int], width: int
) -> tuple[list[int], list[int], list[int]]:
    padding = [0] * (width - len(tokens))
    return tokens + padding, kinds + padding, [1] * len(tokens) + padding
