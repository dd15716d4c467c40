"""A model in float64 throughout, on the weights of another one: what exact answers are
decided by.

Imports torch: import this module only where a model is about to run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

# Numbers in a matrix that is made float64 at a time.
CHUNK = 2**24

_NARROW = (torch.float32, torch.bfloat16, torch.float16)


class NotExact(ValueError):
    """An architecture that computes in less than float64 whatever is asked of it."""


class _Float64(TorchFunctionMode):
    """Makes every floating tensor that a function takes, and every type that it is
    asked for, float64 on one device."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def _widened(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in _NARROW:
            return value.to(device=self.device, dtype=torch.float64)
        return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__"):  # an attribute
            return func(*args, **kwargs)
        if func is functional.embedding:  # takes few rows of a large matrix, as they are
            ids, weight, *others = args
            rows = func(ids.to(weight.device), weight, *others, **kwargs)
            return rows.to(device=self.device, dtype=torch.float64)
        if name in ("float", "half", "bfloat16") and func is getattr(torch.Tensor, name):
            func = torch.Tensor.double
        args, kwargs = tree_map(self._widened, (args, kwargs))
        return func(*args, **kwargs)


class _Watch(TorchDispatchMode):
    """Raises where an operation gives floating numbers of less than float64."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        # taking rows of stored weights computes nothing
        if func.overloadpacket.__name__ not in ("embedding", "detach"):
            tree_map(lambda value: self._look(func, value), result)
        return result

    @staticmethod
    def _look(func: Any, value: Any) -> None:
        if isinstance(value, torch.Tensor) and value.dtype in _NARROW:
            raise NotExact(f"{func} computes in {str(value.dtype).removeprefix('torch.')}")


class _Linear(nn.Module):
    """A linear layer in float64 on another one's weight, which is made float64 part by
    part."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = [layer]  # a list hides it from this module's parameters

    @property
    def weight(self) -> torch.Tensor:
        """The weight as it is stored, for the few models that read it."""
        return dense_weight(self.layer[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (layer,) = self.layer
        weight, bias = dense_weight(layer), getattr(layer, "bias", None)
        step = max(1, CHUNK // weight.shape[1])
        parts = []
        for start in range(0, len(weight), step):
            parts.append(functional.linear(x, weight[start : start + step].to(x)))
        product = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return product if bias is None else product + bias.to(x)


def dense_weight(layer: nn.Module) -> torch.Tensor:
    """The weight of a linear layer ``[out, in]`` as stored; of a quantised one,
    dequantised."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        weight: Any = layer.weight
        kind = type(weight).__name__
        if kind == "Params4bit":
            from bitsandbytes.functional import dequantize_4bit

            return dequantize_4bit(weight.data, weight.quant_state)
        if kind == "Int8Params":
            scale = weight.SCB if weight.SCB is not None else layer.state.SCB
            return weight.data.double() * (scale.double() / 127)[:, None]
        return weight.t() if type(layer).__name__ == "Conv1D" else weight


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


class Reference:
    """A model in float64 throughout, on the weights of another one, which it shares.
    Constants such as rotary frequencies are computed anew in float64. Raises
    :class:`NotExact` where an operation computes in less."""

    def __init__(self, model: Any) -> None:
        from accelerate import init_empty_weights

        embedding = model.get_input_embeddings().weight
        self.vocabulary = embedding.shape[0]
        # An accelerator of Apple knows no float64.
        self.device = torch.device("cpu") if embedding.device.type == "mps" else embedding.device
        config = copy.deepcopy(model.config)
        config.dtype = torch.float64
        config._experts_implementation = "eager"  # the others multiply in less than float64
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        with init_empty_weights(include_buffers=False), self._computing():
            self.model: Any = type(model)(config).eval()
        self._share(model)
        with torch.inference_mode(), self._computing(), _Watch():
            self.model(input_ids=torch.arange(4, device=self.device)[None] % self.vocabulary)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with _Float64(self.device):
                yield
        finally:
            torch.set_default_dtype(before)

    def _share(self, model: Any) -> None:
        """Takes over the weights of ``model``, and the buffers that its checkpoint
        holds."""
        modules = dict(model.named_modules())
        stored = set(model.state_dict().keys())
        for name, module in list(self.model.named_modules()):
            source = modules[name]
            for key in list(module._parameters):
                if not _is_linear(module) and module._parameters[key] is not None:
                    module._parameters[key] = source._parameters[key]
            for key, buffer in list(module._buffers.items()):
                if buffer is not None:
                    kept = source._buffers[key] if f"{name}.{key}" in stored else buffer
                    module._buffers[key] = kept.to(self.device)
            for key, child in list(module._modules.items()):
                if child is not None and _is_linear(child):
                    module._modules[key] = _Linear(source._modules[key])

    def __call__(self, **inputs: Any) -> Any:
        """What the model gives for these inputs, in float64."""
        with torch.inference_mode(), self._computing():
            return self.model(**inputs)


@contextmanager
def kept_positions(model: Any, rows: Sequence[int], places: Sequence[int]) -> Iterator[None]:
    """Within it, a model gives logits ``[1, len(places), vocabulary]``, of these
    positions alone."""
    at = (torch.tensor(rows), torch.tensor(places))

    def pick(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden, *others = inputs
        return (hidden[at[0].to(hidden.device), at[1].to(hidden.device)][None], *others)

    handle = model.get_output_embeddings().register_forward_pre_hook(pick)
    try:
        yield
    finally:
        handle.remove()


class Attention:
    """Which positions a model's layers look at: all before, or a window of them."""

    def __init__(self, config: Any) -> None:
        """Raises ValueError for a kind of layer that keeps no keys and values by
        position."""
        config = config.get_text_config()
        self.kinds = set(getattr(config, "layer_types", None) or ())
        slides = not self.kinds or "sliding_attention" in self.kinds
        self.window = getattr(config, "sliding_window", None) if slides else None
        foreign = self.kinds - {"full_attention", "sliding_attention"}
        if foreign:
            raise ValueError(f"layers of type {', '.join(sorted(foreign))}")

    def mask(self, at: torch.Tensor, keys: torch.Tensor, dtype: torch.dtype) -> Any:
        """Additive mask ``[rows, 1, queries, keys]`` for queries at positions ``at``
        ``[rows, queries]`` and keys of positions ``keys`` ``[rows or 1, keys]``, where
        -1 stands for none; one for each kind of layer where kinds are mixed."""
        at, keys = at[:, :, None], keys[:, None, :]
        seen = (keys <= at) & (keys >= 0)

        def additive(allowed: torch.Tensor) -> torch.Tensor:
            mask = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
            return mask.masked_fill_(~allowed, float("-inf"))[:, None]

        if self.window is None:
            return additive(seen)
        recent = additive(seen & (keys > at - self.window))
        if not self.kinds:
            return recent
        return {"full_attention": additive(seen), "sliding_attention": recent}
