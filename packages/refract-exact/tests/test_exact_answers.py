"""Exact answers: the same under every arithmetic, and what float64 decides."""

from __future__ import annotations

import json
import logging
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from refract.models.protocol import AdapterError, packed_tokens, unpacked_tokens
from refract_exact.deciding import PROBES, SAFETY, TIE, Choice, Decider
from refract_exact.float64 import NotExact, Reference
from tests.small_models import (
    answers,
    ask,
    change_weights,
    model,
    network,
    prompts,
    save_model,
    seeded,
    tokens_of,
)


def asked(count: int = 10):
    return [seeded(p.attempts[0][0]["content"], i) for i, p in enumerate(prompts(count))]


def settle_in_few_bits(decoder) -> None:
    """Has a ladder compute as if it drafted, so that margins are far off."""
    decoder.ladder.drafts = False
    decoder.ladder._drafting.append(torch.bfloat16)


@pytest.mark.parametrize(
    "drawn", [{}, {"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.9, "top_k": 20}]
)
@pytest.mark.usefixtures("few_bits")
def test_answers_are_the_same_whatever_arithmetic_proposes_them(tiny, drawn):
    shapes = [("float32", None), ("float32", 1), ("bfloat16", None), ("bfloat16", 64)]
    made, runtimes = {}, {}
    for dtype, batch in (*shapes, ("float16", None)):
        adapter = model(tiny, max_tokens=32, dtype=dtype, batch_tokens=batch, **drawn)
        made[dtype, batch], runtimes[dtype] = answers(adapter, asked()), adapter.runtime
    expected = made["float32", None]
    assert all(answers_ == expected for answers_ in made.values())
    fast = model(tiny, max_tokens=32, arithmetic="fast", dtype="bfloat16", **drawn)
    assert answers(fast, asked()) != expected
    # whatever drafts, a certificate is of the arithmetic that settled the token
    for dtype, runtime in runtimes.items():
        assert runtime["dtype"] == dtype
        assert runtime["bound"] < 2**-9
    certified = [answer.certificate for answer in made["bfloat16", None]]
    assert all(c["margin"] is None or c["margin"] > 1 for c in certified)


def test_an_exact_answer_is_the_greedy_decoding_of_float64(tiny):
    adapter = model(tiny, max_tokens=12, dtype="bfloat16")
    (made,) = answers(adapter, [ask("Hi there")])
    reference = adapter.loaded().decoder.decider.reference
    tokens = tokens_of(adapter, ask("Hi there"))
    ids = unpacked_tokens(made.tokens)
    for place, token in enumerate(ids):
        read = torch.tensor([tokens + ids[:place]])
        assert reference(input_ids=read).logits[0, -1].argmax().item() == token


@pytest.mark.usefixtures("few_bits")
def test_an_error_beyond_the_bound_raises_it_and_earlier_answers_are_checked_again(
    tiny, monkeypatch, caplog
):
    expected = answers(model(tiny, max_tokens=32), asked())
    monkeypatch.setattr("refract_exact.deciding.is_audited", lambda tokens, seed: seed == 9)
    adapter = model(tiny, max_tokens=32, dtype="bfloat16")
    settle_in_few_bits(adapter.loaded().decoder)
    adapter.loaded().decoder.decider.bound = 1e-9
    with caplog.at_level(logging.WARNING):
        yielded = list(adapter.answer(asked()))
    assert len(yielded) > len(expected)
    assert [dict(yielded)[i] for i in range(len(expected))] == expected
    assert "corrected after the error bound was raised" in caplog.text


@pytest.mark.usefixtures("few_bits")
@pytest.mark.parametrize("temperature", [0, 1.0])
def test_the_measured_error_is_that_of_the_arithmetic_that_settles(copy, tiny, temperature):
    # A step of float32 is 2**-23 and of bfloat16 2**-8, of logits of about 1 over a few layers.
    save_model(copy, architecture="Olmoe", num_experts=8, num_experts_per_tok=2)
    found = {}
    for name, folder, dtype in (
        ("float32", tiny, "float32"),
        ("drafts", tiny, "bfloat16"),
        ("mixture", copy, "bfloat16"),
    ):
        adapter = model(folder, max_tokens=4, dtype=dtype, temperature=temperature)
        decoder = adapter.loaded().decoder
        assert (decoder.ladder is not None) == (name == "drafts")
        found[name] = decoder.decider.error
        assert decoder.decider.bound == max(2.0**-12, SAFETY * decoder.decider.error)
    assert 2**-26 < found["float32"] < 2**-14
    assert 2**-26 < found["drafts"] < 2**-14
    assert found["mixture"] > 2**-11  # a layer that chooses can make any error large


def test_the_measured_error_is_the_larger_of_passes_over_one_token_and_over_several(
    tiny, monkeypatch
):
    adapter = model(tiny, max_tokens=4, temperature=1.0)
    decoder = adapter.loaded().decoder

    class Off:
        """Is wrong by 0.1 in passes over so many tokens."""

        def __init__(self, tokens):
            self.tokens = tokens

        def get_input_embeddings(self):
            return decoder.model.get_input_embeddings()

        def __call__(self, input_ids, **inputs):
            output = decoder.model(input_ids=input_ids, **inputs)
            if input_ids.shape[1] == self.tokens:
                output.logits[..., ::2] += 0.1
            return output

    reference = Reference(decoder.model)
    errors = {}
    for tokens in (1, 5, PROBES[1]):
        errors[tokens] = Decider(Off(tokens), decoder.choice, reference, decoder.route).error
    assert errors[5] == decoder.decider.error
    assert errors[1] == pytest.approx(0.1, abs=1e-4)
    assert errors[PROBES[1]] == pytest.approx(0.1, abs=1e-4)
    monkeypatch.setattr("refract_exact.deciding.MOST_ERROR", 2.0**-6)
    with pytest.raises(NotExact, match=r"float32 is off by 0\.1 on short texts"):
        Decider(Off(1), decoder.choice, reference, decoder.route)


def enlarge(folder, factor):
    def change(weights):
        for name, weight in weights.items():
            if "up_proj" in name or "gate_proj" in name:
                weight.mul_(factor)

    change_weights(folder, change)


@pytest.mark.usefixtures("few_bits")
def test_what_overflows_in_a_draft_is_settled_in_float32(copy):
    enlarge(copy, 100)
    expected = answers(model(copy, max_tokens=8), prompts(4))
    assert [answer.error for answer in expected] == [None] * 4
    adapter = model(copy, max_tokens=8, dtype="float16")
    made = answers(adapter, prompts(4))
    assert made == expected
    assert all(answer.certificate["margin"] > 1 for answer in made)
    assert all(not checked.problem for _, checked in adapter.verify(prompts(4), made))
    fast = answers(model(copy, max_tokens=8, dtype="float16", arithmetic="fast"), prompts(4))
    assert {answer.error["message"] for answer in fast} == {
        "the model's output is not a number at answer token 1; try dtype: float32"
    }


def test_what_overflows_in_float32_is_decided_in_float64(copy):
    enlarge(copy, 1e20)
    adapter = model(copy, max_tokens=8)
    made = answers(adapter, prompts(4))
    assert [answer.error for answer in made] == [None] * 4
    assert [answer.certificate["margin"] for answer in made] == [None] * 4
    assert [a.certificate["float64"] for a in made] == [a.completion_tokens for a in made]
    assert math.isfinite(adapter.runtime["bound"])
    assert all(not checked.problem for _, checked in adapter.verify(prompts(4), made))


def test_where_all_logits_are_the_same_each_token_is_a_tie(copy):
    def level(weights):
        weights["model.norm.weight"].zero_()

    change_weights(copy, level)
    made = answers(model(copy, max_tokens=3), prompts(2))
    counts = [(a.certificate["float64"], a.certificate["ties"]) for a in made]
    assert counts == [(a.completion_tokens, a.completion_tokens) for a in made]


def test_a_row_can_go_on_in_a_shorter_cache_than_it_began_in(tiny, monkeypatch):
    """500 tokens are padded to 512, behind which 9 more need the next size; 502 and 9 do not."""
    monkeypatch.setattr("refract_exact.decoding.MOST_OPEN", 2)
    requests = [ask("x" * 496)]
    expected = answers(model(tiny, max_tokens=9), requests)
    adapter = model(tiny, max_tokens=9)
    adapter.loaded().decoder.decider.bound = 1e9  # float64 decides each token, and all were right
    assert answers(adapter, requests) == expected
    assert (expected[0].prompt_tokens, expected[0].completion_tokens) == (500, 9)


def test_a_mixture_whose_routers_are_nearly_tied_is_decided_in_float64(copy):
    sizes = {"num_hidden_layers": 4, "intermediate_size": 64}
    save_model(copy, architecture="Olmoe", num_experts=8, num_experts_per_tok=1, **sizes)
    torch.manual_seed(0)

    def tie(weights):
        for name, weight in weights.items():
            if name.endswith("mlp.gate.weight"):
                weight[1::2] = weight[::2] + 3e-6 * torch.randn_like(weight[::2])

    change_weights(copy, tie)
    adapter = model(copy, max_tokens=12)
    made = answers(adapter, prompts(8))
    written = [answer.completion_tokens for answer in made]
    assert [answer.certificate["float64"] for answer in made] == written
    assert [answer.certificate["margin"] for answer in made] == [None] * 8
    assert answers(model(copy, max_tokens=12, batch_tokens=1), prompts(8)) == made
    found = [checked for _, checked in adapter.verify(prompts(8), made)]
    assert [checked.problem for checked in found] == [""] * 8
    assert [checked.float64 for checked in found] == written


@pytest.mark.parametrize("bits", ["4bit", "8bit"])
def test_weights_are_quantised_from_the_type_that_is_stored(tiny, bits):
    from bitsandbytes import functional

    plain = model(tiny, max_tokens=12, quantization=bits)
    if bits == "4bit" and functional.has_avx512bf16():
        # Where a processor has them, its fused product takes numbers of 16 bits.
        with pytest.raises(AdapterError, match=r"no exact answers here: float32 is off .* fast"):
            plain.loaded()
        return
    made = answers(plain, prompts(4))
    narrow = model(tiny, max_tokens=12, quantization=bits, dtype="bfloat16")
    assert answers(narrow, prompts(4)) == made
    # The weights of a layer are its own, quantised, whatever fast arithmetic made of them.
    name = "model.layers.0.mlp.up_proj"
    stored = load_file(tiny / "model.safetensors")[f"{name}.weight"]
    if bits == "4bit":
        expected = functional.dequantize_4bit(*functional.quantize_4bit(stored, quant_type="fp4"))
    else:
        whole, largest, _ = functional.int8_vectorwise_quant(stored.half())
        expected = whole.double() * (largest.double() / 127)[:, None]
    for adapter in (plain, narrow):
        layer = adapter.loaded().decoder.decider.reference.model.get_submodule(name)
        assert torch.equal(layer.weight, expected)


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("Llama", {}),
        ("Gemma2", {"head_dim": 16}),
        ("GPT2", {"n_embd": 64, "n_layer": 2, "n_head": 4}),
        ("Mixtral", {"num_local_experts": 4}),
    ],
)
def test_a_reference_is_float64_throughout_and_near_the_model(family, more):
    plain = network(family, initializer_range=0.02, **more)
    ids = torch.randint(3, 300, (2, 24))
    with torch.inference_mode():
        fast = plain(input_ids=ids).logits
    right = Reference(plain)(input_ids=ids).logits
    assert right.dtype == torch.float64
    assert Reference(plain).routes is (family == "Mixtral")
    assert 0 < (right - fast).abs().max() < 1e-5
    halves = Reference(plain)(input_ids=ids[:, :12]).logits  # another shape, the same numbers
    assert (right[:, :12] - halves).abs().max() < 1e-13


