"""Exact answers: greedy or seeded decoding under exact arithmetic, as far as float64 resolves it.

Fast arithmetic proposes each token. A token is certain where its *margin* is above what
fast arithmetic was measured to get wrong; elsewhere float64 decides over the row's
whole prefix. So device, type of number, kernels, threads and batch decide speed and not
content. The bound is *measured*, never proved: :meth:`Decider.settle` measures the error
again wherever float64 was asked, and on one answer in ``AUDITED`` throughout.

Related: a fixed order of operations (RepDL, arXiv 2510.09180), and near-ties checked anew
by a threshold (MarginGate, arXiv 2605.30218)."""

from __future__ import annotations

import hashlib
import logging
import math
import random
from array import array
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import DynamicCache

from refract.models.arithmetic import Row
from refract_exact.float64 import (
    Attention,
    NotExact,
    Reference,
    Route,
    kept_positions,
    whole_passes,
)

log = logging.getLogger(__name__)

# Logits nearer than this are equal: a thousand times what float64 gets wrong in a model's sums.
TIE = 2.0**-30
# The bound of a margin: so many times the largest error seen, and never below the floor.
SAFETY = 8.0
FLOOR = 2.0**-12
# An error of more than this share of what logits differ is none of rounding.
MOST_ERROR = 2.0**-3
# 1 answer in AUDITED is verified in full; of a mixture of experts, each.
AUDITED = 64
# A row goes to float64 after MOST_OPEN undecided tokens.
MOST_OPEN = 16
# Positions on which the error is measured when a model is opened: rows x tokens.
PROBES = (8, 12)
# Tokens of a float64 pass, and logits it gives.
PASS_TOKENS = 4096
PASS_LOGITS = 2**24
# Bytes of float64 states that are kept for rows which go on.
KEPT_BYTES = 2**30


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

        Greedy: the largest logit, the lowest id of those within ``tie`` of it. Drawn: the token
        whose interval of the cumulative distribution, by ids, holds the row's uniform number, after
        top-k and then top-p (Holtzman et al., 2020)."""
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

    def compare(
        self,
        proposed: torch.Tensor,
        logits: torch.Tensor,
        uniforms: Sequence[float] = (),
        tie: float = 0.0,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What calling it gives, and by how much each of the ``proposed`` tokens wins:
        below 0 where another token does."""
        tokens, margins = self(logits, uniforms, tie)
        proposed = proposed.to(logits.device)
        if self.temperature > 0:
            return tokens, margins, torch.where(tokens == proposed, margins, -margins)
        mine, best = logits.gather(-1, proposed[:, None])[:, 0], logits.amax(-1)
        return tokens, margins, torch.where(mine == best, margins, mine - best)


@dataclass(slots=True)
class DecodedRow(Row):
    """A row on its way, with what decides its tokens."""

    position: int = 0
    next_token: int = 0
    drafted: list[int] = field(default_factory=list)
    uniforms: list[float] = field(default_factory=list)
    state: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    margins: MutableSequence[float] = field(default_factory=list)
    audited: bool = False
    open: int = 0
    decided: int = 0
    ties: int = 0
    lost: float = 0.0  # by how much the token lost that float64 replaced last
    reference: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    @property
    def sequence(self) -> list[int]:
        """All tokens, the prompt's and the answer's."""
        return [*self.tokens, *self.generated]

    @property
    def known(self) -> int:
        """How many tokens there are in all."""
        return len(self.tokens) + len(self.generated)

    def certify(self, bound: float) -> None:
        """Writes down its evidence as an exact answer."""
        left = [margin for margin in self.margins if margin < float("inf")]
        self.certificate = {
            "bound": float(f"{bound:.3g}"),
            "margin": float(f"{min(left) / bound:.3g}") if left else None,
            "float64": self.decided,
            "ties": self.ties,
        }

    def pack(self) -> None:
        self.tokens = array("i", self.tokens)
        self.generated = array("i", self.generated)
        self.margins = array("d", self.margins)

    def draw(self) -> None:
        """Draws the uniform numbers that choose its tokens."""
        generator = torch.Generator().manual_seed(self.seed % 2**63)
        self.uniforms = torch.rand(self.limit, generator=generator, dtype=torch.float64).tolist()

    def cut(self, place: int, token: int) -> None:
        """Makes ``token``, at ``place``, the last one, and forgets what was behind it."""
        self.generated = [*self.generated[:place], token]
        self.margins = [*self.margins[:place], float("inf")]
        self.position, self.next_token = len(self.tokens) + place, token
        self.state = [(k[:, : self.position], v[:, : self.position]) for k, v in self.state]
        self.ended = self.looped = False


