"""What is tried when a model is opened: how its rows can be decoded.

Rows of unlike length share a cache, each at a position of its own, and float64 goes on
from keys and values that it kept. A model that takes positions from the length of its
cache, or that places keys by their index there, gives other logits that way. So short
texts are decoded both ways in float64 and compared with a whole pass over each. What
differs, or cannot run, is not used: every token is then a whole pass over its row."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from refract.models.fast import longest_alike
from refract.models.protocol import first_line
from refract_exact.deciding import TIE, DecodedRow, forced
from refract_exact.float64 import Attention, Reference, Route, whole_passes
from refract_exact.slots import SlotGroup, in_slots

# Rows that are tried: tokens whose keys and values are kept, and tokens in all.
ROWS = ((0, 5), (3, 11), (8, 10))
# Tokens of each that are read in one pass over the slots of a cache.
READ = (1, 3, 2)
# A sliding window meanwhile, so that short texts go beyond it.
WINDOW = 4


def find_route(model: Any, reference: Reference) -> Route:
    """How rows of a model can be decoded, tried in float64. Raises whatever a whole pass raises."""
    config, name = model.config, type(model).__name__
    try:
        attention, longest = Attention(config), longest_alike(config)
        slots, kept = _tried(reference)
        reason = f"{name} is off by {slots:.2g} with rows of unlike length in one cache"
        if slots <= TIE:
            reason = f"{name} has other rotary factors for rows of more than {longest} tokens"
            return Route(attention, longest, kept <= TIE, reason)
    except Exception as error:  # whatever a model's code raises
        reason = f"{name} cannot share a cache between rows ({first_line(error)})"
    whole_passes(model, [0], [0] * 4, [0, 4])
    return Route(None, 0, False, reason)


def _tried(reference: Reference) -> tuple[float, float]:
    """How far logits are off a whole pass's: in slots of one cache, and behind kept
    keys and values."""
    own = reference.model.config.get_text_config()
    window = getattr(own, "sliding_window", None)
    if window:
        own.sliding_window = WINDOW
    try:
        return _off_whole(reference, Route(Attention(own)))
    finally:
        if window:
            own.sliding_window = window


def _off_whole(reference: Reference, route: Route) -> tuple[float, float]:
    width = max(known for _, known in ROWS)
    ids = torch.arange(len(ROWS) * width).reshape(len(ROWS), width) * 7919
    ids = (ids % reference.vocabulary).to(reference.device)
    cache = DynamicCache()
    whole = reference(input_ids=ids, past_key_values=cache, use_cache=True).logits

    def state(row: int, known: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of a row's first tokens; [] of none."""
        layers = cache.layers if known else []
        return [(layer.keys[row, :, :known], layer.values[row, :, :known]) for layer in layers]

    group = SlotGroup(_slots_length(reference.model.config, width), len(ROWS))
    last, behind, batch = [], [], []
    for i, (start, known) in enumerate(ROWS):
        tokens = ids[i].tolist()
        first = known - READ[i]
        seated = DecodedRow(i, tokens[:known], limit=1, next_token=tokens[first])
        seated.position, seated.drafted = first, tokens[first + 1 : known]
        seated.state = state(i, first)
        group.parked.append(seated)
        last.append(whole[i, first:known])
        row = DecodedRow(i, tokens[:1], limit=known, generated=tokens[1:known])
        row.reference = state(i, start)
        batch.append((row, list(range(start, known))))
        behind.append(whole[i, start:known])
    group.seat()
    reads = group.reads()
    slots = in_slots(reference, route, group, reads, torch.float64, reference.device)
    read = torch.cat([row[:count] for row, count in zip(slots, READ, strict=True)])
    off = _off(read, torch.cat(last))
    return off, _off(forced(reference, route.attention, batch)[0], torch.cat(behind))


def _off(logits: torch.Tensor, right: torch.Tensor) -> float:
    """The largest difference of logits; 0 where both are no numbers."""
    same = (logits == right) | (logits.isnan() & right.isnan())
    off = (logits - right).abs().masked_fill(same, 0.0)
    return float(off.nan_to_num(torch.inf).max())


def _slots_length(config: Any, width: int) -> int:
    """Positions of a cache that reach beyond every window which a model has besides its
    sliding one, so that a window counted from the cache's end shows."""
    windows = [width]
    for key, value in config.get_text_config().to_dict().items():
        other = "window" in key and key not in ("sliding_window", "max_window_layers")
        if other and type(value) is int:
            windows.append(width + value)
    return -(-max(windows) // 16) * 16
