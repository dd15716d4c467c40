"""Which rows of a suite a run takes: a seeded sample, and how it is told."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from refract.core.jsonl import canonical_json
from refract.core.types import Row


@dataclass(frozen=True, slots=True)
class Draw:
    """How a suite's prompts were drawn: ``asked`` of its ``total`` rows, by ``seed`` (None: all of
    them), and how often each was answered (``samples``); ``of_models`` is what there is to say where
    models answered unlike often."""

    asked: int | None = None
    total: int = 0
    seed: int = 0
    samples: int = 1
    of_models: str = ""

    @property
    def is_part(self) -> bool:
        """Whether only some of the suite's rows were drawn."""
        return self.asked is not None and self.asked < self.total

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the draw, such as ``sampled 60/309, seed=1``."""
        notes = []
        if self.is_part:
            notes.append(f"sampled {self.asked}/{self.total}, seed={self.seed}")
        elif self.asked is not None and self.asked > self.total:
            notes.append(f"all {self.total}, sample {self.asked}")
        if self.samples > 1:
            notes.append(f"{self.samples} samples")
        if self.of_models:
            notes.append(self.of_models)
        return tuple(notes)

    def label(self, suite: str) -> str:
        """A suite's name with the notes in brackets, for people."""
        short = replace(self, of_models="samples differ") if self.of_models else self
        return suite + "".join(f"[{note}]" for note in short.notes)


ALL_ROWS = Draw()


def draw_of(provenance: Mapping[str, Any]) -> Draw:
    """How a suite was drawn, as its provenance has it."""
    facts = provenance["draw"]
    return Draw(
        asked=facts["asked"],
        total=facts["total"],
        seed=facts["seed"] or 0,
        samples=facts["samples"],
    )


def sample_rows(
    rows: list[Row], size: int | None, *, seed: int, suite: str, stratified: bool = False
) -> list[Row]:
    """A seeded subset of ``size`` rows, in suite order; all of them for None or a larger size.

    The rows with the smallest SHA-256 of (seed, suite, id) are taken, so that a row added to the
    suite changes the draw by one row at most. ``stratified``: of each category as many as its share
    of the suite, by Webster's method (Balinski & Young 2001, Fair Representation): the k-th row
    drawn of a category of n is ranked by (k - 1/2) / n."""
    if size is None or size >= len(rows):
        return rows

    order = in_drawn_order([row["id"] for row in rows], seed, suite)
    if stratified:
        category = {row["id"]: row["category"] for row in rows}
        totals = Counter(category.values())
        places: Counter[str] = Counter()
        ranks: dict[str, Fraction] = {}
        for id_ in order:
            name = category[id_]
            places[name] += 1
            ranks[id_] = Fraction(2 * places[name] - 1, 2 * totals[name])
        order.sort(key=lambda id_: ranks[id_])
    taken = set(order[:size])
    return [row for row in rows if row["id"] in taken]


def in_drawn_order(ids: Iterable[str], seed: int, *parts: str) -> list[str]:
    """Ids by the SHA-256 of the seed, these parts (the suite, what is drawn) and the id."""

    def place(id_: str) -> bytes:
        return hashlib.sha256(canonical_json([seed, *parts, id_]).encode()).digest()

    return sorted(ids, key=place)