class Decider:
    """Decides by float64 what fast arithmetic leaves open.

    ``bound``: margins up to it are open. ``error``: the largest of a margin so far. ``raised``: how
    often an error made the bound larger. ``watched``: token ids whose logits at its last step each
    row keeps."""

    watched: Sequence[int] = ()

    def __init__(self, model: Any, choice: Choice, reference: Reference, route: Route) -> None:
        self.choice, self.reference, self.route = choice, reference, route
        self.raised, self._kept = 0, 0
        self.error = self._probe(model)
        self.bound = max(FLOOR, SAFETY * self.error)

    def _probe(self, model: Any) -> float:
        """The largest error of fast arithmetic in the best two logits' difference
        (where tokens are drawn: in every logit's difference to the best), on texts that
        the model draws itself behind first tokens from all over its vocabulary: token
        by token, and in one pass over all tokens, which sums in another order."""
        draw = random.Random(0)
        rows, width = PROBES
        size = self.reference.vocabulary
        device = model.get_input_embeddings().weight.device
        ids = torch.tensor([[draw.randrange(size)] for _ in range(rows)])
        cache, steps = DynamicCache(), []
        with torch.inference_mode():
            while True:
                inputs: dict[str, Any] = {"input_ids": ids.to(device), "use_cache": False}
                if not self.route.alone(width):
                    read = ids[:, -1:].to(device)
                    inputs = {"input_ids": read, "past_key_values": cache, "use_cache": True}
                output = model(**inputs)
                steps.append(output.logits[:, -1].to(self.reference.device).double())
                if len(steps) == width:
                    break
                drawn, _ = Choice(1.0)(steps[-1], [draw.random() for _ in range(rows)])
                ids = torch.cat([ids, drawn.cpu()[:, None]], dim=1)
            together = model(input_ids=ids.to(device), use_cache=False).logits
            together = together.to(self.reference.device).double()
        ids = ids.to(self.reference.device)
        right = self.reference(input_ids=ids, use_cache=False).logits
        fast = torch.cat([torch.stack(steps, dim=1), together], dim=1)
        right = torch.cat([right, right], dim=1)
        best = right.topk(2, dim=-1).indices
        off = (fast - fast.gather(-1, best[..., :1])) - (right - right.gather(-1, best[..., :1]))
        if self.choice.temperature == 0:
            off = off.gather(-1, best[..., 1:])
        off = off.abs()[off.isfinite()]  # what overflows is open whatever the bound is
        if not len(off):
            return float(torch.finfo(torch.float32).max)
        error, spread = float(off.max()), float(right.std())
        if error > MOST_ERROR * spread and not self.reference.routes:
            raise NotExact(
                f"float32 is off by {error:.2g} on short texts, with logits that deviate by {spread:.2g}"
            )
        return error

    def audits(self, row: DecodedRow) -> bool:
        """Whether the whole of a row's answer is checked: where a layer chooses, a
        margin says nothing of how near that was."""
        return self.reference.routes or is_audited(row.tokens, row.seed)

    def open_places(self, row: DecodedRow) -> list[int]:
        """The places of an answer's tokens that fast arithmetic leaves open, up to the
        first that is certainly wrong (in a recorded answer)."""
        bound = self.bound
        certain = (place for place, margin in enumerate(row.margins, 1) if margin < -bound)
        return [
            place
            for place, margin in enumerate(row.margins[: next(certain, None)])
            if not margin > bound or ((row.audited or self.watched) and margin != torch.inf)
        ]

    def settle(self, rows: Iterable[DecodedRow]) -> None:
        """Decides the open tokens of rows. A row with a wrong one is cut behind the
        right one, to go on from there. The bound rises where a margin was further off."""
        waiting = []
        for row in rows:
            places = self.open_places(row)
            if places and self.route.alone(len(row.tokens) + places[-1]):
                for place in places:
                    if place < len(row.generated):  # the row was not cut before it
                        self._decide([(row, [place])])
            elif places:
                waiting.append((row, places))
        waiting.sort(key=lambda pair: (len(pair[0].tokens) + pair[1][-1], pair[0].index))
        for batch in passes(waiting, self.reference.vocabulary):
            self._decide(batch)

    def _decide(self, batch: list[tuple[DecodedRow, list[int]]]) -> None:
        """Settles the rows of one pass."""
        for row, places in batch:
            # a larger bound may have opened a place that was read already
            if row.reference and len(row.tokens) + places[0] <= row.reference[0][0].shape[1]:
                self.let_go(row)
        cache, starts = None, [0]
        row, places = batch[0]
        if self.route.alone(len(row.tokens) + places[-1]):  # the only row then
            logits = whole_passes(self.reference, row.tokens, row.generated, places)
        else:
            logits, cache, starts = forced(self.reference, self.route.attention, batch)
        uniforms, proposed = [], []
        for row, places in batch:
            for place in places:
                proposed.append(row.generated[place])
                if row.uniforms:
                    uniforms.append(row.uniforms[place])
        right = self.choice.compare(torch.tensor(proposed), logits, uniforms, tie=TIE)
        tokens, margins, truths = (part.tolist() for part in right)
        numbers = finite(logits).tolist()
        at = 0
        for i, (row, places) in enumerate(batch):
            known = len(row.tokens) + places[-1]
            for number, place in enumerate(places, at):
                if not numbers[number]:
                    said = f"the model's output is not a number at answer token {place + 1}"
                    row.error = "NonFiniteLogits", said
                    break
                token, margin, truth = tokens[number], margins[number], truths[number]
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
            self.let_go(row)
            if cache is not None and self.route.kept and not row.done:
                self._keep(row, cache, i, starts, known)

    def _learn(self, error: float) -> None:
        """Notes how far off a margin was; one of logits that were no numbers was open anyway."""
        if not math.isfinite(error):
            return
        self.error = max(self.error, error)
        if error > self.bound:
            before, self.bound = self.bound, max(2 * self.bound, SAFETY * error)
            self.raised += 1
            log.warning(
                "fast arithmetic was off by %.2g, more than the bound of %.2g; it is %.2g from here "
                "on, and the answers made before are checked again",
                error,
                before,
                self.bound,
            )

    @torch.inference_mode()
    def _keep(
        self, row: DecodedRow, cache: DynamicCache, i: int, starts: list[int], known: int
    ) -> None:
        """Keeps the float64 keys and values of a row's first ``known`` positions."""
        start, past = starts[i], max(starts)
        end = past + known - start

        def kept(cached: torch.Tensor) -> torch.Tensor:
            return torch.cat([cached[i, :, :start], cached[i, :, past:end]], dim=1)

        state = [(kept(layer.keys), kept(layer.values)) for layer in cache.layers]
        size = sum(tensor.nbytes for pair in state for tensor in pair)
        if self._kept + size <= KEPT_BYTES:  # without them, float64 reads the row again
            row.reference, self._kept = state, self._kept + size

    def let_go(self, row: DecodedRow) -> None:
        """Gives up what float64 keeps of a row."""
        self._kept -= sum(tensor.nbytes for pair in row.reference for tensor in pair)
        row.reference = []


