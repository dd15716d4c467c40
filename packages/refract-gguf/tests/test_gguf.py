"""Weights in GGUF files: the same answers as from safetensors, identities by content."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from refract.models import identity_of, open_model
from refract.models.protocol import AdapterError
from refract_gguf.contents import GGUF
from tests.builders import ask, in_order
from tests.models.test_changed_files import changed, outcome
from tests.small_models import save_model

SIZES = {"hidden": 32, "inner": 64, "layers": 2, "heads": 4, "context": 128}


WORDS = 258
OF_TOKENS = {"vocab_size": WORDS, "eos_token_id": WORDS - 1, "bos_token_id": WORDS - 1}


def byte_tokens() -> dict:
    """What a file says of a tokenizer of bytes and its chat template."""
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = [*sorted(ByteLevel.alphabet()), "ab", "<|end|>"]
    return {
        "vocab_size": WORDS, "tokenizer_model": "gpt2", "tokenizer_pre": "gpt-2", "token_list": tokens,
        "token_types": [1] * (WORDS - 1) + [3], "token_merges": ["a b"],
        "eos_token_id": WORDS - 1, "bos_token_id": WORDS - 1,
        "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}:",
    }  # fmt: skip


def write_gguf(
    path: Path,
    seed: int = 0,
    more: dict | None = None,
    tensors: dict | None = None,
    change: Callable[[dict, dict], object] = lambda keys, tensors: None,
) -> Path:
    """A random Llama with a byte-level tokenizer and a chat template, and ``more`` keys;
    ``change`` is done to its keys and tensors."""
    gguf = pytest.importorskip("gguf")
    np = pytest.importorskip("numpy")

    rng = np.random.default_rng(seed)
    hidden, inner = SIZES["hidden"], SIZES["inner"]
    fields = {
        "context_length": SIZES["context"], "embedding_length": hidden,
        "block_count": SIZES["layers"], "feed_forward_length": inner, "head_count": SIZES["heads"],
        "head_count_kv": SIZES["heads"], "layer_norm_rms_eps": 1e-5, "rope_freq_base": 10000.0,
        **byte_tokens(),
    }  # fmt: skip
    shapes = {"token_embd": (WORDS, hidden), "output": (WORDS, hidden)}
    shapes["output_norm"] = (hidden,)
    for layer in range(SIZES["layers"]):
        of_layer = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (hidden, hidden))
        of_layer |= {"ffn_gate": (inner, hidden), "ffn_up": (inner, hidden)}
        of_layer |= {"ffn_down": (hidden, inner), "attn_norm": (hidden,), "ffn_norm": (hidden,)}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in of_layer.items()}
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.normal(0, 0.3, shape).astype(np.float32))
    for name, values in (tensors or {}).items():
        writer.add_tensor(name, np.array(values, dtype=np.float32))
    kinds = {bool: "bool", int: "uint32", float: "float32", str: "string"}
    for name, value in (more or {}).items():
        getattr(writer, f"add_{kinds[type(value)]}")(name, value)
    change(writer.kv_data[0], writer.tensors[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def definition(folder: Path, **more) -> dict:
    return {"adapter": "hf", "model_id": str(folder), "device": "cpu", "max_tokens": 12} | more


def answers(given: dict) -> list[str]:
    texts = ("How do magnets work?", "Write a poem about autumn, in four lines.", "ab")
    return [answer.response for answer in in_order(open_model("m", given), [*map(ask, texts)])]


def save_as_safetensors(path: Path, folder: Path) -> None:
    """Writes the dequantised weights of a GGUF file and its tokenizer as a checkpoint in float32."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    plain = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(**source))
    loaded = AutoModelForCausalLM.from_pretrained(**source, dtype="float32")
    plain.load_state_dict(loaded.state_dict())
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


def test_a_gguf_file_gives_the_answers_of_its_weights_in_safetensors(tmp_path):
    other = tmp_path / "safetensors"
    save_as_safetensors(write_gguf(tmp_path / "random.gguf"), other)
    found = answers(definition(tmp_path, gguf_file="random.gguf", dtype="float32"))
    assert found == answers(definition(other, dtype="float32"))
    assert len(set(found)) == 3


def test_the_header_says_how_large_a_model_is(tmp_path):
    path = write_gguf(tmp_path / "random.gguf")
    hidden, inner, layers, words = 32, 64, 2, 258
    weights = 2 * words * hidden + hidden
    weights += layers * (4 * hidden**2 + 3 * hidden * inner + 2 * hidden)
    expected = {"parameters": weights, "context_length": 128}
    expected |= {"dtype": "F32", "architecture": "llama"}
    assert GGUF(path).description() == expected
    model = open_model("m", definition(tmp_path, gguf_file="random.gguf"))
    assert model.description() == expected


