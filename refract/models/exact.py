"""Exact answers: greedy or seeded decoding under exact arithmetic, as far as float64 resolves it.

Fast arithmetic proposes each token. Where what speaks for it, its *margin*, is above what fast
arithmetic was measured to get wrong, the token is certain. Where it is not, float64 decides over the
row's whole prefix. So device, type of number, kernels, threads and batch are speed and not content.
The margin is certified under a *measured* bound, never proved: :meth:`Exact.settle` measures the
error again wherever float64 was asked, and on one answer in ``AUDITED`` throughout.

Reference arithmetic: :class:`Reference` runs the model's own code in float64 throughout, on the
weights as they are stored, each made float64 when it is used.

Related: deterministic operations by a fixed order (RepDL, arXiv 2510.09180), near-ties checked anew
by a threshold (MarginGate, arXiv 2605.30218), and checks of recorded answers by a forward pass
(TOPLOC, arXiv 2501.16007; Token-DiFR, arXiv 2511.20621).

Imports torch: import this module only where a model is about to run.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map
from transformers.cache_utils import DynamicCache

if TYPE_CHECKING:
    from refract.models.decoding import DecodedRow

log = logging.getLogger(__name__)

# Logits nearer than this are equal: a thousand times what float64 gets wrong in a model's sums.
TIE = 2.0**-30
# The bound of a margin: so many times the largest error seen, and never below the floor.
SAFETY = 8.0
FLOOR = 2.0**-12
# Of so many answers one is checked whole, and so many undecided tokens send a row to float64.
AUDITED = 64
MOST_OPEN = 16
# Positions on which the error is measured when a model is opened: rows x tokens.
PROBES = (8, 12)
# Numbers in a matrix that is made float64 at a time, tokens of a float64 pass, and logits it gives.
CHUNK = 2**24
PASS_TOKENS = 4096
PASS_LOGITS = 2**24
# Bytes of float64 states that are kept for rows which go on.
KEPT_BYTES = 2**30

_NARROW = (torch.float32, torch.bfloat16, torch.float16)


class NotExact(ValueError):
    """An architecture that computes in less than float64 whatever is asked of it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a token is chosen from logits: greedily, or by a uniform number above temperature 0."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int | None = None

    def __call__(
        self, logits: torch.Tensor, uniforms: Sequence[float] = (), tie: float = 0.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The tokens of ``logits`` ``[rows, vocabulary]``, and by how much each wins: the smallest
        change of one logit against another that could change it (of a draw, at least that).

        Greedy: the largest logit, the lowest id of those within ``tie`` of it. Drawn: the token whose
        interval of the cumulative distribution, in order of ids, holds the row's uniform number, after
        top-k and then top-p of the rest (Holtzman et al., 2020).
        """
        if self.temperature == 0:
            values, places = logits.topk(2, dim=-1)
            chosen = places[:, 0]
            if tie:
                near = logits >= values[:, :1] - tie
                ids = torch.arange(logits.shape[-1], device=logits.device)
                chosen = torch.where(near, ids, logits.shape[-1]).amin(-1)
            return chosen, values[:, 0] - values[:, 1]
        logits = logits.double()
        scaled = (logits - logits.amax(-1, keepdim=True)) / self.temperature
        chances, slack = scaled.exp(), torch.full_like(logits[:, 0], torch.inf)
        # A change e of logits moves a share F of the whole by at most F(1 - F)e/T, so e/4T.
        unit = 4 * self.temperature
        size = logits.shape[-1]
        if (self.top_k or size) < size or self.top_p < 1:
            ranked = logits.sort(dim=-1, descending=True).values
            most = min(self.top_k or size, size)
            part = ((ranked[:, :most] - ranked[:, :1]) / self.temperature).softmax(-1)
            before = part.cumsum(-1) - part
            count = torch.full_like(before[:, :1], most, dtype=torch.long)
            if self.top_p < 1:
                count = (before < self.top_p).sum(-1, keepdim=True).clamp(min=1)
                edge = (before - self.top_p).abs().amin(-1)
                slack = torch.minimum(slack, edge * unit)
            last = ranked.gather(-1, count - 1)
            following = ranked.gather(-1, count.clamp(max=size - 1))
            gap = torch.where(count < size, last - following, torch.inf)[:, 0]
            slack = torch.minimum(slack, gap)
            sure, equal = logits > last + tie, (logits - last).abs() <= tie
            kept = sure | (equal & (equal.cumsum(-1) <= count - sure.sum(-1, keepdim=True)))
            chances = chances.masked_fill(~kept, 0.0)
        uniform = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None]
        total = chances.cumsum(-1)
        total = total / total[:, -1:]
        place = (total <= uniform).sum(-1, keepdim=True).clamp(max=size - 1)
        low = torch.where(place > 0, total.gather(-1, (place - 1).clamp(min=0)), -torch.inf)
        high = torch.where(place < size - 1, total.gather(-1, place), torch.inf)
        edge = torch.minimum(uniform - low, high - uniform)[:, 0]
        return place[:, 0], torch.minimum(slack, edge * unit)

    def of(
        self,
        given: torch.Tensor,
        logits: torch.Tensor,
        uniforms: Sequence[float] = (),
        tie: float = 0.0,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What calling it gives, and by how much each of the ``given`` tokens wins: below 0 where
        another one does."""
        tokens, margins = self(logits, uniforms, tie)
        given = given.to(logits.device)
        if self.temperature > 0:
            return tokens, margins, torch.where(tokens == given, margins, -margins)
        mine = logits.gather(-1, given[:, None])[:, 0]
        rest = logits.scatter(-1, given[:, None], -torch.inf).amax(-1)
        return tokens, margins, mine - rest


# --- a model in float64 ---


class _Float64(TorchFunctionMode):
    """Every floating tensor that a function takes is float64 on one device, and so is every type that
    it is asked for."""

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
            ids, weight, *rest = args
            taken = func(ids.to(weight.device), weight, *rest, **kwargs)
            return taken.to(device=self.device, dtype=torch.float64)
        if name in ("float", "half", "bfloat16") and func is getattr(torch.Tensor, name):
            func = torch.Tensor.double
        args, kwargs = tree_map(self._widened, (args, kwargs))
        return func(*args, **kwargs)


class _Watch(TorchDispatchMode):
    """Raises where an operation gives floating numbers of less than float64."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
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
    """A linear layer in float64 on another one's weight, which is made float64 part by part."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = [layer]  # in a list, so that it is no part of this module

    @property
    def weight(self) -> torch.Tensor:
        """The weight as it is stored, for the few models that read it."""
        return dense_weight(self.layer[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (layer,) = self.layer
        weight, bias = dense_weight(layer), getattr(layer, "bias", None)
        step = max(1, CHUNK // weight.shape[1])
        parts = [
            functional.linear(x, weight[at : at + step].to(x)) for at in range(0, len(weight), step)
        ]
        product = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return product if bias is None else product + bias.to(x)


def dense_weight(layer: nn.Module) -> torch.Tensor:
    """The weight of a linear layer ``[out, in]`` as it is stored; of a quantised one, what it
    stands for."""
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

    Constants such as rotary frequencies are computed anew in float64. ``tokens`` ids that the check
    of the architecture reads. Raises :class:`NotExact` where an operation of it computes in less.
    """

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
        """Takes over the weights of ``model``, and the buffers that its checkpoint holds."""
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
    """Within it, a model gives logits ``[1, len(places), vocabulary]``, of these positions alone."""
    at = (torch.tensor(rows), torch.tensor(places))

    def pick(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        hidden, *rest = inputs
        return (hidden[at[0].to(hidden.device), at[1].to(hidden.device)][None], *rest)

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
        if foreign := self.kinds - {"full_attention", "sliding_attention"}:
            raise ValueError(f"layers of type {', '.join(sorted(foreign))}")

    def mask(self, at: torch.Tensor, keys: torch.Tensor, dtype: torch.dtype) -> Any:
        """Additive mask ``[rows, 1, queries, keys]`` for queries at positions ``at`` ``[rows, queries]``
        and keys of positions ``keys`` ``[rows or 1, keys]``, where -1 stands for none; one per kind of
        layer where kinds are mixed."""
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


# --- deciding ---


class Exact:
    """Decides by float64 what fast arithmetic leaves open.

    ``bound``: margins up to it are open; ``error``: the largest error of a margin seen so far;
    ``raised``: how often a larger error than the bound made it larger; ``watched``: token ids whose
    logits at its last step each row keeps.
    """

    watched: Sequence[int] = ()

    def __init__(self, model: Any, choice: Choice, stored: Any = None) -> None:
        """``stored``: the same model with its weights as the checkpoint has them, where ``model``
        holds them in fewer bits. Raises :class:`NotExact`."""
        self.choice = choice
        self.reference = Reference(model if stored is None else stored)
        self.attention = Attention(model.config)
        self.raised, self._kept = 0, 0
        self.error = self._probe(model)
        self.bound = max(FLOOR, SAFETY * self.error)

    def _probe(self, model: Any) -> float:
        """The largest error of fast arithmetic on texts that follow from the model alone: drawn by
        itself, behind first tokens from all over its vocabulary. Of the best two logits' difference;
        where tokens are drawn, of every logit's difference to the best."""
        draw = random.Random(0)
        rows, width = PROBES
        size, device = self.reference.vocabulary, model.get_input_embeddings().weight.device
        ids = torch.tensor([[draw.randrange(size)] for _ in range(rows)])
        cache, steps = DynamicCache(), []
        with torch.inference_mode():
            while True:
                read = ids[:, -1:].to(device)
                output = model(input_ids=read, past_key_values=cache, use_cache=True)
                steps.append(output.logits[:, -1].to(self.reference.device).double())
                if len(steps) == width:
                    break
                drawn, _ = Choice(1.0)(steps[-1], [draw.random() for _ in range(rows)])
                ids = torch.cat([ids, drawn.cpu()[:, None]], dim=1)
        fast = torch.stack(steps, dim=1)
        right = self.reference(input_ids=ids.to(fast.device), use_cache=False).logits
        best = right.topk(2, dim=-1).indices
        off = (fast - fast.gather(-1, best[..., :1])) - (right - right.gather(-1, best[..., :1]))
        if self.choice.temperature == 0:
            off = off.gather(-1, best[..., 1:])
        error = float(off.abs().max())
        return error if math.isfinite(error) else math.inf

    def open_places(self, row: DecodedRow) -> list[int]:
        """The places of an answer's tokens that fast arithmetic leaves open, up to the first of a
        recorded answer that is wrong for certain."""
        bound = self.bound
        certain = (place for place, margin in enumerate(row.margins, 1) if margin < -bound)
        return [
            place
            for place, margin in enumerate(row.margins[: next(certain, None)])
            if not margin > bound or ((row.audited or self.watched) and margin != torch.inf)
        ]

    def settle(self, rows: Iterable[DecodedRow]) -> None:
        """Decides the open tokens of rows. A row in which one is wrong is cut behind the right one,
        and goes on from there. Where a margin was further off than the bound, the bound rises."""
        waiting = sorted(
            ((row, places) for row in rows if (places := self.open_places(row))),
            key=lambda one: (len(one[0].tokens) + one[1][-1], one[0].index),
        )
        for batch in passes(waiting, self.reference.vocabulary):
            self._decide(batch)

    def _decide(self, batch: list[tuple[DecodedRow, list[int]]]) -> None:
        """What :meth:`settle` does, for rows of one pass."""
        logits, cache, starts = self._forced(batch)
        uniforms = [row.uniforms[p] for row, places in batch for p in places if row.uniforms]
        given = torch.tensor([row.generated[p] for row, places in batch for p in places])
        numbers = self.choice.of(given, logits, uniforms, tie=TIE)
        right = iter(zip(*(part.tolist() for part in numbers), strict=True))
        at = 0
        for i, (row, places) in enumerate(batch):
            known = len(row.tokens) + places[-1]
            found = [next(right) for _ in places]
            for place, (token, margin, truth) in zip(places, found, strict=True):
                self._learn(abs(row.margins[place] - truth))
                row.margins[place] = torch.inf
                row.decided += 1
                row.ties += margin <= TIE
                if token != row.generated[place]:
                    row.lost = truth
                    row.cut(place, token)
                    known = len(row.tokens) + place
                    break
            if self.watched:
                row.watched = logits[at, list(self.watched)].tolist()
            at, row.open = at + len(places), 0
            self._keep(row, cache, i, starts, known)

    def _learn(self, error: float) -> None:
        """Takes note of how far off a margin was."""
        self.error = max(self.error, error)
        if error > self.bound:
            before, self.bound = self.bound, max(2 * self.bound, SAFETY * error)
            self.raised += 1
            log.warning(
                "fast arithmetic was off by %.2g, more than the bound of %.2g; it is %.2g from here "
                "on, and the answers made before are checked again",
                *(error, before, self.bound),
            )

    def _forced(
        self, batch: list[tuple[DecodedRow, list[int]]]
    ) -> tuple[torch.Tensor, DynamicCache, list[int]]:
        """Logits ``[places of all rows, vocabulary]`` of the open places of rows, by one pass over what
        float64 has not read of them yet; its keys and values; how many positions each row had."""
        device = self.reference.device
        for row, places in batch:  # a larger bound may have opened a place that was read already
            if row.reference and len(row.tokens) + places[0] <= row.reference[0][0].shape[1]:
                self.let_go(row)
        starts = [row.reference[0][0].shape[1] if row.reference else 0 for row, _ in batch]
        fed = [
            (row.tokens + row.generated)[start : len(row.tokens) + places[-1]]
            for start, (row, places) in zip(starts, batch, strict=True)
        ]
        width, past = max(map(len, fed)), max(starts)
        ids = torch.zeros((len(batch), width), dtype=torch.long)
        for i, tokens in enumerate(fed):
            ids[i, : len(tokens)] = torch.tensor(tokens)
        cache = DynamicCache()
        more: dict[str, Any] = {}
        if past:
            self._fill(cache, [row.reference for row, _ in batch], past)
            begin = torch.tensor(starts)[:, None]
            at = begin + torch.arange(width)
            before = torch.arange(past).expand(len(batch), past)
            keys = torch.cat([torch.where(before < begin, before, -1), at], dim=1)
            more["position_ids"] = at.to(device)
            more["attention_mask"] = self.attention.mask(
                at.to(device), keys.to(device), torch.float64
            )
        picked = [
            (i, len(row.tokens) - 1 + place - starts[i])
            for i, (row, places) in enumerate(batch)
            for place in places
        ]
        with kept_positions(self.reference.model, *zip(*picked, strict=True)):
            output = self.reference(
                input_ids=ids.to(device), past_key_values=cache, use_cache=True, **more
            )
        return output.logits[0], cache, starts

    @torch.inference_mode()
    def _fill(self, cache: DynamicCache, states: list[Any], past: int) -> None:
        """Puts the kept keys and values of rows in front of a pass."""
        like = next(state for state in states if state)
        for layer in range(len(like)):
            both = []
            for kind in (0, 1):
                heads, _, size = like[layer][kind].shape
                held = like[layer][kind].new_zeros((len(states), heads, past, size))
                for i, state in enumerate(states):
                    if state:
                        held[i, :, : state[layer][kind].shape[1]] = state[layer][kind]
                both.append(held)
            cache.update(both[0], both[1], layer)

    @torch.inference_mode()
    def _keep(
        self, row: DecodedRow, cache: DynamicCache, i: int, starts: list[int], known: int
    ) -> None:
        """Keeps the float64 keys and values of a row that goes on: of its first ``known`` positions."""
        self.let_go(row)
        start, past = starts[i], max(starts)
        if row.done:
            return
        state = []
        for layer in cache.layers:
            pair = []
            for held in (layer.keys, layer.values):
                pair.append(
                    torch.cat([held[i, :, :start], held[i, :, past : past + known - start]], dim=1)
                )
            state.append((pair[0], pair[1]))
        size = sum(tensor.nbytes for pair in state for tensor in pair)
        if self._kept + size <= KEPT_BYTES:  # without them, float64 reads the row again
            row.reference, self._kept = state, self._kept + size

    def let_go(self, row: DecodedRow) -> None:
        """Gives up what float64 keeps of a row."""
        self._kept -= sum(tensor.nbytes for pair in row.reference for tensor in pair)
        row.reference = []


def passes(
    waiting: list[tuple[DecodedRow, list[int]]], vocabulary: int
) -> Iterator[list[tuple[DecodedRow, list[int]]]]:
    """Rows of one pass each, by the most tokens and logits of one; the shortest come first."""
    batch: list[tuple[DecodedRow, list[int]]] = []
    places = 0
    for row, of_row in waiting:
        length = len(row.tokens) + of_row[-1]
        most = max(1, PASS_LOGITS // vocabulary)
        if batch and ((len(batch) + 1) * length > PASS_TOKENS or places + len(of_row) > most):
            yield batch
            batch, places = [], 0
        batch.append((row, of_row))
        places += len(of_row)
    if batch:
        yield batch


def is_audited(tokens: Sequence[int], seed: int) -> bool:
    """Whether the answer to these tokens is checked whole: one in ``AUDITED``, drawn by hash."""
    drawn = hashlib.sha256(f"{seed} {list(tokens)}".encode()).digest()
    return int.from_bytes(drawn[:8], "big") % AUDITED == 0
