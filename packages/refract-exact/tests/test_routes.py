"""What is tried when a model is opened: answers are those of whole passes, whatever a cache does."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
import transformers

from refract.models.protocol import AdapterError, unpacked_tokens
from refract_exact.float64 import Reference
from refract_exact.routes import find_route
from tests.small_models import SMALL, answers, ask, model, network, prompts, save_tokenizer
from tests.small_models import tokens_of as prompt_tokens

MOST = 6
LENGTHS = (8, 56, 80)  # of longrope's 64 tokens below, up to them, and beyond
GPT_SIZES = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}
GPT_NEO = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 8,
    "long_factor": [2.0 + i for i in range(8)],
    "original_max_position_embeddings": 64,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
EXPERTS |= {"num_local_experts": 4, "head_dim": 16}
GEMMA4 = {"head_dim": 16, "global_head_dim": 32, "num_kv_shared_layers": 0, "sliding_window": 16}
GEMMA4 |= {"vocab_size_per_layer_input": 320, "hidden_size_per_layer_input": 16}
# Of transformers' families those that do not keep keys and values by position, or place them by index.
FAMILIES = {
    "GPTNeo": GPT_NEO | {"window_size": 16},
    "Phi3": {"original_max_position_embeddings": 64, "rope_parameters": LONGROPE},
    "Mpt": {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 512},
    "Mamba": {},
    "Gemma4Text": GEMMA4,
    "Llama4Text": EXPERTS | {"attention_chunk_size": 16, "intermediate_size_mlp": 32},
}
IN_SLOTS = {"Mpt", "Gemma4Text"}  # of MPT float64 alone reads anew


def save_family(folder: Path, family: str, **settings: object) -> None:
    """A small model of a family, with weights that are lively enough."""
    save_tokenizer(folder)
    torch.manual_seed(0)
    sizes = dict(SMALL)
    if family == "Mpt":  # under names of their own
        for name in ("hidden_size", "num_hidden_layers", "num_attention_heads"):
            del sizes[name]
    config = getattr(transformers, f"{family}Config")(**(sizes | settings))
    made = transformers.AutoModelForCausalLM.from_config(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if weight.dim() > 1 and "norm" not in name and weight.std() < 0.1:
                weight.normal_(0, 0.2, generator=generator)
    made.save_pretrained(folder)


def greedy(adapter, requests) -> list[list[int]]:
    """Known answers: in float64's model of the adapter, the likeliest token behind a pass over a row
    alone, one after the other, without a cache."""
    reference = adapter.loaded().decoder.decider.reference
    rows = []
    for request in requests:
        prompt, row = prompt_tokens(adapter, request), []
        while len(row) < MOST and (not row or row[-1] not in adapter.prompting.ends):
            ids = torch.tensor([prompt + row])
            row.append(reference(input_ids=ids, use_cache=False).logits[0, -1].argmax().item())
        rows.append(row)
    return rows


def tokens_of(made) -> list[list[int]]:
    return [unpacked_tokens(answer.tokens) for answer in made]


@pytest.mark.usefixtures("few_bits")
@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_answers_as_whole_passes_do(tmp_path, caplog, family):
    save_family(tmp_path, family, **FAMILIES[family])
    asked = [ask("abc def " * (length // 8)) for length in LENGTHS]
    adapter = model(tmp_path, max_tokens=MOST)
    with caplog.at_level(logging.WARNING):
        made = answers(adapter, asked)
    expected = greedy(adapter, asked)
    assert tokens_of(made) == expected
    assert ("is a pass over all before it" in caplog.text) == (family not in IN_SLOTS)
    assert tokens_of(answers(model(tmp_path, max_tokens=MOST, dtype="bfloat16"), asked)) == expected
    found = dict(model(tmp_path, max_tokens=MOST).verify(asked, made))
    assert [found[i].problem for i in range(len(asked))] == [""] * len(asked)


def route_of(family: str, **settings: object):
    made = network(family, **settings)
    return find_route(made, Reference(made))


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        *(("Llama", {}), ("Mistral", {"sliding_window": 4096}), ("GPT2", GPT_SIZES)),
        ("GPT2", GPT_SIZES | {"n_positions": 12}),  # padding needs none beyond
        ("Gemma2", {"sliding_window": 4096, "head_dim": 16}),
        ("Qwen2", {"use_sliding_window": True, "sliding_window": 512, "max_window_layers": 1}),
    ],
)
def test_models_that_keep_keys_by_position_share_a_cache(family, settings):
    route = route_of(family, **settings)
    assert (route.attention is not None, route.longest, route.kept) == (True, None, True)


OWN = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": 320, "n_layers": 2}
PROPHET = {"num_encoder_layers": 2, "num_decoder_layers": 2, "add_cross_attention": False}
PROPHET |= {"num_decoder_attention_heads": 4, "decoder_ffn_dim": 64, "is_encoder_decoder": False}


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("XLM", OWN | {"n_words": 320, "emb_dim": 64, "n_heads": 4}),
        ("XLNet", OWN | {"d_model": 64, "n_layer": 2, "n_head": 4, "d_inner": 64}),
        ("Bert", OWN | {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}),
        ("ProphetNet", OWN | PROPHET | {"hidden_size": 64}),
    ],
)
def test_a_model_that_continues_no_text_is_refused_in_a_sentence(
    tmp_path, family, settings, arithmetic
):
    config = getattr(transformers, f"{family}Config")(**settings)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    adapter = model(tmp_path, max_tokens=2, arithmetic=arithmetic)
    expected = "looks at the tokens behind a place too"
    if family == "ProphetNet":  # its output layer takes several texts at a time
        expected = "has no exact answers here: .*set arithmetic: fast"
        if arithmetic == "fast":
            assert answers(adapter, [ask("abc")])[0].completion_tokens
            return
    with pytest.raises(AdapterError, match=expected):
        answers(adapter, [ask("abc")])


def test_what_a_cache_changes_is_found_on_short_texts():
    neo = route_of("GPTNeo", **GPT_NEO, window_size=256)  # far beyond the texts that are tried
    assert (neo.attention, neo.longest, neo.kept) == (None, 0, False)
    assert "GPTNeoForCausalLM is off by" in neo.reason
    # Llama attends to all positions, whatever its configuration says of a window.
    assert route_of("Llama", sliding_window=4096).longest == 0
    longrope = route_of("Phi3", **FAMILIES["Phi3"])
    assert (longrope.longest, longrope.alone(64), longrope.alone(65)) == (64, False, True)


def test_one_long_prompt_changes_no_other_answer_of_longrope(tmp_path):
    save_family(tmp_path, "Phi3", **FAMILIES["Phi3"])
    short = prompts(6, longest=20)
    adapter = model(tmp_path, max_tokens=MOST)
    assert answers(adapter, [*short, ask("x" * 100)])[:6] == answers(adapter, short)


@pytest.mark.usefixtures("few_bits")
def test_float64_reads_a_row_anew_where_kept_keys_would_be_shifted(tmp_path):
    save_family(tmp_path, "Mpt", **FAMILIES["Mpt"])
    asked = prompts(6, longest=70)
    exact = answers(model(tmp_path, max_tokens=40), asked)
    assert answers(model(tmp_path, max_tokens=40, dtype="bfloat16"), asked) == exact
