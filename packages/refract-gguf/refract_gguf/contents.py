"""What a GGUF file holds beside what transformers reads: it has no effect, or it is an error
that names it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from refract.models.protocol import AdapterError

# No answer follows from these, whatever their value.
HARMLESS = re.compile(
    r"general\..*|quantize\..*|mradermacher\..*|split\.(no|tensors\.count)|"
    r"tokenizer\.ggml\.((mask|cls|sep|seperator|fim_[a-z]+|prefix|suffix|middle)_token_id|"
    r"token_type_count)|ARCHITECTURE\.(context_length|feed_forward_length|tensor_data_layout)"
)
# No answer follows from these where they have this value.
NEUTRAL: dict[str, Any] = {
    "split.count": 1,
    "ARCHITECTURE.attention.causal": True,
    "ARCHITECTURE.pooling_type": 0,
    "ARCHITECTURE.expert_count": 0,
    "ARCHITECTURE.expert_used_count": 0,
    "ARCHITECTURE.rope.scaling.factor": 1.0,
    "ARCHITECTURE.rope.scaling.attn_factor": 1.0,
    "tokenizer.ggml.add_sep_token": False,
    "tokenizer.ggml.remove_extra_whitespaces": False,
}
# What a configuration may have by default, by its name there.
STATED = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_feed_forward_length": "moe_intermediate_size",
    "attention.layer_norm_epsilon": "layer_norm_eps",
    "logit_scale": "logit_scale",
    "use_parallel_residual": "use_parallel_residual",
}
# Ids of tokens that end a turn, though not a text.
TURN_ENDS = ("tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")
# Architectures that transformers spells otherwise than the file.
SPELLED = {
    "gpt-oss": "gpt_oss",
    "minimax-m2": "minimax_m2",
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
}
# How a text is cut before merges, by the name that a file has for it: expressions of which each cuts
# what the ones before it left, as llama.cpp applies them.
_GPT2 = r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_THREE_DIGITS = "[0-9]{3}"
_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# Letters that have a case, as far as a list of DeepSeek's has them: no Georgian small letter, say.
_CASED = (
    r"[[\p{Lu}\p{Ll}\p{Lt}]&&"
    "[A-\u0556\u10a0-\u10c5\u13a0-\u13fd\u1c90-\u1cbf\u1d00-\u1d9a\u1e00-\u2cf3\ua640-\ua78e\uab70-\uff5a"
    "\U00010400-\U000104fb\U00010c80-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]]"
)
_MARKS = "[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
_WORDS = r" ?[^(\s|.,!?" "\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
CUTS: dict[str, tuple[str, ...]] = {
    "default": (r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", _THREE_DIGITS),
    "falcon": (r"[\p{P}$+<=>^~|`]+", _GPT2, _THREE_DIGITS),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}"),
    "deepseek-llm": (r"[\r\n]", rf"\s?{_CASED}+", rf"\s?{_MARKS}", r"\s+$", _CJK, r"\p{N}+"),
    "deepseek-v3": (
        r"\p{N}{1,3}",
        "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "seed-coder": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "viking": (_WORDS, r"\p{N}"),
    **dict.fromkeys(("bloom", "poro-chat", "gpt3-finnish"), (_WORDS,)),
    **dict.fromkeys(
        ("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "granite-docling", "gigachat",
         "mellum", "a.x-4.0"),
        (_GPT2,),
    ),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"),
        (r"\p{N}", _GPT2),
    ),
    # By a name that transformers has.
    "minicpm5": (r"\p{N}{1,3}", "llama-bpe"),
    **dict.fromkeys(("glm4", "chatglm-bpe"), ("llama-bpe",)),
    **dict.fromkeys(("stablelm2", "hunyuan", "solar-open", "grok-2"), ("qwen2",)),
}  # fmt: skip
# Those of which a word that is a token is never merged.
WHOLE_WORDS = {
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken",
    "minicpm5",
}  # fmt: skip
# Of Gemma the number of layers with which the queries' scale is of the mean size of a head.
SCALED_BY_MEAN = {"gemma2": 46, "gemma3": 62}
# How an error ends.
OTHERWISE = "take the checkpoint in safetensors"


class GGUF:
    """A file, as :class:`refract.models.checkpoint.WeightFile`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _contents(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The keys with their values (of a list of texts their number), and the names of the
        tensors, as transformers reads them: gguf's own reader takes a hundred times as long."""
        from transformers.integrations.gguf.reader import read_gguf_metadata

        try:
            return read_gguf_metadata(str(self.path))  # type: ignore[no-any-return, unused-ignore]
        except Exception as error:  # a damaged header can raise anything
            raise self._invalid(f"({error})") from None

    def description(self) -> dict[str, Any]:
        from gguf import GGUFReader

        try:
            reader = GGUFReader(self.path)
            values = {}
            for key, field in reader.fields.items():
                if key == "general.architecture" or key.endswith(".context_length"):
                    values[key] = field.contents()
            weights: Counter[str] = Counter()
            for tensor in reader.tensors:
                weights[tensor.tensor_type.name] += int(tensor.n_elements)
        except Exception as error:  # a damaged header can raise anything
            raise self._invalid(f"({error})") from None
        architecture = values.get("general.architecture")
        length = values.get(f"{architecture}.context_length")
        if not isinstance(architecture, str) or not isinstance(length, int | None):
            raise self._invalid(f"(architecture {architecture!r:.60})")
        return {
            "parameters": weights.total(),
            "context_length": length,
            "dtype": max(weights, key=lambda name: weights[name], default=None),
            "architecture": architecture,
        }

    def turn_ends(self) -> set[int]:
        metadata, _ = self._contents
        return {int(metadata[key]) for key in TURN_ENDS if metadata.get(key) is not None}

    def set_up_tokenizer(self, tokenizer: Any) -> None:
        """Has a tokenizer of bytes cut texts as ``tokenizer.ggml.pre`` says, and one of SentencePiece
        write blanks as llama.cpp does."""
        from tokenizers import Regex, pre_tokenizers
        from transformers.integrations.gguf.gguf_tokenizer_mapping import (
            GGUF_PRE_TOKENIZER_SPLITS as KNOWN,
        )

        metadata, _ = self._contents
        name, kind = (metadata.get(f"tokenizer.ggml.{key}") for key in ("pre", "model"))
        if kind == "llama":
            prefixed = metadata.get("tokenizer.ggml.add_space_prefix", True)
            _write_blanks(tokenizer.backend_tokenizer, prefixed=prefixed)
        if kind != "gpt2":
            return
        if name is None:
            raise AdapterError(
                f"{self.path.name} does not say how texts are cut (llama.cpp would guess its default, "
                "transformers GPT-2's); name the pre-tokenizer of its checkpoint: gguf-new-metadata "
                f"--pre-tokenizer NAME {self.path.name} new.gguf"
            )
        if name not in CUTS and name not in KNOWN:
            raise AdapterError(
                f"{self.path.name}: tokenizer.ggml.pre names the pre-tokenizer {name!r}, which is not "
                f"known and would be replaced by GPT-2's; {OTHERWISE}"
            )
        backend = tokenizer.backend_tokenizer
        cuts = [Regex(KNOWN.get(cut, cut)) for cut in CUTS.get(name, (name,))]
        steps = [pre_tokenizers.Split(cut, behavior="isolated") for cut in cuts]
        as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([*steps, as_bytes])
        if name in WHOLE_WORDS:
            backend.model.ignore_merges = True

    def check_configuration(self, config: Any) -> None:
        metadata, tensors = self._contents
        architecture = metadata["general.architecture"]
        used = _keys_read(architecture, metadata, tensors)
        self._refuse_other_scale(config)
        scaling = metadata.get(f"{architecture}.rope.scaling.type")
        for key, value in metadata.items():
            general = re.sub(rf"^{re.escape(architecture)}\.", "ARCHITECTURE.", key)
            if key in used or HARMLESS.fullmatch(general):
                continue
            if general in NEUTRAL and NEUTRAL[general] == value:
                continue
            if scaling == "none" and general.startswith("ARCHITECTURE.rope.scaling."):
                continue
            if scaling is None and general == "ARCHITECTURE.rope.scaling.original_context_length":
                continue  # of the factors that a tensor of the file would hold
            if general.startswith("ARCHITECTURE.") and _as_stated(
                general.removeprefix("ARCHITECTURE."), value, config
            ):
                continue
            raise self._not_applied(f"{key} (here {value!r:.60})")

    def check_weights(self, model: Any, unexpected: Iterable[str]) -> None:
        from transformers.integrations.gguf.gguf_conversion_mapping import GGUF_ARCHS
        from transformers.modeling_gguf_pytorch_utils import (
            TENSOR_PROCESSORS,
            TensorProcessor,
            get_gguf_hf_weights_map,
        )

        metadata, tensors = self._contents
        architecture = metadata["general.architecture"]
        if architecture in GGUF_ARCHS:
            for name in sorted(unexpected):
                raise self._not_applied(f"the tensor {name}")
            return
        processor = TENSOR_PROCESSORS.get(architecture, TensorProcessor)(
            config=model.config.to_dict()
        )
        known = set(get_gguf_hf_weights_map(model, processor))
        if architecture == "gpt2":
            known.add("output.weight")
        for name in tensors:
            if name in known or name.removesuffix(".weight") in known:
                continue
            if name == "rope_freqs.weight" and self._is_of_ones(name):
                continue
            raise self._not_applied(f"the tensor {name}")

    def _is_of_ones(self, name: str) -> bool:
        from gguf import GGUFReader

        tensors = GGUFReader(self.path).tensors
        (values,) = (tensor.data for tensor in tensors if tensor.name == name)
        return bool((values == 1).all())

    def _refuse_other_scale(self, config: Any) -> None:
        """Raises AdapterError where the queries' scale, which no key of a file states, is by
        default another one for transformers than for llama.cpp."""
        metadata, _ = self._contents
        architecture = metadata["general.architecture"]
        if architecture not in SCALED_BY_MEAN:
            return
        head = metadata.get(f"{architecture}.attention.key_length")
        if config.num_hidden_layers == SCALED_BY_MEAN[architecture]:
            head = config.hidden_size // config.num_attention_heads
        if head is not None and head != config.query_pre_attn_scalar:
            raise AdapterError(
                f"{self.path.name}: its queries are divided by the root of {head} (a rule of such "
                f"files), and transformers takes {config.query_pre_attn_scalar}, so that answers would "
                f"be those of another model; {OTHERWISE}"
            )

    def _not_applied(self, what: str) -> AdapterError:
        return AdapterError(
            f"{self.path.name}: {what} is not applied by transformers, so that answers would be those "
            f"of another model; {OTHERWISE}"
        )

    def _invalid(self, why: str) -> AdapterError:
        return AdapterError(f"{self.path} is not a valid GGUF file {why}; fetch it again")


def _write_blanks(backend: Any, *, prefixed: bool) -> None:
    """Has a tokenizer of SentencePiece write each blank as the sign that its tokens have for it, with
    one more (``prefixed``) at the begin of a text and behind each special token."""
    from tokenizers import decoders, normalizers

    before = [normalizers.Prepend("\u2581")] if prefixed else []
    backend.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", "\u2581")])
    backend.pre_tokenizer = None
    if not prefixed:  # nor does an answer lose its first blank
        as_blanks = decoders.Replace("\u2581", " ")
        backend.decoder = decoders.Sequence([as_blanks, decoders.ByteFallback(), decoders.Fuse()])


class _Noting(dict[str, Any]):
    """A dict that notes which of its keys are read."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)


def _keys_read(architecture: str, values: dict[str, Any], tensors: tuple[str, ...]) -> set[str]:
    """The keys that transformers, or this package, reads."""
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
    from transformers.integrations.gguf.gguf_config_mapping import GGUF_CONFIG_ARCHS
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_TOKENIZER_MAPPING

    read = set(TURN_ENDS)
    for names in GGUF_TOKENIZER_MAPPING.values():
        read |= {f"tokenizer.{name}" for name in names}
    if architecture in GGUF_CONFIG_ARCHS:
        noting = _Noting(values)
        GGUF_CONFIG_ARCHS[architecture](noting, tensors)
        return read | noting.read
    mapping = GGUF_CONFIG_MAPPING.get(SPELLED.get(architecture, architecture), {})
    return read | {
        f"{architecture}.{key}" for key, name in mapping.items() if name not in (None, -1)
    }


def _as_stated(key: str, value: Any, config: Any) -> bool:
    """Whether a configuration has a key's value, though it was not read from there."""
    if not isinstance(value, int | float):  # a list by layer
        return False
    heads = getattr(config, "num_attention_heads", None)
    head = getattr(config, "head_dim", None)
    if head is None and heads:
        head = config.hidden_size // heads
    if key in ("attention.key_length", "attention.value_length"):
        return bool(head == value)
    if key == "rope.dimension_count":
        rope = getattr(config, "rope_parameters", None) or {}
        part = rope.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", 1.0))
        return head is not None and int(head * (part or 1.0)) == value
    if key == "attention.sliding_window":
        length = getattr(config, "max_position_embeddings", None)
        return value == 0 or (length is not None and value >= length)
    stated = getattr(config, STATED.get(key, ""), None)
    return stated is not None and math.isclose(stated, value, rel_tol=1e-6)
