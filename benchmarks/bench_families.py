"""Answers of small random models of transformers' families beside greedy decoding in float64 that
shares no code with the adapter: a model built anew, and for each token a pass over the row alone.

    python benchmarks/bench_families.py [FAMILY ...] --out near_ties.md
    python benchmarks/bench_families.py --every --out benchmarks/families.md

Half of the output layer's rows are copies of the others with noise of 1e-7 to 1e-3, so that near-ties
are frequent. Each family answers ``--prompts`` prompts of unlike lengths in float32, in bfloat16, and
in float16 one row at a time. The table has how rows were decoded, how many answers there were in all,
and how many are wrong; or the sentence with which a family is refused.

``--every``: each type of model that the installed transformers has as a causal language model, as small
as its configuration gets, two answers each in float32: one line for each way in which they end. With
families named, these are tried anew and the file keeps what it says of others.
"""

from __future__ import annotations

import argparse
import inspect
import random
import re
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

from refract.models.hf import HF  # noqa: E402
from refract.models.protocol import AdapterError, unpacked_tokens  # noqa: E402
from refract_exact import ladder  # noqa: E402
from tests.builders import ask, in_order  # noqa: E402
from tests.small_models import save_tokenizer  # noqa: E402

TOKENS = {"vocab_size": 320, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
COMMON = TOKENS | {"tie_word_embeddings": False, "initializer_range": 0.2}
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048}
HEAD = {"head_dim": 16}
WINDOW = {"sliding_window": 32}
EXPERTS = {"num_local_experts": 8, "num_experts": 8, "n_routed_experts": 8}
EXPERTS |= {"num_experts_per_tok": 2, "moe_intermediate_size": 64}
GPT = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 2048}
MLA = {"num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8}
MLA |= {"qk_nope_head_dim": 8, "v_head_dim": 16, "first_k_dense_replace": 1, "n_shared_experts": 1}
MLA |= {"topk_group": 1}
ROPE = {"rope_theta": 10000.0, "original_max_position_embeddings": 64}
LONGROPE = ROPE | {"rope_type": "longrope", "short_factor": [1.0] * 8}
LONGROPE |= {"long_factor": [2.0 + i for i in range(8)]}
LLAMA3 = ROPE | {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}
LLAMA3 |= {"high_freq_factor": 4.0}
BART = {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
BART |= {"decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 64}
# Families that name their sizes themselves.
OWN_SIZES = (
    "bart",
    "codegen",
    "ctrl",
    "gpt2",
    "gpt_bigcode",
    "gptj",
    "mpt",
    "openai-gpt",
    "rwkv",
)

# Each with the class of its configuration, and settings.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama, llama3 rope": ("Llama", {"rope_parameters": LLAMA3}),
    "mistral": ("Mistral", WINDOW),
    "qwen2": ("Qwen2", WINDOW | {"use_sliding_window": True, "max_window_layers": 1}),
    "qwen3": ("Qwen3", HEAD),
    "qwen3, yarn": (
        "Qwen3",
        HEAD | {"rope_parameters": ROPE | {"rope_type": "yarn", "factor": 4.0}},
    ),
    "gemma": ("Gemma", HEAD),
    "gemma2": ("Gemma2", HEAD | WINDOW | {"query_pre_attn_scalar": 16}),
    "gemma3": ("Gemma3Text", HEAD | WINDOW | {"query_pre_attn_scalar": 16}),
    "phi": ("Phi", {"num_key_value_heads": 4}),
    "phi3": ("Phi3", {}),
    "phi3, longrope": (
        "Phi3",
        {"original_max_position_embeddings": 64, "rope_parameters": LONGROPE},
    ),
    "gpt2": ("GPT2", GPT),
    "gpt_bigcode": ("GPTBigCode", GPT),
    "gpt_neox": ("GPTNeoX", {}),
    "gptj": ("GPTJ", GPT | {"rotary_dim": 8}),
    "codegen": ("CodeGen", GPT | {"rotary_dim": 8}),
    "gpt_neo": (
        "GPTNeo",
        {"num_layers": 2, "num_hidden_layers": 2, "num_heads": 4, "window_size": 32}
        | {"attention_types": [[["global", "local"], 1]]},
    ),
    "gpt_oss": ("GptOss", EXPERTS | HEAD | WINDOW | {"num_hidden_layers": 2}),
    "openai-gpt": ("OpenAIGPT", GPT | {"n_positions": 512}),
    "ctrl": ("CTRL", GPT | {"dff": 128, "n_positions": 512}),
    "opt": ("OPT", {"ffn_dim": 128, "word_embed_proj_dim": 64, "init_std": 0.2}),
    "xglm": ("XGLM", {"d_model": 64, "num_layers": 2, "attention_heads": 4, "ffn_dim": 128}),
    "biogpt": ("BioGpt", {}),
    "bloom": ("Bloom", {"n_layer": 3, "n_head": 4}),
    "falcon": ("Falcon", {}),
    "falcon, alibi": ("Falcon", {"alibi": True}),
    "mpt": ("Mpt", {"d_model": 64, "n_heads": 4, "n_layers": 3, "max_seq_len": 2048}),
    "persimmon": ("Persimmon", {}),
    "nemotron": ("Nemotron", {}),
    "stablelm": ("StableLm", {}),
    "starcoder2": ("Starcoder2", WINDOW),
    "cohere": ("Cohere", {}),
    "cohere2": ("Cohere2", HEAD | WINDOW),
    "olmo": ("Olmo", {}),
    "olmo2": ("Olmo2", {}),
    "olmo3": ("Olmo3", WINDOW),
    "glm": ("Glm", HEAD),
    "glm4": ("Glm4", HEAD),
    "granite": ("Granite", {}),
    "smollm3": ("SmolLM3", {"no_rope_layer_interval": 2}),
    "exaone4": ("Exaone4", WINDOW | {"sliding_window_pattern": 2}),
    "ernie4_5": ("Ernie4_5", HEAD),
    "helium": ("Helium", HEAD),
    "diffllama": ("DiffLlama", {}),
    "bitnet": ("BitNet", {}),
    "modernbert-decoder": ("ModernBertDecoder", {"local_attention": 32}),
    "mixtral": ("Mixtral", EXPERTS),
    "qwen2_moe": ("Qwen2Moe", EXPERTS | {"shared_expert_intermediate_size": 64}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS | HEAD),
    "olmoe": ("Olmoe", EXPERTS),
    "granitemoe": ("GraniteMoe", EXPERTS),
    "phimoe": ("Phimoe", EXPERTS | {"sliding_window": None}),
    "jetmoe": ("JetMoe", EXPERTS | {"kv_channels": 16}),
    "deepseek_v2": ("DeepseekV2", EXPERTS | MLA | {"n_group": 1, "topk_method": "greedy"}),
    "deepseek_v3": ("DeepseekV3", EXPERTS | MLA | {"n_group": 2}),
    "llama4_text": (
        "Llama4Text",
        EXPERTS | HEAD | {"attention_chunk_size": 32, "intermediate_size_mlp": 64},
    ),
    "lfm2": ("Lfm2", {"layer_types": ["conv", "full_attention", "conv"]}),
    "rwkv": ("Rwkv", SIZES | {"attention_hidden_size": 64, "context_length": 1024}),
    "mamba": ("Mamba", {}),
    "mamba2": ("Mamba2", {"num_heads": 8, "head_dim": 16, "n_groups": 1, "expand": 2}),
    "falcon_mamba": ("FalconMamba", {}),
    "jamba": (
        "Jamba",
        EXPERTS | {"use_mamba_kernels": False, "attn_layer_period": 2, "attn_layer_offset": 1},
    ),
    "bamba": (
        "Bamba",
        {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "attn_layer_indices": [1]},
    ),
    "recurrent_gemma": ("RecurrentGemma", HEAD | {"attention_window_size": 32}),
    "qwen3_next": ("Qwen3Next", EXPERTS | HEAD),
    "minimax": ("MiniMax", EXPERTS | HEAD),
    "bart, decoder": ("Bart", BART),
}


# Sizes by all the names that configurations have for them.
EVERY: dict[str, Any] = COMMON | SIZES | HEAD | WINDOW | EXPERTS | GPT | MLA | BART | TOKENS
EVERY |= {"n_group": 1, "num_layers": 3, "num_heads": 4, "n_layers": 3, "n_heads": 4, "d_ff": 128}
EVERY |= {"ffn_dim": 128, "ffn_hidden_size": 128, "embedding_size": 64, "emb_dim": 64, "dim": 64}
EVERY |= {"is_decoder": True, "vocab_size_per_layer_input": 320, "hidden_size_per_layer_input": 16}
EVERY |= {"num_kv_shared_layers": 0, "global_head_dim": 32, "query_pre_attn_scalar": 16}
EVERY |= {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 16}
EVERY |= {
    "mamba_expand": 2,
    "state_size": 16,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
}
EVERY |= {"linear_key_head_dim": 16, "linear_value_head_dim": 16, "mamba_num_heads": 8}
EVERY |= {"mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 1, "attention_window_size": 32}
EVERY |= {
    "index_head_dim": 16,
    "index_n_heads": 4,
    "index_topk": 64,
    "lru_width": 64,
    "moe_topk": 2,
}
EVERY |= {"moe_num_experts": 8, "moe_k": 2, "shared_expert_intermediate_size": 64, "n_words": 320}
EVERY |= {"use_mamba_kernels": False, "decoder_start_token_id": 1, "num_shared_experts": 1}
EVERY |= {"image_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 64, "word_embed_proj_dim": 64}
# What some cannot have beside the others.
WITHOUT = ((), ("sliding_window",), ("head_dim",), ("num_key_value_heads",))
WITHOUT += (("head_dim", "num_key_value_heads"), ("n_layer", "n_head", "n_embd"))
MOST_WEIGHTS = 20_000_000
SECONDS = 120
# Of families that common names of sizes do not make small, or not of layers that fit together.
MIXED = {"layer_types": ["linear_attention", "full_attention", "linear_attention"]}
MIXED |= {"linear_num_heads": 4, "linear_head_dim": 16}
BY_KIND = {
    kind: ROPE | {"rope_type": "default"} for kind in ("full_attention", "sliding_attention")
}
FOURTH = {"num_hidden_layers": 4}  # of which the last one has attention
NOTE = {"layer_types": ["indexed_attention", "sliding_attention", "indexed_attention"]}
NOTE |= {"mlp_layer_types": ["dense", "sparse", "sparse"], "shared_experts_intermediate_size": 64}
NOTE |= {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_head_dim": 16}
NOTE |= {"swa_q_lora_rank": 16, "swa_kv_lora_rank": 16, "swa_qk_nope_head_dim": 8}
NOTE |= {"swa_qk_rope_head_dim": 8, "swa_v_head_dim": 16}
INDEXED = FOURTH | {"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 16}
INDEXED |= {"indexer_budget": 64, "indexer_compress_ratio": 4}
ASSISTANT = {"num_hidden_layers": 3, "num_kv_shared_layers": 3, "hidden_size_per_layer_input": 0}
ASSISTANT |= {
    "vocab_size_per_layer_input": 0,
    "layer_types": ["sliding_attention"] * 2 + ["full_attention"],
}
OWN: dict[str, dict[str, Any]] = {
    "bailing_hybrid": MIXED,
    "bamba": {"attn_layer_indices": [1]},
    "blt": {
        "encoder_hash_byte_group_vocab": 500,
        "encoder_config": {"hidden_size_global": 64, "cross_attn_k": 2},
        "decoder_config": {"hidden_size_global": 64, "cross_attn_k": 2},
        "global_config": {"hidden_size": 64},
    },
    "codegen": {"rotary_dim": 8},
    "cohere_compass_text": {"rope_parameters": BY_KIND},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0}},
    "dots3_note": {
        "text_config": NOTE,
        "audio_config": {"adapter_input_size": 64, "adapter_out_dim": 64},
        "vision_config": {
            "mlp_layer_types": ["dense"] * 3,
            "adapter_in_dim": 64,
            "adapter_out_dim": 64,
        },
    },
    "dots3_note_text": NOTE,
    "falcon_h1": {"mamba_d_ssm": 128},
    "gemma4_assistant": {"text_config": ASSISTANT},
    "gemma4_unified_assistant": {"text_config": ASSISTANT},
    "gpt_neo": {"attention_types": [[["global", "local", "global"], 1]], "window_size": 32},
    "gptj": {"rotary_dim": 8},
    "granitemoehybrid": {"layer_types": ["mamba", "attention", "mamba"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "kimi_linear": MIXED | {"mlp_layer_types": ["dense", "sparse", "sparse"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv"]},
    "longcat_flash": {"head_dim": 8, "zero_expert_num": 2},
    "mamba2": {"num_heads": 8},
    "mimo_v2_flash": {"head_dim": 24, "v_head_dim": 16, "num_key_value_heads": 2},
    "moshi": {"audio_vocab_size": 320},
    "musicgen": {},
    "musicgen_melody": {},
    "qwen3_5": {"text_config": FOURTH},
    "qwen3_5_moe": {"text_config": FOURTH},
    **dict.fromkeys(("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"), FOURTH),
    "qwen4_exp": {"text_config": INDEXED},
    "qwen4_exp_text": INDEXED,
    "reformer": {
        "axial_pos_shape": [32, 64],
        "axial_pos_embds_dim": [16, 48],
        "attention_head_size": 16,
    },
    "xlstm": {"hidden_size": 128},
    "xmod": {"default_language": "en_XX"},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid", "linear_attention"]},
    "zaya": {"num_experts_per_tok": 1},
}


def sizes_of(kind: Any, depth: int = 0) -> dict[str, Any]:
    """The sizes of :data:`EVERY` that a configuration's class knows, those of its parts too."""
    renamed = getattr(kind, "attribute_map", {})
    known = {*inspect.signature(kind.__init__).parameters, *renamed}
    with suppress(Exception):  # some have no defaults
        known |= set(kind().to_dict())
    sizes = {name: size for name, size in EVERY.items() if name in known}
    sizes = {name: size for name, size in sizes.items() if renamed.get(name) not in sizes}
    for name, part in (getattr(kind, "sub_configs", None) or {}).items():
        named = {}
        if part.__name__ == "AutoConfig":
            with suppress(Exception):
                part = type(getattr(kind(), name))
                named = {"model_type": part.model_type}
        if depth < 2 and part.__name__ not in ("AutoConfig", "NoneType"):
            sizes[name] = named | sizes_of(part, depth + 1)
    return sizes


def save_any(family: str, kind: str, folder: Path) -> None:
    """A small random model of a configuration's class. Raises what its code does where none can be
    built, and leaves the configuration with one weight that it has no use for."""
    config_class, problem = getattr(transformers, kind), None
    for left in WITHOUT:
        sizes = {name: size for name, size in sizes_of(config_class).items() if name not in left}
        for name, own in OWN.get(family, {}).items():
            sizes[name] = sizes.get(name, {}) | own if isinstance(own, dict) else own
        try:
            config = config_class(**sizes)
            config.save_pretrained(folder)
            save_file({"none": torch.zeros(1)}, folder / "model.safetensors", {"format": "pt"})
            save_tokenizer(folder)
            with torch.device("meta"):
                model = transformers.AutoModelForCausalLM.from_config(config)
            if sum(p.numel() for p in model.parameters()) > MOST_WEIGHTS:
                raise ValueError("its default sizes are large")
            torch.manual_seed(0)
            model = transformers.AutoModelForCausalLM.from_config(config).eval()
            generator = torch.Generator().manual_seed(1)
            with torch.no_grad():
                for name, weight in model.named_parameters():
                    if weight.dim() > 1 and "norm" not in name and weight.std() < 0.05:
                        weight.normal_(0, 0.15, generator=generator)
                if family not in OWN:
                    model(input_ids=torch.arange(6, 20)[None])
            model.save_pretrained(folder)
            return
        except Exception as error:
            problem = problem or error
    assert problem
    raise problem


def ended(family: str, kind: str) -> tuple[str, int]:
    """How answers of a family end, and how many are wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            save_any(family, kind, folder)
        except Exception as error:
            if not (folder / "config.json").is_file():
                return f"not built ({type(error).__name__})", 0
        adapter = HF("family", HF.Settings(model_id=name, device="cpu", max_tokens=4))
        requests = [ask(text) for text in texts(2)]
        try:
            answers = in_order(adapter, requests)
        except AdapterError as error:
            reason = str(error).replace(repr(name), "it").partition(": ")[2]
            cause = reason.partition(" ends in ")[2] or reason.partition(" ")[2]
            return f"refused: {cause.partition(';')[0][:120]}", 0
        route = adapter.loaded().decoder.route
        try:
            independent = Independent(folder, kind)
        except Exception as error:
            return f"answered; its reference failed ({type(error).__name__})", 0
        wrong = 0
        for request, answer in zip(requests, answers, strict=True):
            prompt = adapter.prompting.prepare(request).tokens
            wrong += not independent.holds(prompt, unpacked_tokens(answer.tokens or ""))
        return "whole passes" if route.longest == 0 else "slots of one cache", wrong


def try_every(named: list[str], out: Path | None) -> None:
    """Tries all families; where some are ``named`` these alone, beside what the file says of others."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    known = list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    outcomes = {}
    if named and out:
        for how, families in re.findall(
            r"^- \*\*(.*)\*\* \(\d+\): (.*)$", out.read_text("utf-8"), re.M
        ):
            outcomes |= dict.fromkeys(families.split(", "), how)
    for family in named or known:
        signal.alarm(SECONDS)
        try:
            how, wrong = ended(family, CONFIG_MAPPING_NAMES[family])
        except TimeoutError:
            how, wrong = f"not done in {SECONDS} s", 0
        except Exception as error:
            how, wrong = f"TRACEBACK {type(error).__name__}: {error!s:.80}", 0
        signal.alarm(0)
        outcomes[family] = how + (f", {wrong} of 2 WRONG" if wrong else "")
        print(family, outcomes[family], sep=": ", flush=True)
    found: dict[str, list[str]] = {}
    for family in sorted(outcomes, key=known.index):
        found.setdefault(outcomes[family], []).append(family)
    text = (
        "# Families: `make families`\n\nHow answers of small random models came about, each token "
    )
    text += "beside a float64 of its own; written by `benchmarks/bench_families.py --every`. "
    text += f"{len(outcomes)} families of transformers {transformers.__version__}.\n\n"
    for how, families in sorted(found.items(), key=lambda item: -len(item[1])):
        text += f"- **{how}** ({len(families)}): {', '.join(families)}\n"
    if out:
        out.write_text(text, encoding="utf-8")


def save(family: str, folder: Path) -> None:
    """A random model of a family with twins in its output layer."""
    kind, settings = FAMILIES[family]
    sizes = {} if family.partition(",")[0] in OWN_SIZES else SIZES
    if family == "bloom":
        sizes = {"hidden_size": 64}
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**(COMMON | sizes | settings))
    model = transformers.AutoModelForCausalLM.from_config(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and "norm" not in name and weight.std() < 0.05:
                weight.normal_(0, 0.15, generator=generator)
        rows = model.get_output_embeddings().weight
        order = (torch.randperm(len(rows) - 6, generator=generator) + 6).tolist()
        half = len(order) // 2
        for row, twin in zip(order[:half], order[half : 2 * half], strict=True):
            noise = torch.randn(rows.shape[1], generator=generator)
            exponent = -7 + 4 * torch.rand(1, generator=generator).item()
            rows[twin] = rows[row] + 10**exponent * noise
    model.save_pretrained(folder)
    save_tokenizer(folder)


NARROW = (torch.float32, torch.bfloat16, torch.float16)


class Wide(TorchFunctionMode):
    """Has every function give float64 where it would give fewer bits."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__"):
            return func(*args, **named)
        if name in ("float", "half", "bfloat16") and isinstance(args[0], torch.Tensor):
            return args[0].double()
        for key, value in named.items():
            named[key] = widened(value)
        result = func(*[widened(value) for value in args], **named)
        if isinstance(result, torch.Tensor) and result.dtype in NARROW:
            return result.double()
        return result


def widened(value: Any) -> Any:
    """float64 for a type of fewer bits; anything else as it is."""
    return torch.float64 if isinstance(value, torch.dtype) and value in NARROW else value


class Independent:
    """A family's model in float64, built anew from its folder."""

    def __init__(self, folder: Path) -> None:
        stored = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
        config = transformers.AutoConfig.from_pretrained(folder)
        config.dtype = torch.float64
        config._experts_implementation = "eager"
        torch.set_default_dtype(torch.float64)
        try:
            with Wide():
                self.model = type(stored)(config)
        finally:
            torch.set_default_dtype(torch.float32)
        self.model.double()
        weights = {}
        for name, weight in stored.state_dict().items():
            weights[name] = weight.double() if weight.is_floating_point() else weight
        self.model.load_state_dict(weights, strict=False)
        self.model.tie_weights()
        self.model.eval()

    def holds(self, prompt: list[int], answer: list[int]) -> bool:
        """Whether each token is the likeliest; of equal ones, that of the lowest id."""
        for place, token in enumerate(answer):
            row = prompt + answer[:place]
            ids = torch.tensor([row])
            torch.set_default_dtype(torch.float64)
            try:
                with torch.inference_mode(), Wide():
                    logits = self.model(input_ids=ids, use_cache=False).logits[0, -1]
            finally:
                torch.set_default_dtype(torch.float32)
            best = (logits >= logits.max() - 2.0**-30).nonzero()[0].item()
            if best != token:
                return False
        return True


def texts(count: int) -> list[str]:
    """Texts of 3 to 200 characters, short ones more often."""
    draw = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz     ,.?!ABCDEFG0123456789"
    written = []
    for number in range(count):
        length = int(3 * (200 / 3) ** draw.random())
        written.append(f"{number} " + "".join(draw.choices(letters, k=length)))
    return written


def tried(family: str, count: int, tokens: int) -> tuple[str, str, str]:
    """How a family's rows are decoded, its answers, and how many of them are wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(family, folder)
        independent = Independent(folder, family)
        requests = [ask(text) for text in texts(count)]
        total = wrong = 0
        how = ""
        for settings in ({}, {"dtype": "bfloat16"}, {"dtype": "float16", "batch_tokens": 1}):
            definition = {"model_id": name, "device": "cpu", "max_tokens": tokens} | settings
            adapter = HF("family", HF.Settings(**definition))
            try:
                answers = in_order(adapter, requests)
            except AdapterError as error:
                return str(error), "", ""
            route = adapter.loaded().decoder.route
            how = "slots" if route.kept else "slots; float64 reads rows anew"
            if route.longest is not None:
                how = f"slots up to {route.longest} tokens" if route.longest else "whole passes"
            for request, answer in zip(requests, answers, strict=True):
                prompt = adapter.prompting.prepare(request).tokens
                total += 1
                right = answer.tokens and independent.holds(prompt, unpacked_tokens(answer.tokens))
                wrong += not right
    return how, str(total), str(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("families", nargs="*", help="all, where none is named")
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--every", action="store_true", help="every family that transformers has")
    parser.add_argument("--out", type=Path, help="a file for the table")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    ladder.WITHOUT_DRAFTS = frozenset()  # few bits draft, as on a GPU
    if options.every:
        try_every(options.families, options.out)
        return
    unknown = set(options.families) - set(FAMILIES)
    if unknown:
        sys.exit(f"unknown families: {', '.join(sorted(unknown))} (of {', '.join(FAMILIES)})")
    lines = ["| family | decoded by | answers | wrong |", "|---|---|---|---|"]
    print(*lines, sep="\n")
    for family in options.families or FAMILIES:
        how, total, wrong = tried(family, options.prompts, options.tokens)
        lines.append(f"| {family} | {how} | {total} | {wrong} |")
        print(lines[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