def test_an_operation_that_cannot_be_float64_is_named(tiny, monkeypatch):
    forward = torch.nn.functional.silu

    def narrow(x):
        with torch._C.DisableTorchFunction():
            return forward(x.to(torch.float32))

    from transformers.models.llama.modeling_llama import LlamaMLP

    monkeypatch.setattr(
        LlamaMLP,
        "forward",
        lambda self, x: self.down_proj(narrow(self.gate_proj(x)) * self.up_proj(x)),
    )
    with pytest.raises(AdapterError, match=r"aten.*computes in float32; set arithmetic: fast"):
        answers(model(tiny, max_tokens=4), prompts(1))
    assert answers(model(tiny, max_tokens=4, arithmetic="fast"), prompts(1))
    assert issubclass(NotExact, ValueError)


def test_logits_that_are_asked_for_are_those_of_float64(tiny):
    made = {
        dtype: answers(model(tiny, max_tokens=1, score_tokens=["a", "b"], dtype=dtype), prompts(6))
        for dtype in ("float32", "bfloat16")
    }
    assert made["float32"] == made["bfloat16"]
    assert {*json.loads(made["float32"][0].response)["logits"]} == {"a", "b"}


def test_equal_logits_go_to_the_lowest_id():
    logits = torch.tensor([[0.0, 2.0, 2.0 + TIE / 2, 2.0 - TIE / 2, 1.0]], dtype=torch.float64)
    tokens, margins = Choice()(logits, tie=TIE)
    assert tokens.tolist() == [1]
    assert margins.item() <= TIE
    level = torch.tensor([[0.0, 2.0, 2.0 + TIE]], dtype=torch.float64)
    assert Choice()(level, tie=TIE)[0].tolist() == [1]
    # of the tokens equal to the last that top-k keeps, the lowest ids are kept
    drawn = [Choice(1.0, top_k=2)(logits, [u], tie=TIE)[0].item() for u in (0.01, 0.49, 0.51, 0.99)]
    assert drawn == [1, 1, 2, 2]


