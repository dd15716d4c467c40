"""A model in float64 throughout, on the weights of another one: what exact answers are decided by."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

# Numbers in a matrix that are given another type at a time: on a CPU as few as its
# cache holds, elsewhere as many as make a kernel worth its start.
CHUNK = {"cpu": 2**20}
OTHER_CHUNK = 2**24
# Numbers of a model whose matrices stay float64 while it is opened: 1.5 GB of them.
KEPT_WEIGHTS = 3 * 2**26

_NARROW = (torch.float32, torch.bfloat16, torch.float16)
# Operations that choose by size. Where a layer does, a small error can become a large
# one: a mixture of experts sends a token elsewhere.
_CHOOSING = ("aten.topk", "aten.sort", "aten.argmax", "aten.max.dim")


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
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
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
    """Raises where an operation gives floating numbers of less than float64. ``chose``:
    whether one was of ``_CHOOSING``."""

    chose = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.chose = self.chose or str(func).startswith(_CHOOSING)
        result = func(*args, **(kwargs or {}))
        # taking rows of stored weights, or turning them, computes nothing
        if func.overloadpacket.__name__ not in ("embedding", "detach", "numpy_T"):
            for value in tree_leaves(result):
                if isinstance(value, torch.Tensor) and value.dtype in _NARROW:
                    raise NotExact(f"{func} computes in {str(value.dtype).removeprefix('torch.')}")
        return result


class WidenedLinear(nn.Module):
    """A linear layer on another one's weight, which is given the type of what it
    multiplies part by part."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = [layer]  # a list hides it from this module's parameters
        self.keeps = False
        self.kept: list[torch.Tensor] = []

    @property
    def weight(self) -> torch.Tensor:
        """The weight as it is stored, for the few models that read it."""
        return dense_weight(self.layer[0])

    @property
    def bias(self) -> torch.Tensor | None:
        """Likewise."""
        bias: torch.Tensor | None = getattr(self.layer[0], "bias", None)
        return bias

    def _parts(self, like: torch.Tensor) -> Iterator[torch.Tensor]:
        """The weight in the type and on the device of a tensor, part by part."""
        weight = self.weight
        step = max(1, CHUNK.get(like.device.type, OTHER_CHUNK) // weight.shape[1])
        for start in range(0, len(weight), step):
            # within Reference's mode, taking a part would first widen the whole
            with torch._C.DisableTorchFunction(), _disable_current_modes():
                part = weight[start : start + step].to(like)
            yield part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.keeps and not self.kept:
            self.kept = list(self._parts(x))
        parts = []
        for weight in self.kept or self._parts(x):
            parts.append(functional.linear(x, weight))
        product = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return product if self.bias is None else product + self.bias.to(x)


def dense_weight(layer: nn.Module) -> torch.Tensor:
    """The weight of a linear layer ``[out, in]`` as stored; of a quantised one, dequantised."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        weight: Any = layer.weight
        kind = type(weight).__name__
        if kind == "Params4bit":
            from bitsandbytes.functional import dequantize_4bit

            state = copy.copy(weight.quant_state)
            state.dtype = torch.float32  # its own type would round once more
            return dequantize_4bit(weight.data, state)
        if kind == "Int8Params":
            scale = weight.SCB if weight.SCB is not None else layer.state.SCB
            return weight.data.double() * (scale.double() / 127)[:, None]
        return weight.t() if type(layer).__name__ == "Conv1D" else weight


def is_linear(module: nn.Module) -> bool:
    """Whether a module does what a linear layer does, and no more (as some routers)."""
    plain = type(module).forward is nn.Linear.forward
    return plain or type(module).__name__ == "Conv1D"


def unfilled(model: Any, dtype: torch.dtype) -> Any:
    """A model like another one whose numbers are of this type, as yet without weights."""
    from accelerate import init_empty_weights

    config = copy.deepcopy(model.config)
    config.dtype = dtype
    config.use_cache = False
    config._experts_implementation = "eager"  # the others multiply in less than float64
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    with init_empty_weights(include_buffers=False):
        like = type(model)(config)
    return like.eval()


def share_buffers(like: Any, model: Any, device: torch.device) -> None:
    """Gives a model the buffers that another one's checkpoint holds, and puts all of its
    buffers on a device."""
    sources = dict(model.named_modules())
    stored = set(model.state_dict().keys())
    for name, module in like.named_modules():
        for key, buffer in list(module._buffers.items()):
            if buffer is not None:
                is_stored = f"{name}.{key}" in stored
                kept = sources[name]._buffers[key] if is_stored else buffer
                module._buffers[key] = kept.to(device)


class Reference:
    """A model in float64 throughout, on the weights of another one, which it shares. Constants such
    as rotary frequencies are computed anew in float64. ``routes``: whether layers choose by size,
    as a mixture's routers do. Raises :class:`NotExact` where an operation computes in less."""

    def __init__(self, model: Any, keep: bool = False) -> None:
        """``keep``: a small model's weights stay float64 until :meth:`let_go`."""
        embedding = model.get_input_embeddings().weight
        self.vocabulary = embedding.shape[0]
        # An accelerator of Apple knows no float64.
        self.device = torch.device("cpu") if embedding.device.type == "mps" else embedding.device
        with self._computing():
            self.model: Any = unfilled(model, torch.float64)
        self._share(model)
        share_buffers(self.model, model, self.device)
        self._keep(keep and sum(p.numel() for p in model.parameters()) <= KEPT_WEIGHTS)
        ids = torch.arange(4, device=self.device)[None] % self.vocabulary
        with torch.inference_mode(), self._computing(), _Watch() as watch:
            self.model(input_ids=ids)
        self.routes = watch.chose

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
        """Takes over the weights of ``model``."""
        modules = dict(model.named_modules())
        for name, module in list(self.model.named_modules()):
            source = modules[name]
            for key in list(module._parameters):
                if not is_linear(module) and module._parameters[key] is not None:
                    module._parameters[key] = source._parameters[key]
            for key, child in list(module._modules.items()):
                if child is not None and is_linear(child):
                    module._modules[key] = WidenedLinear(source._modules[key])

    def _keep(self, keeps: bool) -> None:
        for module in self.model.modules():
            if isinstance(module, WidenedLinear):
                module.keeps, module.kept = keeps, []

    def let_go(self) -> None:
        """Gives up the weights that it kept in float64."""
        self._keep(False)

    def __call__(self, **inputs: Any) -> Any:
        with torch.inference_mode(), self._computing():
            return self.model(**inputs)


@contextmanager
def kept_positions(model: Any, rows: Sequence[int], places: Sequence[int]) -> Iterator[None]:
    """Within it, a model gives logits ``[1, len(places), vocabulary]``, of these positions alone."""
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
        """Raises ValueError for a kind of layer that keeps no keys and values by position."""
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


@dataclass(frozen=True, slots=True)
class Route:
    """How the rows of a model are decoded (:func:`refract_exact.routes.find_route`).

    ``attention``: which positions they look at in slots of one cache; None: no slots. ``longest``:
    a row of more tokens is decoded by whole passes; None: no row is. ``kept``: whether float64 goes
    on from keys and values of its own. ``reason``: why there are whole passes."""

    attention: Attention | None
    longest: int | None = None
    kept: bool = True
    reason: str = ""

    def alone(self, known: int) -> bool:
        """Whether a row of so many tokens is decoded by whole passes."""
        return self.longest is not None and known > self.longest


def whole_passes(
    model: Any, tokens: Sequence[int], generated: Sequence[int], places: Sequence[int]
) -> torch.Tensor:
    """Logits ``[places, vocabulary]`` of a model, or of a :class:`Reference`, at places
    of a row's answer: a pass of its own for each, over the row's tokens before it."""
    network = model.model if isinstance(model, Reference) else model
    device = network.get_input_embeddings().weight.device
    logits = []
    for place in places:
        ids = torch.tensor([[*tokens, *generated[:place]]], device=device)
        with torch.inference_mode(), kept_positions(network, [0], [ids.shape[1] - 1]):
            logits.append(model(input_ids=ids, use_cache=False).logits[0])
    return torch.cat(logits)
