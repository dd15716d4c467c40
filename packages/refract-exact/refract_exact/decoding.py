"""Continuous batching, greedy or seeded: an answer does not depend on the rest of its
batch, since float64 decides what that could have changed (:class:`refract_exact.deciding.Decider`).

Prompts are read in batches of like length, padded on the right, which causal attention does not
see. Rows then decode in *groups*: slots with key/value caches of one length; a row that outgrows
its group moves to the next, and one that ends frees its slot at once for a waiting one. The last
prompt token is the row's first decoding step, so that every token is chosen in one place."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from refract.models.arithmetic import Ends
from refract_exact.deciding import MOST_OPEN, Choice, Decider, DecodedRow, finite
from refract_exact.float64 import Route, whole_passes
from refract_exact.ladder import DRAFTED, Ladder, draft_width, looked_up
from refract_exact.slots import SlotGroup, in_slots

log = logging.getLogger(__name__)
# The most positions of a row's pass.
REACH = DRAFTED + 1


@dataclass(frozen=True, slots=True)
class BatchShape:
    """How many rows run together, as a function of length only. ``prefill_tokens``:
    rows x width of a batch of prompts. ``rows``: the most slots of a decoding group.
    ``cache_tokens``: slots x length of a group, which bounds its memory."""

    prefill_tokens: int
    rows: int
    cache_tokens: int


def prompt_width(length: int, context: int | None) -> int:
    """Padded width of ``length`` tokens: steps of 16, from 256 on of an eighth to a sixteenth."""
    step = max(16, 1 << max(0, length.bit_length() - 5))
    width = max(step, -(-length // step) * step)
    return max(length, min(width, context)) if context else width


def cache_length(needed: int) -> int:
    """Smallest power of two of at least ``needed`` positions, and at least 256. Finer
    steps make more groups that run partly empty at their end: measured slower."""
    return max(256, 1 << (needed - 1).bit_length())


def shape_for(model: Any, batch_tokens: int | None = None) -> BatchShape:
    """The batch shape of a model on its device: a function of the model and the device's total
    memory, never of what is free, so that a machine gives the same shape every time."""
    parameters = sum(p.numel() for p in model.parameters())
    embedding = model.get_input_embeddings().weight
    device, config = embedding.device, model.config.get_text_config()
    all_heads = getattr(config, "num_attention_heads", None) or 1
    heads = _of_all_layers(config, "num_key_value_heads") or all_heads
    hidden = getattr(config, "hidden_size", None) or embedding.shape[1]
    width = _of_all_layers(config, "head_dim") or hidden // all_heads
    per_token = 2 * getattr(config, "num_hidden_layers", 1) * heads * width * 4
    if device.type == "cpu":
        tiny = parameters <= 1_000_000  # whose steps cost less arithmetic than everything else
        shape = BatchShape(512, 64, 16_384) if tiny else BatchShape(256, 32, 8192)
        more = min(32_768, 2**30 // per_token)  # slots for long answers, in up to a gigabyte
        shape = replace(shape, cache_tokens=max(shape.cache_tokens, more))
    else:
        shape = BatchShape(8192, 128, 131_072)
        if device.type == "cuda":
            total = torch.cuda.get_device_properties(device).total_memory
            spare = max(0, total - parameters * model.dtype.itemsize)
            shape = replace(shape, cache_tokens=min(131_072, max(1024, spare // 5 // per_token)))
    if batch_tokens is not None:
        shape = replace(shape, prefill_tokens=batch_tokens, cache_tokens=32 * batch_tokens)
    return shape


def _of_all_layers(config: Any, name: str) -> int | None:
    """A number of a configuration; None where it has none, or one for each layer."""
    try:
        number: int | None = getattr(config, name, None)
    except RuntimeError:  # transformers' word for what differs by layer
        return None
    return number


class Decoder:
    """Runs prompts through a causal language model.

    ``model``: of transformers, in eval mode. ``context``: most positions the model knows, or None.
    ``route``: how its rows are decoded. ``ends``: where answers end."""

    ends = Ends(frozenset())
    warned = False

    def __init__(
        self,
        model: Any,
        choice: Choice,
        shape: BatchShape,
        context: int | None,
        route: Route,
        decider: Decider,
        ladder: Ladder | None = None,
    ) -> None:
        self.model, self.choice, self.shape = model, choice, shape
        self.route, self.decider, self.ladder = route, decider, ladder
        # Padding is not to be longer than what may stand in one pass.
        bounds = [bound for bound in (context, route.longest) if bound]
        self.widest = min(bounds, default=None)
        self.device = model.get_input_embeddings().weight.device

    def run(self, rows: Sequence[DecodedRow], ends: Ends) -> Iterator[DecodedRow]:
        """Yields every row as soon as it is done; once more where a larger bound showed
        that another token is right. Where memory runs out, goes on with half as many
        rows at a time and says so."""
        self.ends = ends
        decider = self.decider
        decider.watched = ends.watched
        for row in rows:
            row.audited = decider.audits(row)
            if self.choice.temperature > 0:
                row.draw()
        finished: list[DecodedRow] = []
        raised = decider.raised
        for row in self._with_memory(rows):
            row.certify(decider.bound)
            yield row
            row.pack()
            finished.append(row)
        while decider.raised > raised:
            raised = decider.raised
            answered = [row for row in finished if not row.error]
            before = {row.index: list(row.generated) for row in answered}
            self._settle(answered)
            wrong = [row for row in answered if before[row.index] != list(row.generated)]
            if wrong:
                log.warning("%d answers corrected after the error bound was raised", len(wrong))
            for row in self._with_memory(wrong):
                row.certify(decider.bound)
                yield row

    def _settle(self, rows: Sequence[DecodedRow]) -> None:
        """Has float64 decide what is open in rows."""
        self.decider.settle(rows)
        for row in rows:
            self.ends.note(row)

    def _with_memory(self, rows: Sequence[DecodedRow]) -> Iterator[DecodedRow]:
        remaining = {row.index: row for row in rows}
        while remaining:
            try:
                for row in self._run(list(remaining.values())):
                    del remaining[row.index]
                    yield row
                return
            except (MemoryError, RuntimeError) as error:  # torch has more than one kind of it
                words = ("can't allocate memory", "out of memory")
                if not isinstance(error, MemoryError) and not any(w in str(error) for w in words):
                    raise
                reason = str(error).splitlines()[0]
            # outside of the except clause, whose traceback would keep every tensor alive
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            if self.shape.rows == self.shape.prefill_tokens == 1:
                row = max(remaining.values(), key=lambda row: len(row.tokens))
                row.error = ("OutOfMemory", f"no memory for {len(row.tokens)} tokens: {reason}")
                yield remaining.pop(row.index)
            else:
                prefill, slots, cache = (max(1, part // 2) for part in astuple(self.shape))
                self.shape = BatchShape(prefill, slots, cache)
                log.warning(
                    "out of memory (%s); going on with the smaller batch shape %s",
                    reason,
                    self.shape,
                )
            for row in remaining.values():
                row.generated, row.margins, row.drafted, row.state = [], [], [], []
                row.ended = row.looped = False
                self.decider.let_go(row)

    def _room(self, row: DecodedRow) -> int:
        """Positions a row has ahead of it when it enters a group."""
        return max(REACH, min(row.limit, 64))

    def _run(self, rows: list[DecodedRow]) -> Iterator[DecodedRow]:
        waiting: dict[int, deque[tuple[int, DecodedRow]]] = {}
        alone: list[DecodedRow] = []
        for row in sorted(rows, key=lambda row: (row.known, row.index)):
            if row.done:
                yield row
                continue
            if self.route.alone(row.known):
                alone.append(row)
                continue
            width = prompt_width(row.known - 1, self.widest)
            length = cache_length(width + self._room(row))
            waiting.setdefault(length, deque()).append((width, row))
        groups: dict[int, SlotGroup] = {}
        unsettled: list[DecodedRow] = []

        def group(length: int) -> SlotGroup:
            if length not in groups:
                most = max(1, self.shape.cache_tokens // length)
                size = min(self.shape.rows, most, len(waiting.get(length, rows)))
                groups[length] = SlotGroup(length, max(1, size))
            return groups[length]

        def go_on(row: DecodedRow) -> None:
            if self.route.alone(row.known):
                alone.append(row)
            else:
                group(cache_length(row.position + self._room(row))).parked.append(row)

        while waiting or groups or unsettled:
            if unsettled and self._due(unsettled, groups):
                self._settle(unsettled)
                for row in unsettled:
                    if row.done:
                        yield row
                    else:
                        go_on(row)
                unsettled = []
                continue
            # The shortest first; but rows that grew out of their group hold memory
            # while they wait, so a longer group runs as soon as they would fill it.
            crowded = [n for n, g in groups.items() if len(g.parked) >= g.size]
            length = max(crowded) if crowded else min(waiting.keys() | groups.keys())
            current = group(length)
            self._fill(current, waiting.get(length, deque()))
            if not waiting.get(length, True):
                del waiting[length]
            if 4 * current.active <= 3 * current.size:
                current.shrink()
            self._draft(current)
            logits = self._forward(current, current.reads())
            for slot, done in self._step(current.rows, logits, current.length):
                row = current.rows[slot]
                assert row is not None
                is_open = bool(not row.error and self.decider.open_places(row))
                check = is_open and (done or row.open >= MOST_OPEN)
                current.leave(slot, keep=check or not done)
                if check:
                    unsettled.append(row)
                elif done:
                    yield row
                else:
                    go_on(row)
            if not current.active and not current.parked:
                del groups[length]
        for row in alone:
            self._go_alone(row)
            yield row

    def _fill(self, group: SlotGroup, queue: deque[tuple[int, DecodedRow]]) -> None:
        """Seats rows that wait for a slot of a group, and reads the next ones of the queue."""
        while group.active < group.size and (group.parked or queue):
            if not group.parked:
                width = queue[0][0]
                most = max(1, self.shape.prefill_tokens // width)
                batch: list[DecodedRow] = []
                while queue and queue[0][0] == width:
                    if len(batch) == most:
                        break
                    batch.append(queue.popleft()[1])
                self._read(batch, width)
                group.parked.extend(batch)
            group.seat()

    def _go_alone(self, row: DecodedRow) -> None:
        """Decodes a row to its end by whole passes."""
        if not self.warned:
            log.warning("%s: each token is a pass over all before it, slowly", self.route.reason)
            self.warned = True
        row.state = []
        while not row.done:
            place = len(row.generated)
            logits = whole_passes(self.model, row.tokens, row.generated, [place])
            self._step([row], logits.float()[None])
            if (row.done or row.open >= MOST_OPEN) and not row.error:
                self._settle([row])

    def _due(self, unsettled: list[DecodedRow], groups: dict[int, SlotGroup]) -> bool:
        """Whether float64 is to decide now: many rows wait for it, or too few others run."""
        active = sum(group.active + len(group.parked) for group in groups.values())
        paused = sum(not row.done for row in unsettled)
        return len(unsettled) >= self.shape.rows or 2 * paused >= active

    @torch.inference_mode()
    def _read(self, batch: list[DecodedRow], width: int) -> None:
        """Reads all but the last token of each row into ``row.state``: keys and values."""
        ids = torch.zeros((len(batch), width), dtype=torch.long)
        for i, row in enumerate(batch):
            ids[i, : row.known - 1] = torch.tensor(row.sequence[:-1])
        cache = DynamicCache()
        self.model(
            input_ids=ids.to(self.device), past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        for i, row in enumerate(batch):
            row.position = known = row.known - 1
            row.next_token = row.sequence[-1]
            row.state = [
                (layer.keys[i, :, :known], layer.values[i, :, :known]) for layer in cache.layers
            ]

    @torch.inference_mode()
    def _step(
        self, rows: Sequence[DecodedRow | None], logits: torch.Tensor, length: int | None = None
    ) -> list[tuple[int, bool]]:
        """Every row's next tokens, by logits ``[slots, tokens, vocabulary]`` of the last one and of
        what was drafted behind it, up to the first wrong draft. Gives the slots of rows that leave
        their group, and whether they are done (or have outgrown the group of this ``length``)."""
        width = logits.shape[1]
        draws = []
        for row in rows:
            draws += _uniforms(row, 0, width)
        flat = logits.flatten(0, 1)
        chosen, won_by = self.choice(flat, draws)
        numbers = finite(flat)
        tokens, margins = chosen.tolist(), won_by.where(numbers, torch.nan).tolist()
        leaving = []
        for slot, row in enumerate(rows):
            if row is None:
                continue
            drafted, row.drafted = row.drafted, []
            for place in range(len(drafted) + 1):
                number = slot * width + place
                self._append(row, tokens[number], margins[number])
                if self.ends.watched:
                    row.watched = flat[number, list(self.ends.watched)].tolist()
                was_drafted = place < len(drafted) and tokens[number] == drafted[place]
                if row.done or row.open >= MOST_OPEN or not was_drafted:
                    break
            outgrown = length is not None and row.position + REACH > length
            if row.done or row.open >= MOST_OPEN or outgrown or self.route.alone(row.known):
                leaving.append((slot, row.done))
        return leaving

    def _append(self, row: DecodedRow, token: int, margin: float) -> None:
        """Gives a row its next token, which won by a margin; NaN of logits that are no numbers."""
        row.generated.append(token)
        row.position, row.next_token = row.position + 1, token
        row.margins.append(margin)
        row.open += not margin > self.decider.bound
        if math.isnan(margin):
            row.open = MOST_OPEN  # where this overflows, float64 need not
        self.ends.note(row)

    @torch.inference_mode()
    def _draft(self, group: SlotGroup) -> None:
        """Drafts tokens for the rows of a group (:mod:`refract_exact.ladder`)."""
        rows = [row for row in group.rows if row]
        for row in rows:
            row.drafted = looked_up(row.sequence, self._room_to_draft(row))
        if self.ladder and self.ladder.drafts and not all(row.drafted for row in rows):
            with self.ladder.drafting():
                self._draft_in_few_bits(group, rows)
            return
        width = draft_width([len(row.drafted) for row in rows], self.device.type)
        for row in rows:
            row.drafted = row.drafted[:width]

    def _draft_in_few_bits(self, group: SlotGroup, rows: list[DecodedRow]) -> None:
        for row in rows:
            row.drafted = []
        for count in range(max(map(self._room_to_draft, rows))):
            reads = [(start + len(tokens) - 1, tokens[-1:]) for start, tokens in group.reads()]
            draws = []
            for seated in group.rows:
                draws += _uniforms(seated, count, 1)
            chosen, _ = self.choice(self._forward(group, reads)[:, -1], draws)
            for seated, token in zip(group.rows, chosen.tolist(), strict=True):
                if seated and count < self._room_to_draft(seated):
                    seated.drafted.append(token)

    def _room_to_draft(self, row: DecodedRow) -> int:
        """How many tokens may be drafted for a row: the pass that settles them gives one more."""
        room = min(DRAFTED, row.limit - len(row.generated) - 1)
        return room if self.route.longest is None else min(room, self.route.longest - row.known)

    @torch.inference_mode()
    def _forward(self, group: SlotGroup, reads: Sequence[tuple[int, list[int]]]) -> torch.Tensor:
        """The logits ``[slots, tokens, vocabulary]`` of a pass over a group, without
        positions that no row has reached."""
        reached = max(start for start, _ in reads) + max(len(tokens) for _, tokens in reads)
        group.shown = min(group.length, -(-reached // 16) * 16)
        logits = in_slots(self.model, self.route, group, reads, self.model.dtype, self.device)
        return logits.float()


def _uniforms(row: DecodedRow | None, start: int, count: int) -> list[float]:
    """The numbers that draw a row's tokens from so many behind the last one on; 0 where
    it has none."""
    if row is None or not row.uniforms:
        return [0.0] * count
    place = len(row.generated) + start
    drawn = row.uniforms[place : place + count]
    return [*drawn, *[0.0] * (count - len(drawn))]