CHANCES = torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("choice", "uniform", "token", "margin"),
    [
        # The distance to the nearer end of the token's interval, times 4T.
        (Choice(1.0), 0.05, 0, 4 * 0.05),
        (Choice(1.0), 0.12, 1, 4 * 0.02),
        (Choice(1.0), 0.95, 3, 4 * 0.35),
        # Of .3 and .4 alone the ends are 0, 3/7 and 1; the third in rank is ln 1.5 behind.
        (Choice(1.0, top_k=2), 0.4, 2, 4 * (3 / 7 - 0.4)),
        (Choice(1.0, top_k=2), 0.9, 3, math.log(1.5)),
        (Choice(1.0, top_k=9), 0.05, 0, 4 * 0.05),
        # Ranked, .4 and .3 are needed for half of the whole, which .4 lacks by .1.
        (Choice(1.0, top_p=0.5), 0.4, 2, 4 * (3 / 7 - 0.4)),
        (Choice(1.0, top_p=0.5), 0.9, 3, 4 * 0.1),
        # .4 alone is enough for .3; the second in rank is ln 4/3 behind.
        (Choice(1.0, top_p=0.3), 0.1, 3, math.log(4 / 3)),
        # At temperature 2 the chances are as their roots, of which the first has .16.
        (Choice(2.0), 0.15, 0, 8 * (0.1**0.5 / (0.1**0.5 + 0.2**0.5 + 0.3**0.5 + 0.4**0.5) - 0.15)),
    ],
)
def test_a_token_is_drawn_by_its_interval_and_wins_by_what_could_change_it(
    choice, uniform, token, margin
):
    tokens, margins = choice(CHANCES, [uniform])
    assert (tokens.item(), margins.item()) == (token, pytest.approx(margin))


