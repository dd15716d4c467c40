"""The ``hf`` adapter on small random models, made here, and on a real checkpoint where one is at
hand."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import compress
from pathlib import Path

import pytest

from refract.core.errors import ParamsError
from refract.models import open_model
from refract.models.hf import HF
from refract.models.protocol import AdapterError, Request
from refract.models.turn import split_reasoning
from tests.builders import ask
from tests.builders import in_order as answers
from tests.outside import outside

ROOT = Path(__file__).resolve().parents[2]

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<pad>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>"]


def save_tokenizer(folder: Path, template: str | None = TEMPLATE) -> None:
    """A tokenizer of single bytes that adds a BOS of its own, as Llama's do."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(SPECIAL + letters)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    fast.chat_template = template
    fast.save_pretrained(folder)


SMALL = {
    **{"vocab_size": 320, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **{"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024},
    "tie_word_embeddings": True,
    "initializer_range": 0.2,  # lively enough that answers differ and end
}


def save_model(folder: Path, *, architecture: str = "Llama", dtype: str = "float32", **settings):
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{architecture}Config")(**(SMALL | settings))
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.to(getattr(torch, dtype)).save_pretrained(folder)


@pytest.fixture(scope="session")
def larger(tmp_path_factory) -> Path:
    """5 million parameters in bfloat16: enough for kernels whose sums depend on the batch."""
    folder = tmp_path_factory.mktemp("larger")
    save_tokenizer(folder)
    sizes = {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 6}
    sizes |= {"num_attention_heads": 8, "num_key_value_heads": 4, "initializer_range": 0.06}
    save_model(folder, dtype="bfloat16", **sizes)
    return folder


def change_weights(folder: Path, change: Callable[[dict], object]) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def seeded(text: str, seed: int) -> Request:
    return replace(ask(text), seed=seed)


def told(system: str, text: str) -> Request:
    """A request with a system prompt of its own."""
    return Request((({"role": "system", "content": system}, *ask(text).attempts[0]),))


def prompts(count: int, seed: int = 1, longest: int = 400) -> list[Request]:
    """Heavy-tailed lengths, no two alike."""
    generator = random.Random(seed)
    texts = []
    for i in range(count):
        length = min(longest, int(8 + generator.paretovariate(1.1) * 8))
        texts.append(f"{i} " + "".join(generator.choices("abcdefgh ijkl", k=length)))
    return [seeded(text, i) for i, text in enumerate(texts)]


def opened(settings: dict) -> HF:
    return open_model("m", {"adapter": "hf", **settings})


def model(folder: Path, **definition) -> HF:
    return opened({"model_id": str(folder), "device": "cpu", **definition})


# Batch invariance


@pytest.mark.parametrize(
    ("size", "dtype", "temperature"), [("tiny", "float32", 0.8), ("larger", "bfloat16", 0)]
)
def test_an_answer_is_the_same_alone_in_any_subset_and_in_any_order(
    request, size, dtype, temperature
):
    settings = {"dtype": dtype, "temperature": temperature, "max_tokens": 24, "batch_tokens": 256}
    adapter = model(request.getfixturevalue(size), **settings)
    asked = prompts(16)
    whole = answers(adapter, asked)
    assert len({a.response for a in whole}) > 8
    generator = random.Random(2)
    for count in (16, 7, 1):
        picked = generator.sample(range(16), count)
        assert answers(adapter, [asked[i] for i in picked]) == [whole[i] for i in picked]


def generated(adapter: HF, requests: list[Request]) -> list[tuple[str, int]]:
    """What plain ``generate`` answers, one at a time: the text, and its tokens."""
    import torch

    decoder, tokenizer = adapter._decoder, adapter._tokenizer
    made = []
    for request in requests:
        ids = torch.tensor([adapter._encode(request.attempts[0], ())[1]])
        most = adapter.settings.max_tokens
        with torch.inference_mode():
            output = decoder.model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=most
            )
        tokens = output[0, ids.shape[1] :].tolist()
        made.append((tokenizer.decode(tokens, skip_special_tokens=True), len(tokens)))
    return made


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        ("Llama", {}),
        ("Mistral", {"sliding_window": 24}),
        ("Gemma3Text", {"sliding_window": 24, "head_dim": 16}),
        ("GPT2", {"n_positions": 500}),
    ],
)
def test_each_architecture_answers_as_generate_does(tmp_path, architecture, settings):
    """Known answers: greedy generate, one at a time, in float32."""
    save_tokenizer(tmp_path)
    save_model(tmp_path, architecture=architecture, **settings)
    adapter = model(tmp_path, max_tokens=40)
    asked = prompts(3, longest=200)
    made = [(a.response, a.completion_tokens) for a in answers(adapter, asked)]
    assert made == generated(adapter, asked)


