"""The time left of a local model: by tokens, and right within a factor of two."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refract.core.progress import Progress
from refract.models import open_model
from refract.models.protocol import Request
from refract.models.remaining import seconds_left, timed

SLOTS = 16


@dataclass
class Row:
    """A row of a made-up decoder, whose answer will have ``length`` tokens."""

    tokens: list[int]
    limit: int
    length: int
    generated: list[int] = field(default_factory=list)
    ended: bool = False
    error: None = None
    state: list[int] = field(default_factory=list)


def decoding(rows: list[Row], a: float, b: float):
    """Reads and decodes the shortest prompts first, ``SLOTS`` at a time, at ``a`` seconds for a token
    read and ``b`` for a step; gives the seconds of both whenever a row ends."""
    waiting = sorted(rows, key=lambda row: len(row.tokens))
    active: list[Row] = []
    reading = stepping = 0.0
    while waiting or active:
        while waiting and len(active) < SLOTS:
            active.append(waiting.pop(0))
            reading += a * len(active[-1].tokens)
        stepping += b
        for row in list(active):
            row.generated.append(0)
            if len(row.generated) == min(row.length, row.limit):
                row.ended = row.length <= row.limit
                active.remove(row)
                yield reading, stepping


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    a=st.floats(1e-6, 0.01),
    b=st.floats(0.001, 0.2),
    mean=st.integers(10, 400),
    short=st.floats(0, 0.9),
)
def test_after_a_tenth_of_the_rows_the_estimate_is_within_a_factor_of_three(
    seed, a, b, mean, short
):
    draw = random.Random(seed)
    rows = []
    for _ in range(400):
        refusal = draw.random() < short
        length = draw.randint(8, 30) if refusal else 1 + int(draw.expovariate(1 / mean))
        prompt = int(draw.lognormvariate(3.5, 0.8)) + 1
        rows.append(Row([0] * prompt, 256, length))
    at = [
        (sum(spent), seconds_left(rows, *spent))
        for done, spent in enumerate(decoding(rows, a, b), 1)
        if done in (40, 100, 200, 300, 400)
    ]
    total = at[-1][0]
    assert at[-1][1] == 0
    for now, left in at[:-1]:
        assert (total - now) / 3 <= left <= (total - now) * 3


def test_nothing_is_estimated_before_the_first_token():
    assert seconds_left([Row([1, 2], 9, 9)], 0.0, 0.0) is None
    assert seconds_left([], 0.0, 0.0) is None


def test_the_time_of_a_method_is_added_up_also_where_it_raises():
    class Worker:
        def __init__(self):
            self.seconds = {}

        @timed
        def work(self, fails):
            if fails:
                raise KeyError
            return 7

    worker = Worker()
    assert worker.work(False) == 7
    first = worker.seconds["work"]
    with pytest.raises(KeyError):
        worker.work(fails=True)
    assert 0 <= first < worker.seconds["work"]


def test_a_local_model_says_how_long_it_will_take(tmp_path):
    from tests.models.test_gguf import definition, write_gguf

    write_gguf(tmp_path / "random.gguf")
    small = definition(tmp_path, gguf_file="random.gguf", dtype="float32", batch_tokens=64)
    model = open_model("m", small)
    assert model.seconds_left() is None
    for _ in range(2):  # each call of answer() anew
        asked = [Request(([{"role": "user", "content": "x" * n}],)) for n in range(1, 60)]
        left = [model.seconds_left() for _ in model.answer(asked)]
        assert left[0] > left[-1] == 0


def test_progress_shows_the_estimate_and_else_counts_every_row_the_same(monkeypatch, capsys):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("refract.core.progress.time.monotonic", lambda: clock.now)
    for left in (lambda: 1500.4, lambda: None, None):
        with Progress("m", 1206, left) as progress:
            clock.now += 61
            progress.advance(13, "9 tokens")
    assert capsys.readouterr().err.splitlines() == [
        "m: 13/1206 rows, 0.2 rows/s, 1500 s left, 9 tokens",
        "m: 13/1206 rows, 0.2 rows/s, 5598 s left, 9 tokens",
        "m: 13/1206 rows, 0.2 rows/s, 5598 s left, 9 tokens",
    ]
