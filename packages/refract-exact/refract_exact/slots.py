"""Rows that decode together in slots of one cache, each at a position of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from refract_exact.deciding import DecodedRow
from refract_exact.float64 import Reference, Route


class _SlotLayer(CacheLayerMixin):
    """Keys and values of one layer: ``[slots, heads, length, dim]``, written at places
    of its own for each slot."""

    def __init__(self, group: SlotGroup, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.group, self.keys, self.values = group, keys, values
        self.slots = torch.arange(group.size, device=keys.device)
        self.is_initialized = True

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None: ...

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> Any:
        places = self.group.places.to(self.slots.device)
        self.keys[self.slots[:, None], :, places] = key_states.transpose(1, 2)
        self.values[self.slots[:, None], :, places] = value_states.transpose(1, 2)
        shown = self.group.shown
        return self.keys[:, :, :shown], self.values[:, :, :shown]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.group.shown, 0

    def get_seq_length(self) -> int:
        return self.group.shown - int(self.group.places.shape[1])

    def get_max_length(self) -> int:
        return self.group.length


class SlotGroup:
    """Slots that decode together, and the rows that wait for one of them with their state."""

    def __init__(self, length: int, size: int) -> None:
        self.length, self.size = length, size
        self.shown = length  # positions that attention looks at
        self.rows: list[DecodedRow | None] = [None] * size
        self.parked: deque[DecodedRow] = deque()
        self.cache: Cache | None = None
        self.places: torch.Tensor  # [slots, tokens] of a pass

    def reads(self) -> list[tuple[int, list[int]]]:
        """For each slot the position of its row's last token, and this token with those
        that were drafted behind it."""
        reads = []
        for row in self.rows:
            reads.append((row.position, [row.next_token, *row.drafted]) if row else (0, [0]))
        return reads

    @property
    def active(self) -> int:
        return self.size - self.rows.count(None)

    @torch.inference_mode()
    def shrink(self) -> None:
        """Has no more slots than rows."""
        slots = [slot for slot, row in enumerate(self.rows) if row is not None]
        self.rows, self.size = [self.rows[slot] for slot in slots], len(slots)
        assert self.cache is not None
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[slots], layer.values[slots]
            layer.slots = layer.slots[: self.size]

    def _allocate(self, state: list[tuple[torch.Tensor, torch.Tensor]]) -> Cache:
        """A cache like ``state`` (``[heads, tokens, dim]``) for each slot. All zeros,
        since a mask does not stop a NaN."""

        def like(t: torch.Tensor) -> torch.Tensor:
            return t.new_zeros((self.size, t.shape[0], self.length, t.shape[2]))

        return Cache(layers=[_SlotLayer(self, like(k), like(v)) for k, v in state])

    @torch.inference_mode()
    def seat(self) -> None:
        """Gives free slots to parked rows, and wipes what a former row left there."""
        for slot, seated in enumerate(self.rows):
            if seated is not None or not self.parked:
                continue
            row = self.parked.popleft()
            if self.cache is None:
                self.cache = self._allocate(row.state)
            for layer, (keys, values) in zip(self.cache.layers, row.state, strict=True):
                for kept, state in ((layer.keys, keys), (layer.values, values)):
                    kept[slot, :, : state.shape[1]] = state
                    kept[slot, :, state.shape[1] :] = 0
            row.state = []
            self.rows[slot] = row

    @torch.inference_mode()
    def leave(self, slot: int, keep: bool) -> None:
        """Frees a slot. ``keep``: its row keeps the keys and values of the positions
        before its last token, and none of a wrong draft's."""
        row = self.rows[slot]
        assert row is not None
        assert self.cache is not None
        if keep:
            known = row.position
            row.state = [
                (layer.keys[slot, :, :known].clone(), layer.values[slot, :, :known].clone())
                for layer in self.cache.layers
            ]
        self.rows[slot] = None


def in_slots(
    model: Any,
    route: Route,
    group: SlotGroup,
    reads: Sequence[tuple[int, list[int]]],
    dtype: torch.dtype,
    device: torch.device,
) -> torch.Tensor:
    """The logits ``[slots, tokens, vocabulary]`` of a pass over a group, through its cache.
    ``reads``: for each slot the position of the first token that is read, and the tokens."""
    starts = torch.tensor([[start] for start, _ in reads])
    tokens = pad_sequence([torch.tensor(tokens) for _, tokens in reads], batch_first=True)
    group.places = (starts + torch.arange(tokens.shape[1])).to(device)
    # Padding has no position of its own: there may be none behind the longest row.
    last = torch.tensor([[start + len(tokens) - 1] for start, tokens in reads])
    positions = torch.minimum(group.places, last.to(device))
    keys = torch.arange(group.shown, device=device)[None]
    assert route.attention is not None
    network = model.model if isinstance(model, Reference) else model
    with _grouping(network) if tokens.shape[1] > 1 else nullcontext():
        output = model(
            input_ids=tokens.to(device),
            position_ids=positions,
            attention_mask=route.attention.mask(positions, keys, dtype),
            past_key_values=group.cache,
            use_cache=True,
        )
    logits: torch.Tensor = output.logits
    return logits


def grouped_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> Any:
    """Attention of several tokens a row, where some heads share keys and values: as
    many queries more of each head that has its own, instead of copies of keys and
    values for each head. Shapes as of transformers' attention functions."""
    groups: Any = getattr(module, "num_key_value_groups", 1)
    rows, heads, width, size = query.shape
    if groups == 1 or attention_mask is None or attention_mask.shape[1] != 1:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
    query = query.reshape(rows, heads // groups, groups * width, size)
    mask = attention_mask.repeat(1, 1, groups, 1)
    found = functional.scaled_dot_product_attention(query, key, value, mask, scale=scaling)
    return found.reshape(rows, heads, width, -1).transpose(1, 2).contiguous(), None


AttentionInterface.register("grouped", grouped_attention)


@contextmanager
def _grouping(network: Any) -> Iterator[None]:
    """Within it, a model whose attention is PyTorch's groups its queries."""
    before = network.config._attn_implementation
    if before == "sdpa":
        network.config._attn_implementation = "grouped"
    try:
        yield
    finally:
        network.config._attn_implementation = before
