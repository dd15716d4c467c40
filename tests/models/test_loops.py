"""Answers that end in a loop, which is found from their tokens alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refract.models.arithmetic import LOOP_STEP, in_a_loop
from refract.models.protocol import unpacked_tokens
from tests.builders import in_order as answers
from tests.small_models import model, prompts, save_model, save_tokenizer

TOKENS = st.lists(st.integers(0, 2), max_size=30)
WINDOW = 16


@given(TOKENS, st.lists(st.integers(), min_size=1, max_size=2 * WINDOW), st.integers(0, 9))
def test_a_block_that_comes_four_times_is_a_loop_whatever_is_before_it(before, block, start):
    length = max(WINDOW, 4 * len(block))
    rounds = (block * (WINDOW + 9))[start:][:length]
    assert in_a_loop(before + rounds, WINDOW)
    assert not in_a_loop([*before, *rounds[:-1], max(before + rounds) + 1], WINDOW)


@given(TOKENS)
def test_a_loop_is_four_rounds_and_as_many_tokens_as_were_asked_for(tokens):
    rounds = (
        (period, tokens[-length:])
        for period in range(1, len(tokens) + 1)
        if (length := max(WINDOW, 4 * period)) <= len(tokens)
    )
    found = any(
        all(last[i] == last[i % period] for i in range(len(last))) for period, last in rounds
    )
    assert in_a_loop(tokens, WINDOW) == found


@pytest.fixture(scope="module")
def looping(tmp_path_factory):
    """A model that repeats itself sooner or later, in most answers where it is greedy."""
    folder = tmp_path_factory.mktemp("looping")
    save_tokenizer(folder)
    save_model(folder, initializer_range=0.1)
    return folder


@pytest.mark.parametrize(
    "settings", [{"arithmetic": "fast", "temperature": 0.3}, {"arithmetic": "exact"}], ids=str
)
def test_an_answer_ends_at_the_first_loop_of_its_own_tokens(looping, settings):
    asked, longest = prompts(16), 10 * LOOP_STEP - 1
    settings = {"max_tokens": longest, "temperature": 0, **settings}
    whole = answers(model(looping, **settings), asked)
    made = answers(model(looping, loop_tokens=WINDOW, **settings), asked)
    reasons = set()
    for without, answer in zip(whole, made, strict=True):
        tokens = unpacked_tokens(without.tokens)
        looped = [n for n in range(16, len(tokens) + 1, LOOP_STEP) if in_a_loop(tokens[:n], WINDOW)]
        expected = (tokens[: looped[0]], "loop") if looped else (tokens, without.finish_reason)
        assert (unpacked_tokens(answer.tokens), answer.finish_reason) == expected
        reasons.add(answer.finish_reason)
    assert "loop" in reasons