@pytest.mark.parametrize("length", [10, 300])
def test_a_file_that_ends_early_is_an_error_that_names_it(tmp_path, length):
    path = write_gguf(tmp_path / "random.gguf")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(AdapterError, match=r"random\.gguf is not a valid GGUF file"):
        GGUF(path).description()


def test_a_models_identity_is_the_files_content_wherever_it_stands(tmp_path):
    identities = []
    for folder, name, seed in (("a", "x.gguf", 0), ("b", "y.gguf", 0), ("c", "x.gguf", 1)):
        (tmp_path / folder).mkdir()
        write_gguf(tmp_path / folder / name, seed)
        given = definition(tmp_path / folder, gguf_file=name)
        identities.append(identity_of(open_model("m", given)))
    assert identities[0] == identities[1] != identities[2]
    sha256 = hashlib.sha256((tmp_path / "a/x.gguf").read_bytes()).hexdigest()
    package = definition("some-package==1.0", gguf_file="in/it.gguf", sha256=sha256)
    assert identity_of(open_model("m", package)) == identities[0]


def test_another_file_than_the_pinned_one_is_not_loaded(tmp_path):
    write_gguf(tmp_path / "random.gguf")
    given = definition(tmp_path, gguf_file="random.gguf", sha256="0" * 64)
    with pytest.raises(AdapterError, match=f"has the SHA-256 .* says {'0' * 64}"):
        answers(given)


def test_a_file_of_the_hub_is_checked_and_named_with_its_model_and_commit(tmp_path, monkeypatch):
    import huggingface_hub

    path, commit = write_gguf(tmp_path / "random.gguf"), "ab" * 20
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_, **__: str(path))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    identities = []
    files = [("a", "x", sha256), ("b", "x", sha256), ("a", "y", None), ("a", "x", None)]
    for owner, name, pin in files:
        given = definition(f"{owner}/m", gguf_file=f"{name}.gguf", revision=commit, sha256=pin)
        identities.append(open_model("m", given).identity()["model"])
    expected = {"model_id": "a/m", "commit": commit, "gguf_file": "x.gguf"}
    assert identities[0] == expected | {"sha256": sha256, "format": "gguf"}
    assert identities[3] == expected
    assert len({json.dumps(identity) for identity in identities}) == 4
    given = definition("a/m", gguf_file="x.gguf", revision=commit, sha256="0" * 64)
    with pytest.raises(AdapterError, match=f"has the SHA-256 {sha256}; .* says {'0' * 64}"):
        answers(given)


@pytest.mark.parametrize(
    "applied",
    [
        {"llama.rope.scaling.type": "linear"},
        {"llama.rope.scaling.factor": 4.0},
        {"llama.attention.sliding_window": 16},
        {"llama.attention.key_length": 16},
        {"llama.rope.freq_bse": 5000.0},
        {"lama.rope.freq_base": 5000.0},
        {"split.count": 2},
        {"tokenizer.ggml.normalizer.lowercase": True},
        {"rope_freqs.weight": [1.0, 1.0, 8.0, 8.0]},
        {"blk.0.attn_q.bias": [0.5] * 32},
    ],
)
def test_a_key_or_a_tensor_that_nothing_applies_is_refused_by_name(tmp_path, applied):
    (name,) = applied
    is_tensor = isinstance(applied[name], list)
    write_gguf(tmp_path / "random.gguf", **{"tensors" if is_tensor else "more": applied})
    message = f"the tensor {name} is not applied" if is_tensor else name
    with pytest.raises(AdapterError, match=message):
        answers(definition(tmp_path, gguf_file="random.gguf"))


def test_what_has_no_effect_is_taken(tmp_path):
    write_gguf(tmp_path / "plain.gguf")
    more = {"llama.rope.scaling.type": "none", "llama.attention.key_length": 8}
    more |= {"llama.attention.sliding_window": 128, "quantize.imatrix.file": "x"}
    more |= {"general.license": "x", "split.count": 1}
    tensors = {"rope_freqs.weight": [1.0] * 4}
    write_gguf(tmp_path / "more.gguf", more=more, tensors=tensors)
    found = [answers(definition(tmp_path, gguf_file=f"{name}.gguf")) for name in ("plain", "more")]
    assert found[0] == found[1]