def test_a_given_token_wins_by_its_margin_or_loses_by_what_it_lacks():
    logits = torch.tensor([[1.0, 4.0, 2.5]] * 3)
    tokens, margins, wins = Choice().compare(torch.tensor([1, 2, 0]), logits)
    assert (tokens.tolist(), margins.tolist()) == ([1, 1, 1], [1.5, 1.5, 1.5])
    assert wins.tolist() == [1.5, -1.5, -3.0]
    drawn = Choice(1.0).compare(torch.tensor([1, 0]), CHANCES.repeat(2, 1), [0.12, 0.12])
    assert drawn[2].tolist() == pytest.approx([0.08, -0.08])


@given(
    st.lists(st.floats(-8, 8, width=32), min_size=4, max_size=12),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.2, 3),
    st.sampled_from([1.0, 0.5, 0.9]),
    st.sampled_from([None, 1, 3]),
    st.integers(0, 2**32),
)
def test_a_change_below_the_margin_changes_no_token(
    values, uniform, temperature, top_p, top_k, seed
):
    for choice in (Choice(), Choice(temperature, top_p, top_k)):
        logits = torch.tensor([values], dtype=torch.float64)
        (token,), (margin,) = (t.tolist() for t in choice(logits, [uniform]))
        noise = torch.rand(len(values), generator=torch.Generator().manual_seed(seed))
        moved = logits + (noise.double() - 0.5) * 0.98 * margin
        assert choice(moved, [uniform])[0].item() == token


@given(st.lists(st.integers(0, 2**21)))
def test_packed_tokens_are_read_back(ids):
    assert unpacked_tokens(packed_tokens(ids)) == ids
