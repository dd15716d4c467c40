"""The ``hf`` adapter on small random models: what is put to a model, what comes back by plain
transformers, which files count."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from refract.core.errors import MissingPackage, ParamsError
from refract.core.tool_calls import MARKERS
from refract.models import open_model
from refract.models.checkpoint import changing_ropes
from refract.models.protocol import AdapterError, Request, unpacked_tokens
from tests.small_models import (
    SPECIAL,
    TEMPLATE,
    answers,
    ask,
    change_weights,
    opened,
    prompts,
    save_model,
    save_tokenizer,
    seeded,
    tokens_of,
)
from tests.small_models import model as model_of

model = partial(model_of, arithmetic="fast")


def told(system: str, text: str) -> Request:
    """A request with a system prompt of its own."""
    return Request((({"role": "system", "content": system}, *ask(text).attempts[0]),))


# Plain transformers


def generated(adapter, requests: list[Request]) -> list[tuple[str, int]]:
    """What plain ``generate`` answers, one at a time: the text, and its tokens."""
    import torch

    network = adapter.loaded().model
    made = []
    for request in requests:
        ids = torch.tensor([tokens_of(adapter, request)])
        most = adapter.settings.max_tokens
        with torch.inference_mode():
            output = network.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=most
            )
        tokens = output[0, ids.shape[1] :].tolist()
        text = adapter.prompting.tokenizer.decode(tokens, skip_special_tokens=True)
        made.append((text, len(tokens)))
    return made


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        ("Llama", {}),
        ("GPT2", {"n_positions": 500}),
        ("Rwkv", {"attention_hidden_size": 64, "context_length": 500}),  # which padding changes
    ],
)
def test_each_architecture_answers_in_batches_as_generate_does_alone(
    tmp_path, architecture, settings
):
    save_tokenizer(tmp_path)
    save_model(tmp_path, architecture=architecture, **settings)
    adapter = model(tmp_path, max_tokens=40)
    asked = prompts(6, longest=200)
    made = [(a.response, a.completion_tokens) for a in answers(adapter, asked)]
    assert made == generated(adapter, asked)
    assert adapter.runtime["arithmetic"] == "fast"
    assert all(a.certificate is None for a in answers(adapter, asked[:1]))


@pytest.mark.parametrize(("family", "more"), [("Roberta", {"is_decoder": True}), ("Moshi", {})])
def test_a_model_that_generate_runs_otherwise_is_refused(tmp_path, family, more):
    save_tokenizer(tmp_path)
    save_model(tmp_path, architecture=family, **more)
    said = rf"other logits of {family}ForCausalLM .* arithmetic: exact"
    with pytest.raises(AdapterError, match=said):
        answers(model(tmp_path), prompts(1))


def test_an_encoder_decoder_is_an_error_that_says_what_to_do_instead(tmp_path):
    import transformers

    save_tokenizer(tmp_path)
    sizes = {"d_model": 64, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 16}
    config = transformers.T5Config(vocab_size=320, decoder_start_token_id=0, **sizes)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    with pytest.raises(AdapterError, match=r"no decoder for .* type t5 .*behind a server"):
        answers(model(tmp_path, max_tokens=6), prompts(3))


LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
ROTARY = [
    ("Phi3", 1024, LONGROPE | {"original_max_position_embeddings": 20}, 2),
    ("Llama", 64, {"rope_type": "dynamic", "factor": 8.0}, 40),  # whose batch goes on beyond
]


@pytest.mark.parametrize(("family", "length", "rope", "most"), ROTARY)
def test_a_long_row_changes_no_short_one_by_its_rotary_factors(
    tmp_path, family, length, rope, most
):
    save_tokenizer(tmp_path)
    rope = rope | {"rope_theta": 10000.0}
    more = {key: rope[key] for key in rope if key.startswith("original")}
    sizes = {"max_position_embeddings": length, "eos_token_id": None, **more}
    save_model(tmp_path, architecture=family, rope_parameters=rope, **sizes)
    adapter = model(tmp_path, max_tokens=most)
    short, long = prompts(3, longest=6), ask("x" * 26)
    assert answers(adapter, [*short, long])[:3] == [answers(adapter, [each])[0] for each in short]
    assert adapter.identity()["batches"] == "of like factors"
    assert "batches" not in model(tmp_path, arithmetic="exact").identity()


@pytest.mark.parametrize(
    ("config", "types"),
    [
        ({"rope_scaling": {"type": "su"}}, ["su"]),
        ({"rope_scaling": None, "quantization_config": {"activation_scheme": "dynamic"}}, []),
        ({"rope_scaling": {"rope_type": "yarn"}}, []),
        (
            {"text_config": {"rope_parameters": {
                "sliding_attention": {"rope_type": "default"},
                "full_attention": {"rope_type": "longrope"},
            }}},
            ["longrope"],
        ),
    ],
)  # fmt: skip
def test_rotary_settings_that_change_with_length_are_found_wherever_they_stand(config, types):
    assert [rope.get("rope_type", rope.get("type")) for rope in changing_ropes(config)] == types


def test_a_batch_that_does_not_fit_in_memory_is_halved(tiny):
    import torch

    adapter = model(tiny, max_tokens=8)
    expected = answers(adapter, prompts(10))
    network, generate = adapter.loaded().model, adapter.loaded().model.generate

    def failing(ids, **rest):
        if len(ids) > 2 or ids.shape[1] > 60:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(ids, **rest)

    network.generate = failing
    made = answers(adapter, prompts(10))
    for answer, right in zip(made, expected, strict=True):
        fits = right.prompt_tokens <= 60
        assert answer == right if fits else answer.error["type"] == "OutOfMemory"


def test_sampling_follows_the_rows_seed_and_not_its_batch(tiny):
    adapter = model(tiny, max_tokens=12, temperature=1.5)
    made = answers(adapter, [seeded("Hi", s) for s in (1, 2, 1, 2**70 + 1)])
    assert made[0] == made[2] != made[1]
    assert answers(adapter, [seeded("Hi", 2)])[0] == made[1]
    greedy = answers(model(tiny, max_tokens=12), prompts(6))
    assert answers(model(tiny, max_tokens=12, temperature=1, top_k=1), prompts(6)) == greedy
    assert answers(model(tiny, max_tokens=12, temperature=1e-9), prompts(6)) == greedy


def test_draws_have_the_frequencies_of_the_softmax():
    import torch

    from refract.models.arithmetic import Row
    from refract.models.fast import _Choosing

    settings = opened({"model_id": "a/b", "temperature": 2.0, "top_k": 3}).settings
    logits = torch.tensor([0.1, 0.5, 0.15, 0.25]).log() * 2
    rows = [Row(n, [1], 1, seed=n) for n in range(3000)]
    chosen = _Choosing(rows, settings)(torch.zeros(3000, 1), logits.expand(3000, 4)).argmax(-1)
    shares = [(chosen == token).double().mean().item() for token in range(4)]
    assert shares == pytest.approx([0, 0.5 / 0.9, 0.15 / 0.9, 0.25 / 0.9], abs=0.03)


def test_a_model_that_cannot_run_is_said_in_a_sentence(tiny, monkeypatch):
    from transformers.models.llama.modeling_llama import LlamaMLP

    def broken(self, x):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(LlamaMLP, "forward", broken)
    with pytest.raises(AdapterError, match=r"cannot answer here: .*no such kernel"):
        answers(model(tiny), prompts(1))


@pytest.mark.parametrize(
    "settings", [{"device_map": "auto", "device": "auto"}, {"quantization": "8bit"}]
)
def test_quantized_and_spread_weights_answer(tiny, settings):
    made = answers(model(tiny, max_tokens=12, **settings), prompts(3))
    assert all(answer.error is None and answer.completion_tokens for answer in made)
    assert (made == answers(model(tiny, max_tokens=12), prompts(3))) is ("device_map" in settings)


def test_without_the_package_answers_are_fast_and_that_is_said_and_hashed(
    tiny, monkeypatch, capsys
):
    exact, named = model_of(tiny, max_tokens=2), model_of(tiny, arithmetic="exact", max_tokens=2)
    assert exact.identity() == named.identity()
    assert exact.identity()["arithmetic"] == "exact"
    monkeypatch.setattr("refract.core.registry.entry_points", lambda group: [])
    fast = exact.identity()
    assert (fast["arithmetic"], fast["decoding"]) == ("fast", "transformers")
    assert answers(exact, prompts(1)) == answers(model(tiny, max_tokens=2), prompts(1))
    assert "arithmetic: fast" in capsys.readouterr().err
    # What was answered exactly is known without it; a new answer needs it.
    assert named.identity()["arithmetic"] == "exact"
    with pytest.raises(
        MissingPackage, match=r"arithmetic: 'exact'.*pip install 'refract-eval.exact"
    ):
        answers(named, prompts(1))
    with pytest.raises(AdapterError, match="exact answers alone can be verified"):
        exact.verify([], [])


# Prompts


def test_a_template_with_a_bos_gives_one_bos(tiny):
    adapter = model(tiny, max_tokens=1, system_prompt="Be kind.")
    tokens = tokens_of(adapter, ask("Hi"))
    text = adapter.prompting.tokenizer.decode
    assert text(tokens) == "<s><|system|>Be kind.</s><|user|>Hi</s><|assistant|>"
    own = text(tokens_of(adapter, told("Be brief.", "Hi")))
    assert own == "<s><|system|>Be brief.</s><|user|>Hi</s><|assistant|>"
    assert answers(adapter, [ask("Hi")])[0].prompt_tokens == len(tokens) == 16


def test_without_a_template_the_bare_text_gets_the_tokenizers_own_bos(copy, caplog):
    (copy / "chat_template.jinja").unlink()
    save_tokenizer(copy, template=None)
    fallback = model(copy, system_prompt="Be kind.")
    tokens = tokens_of(fallback, ask("Hi"))
    assert fallback.prompting.tokenizer.decode(tokens) == "<s>Be kind.\n\nHi"
    assert "no chat template" in caplog.text
    assert fallback.identity()["prompt_format"] == "plain"


def test_a_prompt_that_cannot_be_rendered_costs_its_row_only(copy):
    rejecting = "{{ raise_exception('System role not supported') if messages[0].role == 'system' }}"
    save_tokenizer(copy, template=rejecting + TEMPLATE)
    asked = [told("Be kind.", "Hi"), ask("\ud800"), ask("Hi")]
    role, text, fine = answers(model(copy, max_tokens=4), asked)
    assert {role.error["type"], text.error["type"]} == {"PromptNotRenderable"}
    assert "System role not supported" in role.error["message"]
    assert (role.finish_reason, role.response) == ("error", "")
    assert fine.error is None


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
def test_a_token_that_the_model_has_no_place_for_costs_its_row_only(tmp_path, arithmetic):
    save_tokenizer(tmp_path)
    save_model(tmp_path, vocab_size=120)
    adapter = model(tmp_path, max_tokens=2, arithmetic=arithmetic)
    fine, unknown = answers(adapter, [ask("Hi"), ask("Hi \xff")])
    assert (fine.error, unknown.error["type"]) == (None, "PromptNotRenderable")
    assert "(id 226); the model has ids from 0 to 119" in unknown.error["message"]
    assert answers(adapter, [ask("Hi \xff")]) == [unknown]
    token = adapter.prompting.tokenizer.convert_ids_to_tokens(150)
    scored = model(tmp_path, score_tokens=["a", token], max_tokens=1, arithmetic=arithmetic)
    with pytest.raises(AdapterError, match=r"score_tokens: the model has ids from 0 to 119 .*150"):
        answers(scored, [ask("Hi")])


NO_SYSTEM = TEMPLATE.replace("in messages", "in messages if m.role != 'system'")
LAST_ALONE = TEMPLATE.replace("in messages", "in messages[-1:]")
WITHOUT_THINKING = TEMPLATE.replace("m.content", "m.content.split('</think>')[-1]")
SECOND_CUT = TEMPLATE.replace("m.content", "m.content.upper() if loop.index0 != 1")
BESIDE_USER = NO_SYSTEM.replace(
    "{{ m.content", "{{ messages[0].content if loop.last and m.role == 'user' }}{{ m.content"
)


def test_a_system_prompt_that_the_template_drops_is_an_error_at_opening(copy):
    save_tokenizer(copy, NO_SYSTEM)
    with pytest.raises(AdapterError, match=r"drops the system_prompt, .* leave it out"):
        model(copy, system_prompt="Be kind.").prompting.load()


@pytest.mark.parametrize(
    ("template", "dropped"),
    [
        (TEMPLATE, [None, None]),
        (WITHOUT_THINKING, [None, None]),
        (NO_SYSTEM, ["system", None]),
        (LAST_ALONE, ["system", "assistant"]),
    ],
)
def test_a_conversation_of_which_the_template_drops_a_message_is_not_asked(copy, template, dropped):
    save_tokenizer(copy, template)
    prompting = model(copy).prompting
    prompting.load()
    (user,) = ask("Hi").attempts[0]
    history = Request(((user, {"role": "assistant", "content": "<think>a</think>b"}, user),))
    for request, role in zip([told("Be kind.", "Hi"), history], dropped, strict=True):
        for prepared in (prompting.prepare(request), prompting.prepare(request)):
            error = getattr(prepared, "error", None)
            said = error and error["message"].rpartition("leaves out a message of the ")[2]
            assert said == (role and f"{role}; take a template with it")


@pytest.mark.parametrize(
    "shown",
    [
        "m.content.split('<answer>')[-1].split('</answer>')[0]",
        "m.content.split('</think>')[1] if '</think>' in m.content else m.content",
        "m.content.split('.')[0].upper()",
        # One that takes no plain words at all.
        "m.content if m.role == 'user' or '<' in m.content else raise_exception('no tags')",
    ],
)
def test_a_template_may_show_a_part_of_a_message(copy, shown):
    save_tokenizer(copy, TEMPLATE.replace("m.content", f"({shown})"))
    (user,) = ask("Hi").attempts[0]
    for words in ("<think>a</think>b</think>c", "<answer>a</answer> b", "<i>a</i>"):
        prompting = model(copy).prompting
        prompting.load()
        request = Request(((user, {"role": "assistant", "content": words}, user),))
        assert not hasattr(prompting.prepare(request), "error")


def test_a_message_is_left_out_beside_others_with_calls_or_in_a_long_conversation(copy):
    save_tokenizer(copy, SECOND_CUT)
    prompting = model(copy).prompting
    prompting.load()
    (user,) = ask("Hi").attempts[0]
    said = {"role": "assistant", "content": "a"}
    call = {**said, "tool_calls": [{"name": "f", "arguments": {}}]}
    assert not hasattr(prompting.prepare(Request(((user, call, user),))), "error")
    for history in ((user, said, user), (user, said) * 8):
        error = prompting.prepare(Request((history,))).error
        assert "a message of the assistant" in error["message"]


def test_a_system_prompt_that_one_conversation_drops_says_what_to_do(copy):
    save_tokenizer(copy, BESIDE_USER)
    prompting = model(copy, system_prompt="Be kind.").prompting
    prompting.load()
    (user,) = ask("Hi").attempts[0]
    error = prompting.prepare(Request(((user, {"role": "assistant", "content": "a"}),))).error
    assert error["message"].endswith("system; take a template with it, or no system_prompt")


def test_a_prompt_too_long_falls_back_over_the_attempts_in_order(tiny):
    adapter = model(tiny, max_tokens=24)
    one, two = answers(adapter, [ask("x" * 5000, "y" * 2000, "z" * 50), ask("x" * 990, "y")])
    assert (one.attempt, one.prompt_tokens, one.error) == (2, 54, None)
    assert (two.attempt, two.error) == (0, None) if two.prompt_tokens == 994 else two.attempt == 1


def test_the_answer_keeps_room_and_a_longer_prompt_is_rejected_without_loading_weights(copy):
    """A context of 1024; the template adds 4 tokens to the text."""
    (copy / "model.safetensors").write_bytes(b"no weights")
    for max_tokens, longest in ((24, 1000), (4000, 512)):
        adapter = model(copy, max_tokens=max_tokens)
        assert len(tokens_of(adapter, ask("x" * (longest - 4)))) == longest
        long = "x" * (longest - 3)
        made = answers(adapter, [ask(long), ask("x" * 3000, long)])
        assert [a.attempt for a in made] == [0, 1]
        assert {a.error["type"] for a in made} == {"PromptTooLong"}
        assert f"{longest + 1} prompt tokens" in made[0].error["message"]
    with pytest.raises(AdapterError, match="is not a valid safetensors file"):
        answers(adapter, [ask("x")])


# Settings and endings


def test_an_answer_ends_by_itself_at_its_limit_or_at_a_stop_text_which_is_cut_off(tiny):
    whole = answers(model(tiny, max_tokens=60), prompts(24))
    assert {a.finish_reason for a in whole} == {"stop", "length"}
    for a in whole:
        assert a.completion_tokens == 60 or a.finish_reason == "stop"
    stop = max((a.response for a in whole[:4]), key=len)[10:12]
    made = answers(model(tiny, max_tokens=60, stop=[stop, "§never§"]), prompts(4))
    for a, b in zip(made, whole[:4], strict=True):
        assert a.response == b.response.partition(stop)[0]
        assert a.finish_reason == ("stop" if stop in b.response else b.finish_reason)


@pytest.mark.parametrize("behind", [0, 1])
def test_a_stop_text_may_hold_a_special_token(tiny, behind):
    asked = prompts(7)[6:]
    (whole,) = answers(model(tiny, max_tokens=60), asked)
    tokens = unpacked_tokens(whole.tokens)
    count = tokens.index(SPECIAL.index("<|user|>")) + 1 + behind
    adapter = model(tiny, max_tokens=60)
    adapter.prompting.load()
    stop = adapter.prompting.tokenizer.decode(tokens[count - 1 - behind : count])
    assert stop.startswith("<|user|>")
    (ended,) = answers(model(tiny, max_tokens=60, stop=stop), asked)
    assert (ended.finish_reason, ended.completion_tokens) == ("stop", count)
    assert whole.response.startswith(ended.response)
    (unstopped,) = answers(model(tiny, max_tokens=60, stop="<|user|>§never§"), asked)
    assert unstopped == whole


def test_a_blank_behind_a_prefill_is_part_of_the_answer(copy):
    path = copy / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    stripped = [tokenizer["decoder"], {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    tokenizer["decoder"] = {"type": "Sequence", "decoders": stripped}
    assert "prefill_text" not in model(copy, prefill="I cannot").identity()
    path.write_text(json.dumps(tokenizer), "utf-8")
    for prefill, text in (("I cannot", " find"), (None, "find")):
        adapter = model(copy, prefill=prefill, stop=" f")
        prompting, request = adapter.prompting, ask("Hi")
        prompting.load()
        tokens = prompting.tokenizer(" find", add_special_tokens=False)["input_ids"]
        assert prompting.split(tokens, False) == (text, None)
        ends = prompting.endings({0: prompting.prepare(request)})
        assert ends.stop(0, tokens) is bool(prefill)
        assert adapter.identity().get("prefill_text") == ("joined" if prefill else None)


def test_the_checkpoints_generation_config_gives_its_eos_ids_and_nothing_else(copy):
    before = answers(model(copy, max_tokens=40), prompts(4))
    unwanted = {"do_sample": True, "temperature": 5.0, "max_new_tokens": 3, "top_k": 2}
    unwanted |= {"repetition_penalty": 3.0}
    (copy / "generation_config.json").write_text(json.dumps(unwanted))
    adapter = model(copy, max_tokens=40)
    assert answers(adapter, prompts(4)) == before
    letter = next(c for c in before[0].response if c.isascii() and c.isalpha())
    letter = adapter.prompting.tokenizer.convert_tokens_to_ids(letter)
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [letter]}))
    (ended,) = answers(model(copy, max_tokens=40), prompts(1))
    assert (ended.finish_reason, ended.completion_tokens < 40) == ("stop", True)


@pytest.mark.parametrize("kept", [(), MARKERS])
@pytest.mark.parametrize("reasoning", [None, ["<think>", "</think>"], ["<|user|>", "<|system|>"]])
def test_special_tokens_are_dropped_by_id_with_and_without_thinking_and_tools(
    tiny, reasoning, kept
):
    prompting = model(tiny, reasoning=reasoning).prompting
    prompting.load()
    words = prompting.tokenizer.convert_tokens_to_ids(["<|user|>", "a", "<|system|>", "b", "<pad>"])
    written = prompting.tokenizer("<pad>", split_special_tokens=True, add_special_tokens=False)
    thinks = reasoning and "<|user|>" in reasoning
    expected = ("b<pad>", "a") if thinks else ("ab<pad>", None)
    assert prompting.split([*words, *written["input_ids"]], False, kept) == expected


def test_an_answer_cut_off_inside_its_thinking_is_empty_and_length(copy):
    save_tokenizer(copy, template=TEMPLATE + "<think>\n")
    made = answers(model(copy, max_tokens=8, reasoning=["<think>", "</think>"]), prompts(3))
    for a in made:
        assert (a.response, bool(a.thinking)) == ("", True)
        assert a.finish_reason == ("length" if a.completion_tokens == 8 else "stop")


def test_logits_that_are_no_numbers_fail_their_row(copy):
    change_weights(
        copy, lambda weights: weights["model.embed_tokens.weight"][66].fill_(float("nan"))
    )
    made = answers(model(copy, max_tokens=8), prompts(3))
    assert {answer.error["type"] for answer in made} == {"NonFiniteLogits"}


# Checkpoints and definitions


def test_identity_follows_the_content_and_not_the_place(tiny, copy):
    assert model(copy).identity() == model(tiny).identity()
    (copy / "README.md").write_text("irrelevant")
    assert model(copy).identity() == model(tiny).identity()
    for name in ("tiktoken.model", "tekken.json", "qwen.tiktoken"):
        (copy / name).write_text("")
        before = model(copy).identity()
        (copy / name).write_text("x")
        assert model(copy).identity() != before
    for name in ("config.json", "tokenizer_config.json", "chat_template.jinja"):
        before = model(copy).identity()
        (copy / name).write_text((copy / name).read_text() + "\n")
        assert model(copy).identity() != before
    before = model(copy).identity()
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert model(copy).identity() != before


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        *(
            ({name: value}, True)
            for name, value in {
                **{"temperature": 0.5, "stop": "x", "chat_template": False, "arithmetic": "exact"},
                **{"prefill": "Sure", "enable_thinking": False, "reasoning_effort": "low"},
                **{"thinking_tokens": 8, "loop_tokens": 64, "system_prompt": "Be kind."},
            }.items()
        ),
        ({"top_p": 0.5}, False),  # greedy decoding knows no top_p
    ],
)  # fmt: skip
def test_identity_holds_what_determines_an_answer(tiny, change, counts):
    assert (model(tiny, **change).identity() != model(tiny).identity()) is counts


def test_any_stop_text_may_hold_special_tokens_for_an_identity(tiny):
    assert model(tiny, stop="end").identity()["stop_tokens"] == "seen"
    assert "stop_tokens" not in model(tiny).identity()


@pytest.mark.parametrize(
    "change",
    [{"dtype": "bfloat16"}, {"device": "cuda:1"}, {"device_map": "auto"}, {"batch_tokens": 7}],
)
def test_how_an_answer_is_computed_determines_it_with_fast_arithmetic_alone(tiny, change):
    plain = {"device": "auto"}
    for arithmetic, counts in ((None, False), ("fast", True)):
        before = model(tiny, arithmetic=arithmetic, **plain).identity()
        after = model(tiny, arithmetic=arithmetic, **(plain | change)).identity()
        assert (before != after) is counts


def test_parameters_are_counted_from_the_headers_and_tied_weights_once(tiny, copy):
    layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128 + 2 * 64
    facts = {"parameters": 320 * 64 + 2 * layer + 64, "context_length": 1024}
    facts |= {"dtype": "float32", "architecture": "LlamaForCausalLM"}
    assert model(tiny).description() == facts
    tied = "model.embed_tokens.weight"
    change_weights(copy, lambda weights: weights.update({"lm_head.weight": weights[tied].clone()}))
    assert model(copy).description() == facts


def test_shards_are_read_through_their_index(copy):
    from safetensors.torch import load_file, save_file

    expected = answers(model(copy, max_tokens=8), prompts(3)), model(copy).description()
    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    names = sorted(weights)
    index = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(names)}
    for file in set(index.values()):
        part = {name: weights[name] for name in names if index[name] == file}
        save_file(part, copy / file, {"format": "pt"})
    text = json.dumps({"metadata": {}, "weight_map": index})
    (copy / "model.safetensors.index.json").write_text(text)
    assert (answers(model(copy, max_tokens=8), prompts(3)), model(copy).description()) == expected
    (copy / file).unlink()
    with pytest.raises(AdapterError, match=f"files that are not there: {file}"):
        model(copy).identity()


def in_whole_numbers(weights: dict) -> None:
    weights[LAYER] = weights[LAYER].char()


def quantised_by(method: str) -> Callable[[Path], None]:
    def stated(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"] = {"quant_method": method}
        (folder / "config.json").write_text(json.dumps(config))

    return stated


def as_listed(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": ["part.safetensors"]}')


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: change_weights(folder, lambda weights: weights.pop(name))


def with_more(name: str) -> Callable[[Path], None]:
    def add(weights: dict) -> None:
        weights[name] = weights["model.norm.weight"].clone()

    return lambda folder: change_weights(folder, add)


def generates(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "generation_config.json").write_text(text)


LAYER = "model.layers.1.mlp.up_proj.weight"
UNUSED = (
    "mlp.up_proj.bias",
    "self_attn.q_norm.weight",
    "self_attn.q_proj.lora_A.default.weight",
    "self_attn.sinks",
    "self_attn.new_gate.weight",
    "layer_scale",
)


@pytest.mark.parametrize(
    ("damage", "message", "seen_at_once"),
    [
        (lambda f: (f / "config.json").unlink(), "no config.json", True),
        (lambda f: (f / "config.json").write_text("{"), "cannot be read as JSON", True),
        (lambda f: (f / "model.safetensors").unlink(), "holds no model.safetensors", True),
        (
            lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
            "pytorch_model.bin, which can run code",
            True,
        ),
        (without(LAYER), f"lacks 1 weights, first {LAYER}", False),  # none is made up
        (as_listed, "lists files that are not there: none at all", True),
        (quantised_by("made up"), "nothing applies quantization_config .*made up", False),
        (lambda f: change_weights(f, in_whole_numbers), f"{LAYER} is of whole numbers", False),
        (generates("{"), "generation_config.json cannot be read as JSON", False),
        (generates('{"eos_token_id": "</s>"}'), "eos_token_id .* a list of ids or null", False),
        *(
            (with_more(f"model.layers.1.{name}"), f"no place for, first .*{name}", False)
            for name in UNUSED
        ),
    ],
)
def test_a_broken_folder_is_an_adapter_error(copy, damage, message, seen_at_once):
    damage(copy)
    if seen_at_once:
        with pytest.raises(AdapterError, match=message):
            model(copy).description() and model(copy).identity()
    with pytest.raises(AdapterError, match="" if seen_at_once else message):
        answers(model(copy), [ask("Hi")])


BUFFERS = {
    "Llama": ("model.layers.0.self_attn.rotary_emb.inv_freq", "model.position_ids"),
    "GPT2": ("transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"),
    "GPTNeoX": ("gpt_neox.layers.0.attention.bias", "gpt_neox.layers.0.attention.masked_bias"),
}


@pytest.mark.parametrize("family", BUFFERS)
def test_buffers_that_older_checkpoints_hold_are_no_weights(tmp_path, family):
    save_tokenizer(tmp_path)
    save_model(tmp_path, architecture=family)
    before = answers(model(tmp_path, max_tokens=4), prompts(2))
    for name in BUFFERS[family]:
        change_weights(
            tmp_path, lambda weights, name=name: weights.update({name: weights[min(weights)] + 1})
        )
    assert answers(model(tmp_path, max_tokens=4), prompts(2)) == before


def test_an_adapter_of_peft_is_refused_and_how_to_merge_it_is_said(copy):
    (copy / "config.json").unlink()
    (copy / "adapter_config.json").write_text("{}")
    with pytest.raises(AdapterError, match=r"float32.*merge_and_unload\(\)\.save_pretrained"):
        model(copy).identity()


def test_what_this_machine_lacks_is_an_error_of_the_model(tiny):
    with pytest.raises(AdapterError, match=r"the weights of .* cannot be loaded: .*(CUDA|NVIDIA)"):
        answers(model(tiny, device="cuda:9"), [ask("Hi")])


def test_a_commit_needs_no_network_and_a_branch_comes_from_the_cache_when_offline(
    tmp_path, monkeypatch
):
    import huggingface_hub

    def unreachable(*args, **kwargs):
        raise ConnectionError("no network")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    commit = "0123456789abcdef0123456789abcdef01234567"
    definition = {"model_id": "owner/name"}
    expected = {"model_id": "owner/name", "commit": commit}
    assert opened(definition | {"revision": commit}).identity()["model"] == expected
    with pytest.raises(AdapterError, match=r"cannot be resolved: neither the hub .Connec"):
        opened(definition).identity()
    reference = tmp_path / "models--owner--name" / "refs" / "main"
    reference.parent.mkdir(parents=True)
    reference.write_text(commit)
    (reference.parents[1] / "snapshots" / commit).mkdir(parents=True)
    assert opened(definition).identity()["model"] == expected
    known = huggingface_hub.ModelInfo(id="owner/name", sha="ab")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: known)
    assert opened(definition).identity()["model"]["commit"] == "ab"


def test_every_file_that_is_read_when_a_checkpoint_is_loaded_is_part_of_its_identity(copy):
    from refract.models import checkpoint

    versions = {
        "config.json": ("configuration_files", "config.4.0.0.json"),
        "tokenizer_config.json": ("fast_tokenizer_files", "tokenizer.4.0.0.json"),
    }
    for name, (key, version) in versions.items():
        shutil.copy(copy / name.replace("_config", ""), copy / version)
        settings = json.loads((copy / name).read_text("utf-8")) | {key: [version]}
        (copy / name).write_text(json.dumps(settings), "utf-8")
    read = set()

    def hook(event, args):
        if event == "open" and isinstance(args[0], str) and Path(args[0]).parent == copy:
            read.add(Path(args[0]).name)

    sys.addaudithook(hook)  # for good; it only looks
    loader = model(copy).loader
    loader.model(loader.config_and_tokenizer()[0])
    assert {"config.4.0.0.json", "tokenizer.4.0.0.json", "tokenizer_config.json"} <= read
    assert read <= {path.name for path in checkpoint.content_files(copy)}


@pytest.mark.parametrize(
    "template",
    ["<|user|>{{ bos_token }}<|assistant|>", "{% for m in messages %}<|{{ m.role }}|>{% endfor %}"],
)
def test_a_template_that_drops_the_users_message_is_an_error_at_opening(tmp_path, template):
    save_tokenizer(tmp_path, template)
    save_model(tmp_path)
    with pytest.raises(AdapterError, match=r"chat template drops the user's message.*set chat_tem"):
        answers(model(tmp_path), prompts(1))
    assert answers(model(tmp_path, chat_template=False, max_tokens=2), prompts(1))


def test_layers_that_no_configuration_names_are_an_error_at_opening(tmp_path):
    save_tokenizer(tmp_path)
    save_model(tmp_path, num_hidden_layers=3)
    path = tmp_path / "config.json"
    changes = {"num_hidden_layers": 2, "layer_types": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(
        AdapterError, match=r"more layers than config.json names, first model.layers.2"
    ):
        answers(model(tmp_path), prompts(1))


def test_what_writes_no_text_is_said_in_a_sentence(tmp_path):
    import transformers

    save_tokenizer(tmp_path)
    config = transformers.ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    with pytest.raises(AdapterError, match="no decoder for a model of type vit"):
        answers(model(tmp_path), prompts(1))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model_id": "p==1"}, "are for a gguf_file; give it"),
        ({"model_id": "x", "sha256": "0" * 64}, "are for a gguf_file; give it"),
        ({"model_id": "p==1", "gguf_file": "x.gguf"}, "give its gguf_file's sha256"),
    ],
)
def test_wrong_combinations_are_named(given, message):
    with pytest.raises(ParamsError, match=message):
        open_model("m", {"adapter": "hf"} | given)


def test_a_gguf_file_says_which_package_reads_it(tmp_path, monkeypatch):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("refract.core.registry.entry_points", lambda group: [])
    named = model(tmp_path, gguf_file="x.gguf")
    assert named.identity()["model"]["format"] == "gguf"
    message = (
        r"gguf_file: 'gguf' comes with .* refract-gguf, .* pip install 'refract-eval\[gguf\]'$"
    )
    for asked in (named.description, partial(answers, named, prompts(1))):
        with pytest.raises(MissingPackage, match=message):
            asked()
