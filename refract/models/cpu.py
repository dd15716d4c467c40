"""How a model computes on a CPU: what multiplies by its weights, and on how many threads.

PyTorch's default is MKL on x86; oneDNN reads weights that were put into its own order once. Its sums do
not depend on the number of threads, while MKL divides long ones between threads and so rounds otherwise
with another number. A choice by a race of the two would let noise decide how an answer is rounded; so it
follows from the model alone.

Imports torch: import this module only where a model is about to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from refract.models.hf_settings import HFSettings
from refract.models.protocol import AdapterError

# Numbers in the largest matrix of a model's layers from which threads gain by sharing a product, and
# from which oneDNN is not slower: below, a product costs less than what surrounds it.
LARGE = 2**18
# Furthest that oneDNN's product may be from the default's, as a share of the largest number in it.
TOLERANCE = 1e-4


@contextmanager
def running_on(threads: int | None) -> Iterator[None]:
    """Within it, PyTorch computes with so many threads; None leaves them as they are."""
    before = torch.get_num_threads()
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        yield
    finally:
        torch.set_num_threads(before)


def prepare(
    name: str, model: Any, settings: HFSettings, rows: int
) -> tuple[str | None, int | None]:
    """Replaces a CPU model's linear layers; returns what multiplies now and the number of threads
    (None: PyTorch's own), on other devices None and ``threads``. ``rows``: of a batch.

    A small model has one thread. Raises :class:`AdapterError` where ``linear: onednn`` cannot be had.
    """
    if {p.device.type for p in model.parameters()} != {"cpu"}:
        return None, settings.threads
    small = _is_small(model)
    replaced = False
    if settings.linear == "onednn" or (settings.linear is None and not small):
        replaced = _through_onednn(model, rows)
    if settings.linear == "onednn" and not replaced:
        raise AdapterError(
            f"models.{name}: linear: onednn needs float32 weights in plain linear layers, and a build"
            f" of PyTorch with oneDNN (got {model.dtype}); leave linear out"
        )
    return "onednn" if replaced else "torch", settings.threads or (1 if small else None)


class OneDNNLinear(nn.Module):
    """A linear layer in float32 through oneDNN. ``rows``: the batch that its order is best for."""

    def __init__(self, layer: nn.Module, rows: int) -> None:
        super().__init__()
        weight: Any = layer.weight
        if type(layer) is Conv1D:  # a linear layer with its weight the other way round
            weight = weight.t().contiguous()
        self.out_features, self.in_features = weight.shape
        self.bias = layer.bias
        self.ordered = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows)

    @property
    def weight(self) -> torch.Tensor:
        """The weight as it was, for the few models that read it."""
        return self.ordered.to_dense()

    def forward(self, x: torch.Tensor) -> Any:
        return torch.ops.mkldnn._linear_pointwise(x, self.ordered, self.bias, "none", [], "")


def _is_small(model: Any) -> bool:
    outside = [model.get_input_embeddings(), model.get_output_embeddings()]
    left_out = {id(module.weight) for module in outside if module is not None}
    sizes = [p.numel() for p in model.parameters() if p.dim() == 2 and id(p) not in left_out]
    return max(sizes, default=0) < LARGE


def _through_onednn(model: Any, rows: int) -> bool:
    """Replaces the linear layers of a model; False, and nothing is changed, where weights are not in
    float32, where there is no oneDNN, or where it does not give the product."""
    layers = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child) in (nn.Linear, Conv1D)
    ]
    if not layers or any(p.dtype != torch.float32 for p in model.parameters() if p.dim() > 1):
        return False
    parent, name = layers[0]
    if not _gives_the_product(getattr(parent, name), rows):
        return False
    for parent, name in layers:
        setattr(parent, name, OneDNNLinear(getattr(parent, name), rows))
    return True


@torch.inference_mode()
def _gives_the_product(layer: Any, rows: int) -> bool:
    try:
        if not torch.backends.mkldnn.is_available():
            return False
        ordered = OneDNNLinear(layer, rows)
        x = torch.randn(rows, ordered.in_features, generator=torch.Generator().manual_seed(0))
        product, expected = ordered(x), layer(x)
    except (AttributeError, RuntimeError):  # another build of PyTorch, or another kind of processor
        return False
    return bool((product - expected).abs().max() <= TOLERANCE * expected.abs().max())