def pieces_of(folder: Path, name: str, *texts: str) -> list[list[str]]:
    """How texts are cut with a file that names its pre-tokenizer so."""
    write_gguf(folder / "random.gguf", change=lambda keys, _: set_pre(keys, name))
    prompting = open_model("m", definition(folder, gguf_file="random.gguf")).prompting
    prompting.load()
    cut = prompting.tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str
    return [[text[slice(*place)] for _, place in cut(text)] for text in texts]


def set_pre(keys: dict, name: str) -> None:
    keys["tokenizer.ggml.pre"].value = name


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("gpt-2", ["x", "\n", "\n", "12", ".", " a", "  ", " 3"]),
        ("smollm", ["x", "\n\n", "1", "2", ".", " a", "   ", "3"]),
        ("default", ["x", "\n", "\n", "12", ".", " a", "  ", " ", "3"]),
        ("falcon", ["x", "\n", "\n", "12", ".", " a", "  ", " 3"]),
        ("deepseek-coder", ["x", "\n", "\n", "1", "2", ".", " a", "   ", "3"]),
        ("deepseek-llm", ["x", "\n", "\n", "12", ".", " a", "   ", "3"]),
        ("deepseek-v3", ["x", "\n\n", "12", ".", " a", "   ", "3"]),
        ("seed-coder", ["x", "\n\n", "1", "2", ".", " a", "  ", " ", "3"]),
        ("minicpm5", ["x", "\n\n", "12", ".", " a", "   ", "3"]),
        ("bloom", ["x", "\n\n", "12", ".", " a", "  ", " 3"]),
        ("viking", ["x", "\n\n", "1", "2", ".", " a", "  ", " ", "3"]),
        ("llama-bpe", ["x", "\n\n", "12", ".", " a", "  ", " ", "3"]),
        ("stablelm2", ["x", "\n\n", "1", "2", ".", " a", "  ", " ", "3"]),
    ],
)
def test_a_text_is_cut_as_the_file_names_it(tmp_path, name, pieces):
    assert pieces_of(tmp_path, name, "x\n\n12. a   3") == [pieces]


def test_a_file_that_names_no_pre_tokenizer_or_an_unknown_one_is_refused(tmp_path):
    with pytest.raises(AdapterError, match="names the pre-tokenizer 'no-such', which is not known"):
        pieces_of(tmp_path, "no-such")

    write_gguf(tmp_path / "x.gguf", change=lambda keys, _: keys.pop("tokenizer.ggml.pre"))
    with pytest.raises(
        AdapterError, match=r"does not say how texts are cut .* --pre-tokenizer NAME"
    ):
        answers(definition(tmp_path, gguf_file="x.gguf"))


@pytest.mark.parametrize(
    ("stated", "tokens", "answer"),
    [
        (None, "<s> \u2581 \u2581b a </s> \u2581b", "b"),
        (True, "<s> \u2581 \u2581b a </s> \u2581b", "b"),
        (False, "<s> \u2581b a </s> b", " b"),
    ],
)
def test_a_tokenizer_of_sentencepiece_writes_blanks_as_the_file_says(
    tmp_path, stated, tokens, answer
):
    from gguf import GGUFValueType as Kind
    from gguf.gguf_writer import GGUFValue

    words = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "\u2581b", *map(str, range(100, 351))]

    def change(keys: dict, _: dict) -> None:
        del keys["tokenizer.ggml.merges"]
        keys["tokenizer.ggml.model"].value = "llama"
        keys["tokenizer.ggml.tokens"].value = words
        keys["tokenizer.ggml.token_type"].value = [2, 3, 3] + [1] * (len(words) - 3)
        scores = [-float(place) for place in range(len(words))]
        keys["tokenizer.ggml.scores"] = GGUFValue(scores, Kind.ARRAY, Kind.FLOAT32)

    more = {} if stated is None else {"tokenizer.ggml.add_space_prefix": stated}
    write_gguf(tmp_path / "x.gguf", more=more, change=change)
    adapter = open_model("m", definition(tmp_path, gguf_file="x.gguf"))
    adapter.prompting.load()
    tokenizer = adapter.prompting.tokenizer
    ids = tokenizer("<s> ba</s>b", add_special_tokens=False)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == tokens.split(" ")
    assert adapter.prompting.split([6], False)[0] == answer
    assert adapter.identity()["space_prefix"] == "as stated"


SIZE = {"context_length": 128, "embedding_length": 64, "block_count": 2, "feed_forward_length": 128}
SIZE |= {"head_count": 4, "head_count_kv": 2, "layer_norm_rms_eps": 1e-6}
ROPE = {"rope_freq_base": 10000.0, "rope_dimension_count": 16}


