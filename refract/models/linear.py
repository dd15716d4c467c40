"""What multiplies by a model's weights on a CPU: PyTorch's default (MKL on x86), oneDNN in float32, or
weights in 8 bits.

oneDNN reads weights that were put into its own order once. Its sums do not depend on the number of
threads, while MKL divides long ones between threads and so rounds otherwise with another number. A
choice by a race of the two would let noise decide how an answer is rounded; so it follows from the
model alone.

Imports torch: import this module only where a model is about to run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from refract.models.hf_settings import HFSettings
from refract.models.protocol import AdapterError
from refract.models.threads import Others, free_threads

# Numbers in the largest matrix of a model's layers from which threads gain by sharing a product, and
# from which oneDNN is not slower: below, a product costs less than what surrounds it.
LARGE = 2**18
# The 8-bit product reads so many inputs at a time, and beyond the end of others.
WHOLE = 16
# Furthest that oneDNN's product may be from the default's, as a share of the largest number in it.
TOLERANCE = 1e-4


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


class Int8Linear(nn.Module):
    """A linear layer whose weights alone are rounded to 8 bits, with one scale for each output.

    What it multiplies by them stays in bfloat16, so that no row depends on another, as it would if the
    numbers of a batch shared a scale.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        weight: Any = layer.weight
        if type(layer) is Conv1D:
            weight = weight.t()
        weight = weight.detach().float()
        self.out_features, self.in_features = weight.shape
        self.bias = layer.bias
        largest = weight.abs().amax(dim=1).clamp_min(torch.finfo(torch.bfloat16).tiny)
        self.scale = (largest / 127).to(torch.bfloat16)
        whole = (weight / self.scale.float()[:, None]).round().clamp(-127, 127)
        self.rounded = whole.to(torch.int8).contiguous()

    @property
    def weight(self) -> torch.Tensor:
        """The weight as it is rounded, for the few models that read it."""
        return self.rounded * self.scale[:, None]

    def forward(self, x: torch.Tensor) -> Any:
        rows = x.reshape(-1, self.in_features)
        product = torch._weight_int8pack_mm(rows, self.rounded, self.scale)
        if self.bias is not None:
            product = product + self.bias
        return product.reshape(*x.shape[:-1], self.out_features)


def prepare(
    name: str, model: Any, settings: HFSettings, rows: int, others: Others
) -> tuple[str | None, int | None]:
    """Gives a model on a CPU its linear layers, and says what multiplies now and on how many threads;
    None, None on other devices. Raises :class:`AdapterError` where ``linear: onednn`` cannot be had.

    A small model has one thread. Another has as many as are free where that changes no answer, and
    otherwise as many as there can be: how busy a machine is must not change how an answer is rounded.
    """
    if {p.device.type for p in model.parameters()} != {"cpu"}:
        if settings.quantization == "int8":
            raise AdapterError(
                f"models.{name}: quantization: int8 is for a CPU (the model is on"
                f" {next(model.parameters()).device}); set device: cpu, or quantization: 8bit"
            )
        return None, settings.threads
    small = _is_small(model)
    if settings.quantization == "int8":
        kept = model.get_output_embeddings()  # whose rounding costs most, as bitsandbytes leaves it
        for parent, child in _linear_layers(model):
            layer = getattr(parent, child)
            if layer is not kept and layer.weight.shape[type(layer) is not Conv1D] % WHOLE == 0:
                setattr(parent, child, Int8Linear(layer))
        return "int8", settings.threads or (1 if small else free_threads())
    replaced = False
    if settings.linear == "onednn" or (settings.linear is None and not small):
        replaced = _through_onednn(model, rows)
    if settings.linear == "onednn" and not replaced:
        raise AdapterError(
            f"models.{name}: linear: onednn needs float32 weights in plain linear layers, and a build"
            f" of PyTorch with oneDNN (got {model.dtype}); leave linear out"
        )
    threads = settings.threads
    if threads is None and small:
        threads = 1
    elif threads is None:
        alone = replaced and settings.processes == 1 and _sums_alike(model)
        threads = free_threads(others if alone else None)
    return "onednn" if replaced else "torch", threads


def _is_small(model: Any) -> bool:
    outside = [model.get_input_embeddings(), model.get_output_embeddings()]
    left_out = {id(module.weight) for module in outside if module is not None}
    sizes = [p.numel() for p in model.parameters() if p.dim() == 2 and id(p) not in left_out]
    return max(sizes, default=0) < LARGE


def _linear_layers(model: Any) -> list[tuple[nn.Module, str]]:
    """Each linear layer's parent, and its name there."""
    return [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child) in (nn.Linear, Conv1D)
    ]


def _through_onednn(model: Any, rows: int) -> bool:
    """Replaces the linear layers of a model; False, and nothing is changed, where weights are not in
    float32, where there is no oneDNN, or where it does not give the product."""
    layers = _linear_layers(model)
    if not layers or any(p.dtype != torch.float32 for p in model.parameters() if p.dim() > 1):
        return False
    parent, name = layers[0]
    if not _gives_the_product(getattr(parent, name), rows):
        return False
    for parent, name in layers:
        setattr(parent, name, OneDNNLinear(getattr(parent, name), rows))
    return True


def _sums_alike(model: Any) -> bool:
    """Whether nothing but embeddings is left of the weights that PyTorch's default multiplies by."""
    embedded = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return all(id(p) in embedded for p in model.parameters() if p.dim() > 1)


@torch.inference_mode()
def _gives_the_product(layer: Any, rows: int) -> bool:
    try:
        if not torch.backends.mkldnn.is_available():
            return False
        ordered = OneDNNLinear(layer, rows)
        x = torch.randn(rows, ordered.in_features, generator=torch.Generator().manual_seed(0))
        found, expected = ordered(x), layer(x)
    except (AttributeError, RuntimeError):  # another build of PyTorch, or another kind of processor
        return False
    return bool((found - expected).abs().max() <= TOLERANCE * expected.abs().max())
