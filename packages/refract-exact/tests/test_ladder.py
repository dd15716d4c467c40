"""Drafts of few bits and of what was written before, which float32 settles: they cost or save
time, and change no answer."""

from __future__ import annotations

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from refract.models.protocol import unpacked_tokens
from refract_exact import ladder
from refract_exact.decoding import Decoder
from refract_exact.float64 import Reference
from refract_exact.ladder import DRAFTED, Ladder, draft_width, looked_up
from refract_exact.slots import grouped_attention
from tests.small_models import (
    answers,
    ask,
    model,
    network,
    prompts,
    save_model,
    save_tokenizer,
    seeded,
    tokens_of,
)

DRAWN = {"temperature": 0.7, "top_p": 0.9, "top_k": 20}
MOST = 27


@pytest.mark.parametrize(
    ("tokens", "most", "draft"),
    [
        ([1, 2, 3, 4, 5, 1, 2, 3], 2, [4, 5]),
        ([1, 2, 3, 4, 5, 1, 2, 3], 8, [4, 5, 1, 2, 3, 4, 5, 1]),  # and round again
        ([1, 2, 3, 9, 1, 2, 3, 4, 1, 2, 3], 1, [4]),  # the latest time counts
        ([7, 7, 7, 7], 3, [7, 7, 7]),
        ([7, 7, 7], 3, []),
        ([1, 2, 3, 4, 0, 2, 3], 3, []),  # two of three
        ([2, 3], 3, []),
        ([1, 2, 3, 4, 1, 2, 3], 0, []),
    ],
)
def test_a_draft_is_what_came_behind_the_last_tokens_before(tokens, most, draft):
    assert looked_up(tokens, most) == draft


@pytest.mark.parametrize(
    ("lengths", "device", "width"),
    [
        ([8], "cpu", 8),
        ([0], "cpu", 0),
        ([0, 0, 0, 3], "cpu", 2),  # 36 / 5.44 is less than 32 / 4.8 and 40 / 5.952
        ([0] * 31 + [8], "cpu", 0),  # 56 / 32 is less than 88 / 32.8
        ([8] * 32, "cpu", 1),  # 88 / 57.6 is less than 56 / 32 and 120 / 78.08
        ([8] * 32, "cuda", 3),  # 192 / 94.464 is less than 160 / 78.08 and 224 / 107.57
    ],
)
def test_a_pass_is_as_wide_as_makes_a_token_cheapest(lengths, device, width):
    assert draft_width(lengths, device) == width


class Counted:
    """Counts the passes of decoders, by what they multiply in."""

    def __init__(self, monkeypatch):
        self.drafting, self.widths = 0, []
        forward = Decoder._forward

        def counting(decoder, group, reads):
            logits = forward(decoder, group, reads)
            if decoder.ladder and decoder.ladder._drafting:
                self.drafting += 1
            else:
                self.widths.append(logits.shape[1])
            return logits

        monkeypatch.setattr(Decoder, "_forward", counting)


@pytest.mark.parametrize("drawn", [{}, DRAWN])
@pytest.mark.parametrize("shift", [0, 1])
def test_a_right_draft_saves_passes_and_a_wrong_one_changes_nothing(
    tiny, monkeypatch, drawn, shift
):
    """Drafts are an answer's own tokens, of which each ``shift``-th place is wrong."""
    asked = [seeded("abc def", 5)]
    (answer,) = expected = answers(model(tiny, max_tokens=MOST, **drawn), asked)
    ids = unpacked_tokens(answer.tokens)
    assert len(ids) == MOST
    adapter = model(tiny, max_tokens=MOST, **drawn)
    read = tokens_of(adapter, asked[0])

    def draft(tokens, most):
        place = len(tokens) - len(read)
        right = ids[place : place + most]
        return [id_ ^ 1 if shift and not n % shift else id_ for n, id_ in enumerate(right, place)]

    monkeypatch.setattr("refract_exact.decoding.looked_up", draft)
    counted = Counted(monkeypatch)
    assert answers(adapter, asked) == expected
    # Nine tokens a pass where all are right, and one where all are wrong. As many are drafted as
    # can still be written.
    widths = {0: [9, 9, 9], 1: [9] * 19 + [8, 7, 6, 5, 4, 3, 2, 1]}
    assert counted.widths == widths[shift]