def head(length: int) -> dict:
    return {"key_length": length, "value_length": length}


# The keys that llama.cpp's converter writes for an architecture, and settings of the checkpoint.
WINDOW = {"sliding_window": 64}
CAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
ARCHITECTURES: dict[str, tuple[str, dict, dict]] = {
    "llama": ("Llama", SIZE | ROPE, {}),
    "qwen2": ("Qwen2", SIZE | {"rope_freq_base": 10000.0}, {}),
    "qwen3": ("Qwen3", SIZE | head(128) | {"rope_freq_base": 10000.0}, {"head_dim": 128}),
    "phi3": (
        "Phi3",
        SIZE | ROPE | {"rope_scaling_orig_ctx_len": 128, "sliding_window": 2047, "pad_token_id": 0},
        {"sliding_window": 2047, "original_max_position_embeddings": 128},
    ),
    "gemma2": ("Gemma2", SIZE | head(256) | WINDOW | CAPS, WINDOW),
    "gemma3": ("Gemma3Text", SIZE | head(256) | WINDOW | {"rope_freq_base": 1000000.0}, WINDOW),
}


# Where a block has its scales, in float16, of types that gguf writes none of.
SCALES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
IN_BLOCKS = ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS")
SCALES |= dict.fromkeys(IN_BLOCKS, (0,))


def blocks_of(kind: str, rows: int, columns: int, seed: int) -> Any:
    """Valid random blocks whose weights deviate by .2."""
    import gguf
    import numpy as np

    stored_as = gguf.GGMLQuantizationType[kind]
    weights, size = gguf.GGML_QUANT_SIZES[stored_as]
    drawn = np.random.default_rng(seed).integers(0, 256, (rows * columns // weights, size))
    blocks = drawn.astype(np.uint8)
    deviation = 0.2
    for scale in (1.0, None):  # first as they would deviate
        as_bytes = np.array([scale or 0.2 / deviation], np.float16).view(np.uint8)
        for at in SCALES.get(kind, ()):
            blocks[:, at : at + 2] = as_bytes
        if kind == "IQ1_M":  # four bits of it in each of four numbers
            value = int(as_bytes.view(np.uint16)[0])
            parts = blocks[:, 48:].view(np.uint16)
            for place in range(4):
                parts[:, place] = parts[:, place] & 0xFFF | value >> 4 * place << 12 & 0xF000
        if kind == "NVFP4":
            blocks[:, :4] = 0x18
        deviation = gguf.quants.dequantize(blocks, stored_as).std()
    return blocks.reshape(rows, -1)


def convert(
    source: Path, path: Path, architecture: str, kinds: Sequence[str] = (), keys: dict | None = None
) -> None:
    """A checkpoint as GGUF, as llama.cpp's converter writes it; matrices as one of ``kinds`` each,
    which become the checkpoint's too. The tokenizer is put beside the checkpoint."""
    import gguf
    import numpy as np
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    keys = keys or ARCHITECTURES[architecture][1]
    weights = load_file(source / "model.safetensors")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture.upper()], 4)
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in (keys | byte_tokens()).items():
        getattr(writer, f"add_{name}")(value)
    matrices = 0
    for name, tensor in weights.items():
        packed, stored_as = tensor.float().numpy(), gguf.GGMLQuantizationType.F32
        if packed.ndim > 1:
            kind = kinds[matrices % len(kinds)] if kinds else "F32"
            stored_as = gguf.GGMLQuantizationType[kind]
            try:
                packed = gguf.quants.quantize(packed, stored_as)
            except NotImplementedError:
                packed = blocks_of(kind, *packed.shape, matrices)
            matrices += 1
            values = gguf.quants.dequantize(packed, stored_as)
            weights[name] = torch.from_numpy(values.copy())
        elif architecture.startswith("gemma"):
            packed = packed + 1
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = 4 if "q_proj" in name else 2
            halves = packed.reshape(heads, 2, len(packed) // heads // 2, -1)
            packed = halves.swapaxes(1, 2).reshape(packed.shape)
        key = names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(key, np.ascontiguousarray(packed), raw_dtype=stored_as)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(weights, source / "model.safetensors", {"format": "pt"})
    AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name).save_pretrained(source)
    stated = json.loads((source / "tokenizer_config.json").read_text())
    stated["tokenizer_class"] = "PreTrainedTokenizerFast"  # not that of the checkpoint's family
    (source / "tokenizer_config.json").write_text(json.dumps(stated))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_file_of_a_checkpoint_gives_its_answers(tmp_path, architecture):
    family, _, settings = ARCHITECTURES[architecture]
    checkpoint = tmp_path / "checkpoint"
    save_model(
        checkpoint, architecture=family, max_position_embeddings=128, rms_norm_eps=1e-6,
        **(OF_TOKENS | settings | {"tie_word_embeddings": architecture.startswith("gemma")}),
    )  # fmt: skip
    (tmp_path / "file").mkdir()
    convert(checkpoint, tmp_path / "file/x.gguf", architecture)
    found = answers(definition(tmp_path / "file", gguf_file="x.gguf", dtype="float32"))
    assert found == answers(definition(checkpoint, dtype="float32"))
    assert len(set(found)) > 1 or "gemma" in architecture  # whose tied output repeats itself


