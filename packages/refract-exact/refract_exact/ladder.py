"""A ladder of arithmetic: few bits draft tokens, float32 settles them, and float64 decides
what that leaves open (:mod:`refract_exact.deciding`).

A pass over several tokens of a row costs little more than one over a single token, since
weights are read once for all. So tokens are drafted at low cost and settled together, as
in speculative decoding (Leviathan et al., 2023, arXiv 2211.17192): up to the first draft
that is wrong, whose place gets the right token, they are what single passes would have
given. A draft decides nothing but how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from refract_exact.float64 import WidenedLinear, is_linear, share_buffers, unfilled

# Most tokens of a draft.
DRAFTED = 8
# Devices on which float32 costs a draft of few bits no less than that takes.
WITHOUT_DRAFTS = frozenset({"cpu"})
# Tokens at the end of a text that are looked for earlier in it.
SOUGHT = 3
# As many positions as a pass costs beside its own, by device, about.
FIXED = {"cpu": 24}
# How often a token that was looked up is right, about.
LOOKED_UP_RIGHT = 0.8


def looked_up(tokens: Sequence[int], most: int) -> list[int]:
    """A draft of at most ``most`` tokens: what came behind the last ``SOUGHT`` of
    ``tokens`` when these were there before, the latest time (prompt lookup, Saxena,
    2023); [] where they were not. Behind the end it goes round again."""
    last = list(tokens[-SOUGHT:])
    for end in range(len(tokens) - 1, SOUGHT - 1, -1):
        if tokens[end - 1] == last[-1] and list(tokens[end - SOUGHT : end]) == last:
            period = len(tokens) - end
            return [tokens[end + place % period] for place in range(most)]
    return []


def draft_width(lengths: Sequence[int], device: str) -> int:
    """The most tokens of a draft for which a pass costs least a token, where rows have
    drafts of these ``lengths``. All rows of a pass are as wide as the widest."""
    fixed = FIXED.get(device, 64)
    expected = float(len(lengths))
    best, width = (fixed + len(lengths)) / expected, 0
    for most in range(1, max(lengths) + 1):
        expected += sum(length >= most for length in lengths) * LOOKED_UP_RIGHT**most
        cost = (fixed + len(lengths) * (most + 1)) / expected
        if cost < best:
            best, width = cost, most
    return width


class _Rung(nn.Module):
    """A linear layer in float32 on its weight as stored, or while ``drafting`` what a
    ``narrow`` one gives."""

    def __init__(
        self, stored: nn.Module, narrow: nn.Module | None, drafting: list[torch.dtype]
    ) -> None:
        super().__init__()
        is_float32 = stored.weight.dtype == torch.float32
        # lists hide them from this module's parameters
        self.wide = [stored if is_float32 else WidenedLinear(stored)]
        self.narrow = [narrow]
        self.drafting = drafting

    @property
    def weight(self) -> Any:
        """The weight as it is stored, for the few models that read it."""
        return self.wide[0].weight

    @property
    def bias(self) -> Any:
        """Likewise."""
        return self.wide[0].bias

    def forward(self, x: torch.Tensor) -> Any:
        narrow = self.narrow[0]
        if self.drafting and narrow is not None:
            return narrow(x.to(self.drafting[0])).to(x)
        return self.wide[0](x).to(x)


class _Table(nn.Module):
    """Rows of a stored table of embeddings, in float32."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = [table]

    @property
    def weight(self) -> Any:
        """The table as it is stored."""
        return self.table[0].weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        rows = functional.embedding(ids.to(self.weight.device), self.weight)
        return rows.to(ids.device, torch.float32)


class Ladder:
    """A model in float32 that can draft in few bits. It holds no matrix of its own: one that is
    stored in few bits becomes float32 part by part as it is used.

    ``model``: of transformers. Its keys and values are float32; those of a draft are overwritten by
    the pass that settles it. ``drafts``: whether few bits draft; on a CPU a token that float32
    settles costs as much without."""

    def __init__(self, stored: Any, narrow: Any) -> None:
        """``stored``: a model with its weights as the checkpoint has them. ``narrow``:
        one whose linear layers draft; they may be the same."""
        device = stored.get_input_embeddings().weight.device
        self.drafts = device.type not in WITHOUT_DRAFTS
        self.model: Any = unfilled(stored, torch.float32)
        self._dtype, self._drafting = narrow.dtype, list[torch.dtype]()
        self._share(dict(stored.named_modules()), dict(narrow.named_modules()), device)
        # It has no numbers, and tells transformers which type this model is of.
        self.model.register_parameter("is_float32", nn.Parameter(torch.zeros(0), False))
        share_buffers(self.model, stored, device)

    def _share(
        self, stored: dict[str, nn.Module], narrow: dict[str, nn.Module], device: torch.device
    ) -> None:
        """Takes over weights. What is no plain linear layer and no plain table, which is
        little, is copied in float32."""
        for name, module in list(self.model.named_modules()):
            if is_linear(module) or _is_table(module):
                continue
            for key, parameter in module._parameters.items():
                if parameter is not None:
                    own: Any = stored[name]._parameters[key]
                    copied = own.detach().to(device, torch.float32)
                    module._parameters[key] = nn.Parameter(copied, False)
            for key, child in list(module._modules.items()):
                source: Any = stored[name]._modules.get(key)
                few: Any = narrow[name]._modules.get(key)
                if child is not None and _is_table(child):
                    module._modules[key] = _Table(source)
                elif child is not None and is_linear(child):
                    # an adapter's weights are float32 in any model
                    few = None if few.weight.dtype == torch.float32 else few
                    module._modules[key] = _Rung(source, few, self._drafting)

    @contextmanager
    def drafting(self) -> Iterator[None]:
        """Within it, matrices multiply in few bits."""
        self._drafting.append(self._dtype)
        try:
            yield
        finally:
            self._drafting.clear()


def _is_table(module: nn.Module) -> bool:
    return type(module).forward is nn.Embedding.forward
