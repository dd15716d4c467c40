"""What exact answers of a model held in bfloat16 cost on a GPU, by counted bytes and operations
at the peak rates that its maker states: a part is as long as its memory traffic or its arithmetic,
whichever takes longer.

    python -m benchmarks.on_paper
"""

from __future__ import annotations

from typing import NamedTuple

from refract_exact.deciding import AUDITED, MOST_OPEN, PASS_TOKENS
from refract_exact.ladder import DRAFTED

# Llama 3.1 8B: numbers in the matrices that a token is multiplied by, and of its keys and values.
MATRICES = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 128_256 * 4096
KEPT = 2 * 32 * 8 * 128
# Tokens of a row so far, and of a prompt for each of its answer (SmolLM2's in git).
CONTEXT = 512
PROMPT = 0.4
# Measured on SmolLM2: the share of drafts of bfloat16 that is right, and of answers in which float32
# leaves a token open (benchmarks/README.md).
RIGHT = 0.98
NEAR = 1 / 155


class Card(NamedTuple):
    """Peak rates: bytes a second, and operations a second by type of number."""

    name: str
    memory: float
    bfloat16: float
    float32: float
    float64: float


H100 = Card("H100", 3.35e12, 990e12, 67e12, 67e12)  # float64 on its matrix units
# As an RTX 4090.
CONSUMER = Card("consumer card", 1.01e12, 165e12, 82.6e12, 82.6e12 / 64)


def fast_step(card: Card, rows: int) -> float:
    """Seconds of a token for each row in bfloat16."""
    return _longer(2 * MATRICES + 2 * rows * CONTEXT * KEPT, rows, card.memory, card.bfloat16)


def ladder_step(card: Card, rows: int) -> float:
    """Seconds of a token for each row, where bfloat16 drafts, float32 settles, and float64 reads
    some answers whole."""
    keys = 4 * rows * CONTEXT * KEPT
    draft = _longer(2 * MATRICES + keys, rows, card.memory, card.bfloat16)
    positions = rows * (DRAFTED + 1)
    settling = _widening(card, 4) + _longer(
        4 * MATRICES + keys, positions, card.memory, card.float32
    )
    settled = sum(RIGHT**place for place in range(DRAFTED + 1))
    whole = _float64_pass(card, PASS_TOKENS) / PASS_TOKENS
    read = (1 / AUDITED + NEAR) * (1 + PROMPT)
    return (DRAFTED * draft + settling) / settled + rows * read * whole


def two_rungs_step(card: Card, rows: int) -> float:
    """The same where float64 decides each token that bfloat16 proposes."""
    return fast_step(card, rows) + _float64_pass(card, rows * MOST_OPEN) / MOST_OPEN


def checked_token(card: Card) -> float:
    """Seconds of a token whose answer is recorded: float32 reads it with many others."""
    whole = _widening(card, 4) + _longer(4 * MATRICES, PASS_TOKENS, card.memory, card.float32)
    return whole / PASS_TOKENS


def _float64_pass(card: Card, positions: int) -> float:
    return _widening(card, 8) + _longer(8 * MATRICES, positions, card.memory, card.float64)


def _widening(card: Card, size: int) -> float:
    """Seconds of making bfloat16 matrices of numbers of so many bytes, part by part."""
    return (2 + size) * MATRICES / card.memory


def _longer(read: float, positions: int, memory: float, rate: float) -> float:
    return max(read / memory, 2 * MATRICES * positions / rate)


def cost_table() -> list[list[str]]:
    """A line for each card and number of rows that are decoded together."""
    lines = []
    for card, counts in ((H100, (1, 16, 128)), (CONSUMER, (1, 16))):
        for rows in counts:
            fast = fast_step(card, rows)
            lines.append(
                [
                    f"{card.name}, {rows}",
                    f"{rows / fast:,.0f}",
                    f"{ladder_step(card, rows) / fast:.1f}",
                    f"{two_rungs_step(card, rows) / fast:.1f}",
                    f"{1 / checked_token(card):,.0f}",
                ]
            )
    return lines


HEADER = [
    "card, rows together",
    "fast, tokens/s",
    "ladder / fast",
    "without float32 / fast",
    "checked, tokens/s",
]

if __name__ == "__main__":
    print(HEADER, *cost_table(), sep="\n")