def finite(logits: torch.Tensor) -> torch.Tensor:
    """Whether the logits of each row are numbers, of which a token can be chosen."""
    return torch.isfinite(logits.amax(-1))


def forced(
    reference: Reference,
    attention: Attention | None,
    batch: Sequence[tuple[DecodedRow, Sequence[int]]],
) -> tuple[torch.Tensor, DynamicCache, list[int]]:
    """Logits ``[places of all rows, vocabulary]`` of rows' open places, by one pass over what
    float64 has not read yet; its keys and values; how many positions each row had."""
    device = reference.device
    starts = [row.reference[0][0].shape[1] if row.reference else 0 for row, _ in batch]
    unread, rows, positions = [], [], []
    for i, (row, places) in enumerate(batch):
        unread.append(torch.tensor(row.sequence[starts[i] : len(row.tokens) + places[-1]]))
        for place in places:
            rows.append(i)
            positions.append(len(row.tokens) - 1 + place - starts[i])
    ids = pad_sequence(unread, batch_first=True)
    width, past = ids.shape[1], max(starts)
    cache = DynamicCache()
    more: dict[str, Any] = {}
    if past:
        assert attention is not None
        _fill(cache, [row.reference for row, _ in batch], past)
        begin = torch.tensor(starts)[:, None]
        at = begin + torch.arange(width)
        before = torch.arange(past).expand(len(batch), past)
        keys = torch.cat([torch.where(before < begin, before, -1), at], dim=1)
        # Padding has no position of its own: there may be none behind the longest row.
        last = begin + torch.tensor([[len(part) - 1] for part in unread])
        more["position_ids"] = torch.minimum(at, last).to(device)
        more["attention_mask"] = attention.mask(at.to(device), keys.to(device), torch.float64)
    with kept_positions(reference.model, rows, positions):
        output = reference(input_ids=ids.to(device), past_key_values=cache, use_cache=True, **more)
    return output.logits[0], cache, starts


@torch.inference_mode()
def _fill(cache: DynamicCache, states: list[Any], past: int) -> None:
    """Puts the kept keys and values of rows in front of a pass."""
    like = next(state for state in states if state)
    for layer in range(len(like)):
        both = []
        for kind in (0, 1):
            heads, _, size = like[layer][kind].shape
            kept = like[layer][kind].new_zeros((len(states), heads, past, size))
            for i, state in enumerate(states):
                if state:
                    kept[i, :, : state[layer][kind].shape[1]] = state[layer][kind]
            both.append(kept)
        cache.update(both[0], both[1], layer)


def passes(
    waiting: list[tuple[DecodedRow, list[int]]], vocabulary: int
) -> Iterator[list[tuple[DecodedRow, list[int]]]]:
    """Rows of one pass each, within the most tokens and logits of one; the shortest first."""
    batch: list[tuple[DecodedRow, list[int]]] = []
    places = 0
    most = max(1, PASS_LOGITS // vocabulary)
    for row, row_places in waiting:
        tokens = (len(batch) + 1) * (len(row.tokens) + row_places[-1])
        if batch and (tokens > PASS_TOKENS or places + len(row_places) > most):
            yield batch
            batch, places = [], 0
        batch.append((row, row_places))
        places += len(row_places)
    if batch:
        yield batch


def is_audited(tokens: Sequence[int], seed: int) -> bool:
    """Whether an answer is checked whole: one in ``AUDITED``, drawn by hash."""
    drawn = hashlib.sha256(f"{seed} {list(tokens)}".encode()).digest()
    return int.from_bytes(drawn[:8], "big") % AUDITED == 0