def test_rows_keep_their_bytes_when_they_outgrow_their_group(tiny):
    adapter = model(tiny, max_tokens=300, batch_tokens=64)
    asked = prompts(6, longest=60)
    whole = answers(adapter, asked)
    assert max(a.completion_tokens for a in whole) > 256
    longest = max(range(6), key=lambda i: whole[i].completion_tokens)
    assert answers(adapter, [asked[longest]]) == [whole[longest]]
    assert answers(adapter, asked[::-1]) == whole[::-1]


# Prompts


def test_a_template_with_a_bos_gives_one_bos(tiny):
    adapter = model(tiny, max_tokens=1, system_prompt="Be kind.")
    adapter._load_tokenizer()
    text, tokens = adapter._encode(({"role": "user", "content": "Hi"},), ())
    assert text == "<s><|system|>Be kind.</s><|user|>Hi</s><|assistant|>"
    assert tokens.count(1) == 1
    own = adapter._encode(told("Be brief.", "Hi").attempts[0], ())[0]
    assert own == "<s><|system|>Be brief.</s><|user|>Hi</s><|assistant|>"
    assert answers(adapter, [ask("Hi")])[0].prompt_tokens == len(tokens) == 16


def test_without_a_template_the_bare_text_gets_the_tokenizers_own_bos(copy, caplog):
    (copy / "chat_template.jinja").unlink()
    save_tokenizer(copy, template=None)
    fallback = model(copy, system_prompt="Be kind.")
    fallback._load_tokenizer()
    text, tokens = fallback._encode(({"role": "user", "content": "Hi"},), ())
    assert (text, tokens[0], tokens.count(1)) == ("Be kind.\n\nHi", 1, 1)
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
        adapter._load_tokenizer()
        assert adapter._prepare(ask("x" * (longest - 4)))[0] == 0
        long = "x" * (longest - 3)
        made = answers(adapter, [ask(long), ask("x" * 3000, long)])
        assert [a.attempt for a in made] == [0, 1]
        assert {a.error["type"] for a in made} == {"PromptTooLong"}
        assert f"{longest + 1} prompt tokens" in made[0].error["message"]
    with pytest.raises(AdapterError, match=r"the weights of .* cannot be loaded"):
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


def test_the_checkpoints_generation_config_gives_its_eos_ids_and_nothing_else(copy):
    before = answers(model(copy, max_tokens=40), prompts(4))
    unwanted = {"do_sample": True, "temperature": 5.0, "max_new_tokens": 3, "top_k": 2}
    unwanted |= {"repetition_penalty": 3.0}
    (copy / "generation_config.json").write_text(json.dumps(unwanted))
    adapter = model(copy, max_tokens=40)
    assert answers(adapter, prompts(4)) == before
    letter = next(c for c in before[0].response if c.isascii() and c.isalpha())
    letter = adapter._tokenizer.convert_tokens_to_ids(letter)
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [letter]}))
    (ended,) = answers(model(copy, max_tokens=40), prompts(1))
    assert (ended.finish_reason, ended.completion_tokens < 40) == ("stop", True)