# The types that weights of llama.cpp's files have.
KINDS = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4")
KINDS += (*SCALES, "IQ1_M")


def test_weights_of_every_type_of_block_give_their_checkpoints_answers(tmp_path):
    checkpoint, sizes = tmp_path / "checkpoint", {"hidden_size": 256, "intermediate_size": 256}
    layers = {"num_hidden_layers": 4, "max_position_embeddings": 128, "rms_norm_eps": 1e-6}
    save_model(checkpoint, **(OF_TOKENS | sizes | layers | {"tie_word_embeddings": False}))
    (tmp_path / "file").mkdir()
    keys = SIZE | ROPE | {"embedding_length": 256, "feed_forward_length": 256, "block_count": 4}
    keys["rope_dimension_count"] = 64
    convert(checkpoint, tmp_path / "file/x.gguf", "llama", KINDS, keys)
    found = answers(definition(tmp_path / "file", gguf_file="x.gguf", dtype="float32"))
    assert found == answers(definition(checkpoint, dtype="float32"))
    assert len(set(found)) == 3


def test_weights_of_a_type_that_nothing_reads_are_refused_by_its_name(tmp_path):
    from gguf import GGMLQuantizationType

    def stored_as_whole_numbers(_: dict, tensors: dict) -> None:
        tensors["blk.0.attn_q.weight"].dtype = GGMLQuantizationType.I32

    write_gguf(tmp_path / "x.gguf", change=stored_as_whole_numbers)
    with pytest.raises(AdapterError, match="Dequantization for I32 is not yet implemented"):
        answers(definition(tmp_path, gguf_file="x.gguf"))


def test_a_scale_that_the_file_means_otherwise_than_transformers_is_refused(tmp_path):
    (tmp_path / "file").mkdir()
    checkpoint, settings = tmp_path / "checkpoint", {"head_dim": 16, "query_pre_attn_scalar": 16}
    save_model(checkpoint, architecture="Gemma2", **(OF_TOKENS | settings | WINDOW))
    keys = SIZE | head(16) | WINDOW | CAPS
    convert(checkpoint, tmp_path / "file/x.gguf", "gemma2", keys=keys)
    with pytest.raises(AdapterError, match=r"queries are divided by the root of 16 .* takes 256"):
        answers(definition(tmp_path / "file", gguf_file="x.gguf"))


def test_a_files_end_of_turn_ends_an_answer(tmp_path):
    write_gguf(tmp_path / "random.gguf", more={"tokenizer.ggml.eot_token_id": 7})
    adapter = open_model("m", definition(tmp_path, gguf_file="random.gguf"))
    adapter.prompting.load()
    assert adapter.prompting.ends_of() == {257, 7}


def test_a_changed_key_or_tensor_of_a_gguf_file_is_refused_or_has_no_effect(tmp_path):
    found = {}

    def tried(change: Callable[[dict, dict], object]) -> str:
        write_gguf(tmp_path / "x.gguf", change=change)
        return outcome(tmp_path, gguf_file="x.gguf")

    assert tried(lambda keys, tensors: None) == "as transformers"
    names: tuple[list[str], list[str]] = ([], [])

    def listed(keys: dict, tensors: dict) -> None:
        names[0].extend(key for key in keys if key.startswith(("llama.", "tokenizer.")))
        names[1].extend(tensors)

    tried(listed)
    draw = random.Random(0)
    for kind, at in (("key", 0), ("tensor", 1)):
        for name in draw.sample(sorted(names[at]), 4):
            for how in ("removed", "renamed"):

                def change(*parts: dict, at: int = at, name: str = name, how: str = how) -> None:
                    changed(parts[at], how, name)

                found[kind, how, name] = tried(change)
    kept = {case for case, what in found.items() if what != "refused"}
    assert {case[:2] for case in kept} <= {("key", "removed")}, kept
