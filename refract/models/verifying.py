"""Recorded answers checked without generating them: one pass over prompt and answer together.

Fast arithmetic gives each recorded token's margin at once; float64 decides those that are not certain
under the measured bound, and the first one that is wrong. So a check costs a fraction of an answer. As
with answers themselves (:mod:`refract.models.exact`), what holds is certified under a measured bound.

Related: checks of a provider's answers by a pass over them, with a threshold for what other hardware
changes (Token-DiFR, arXiv 2511.20621) or by hashes of activations (TOPLOC, arXiv 2501.16007). Both ask
whether an answer is likely to be of a model; this asks whether each token is the exact one.

Imports torch: import this module only where a model is about to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from refract.models.decoding import Decoder
from refract.models.exact import DecodedRow, passes
from refract.models.float64 import kept_positions


@dataclass(slots=True)
class Checked:
    """What a check found of an answer: a ``problem``, "" where it holds, or why it was not looked at
    (``unchecked``); the ``place`` of the first token that is not the exact one, from 0, the text of that
    ``token`` and of the ``right`` one, and by how much it lost (``margin``); how many tokens ``float64``
    decided and how many were ``ties``; whether its tokens are those of its text, cut anew
    (``from_text``)."""

    problem: str = ""
    unchecked: str = ""
    place: int | None = None
    token: str | None = None
    right: str | None = None
    margin: float | None = None
    float64: int = 0
    ties: int = 0
    from_text: bool = False


def _force(decoder: Decoder, batch: Sequence[tuple[DecodedRow, list[int]]]) -> None:
    """The margins of recorded tokens, by one pass of fast arithmetic over some rows."""
    fed = [torch.tensor(row.sequence[:-1]) for row, _ in batch]
    ids = pad_sequence(fed, batch_first=True)
    at = [(i, len(row.tokens) - 1 + p) for i, (row, places) in enumerate(batch) for p in places]
    with torch.inference_mode(), kept_positions(decoder.model, *zip(*at, strict=True)):
        logits = decoder.model(input_ids=ids.to(decoder.device), use_cache=False).logits[0].float()
    given = torch.tensor([token for row, _ in batch for token in row.generated])
    uniforms = [row.uniforms[p] for row, places in batch for p in places if row.uniforms]
    margins = iter(decoder.choice.of(given, logits, uniforms)[2].tolist())
    for row, places in batch:
        row.margins = [next(margins) for _ in places]


def settle_recorded(decoder: Decoder, rows: Sequence[DecodedRow]) -> None:
    """Checks the ``generated`` tokens of rows. One in which a token is wrong ends with the right one
    instead, and has as ``lost`` by how much the recorded one lost."""
    exact = decoder.exact
    assert exact is not None
    if decoder.choice.temperature > 0:
        for row in rows:
            row.draw()
    by_length = sorted(rows, key=lambda row: (row.known, row.index))
    every = [(row, list(range(len(row.generated)))) for row in by_length]
    for batch in passes(every, exact.reference.vocabulary):
        _force(decoder, batch)
    while unsettled := [row for row in rows if exact.open_places(row)]:
        exact.settle(unsettled)
        for row in unsettled:
            exact.let_go(row)