def test_sampling_follows_the_rows_seed_and_from_one_token_is_greedy(tiny):
    adapter = model(tiny, max_tokens=12, temperature=1.5)
    made = answers(adapter, [seeded("Hi", s) for s in (1, 2, 1, 2**70 + 1)])
    assert made[0] == made[2] != made[1]
    greedy = answers(model(tiny, max_tokens=12), prompts(6))
    assert answers(model(tiny, max_tokens=12, temperature=1e-30), prompts(6)) == greedy


def test_top_p_and_top_k_draw_with_the_right_frequencies():
    import torch

    from refract.models.exact import Choice

    n = 1000
    logits = (torch.tensor([0.1, 0.5, 0.15, 0.25]).log() * 2).expand(n, 4)

    def frequencies(**limits) -> list[float]:
        tokens, _ = Choice(2.0, **limits)(logits, [(i + 0.5) / n for i in range(n)])
        return [tokens.tolist().count(token) / n for token in range(4)]

    assert frequencies() == pytest.approx([0.1, 0.5, 0.15, 0.25], abs=0.002)
    assert frequencies(top_k=2) == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=0.002)
    assert frequencies(top_p=0.8) == pytest.approx([0, 5 / 9, 1 / 6, 5 / 18], abs=0.002)
    assert frequencies(top_p=0.5) == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("<t>hm</t>\n\nYes", False, ("Yes", "hm")),
        ("hm</t>Yes", True, ("Yes", "hm")),
        ("<t>\nhm</t>Yes", True, ("Yes", "hm")),
        ("hm</t>Yes", False, ("Yes", "hm")),
        ("<t>hm, still", False, ("", "hm, still")),
        ("hm, still", True, ("", "hm, still")),
        ("Yes", False, ("Yes", None)),
        ("<t></t>Yes", False, ("Yes", "")),
        ("Sure. <t>hm</t> Yes", False, ("Sure. Yes", "hm")),
    ],
)
def test_thinking_is_split_from_the_answer(text, opened, expected):
    assert split_reasoning(text, ["<t>", "</t>"], opened) == expected


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


# Memory


def test_out_of_memory_continues_in_a_smaller_shape_with_a_warning(tiny, monkeypatch, caplog):
    import torch

    expected = answers(model(tiny, max_tokens=20), prompts(20))
    adapter = model(tiny, max_tokens=20, batch_tokens=512)
    answers(adapter, prompts(1))
    forward, largest = adapter._decoder.model.forward, 64

    def failing(input_ids, **rest):
        if input_ids.numel() > largest:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return forward(input_ids=input_ids, **rest)

    monkeypatch.setattr(adapter._decoder.model, "forward", failing)
    made = answers(adapter, prompts(20))
    fitting = [len(r.attempts[0][0]["content"]) <= 48 for r in prompts(20)]
    assert list(compress(made, fitting)) == list(compress(expected, fitting))
    assert len(made) == len(fitting)
    assert any(a.error and a.error["type"] == "OutOfMemory" for a in made)
    assert "smaller batch shape" in caplog.text
    assert adapter.runtime["batch_shape"] == repr(adapter._decoder.shape)
    assert adapter._decoder.shape.prefill_tokens < 512


# Checkpoints and definitions


def test_identity_and_description_need_neither_torch_nor_transformers(tiny):
    code = (
        "import sys; from refract.models import open_model;"
        f"h = open_model('m', {{'adapter': 'hf', 'model_id': {str(tiny)!r}}});"
        "h.identity(); h.description();"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        ["python", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_identity_follows_the_content_and_not_the_place(tiny, copy):
    assert model(copy).identity() == model(tiny).identity()
    (copy / "README.md").write_text("irrelevant")
    assert model(copy).identity() == model(tiny).identity()
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
                **{"temperature": 0.5, "stop": "x", "chat_template": False, "arithmetic": "fast"},
                **{"prefill": "Sure", "enable_thinking": False, "reasoning_effort": "low"},
                **{"thinking_tokens": 8, "loop_tokens": 64,
                 "system_prompt": {"path": "x", "sha256": "0" * 64}},
            }.items()
        ),
        ({"top_p": 0.5}, False),  # greedy decoding knows no top_p
    ],
)  # fmt: skip
def test_identity_holds_what_determines_an_answer(tiny, change, counts):
    assert (model(tiny, **change).identity() != model(tiny).identity()) is counts