@pytest.mark.usefixtures("few_bits")
@pytest.mark.parametrize("drawn", [{}, DRAWN])
def test_few_bits_draft_what_no_row_wrote_before(tiny, monkeypatch, drawn):
    asked = prompts(6)
    expected = answers(model(tiny, max_tokens=MOST, dtype="float32", **drawn), asked)
    counted = Counted(monkeypatch)
    assert answers(model(tiny, max_tokens=MOST, dtype="bfloat16", **drawn), asked) == expected
    assert 0 < counted.drafting <= DRAFTED * len(counted.widths)
    assert len(counted.widths) < MOST / 2
    assert max(counted.widths) == DRAFTED + 1


GEMMA = {"head_dim": 16, "layer_types": ["full_attention"] * 2}


@pytest.mark.parametrize(
    ("family", "settings", "copied"),
    [
        ("Llama", {}, 5 * 64),  # five norms
        ("GPT2", {"n_embd": 64, "n_layer": 2, "n_head": 4}, 5 * 2 * 64),
        ("Gemma3Text", GEMMA, 320 * 64 + 9 * 64 + 4 * 16),  # its table scales, and is copied
    ],
)
def test_a_ladder_is_float32_on_weights_that_it_does_not_copy(family, settings, copied):
    stored = network(family, "bfloat16", **settings)
    wide = Ladder(stored, narrow=stored)
    ids = torch.arange(3, 40)[None]
    right = Reference(stored)(input_ids=ids).logits
    with torch.inference_mode():
        logits = wide.model(input_ids=ids).logits
        with wide.drafting():
            drafted = wide.model(input_ids=ids).logits
        again = wide.model(input_ids=ids).logits
    assert (logits.dtype, drafted.dtype) == (torch.float32, torch.float32)
    assert 0 < (logits - right).abs().max() < 1e-4
    assert 1e-3 < (drafted - right).abs().max() < 1
    assert torch.equal(again, logits)
    assert wide.model.dtype == torch.float32
    assert sum(p.numel() for p in wide.model.parameters()) == copied
    tables = wide.model.get_input_embeddings().weight, stored.get_input_embeddings().weight
    assert (tables[0].data_ptr() == tables[1].data_ptr()) == (family != "Gemma3Text")


@pytest.mark.parametrize(
    ("device", "dtype", "largest"),
    [
        ("cpu", "auto", 0),
        ("cpu", "auto", 10**6),
        ("few bits draft", "bfloat16", 10**6),
        ("few bits draft", "float32", 0),
    ],
)
def test_weights_are_held_as_they_are_stored_unless_they_are_few(
    tmp_path, monkeypatch, device, dtype, largest
):
    monkeypatch.setattr("refract_exact.float64.KEPT_WEIGHTS", largest)
    if device != "cpu":
        monkeypatch.setattr(ladder, "WITHOUT_DRAFTS", frozenset())
    save_tokenizer(tmp_path)
    save_model(tmp_path, dtype="bfloat16")
    adapter = model(tmp_path, max_tokens=8, dtype=dtype)
    asked = [ask("abc"), ask("abc def")]
    made = answers(adapter, asked)
    is_float32 = dtype == "float32" or (device == "cpu" and largest > 0)
    assert adapter.runtime["dtype"] == ("float32" if is_float32 else "bfloat16")
    decoder = adapter.loaded().decoder
    assert (decoder.ladder is None) == is_float32
    assert is_float32 or decoder.ladder.drafts == (device != "cpu")
    assert made == answers(model(tmp_path, max_tokens=8, dtype="float32"), asked)


@pytest.mark.parametrize("width", [1, 4])
def test_attention_of_grouped_queries_is_that_of_repeated_keys(width):
    torch.manual_seed(0)
    module = torch.nn.Module()
    module.num_key_value_groups, module.is_causal = 3, True
    query, key = torch.randn(2, 6, width, 8), torch.randn(2, 2, 11, 8)
    value = torch.randn(2, 2, 11, 8)
    mask = torch.randn(2, 1, width, 11)
    for scaling in (None, 0.3):
        found, _ = grouped_attention(module, query, key, value, mask, scaling=scaling)
        right, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=scaling)
        torch.testing.assert_close(found, right)
