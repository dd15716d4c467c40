"""Recorded answers checked without generating them: one pass over prompt and answer
together.

Fast arithmetic gives each recorded token's margin at once; float64 decides those that
are not certain under the measured bound, and the first that is wrong
(:mod:`refract.models.exact`).

Related: Token-DiFR (arXiv 2511.20621) and TOPLOC (arXiv 2501.16007) ask whether an
answer is likely to be a model's; this asks whether each token is the exact one.

Imports torch: import this module only where a model is about to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from refract.models.decoding import Decoder
from refract.models.exact import DecodedRow, finite, passes
from refract.models.float64 import kept_positions, whole_passes
from refract.models.protocol import Certificate


@dataclass(slots=True)
class Checked:
    """What a check found of an answer."""

    problem: str = ""
    """"" where the answer holds."""
    unchecked: str = ""
    """Why it was not looked at."""
    place: int | None = None
    """Of the first token that is not the exact one, from 0."""
    token: str | None = None
    right: str | None = None
    margin: float | None = None
    """By how much the token lost against the right one."""
    float64: int = 0
    """Tokens that float64 decided, of which so many were ties."""
    ties: int = 0
    from_text: bool = False
    """Whether its tokens are those of its text, cut anew."""
    certificate: Certificate | None = None
    """What speaks for an answer that holds."""


def _force(decoder: Decoder, batch: Sequence[tuple[DecodedRow, list[int]]]) -> None:
    """The margins of recorded tokens, by one pass of fast arithmetic over some rows, or
    by one for each token of a row that is decoded alone."""
    sequences, rows, positions = [], [], []
    proposed: list[int] = []
    uniforms: list[float] = []
    for i, (row, places) in enumerate(batch):
        sequences.append(torch.tensor(row.sequence[:-1]))
        proposed += row.generated
        for place in places:
            rows.append(i)
            positions.append(len(row.tokens) - 1 + place)
            if row.uniforms:
                uniforms.append(row.uniforms[place])
    model, route = decoder.model, decoder.route
    row, places = batch[0]
    if route.alone(row.known - 1):  # the only row then
        logits = whole_passes(model, route, row.tokens, row.generated, places).float()
    else:
        ids = pad_sequence(sequences, batch_first=True).to(decoder.device)
        with torch.inference_mode(), kept_positions(model, rows, positions):
            logits = model(input_ids=ids, use_cache=False).logits[0].float()
    compared = decoder.choice.compare(torch.tensor(proposed), logits, uniforms)
    margins = compared[2].where(finite(logits), torch.nan).tolist()
    for row, places in batch:
        row.margins, margins = margins[: len(places)], margins[len(places) :]


def settle_recorded(decoder: Decoder, rows: Sequence[DecodedRow]) -> None:
    """Checks the ``generated`` tokens of rows. A row with a wrong token ends with the
    right one instead, and has in ``lost`` by how much the recorded one lost."""
    exact = decoder.exact
    assert exact is not None
    if decoder.choice.temperature > 0:
        for row in rows:
            row.draw()
    by_length = sorted(rows, key=lambda row: (row.known, row.index))
    together = []
    for row in by_length:
        places = list(range(len(row.generated)))
        if decoder.route.alone(row.known - 1):
            _force(decoder, [(row, places)])
        else:
            together.append((row, places))
    for batch in passes(together, exact.reference.vocabulary):
        _force(decoder, batch)
    while True:
        unsettled = [row for row in rows if not row.error and exact.open_places(row)]
        if not unsettled:
            return
        exact.settle(unsettled)
        for row in unsettled:
            exact.let_go(row)
