"""What multiplies by a model's weights on a CPU, and on how many threads.

PyTorch's default is MKL on x86; oneDNN reads weights that were put into its own order
once. Its sums do not depend on the number of threads, while MKL divides long ones
between threads and so rounds otherwise with another number. A choice by a race of the
two would let noise decide how an answer is rounded; so it follows from the model alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

# Numbers in the largest matrix of a model's layers from which threads gain by sharing a product,
# and from which oneDNN is not slower: below, a product costs less than what surrounds it.
LARGE = 2**18


@contextmanager
def running_on(threads: int | None) -> Iterator[None]:
    """Within it, PyTorch computes with so many threads; None leaves them as they are."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads or before)
        yield
    finally:
        torch.set_num_threads(before)


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


def prepare(model: Any, rows: int) -> tuple[str | None, int | None]:
    """Readies a model for this machine: what multiplies by its weights (None: not a CPU), and on
    how many threads (None: as many as PyTorch takes). A small model has PyTorch's default and one
    thread. Linear layers of others in float32 become oneDNN's, for batches of so many ``rows``."""
    if {p.device.type for p in model.parameters()} != {"cpu"}:
        return None, None
    outside = [model.get_input_embeddings(), model.get_output_embeddings()]
    left_out = {id(module.weight) for module in outside if module is not None}
    matrices = [p for p in model.parameters() if p.dim() > 1]
    sizes = [p.numel() for p in matrices if p.dim() == 2 and id(p) not in left_out]
    if max(sizes, default=0) < LARGE:
        return "torch", 1
    if any(p.dtype != torch.float32 for p in matrices) or not torch.backends.mkldnn.is_available():
        return "torch", None
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) in (nn.Linear, Conv1D):
                setattr(parent, name, OneDNNLinear(child, rows))
    return "onednn", None