@pytest.mark.parametrize(
    "change",
    [{"dtype": "bfloat16"}, {"device": "cuda:1"}, {"device_map": "auto"}, {"batch_tokens": 7}],
)
def test_how_an_answer_is_computed_determines_it_with_fast_arithmetic_alone(tiny, change):
    plain = {"device": "auto"}
    for arithmetic, counts in (("exact", False), ("fast", True)):
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


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: change_weights(folder, lambda weights: weights.pop(name))


LAYER = "model.layers.1.mlp.up_proj.weight"


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
    ],
)
def test_a_broken_folder_is_an_adapter_error(copy, damage, message, seen_at_once):
    damage(copy)
    if seen_at_once:
        with pytest.raises(AdapterError, match=message):
            model(copy).description() and model(copy).identity()
    with pytest.raises(AdapterError, match="" if seen_at_once else message):
        answers(model(copy), [ask("Hi")])


def test_a_peft_adapter_is_no_model_id(copy):
    (copy / "adapter_config.json").write_text("{}")
    with pytest.raises(AdapterError, match=r"give it as adapter_path, and its base as model_id"):
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
    with pytest.raises(AdapterError, match=r"cannot be resolved: the hub does not give it .Connec"):
        opened(definition).identity()
    reference = tmp_path / "models--owner--name" / "refs" / "main"
    reference.parent.mkdir(parents=True)
    reference.write_text(commit)
    (reference.parents[1] / "snapshots" / commit).mkdir(parents=True)
    assert opened(definition).identity()["model"] == expected
    known = huggingface_hub.ModelInfo(id="owner/name", sha="ab")
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: known)
    assert opened(definition).identity()["model"]["commit"] == "ab"


@pytest.mark.parametrize(
    "change",
    [{"temperature": float("nan")}, {"stop": []}, {"reasoning": "<think>"},
     {"device_map": "auto", "device": "cpu"}],
)  # fmt: skip
def test_a_definition_out_of_range_says_what_is_allowed(change):
    with pytest.raises(ParamsError, match=f"models.m: .*{next(iter(change))}.*got"):
        opened({"model_id": "owner/name"} | change)


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
    "settings",
    [{"device_map": "auto", "device": "auto"}, {"quantization": "8bit"}, {"quantization": "4bit"}],
)
def test_quantized_and_spread_weights_are_batch_invariant_too(tiny, settings):
    adapter = model(tiny, max_tokens=12, **settings)
    asked = prompts(6)
    made = answers(adapter, asked)
    assert all(answer.error is None and answer.completion_tokens for answer in made)
    plain = answers(model(tiny, max_tokens=12), asked)
    assert (made == plain) is ("quantization" not in settings)
    assert [answers(adapter, [request])[0] for request in asked[:2]] == made[:2]
    assert answers(adapter, asked[::-1]) == made[::-1]


def test_a_real_checkpoint_answers_as_generate_does():
    adapter = model(outside("models/stories260K"), max_tokens=48)
    texts = ["Once upon a time", "The dog", "Lily and Tom went to the park. " * 8, "x", ""]
    asked = [ask(text) for text in texts]
    made = [(a.response, a.completion_tokens) for a in answers(adapter, asked)]
    assert made == generated(adapter, asked)
    assert made[0][0].startswith(", there was a little girl named Lily.")
    assert adapter.description()["parameters"] == 260_032
