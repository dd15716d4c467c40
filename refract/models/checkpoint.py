"""A local model's settings and checkpoint: which files determine an answer, their hash,
loading.

Torch and transformers are imported only where something is loaded, so that a run in
which every answer is stored stays cheap. Weights are read from safetensors and GGUF
alone: a pickle can run code.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, model_validator

from refract.core.environment import data_folder, need_local
from refract.core.jsonl import parse_json, sha256_file
from refract.core.published_text import PACKAGE
from refract.core.registry import Registry, find
from refract.core.settings import Number, Settings
from refract.models.protocol import AdapterError, first_line
from refract.models.turn import Markers, SystemPrompt, Text, refuse_ambiguous

# What transformers reads besides weights. READMEs and licences determine no answer and
# are left out.
FILES = (
    "config*.json",
    "generation_config.json",
    "special_tokens_map.json",
    "tokenizer*.json",
    "added_tokens.json",
    "merges.txt",
    "vocab.*",
    "*.model",
    "*.spm",
    "*.tiktoken",
    "*.tokenizer",
    "tekken*.json",
    "emoji.json",
    "chat_template.*",
    "chat_templates/*.jinja",
    "additional_chat_templates/*.jinja",
)
# Types of rotary positions whose factors change with the length of a text.
CHANGING = ("longrope", "su", "dynamic")
# What configurations call the positions that a model was built for.
LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
# What to do with an adapter, of which no hash would know: its weights come on top of others.
MERGE = (
    "a PEFT adapter, which is measured as part of its base: merge it with PeftModel.from_pretrained("
    "AutoModelForCausalLM.from_pretrained(BASE, dtype='float32'), ADAPTER).merge_and_unload()"
    ".save_pretrained(NEW), put the tokenizer's files there, and give NEW as model_id"
)
# What older checkpoints hold in a layer that follows from the configuration: masks, and positions.
BUFFERS = ("bias", "masked_bias", "causal_mask", "inv_freq", "cos_cached", "sin_cached")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class WeightFile(Protocol):
    """A model's one file: what an entry of the group ``refract.weight_files`` names. Its methods
    raise AdapterError."""

    def __init__(self, path: Path) -> None: ...

    def description(self) -> dict[str, Any]:
        """``parameters``, ``context_length``, ``dtype`` (of most weights), ``architecture``."""

    def check_configuration(self, config: Any) -> None:
        """Refuses what transformers left out of a configuration and could change an answer."""

    def set_up_tokenizer(self, tokenizer: Any) -> None:
        """Corrects what transformers made of the file's tokenizer."""

    def check_weights(self, model: Any, unexpected: Iterable[str]) -> None:
        """Refuses what is in no weight of the loaded model; ``unexpected`` by transformers."""

    def turn_ends(self) -> set[int]:
        """The tokens that end a turn by the file's word."""


# Safetensors are read here.
WEIGHT_FILES = Registry({}, "refract.weight_files", "description")


class HFSettings(Settings):
    """A local model. Generation settings are these and no others: of a checkpoint's
    ``generation_config.json`` only the end-of-text ids count, together with those of
    ``config.json`` and the tokenizer."""

    model_id: Text = Field(
        description="a folder with a checkpoint (safetensors, or with gguf_file GGUF), a hub id "
        "`owner/name`, or with gguf_file a package `name==version` of the package index",
        json_schema_extra={"allowed": "a folder or a hub id such as Qwen/Qwen2.5-0.5B-Instruct"},
    )
    revision: Text | None = Field(None, description="branch, tag or commit on the hub; null: main")
    system_prompt: SystemPrompt = None
    chat_template: bool = Field(
        True, description="true: the checkpoint's own template, if any; false: the bare text"
    )
    temperature: Annotated[Number, Field(ge=0)] = Field(
        0.0, description="0: the likeliest token; above 0: sampling with the row's own seed"
    )
    top_p: Annotated[Number, Field(gt=0, le=1)] = Field(1.0, description="limit of sampling")
    top_k: Annotated[int, Field(ge=1)] | None = Field(None, description="limit of sampling")
    max_tokens: int = Field(512, ge=1, description="most tokens of an answer")
    stop: Text | Annotated[list[Text], Field(min_length=1)] | None = Field(
        None, description="texts that end an answer and are not part of it"
    )
    prefill: Text | None = Field(
        None, description="how the model's turn begins; the answer is the whole turn"
    )
    reasoning: Markers | None = Field(None, description="markers of thinking text")
    thinking_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="tokens that a turn may have besides `max_tokens`, for its thinking"
    )
    enable_thinking: bool | None = Field(None, description="given to a chat template that reads it")
    reasoning_effort: Text | None = Field(
        None, description="given to a chat template that reads it"
    )
    trust_remote_code: bool = Field(
        False, description="true runs Python code that comes with the checkpoint"
    )
    gguf_file: Text | None = Field(
        None,
        description="the GGUF file there; its weights are dequantised (package refract-gguf)",
    )
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None,
        description="of the GGUF file; a package needs it, so that stored answers need no weights",
        json_schema_extra={"allowed": "64 hexadecimal digits, or null"},
    )
    loop_tokens: Annotated[int, Field(ge=16)] | None = Field(
        None,
        description="an answer ends where its last tokens, so many or more, are one block four times; "
        "null: at no loop",
    )
    score_tokens: Annotated[list[Text], Field(min_length=2)] | None = Field(
        None,
        description="the answer is the logits of these tokens, as JSON; needs max_tokens: 1",
        json_schema_extra={"allowed": "a list of texts of one token each, or null"},
    )
    arithmetic: Literal["exact", "fast"] | None = Field(
        None,
        description="exact: the same answers on every machine (package refract-exact); fast: what "
        "transformers gives here; null: exact where that package is installed",
    )
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto: the checkpoint's; float32 instead of float16 on a CPU"
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:[0-9]+)?)$",
        description="auto: the first there is of cuda, mps, cpu",
        json_schema_extra={"allowed": "auto, cpu, mps, cuda or cuda:N"},
    )
    device_map: Literal["auto"] | None = Field(None, description="auto: spread over all devices")
    quantization: Literal["4bit", "8bit"] | None = Field(None, description="needs bitsandbytes")
    batch_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="tokens read at a time; null: by the size of model and device"
    )

    @model_validator(mode="after")
    def _fit_together(self) -> HFSettings:
        refuse_ambiguous(self.prefill, self.reasoning)
        if not self.gguf_file and (self.sha256 or is_package(self.model_id)):
            raise ValueError("sha256 and a package as model_id are for a gguf_file; give it")
        if is_package(self.model_id) and not self.sha256:
            raise ValueError(f"model_id {self.model_id} is a package: give its gguf_file's sha256")
        if self.device_map and self.device != "auto":
            raise ValueError(f"device_map: auto takes no device (got {self.device!r})")
        if self.score_tokens and self.max_tokens != 1:
            raise ValueError(f"score_tokens needs max_tokens: 1 (got {self.max_tokens})")
        return self


def is_hub_id(model_id: str) -> bool:
    """Whether ``model_id`` names no folder here and has the form of a hub id."""
    form = re.fullmatch(r"[\w][\w.-]*(/[\w][\w.-]*)?", model_id)
    return form is not None and not Path(model_id).is_dir()


def is_package(model_id: str) -> bool:
    """Whether ``model_id`` is a package of the index, as name==version."""
    return re.fullmatch(PACKAGE, model_id) is not None


def fetched_file(sha256: str, gguf_file: str) -> Path:
    """Where ``refract models fetch`` puts a file of a package."""
    return data_folder() / "models" / sha256 / Path(gguf_file).name


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from ``path``; {} without such a file. Raises AdapterError."""
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise AdapterError(f"{path} cannot be read as JSON: {error}") from None
    return content


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of the weights, by name. Raises AdapterError."""
    single = folder / "model.safetensors"
    index = folder / "model.safetensors.index.json"
    if single.is_file():
        return [single]
    if index.is_file():
        places = read_json(index).get("weight_map")
        shards = sorted({*map(str, places.values())}) if isinstance(places, dict) else []
        missing = [name for name in shards if not (folder / name).is_file()]
        if missing or not shards:
            raise AdapterError(
                f"{index} lists files that are not there: {', '.join(missing) or 'none at all'}"
            )
        return [folder / name for name in shards]
    pickles = sorted(path.name for path in folder.glob("*") if path.suffix in _PICKLES)
    if pickles:
        raise AdapterError(
            f"{folder} has its weights in {', '.join(pickles)}, which can run code when loaded; "
            "convert them to safetensors where you trust them"
        )
    raise AdapterError(f"{folder} holds no model.safetensors; download the checkpoint again")


def content_files(folder: Path, *, code: bool = False) -> list[Path]:
    """The files of a checkpoint that determine an answer; ``code``: with Python files.
    Raises AdapterError."""
    if (folder / "adapter_config.json").is_file():
        raise AdapterError(f"{folder} holds {MERGE}")
    if not (folder / "config.json").is_file():
        raise AdapterError(f"{folder} has no config.json: not a model checkpoint")
    files = {*weight_files(folder), *(folder.rglob("*.py") if code else ())}
    named = read_json(folder / "config.json").get("transformers_weights")
    for pattern in (*FILES, *([named] if isinstance(named, str) else [])):
        files.update(path for path in folder.glob(pattern) if path.is_file())
    return sorted(files)


def content_sha256(folder: Path, files: Iterable[Path]) -> str:
    """The SHA-256 over (name, SHA-256) of files of a folder, in their order."""
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.relative_to(folder).as_posix()}\0{sha256_file(path)}\n".encode())
    return total.hexdigest()


def stored_tensors(folder: Path) -> dict[str, tuple[str, int]]:
    """The type of number and the size of each tensor by name, from the headers of the
    weights. Raises AdapterError."""
    from safetensors import SafetensorError, safe_open

    tensors = {}
    for path in weight_files(folder):
        try:
            with safe_open(path, framework="numpy") as weights:
                for name in weights.keys():  # noqa: SIM118 - not a mapping
                    tensor = weights.get_slice(name)
                    tensors[name] = (tensor.get_dtype(), math.prod(tensor.get_shape()))
        except (OSError, SafetensorError) as error:
            raise AdapterError(f"{path} is not a valid safetensors file ({error})") from None
    return tensors


def parameter_count(folder: Path) -> int:
    """Number of weights; a tied output layer that is stored twice counts once. Raises
    AdapterError."""
    tensors = stored_tensors(folder)
    if read_json(folder / "config.json").get("tie_word_embeddings"):
        tensors.pop("lm_head.weight", None)
    return sum(size for _, size in tensors.values())


def context_length(config: dict[str, Any]) -> int | None:
    """Positions the model was built for, by its config; None where the config names no bound."""
    for part in (config, config.get("text_config") or {}):
        for key in LENGTHS:
            length = part.get(key)
            if isinstance(length, int):
                return length
    return None


def token_limit(config: Any, tokenizer: Any) -> int | None:
    """Most tokens that model and tokenizer take; None where neither names a bound."""
    positions = context_length(config.to_dict())
    if positions and "roberta" in config.model_type:
        positions -= config.pad_token_id + 1  # which begin behind the padding's
    # transformers' way of saying "unknown" is 10**30
    stated = int(tokenizer.model_max_length) if tokenizer.model_max_length < 10**9 else None
    if positions and stated:
        return min(positions, stated)
    return positions or stated or None


def cached_snapshot(model_id: str, revision: str) -> Path | None:
    """The folder of the local hub cache that holds a revision of a hub model, named as
    its commit."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model_id, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None


def changing_ropes(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rotary settings of a ``config.json``, or of its text model's, whose factors are others beyond
    some length. Layers of unlike kinds can have their own."""
    ropes = []
    for holder in (config, config.get("text_config") or {}):
        for key in ("rope_parameters", "rope_scaling"):
            rope = holder.get(key) or {}
            parts = [part for part in (rope, *rope.values()) if isinstance(part, Mapping)]
            ropes += [part for part in parts if part.get("rope_type", part.get("type")) in CHANGING]
    return ropes


def unused_layers(model: Any, unexpected: Iterable[str]) -> list[str]:
    """The weights of a checkpoint that belong to layers which the model has none of: a
    weight of that name it has under another number. Layers for predicting further
    tokens are of no use here."""
    if getattr(model.config, "num_nextn_predict_layers", 0):
        return []
    numbered = re.compile(r"\.[0-9]+\.")
    known = {numbered.sub(".N.", name) for name in model.state_dict()}
    return [name for name in sorted(unexpected) if numbered.sub(".N.", name) in known]


def unused_parts(model: Any, unexpected: Iterable[str]) -> list[str]:
    """The weights of a checkpoint that would change what a module of the model gives, and that it has
    no place for: adapters, biases, and whatever else stands inside a layer."""
    places = set(model.state_dict())
    modules = {name for name, _ in model.named_modules()}
    unused = []
    for name in sorted(unexpected):
        module, _, kind = name.rpartition(".")
        # Attention of GPT-2's kind has no weight of its own, and a mask that is called a bias.
        is_bias = kind == "bias" and f"{module}.weight" in places
        is_adapter = "lora_" in name and name[: name.index(".lora_")] in modules
        if is_adapter or is_bias or (kind not in BUFFERS and in_a_layer(module, modules)):
            unused.append(name)
    return unused


def in_a_layer(module: str, modules: Collection[str]) -> bool:
    """Whether a module would stand inside a numbered one of ``modules``."""
    while module and module not in modules:
        module = module.rpartition(".")[0]
    return re.search(r"\.[0-9]+(\.|$)", module) is not None


class Loader:
    """Loads what one definition names. Raises :class:`AdapterError`."""

    def __init__(self, name: str, settings: HFSettings, where: str = "") -> None:
        self.name, self.settings, self.where = name, settings, where or f"models.{name}"
        self.read_file: WeightFile | None = None  # once its configuration was read

    @cached_property
    def commit(self) -> str:
        """The commit of a model of the hub: a full hash is itself; a branch or tag is
        looked up on the hub or, where that fails, in its cache."""
        model_id, revision = self.settings.model_id, self.settings.revision or "main"
        if re.fullmatch(r"[0-9a-f]{40}", revision):
            return revision
        from huggingface_hub import HfApi

        try:
            return str(HfApi().model_info(model_id, revision=revision, timeout=10).sha)
        except Exception as error:  # no such model, no access, or whatever goes wrong on a network
            snapshot = cached_snapshot(model_id, revision)
            if snapshot is not None:
                return snapshot.name
            raise AdapterError(
                f"revision {revision!r} of {model_id!r} cannot be resolved: neither the hub"
                f" ({type(error).__name__}: {first_line(error)}) nor its cache has it, and there is no"
                f" such folder in {Path.cwd()}; correct it, run `hf auth login`, or go online once"
            ) from None

    @property
    def folder(self) -> Path | None:
        """The folder of the weights; None for a model of the hub."""
        model_id, revision = self.settings.model_id, self.settings.revision
        if is_package(model_id):
            path = fetched_file(str(self.settings.sha256), str(self.settings.gguf_file))
            if not path.is_file():
                raise AdapterError(
                    f"models.{self.name}: the weights of {model_id} are not on this machine; run: "
                    f"refract models fetch {self.name}"
                )
            return path.parent
        if is_hub_id(model_id):
            return None
        folder = Path(model_id).expanduser()
        if not folder.is_dir():
            raise AdapterError(
                f"model_id {model_id!r} is neither a folder here (seen from {Path.cwd()}) nor a hub id"
                " of the form owner/name"
            )
        if revision is not None:
            raise AdapterError(f"{self.where}: a folder has no revision (got {revision!r})")
        return folder

    @property
    def gguf_file(self) -> Path | None:
        """The GGUF file on this machine, if the weights are in one."""
        folder, name = self.folder, self.settings.gguf_file
        if folder is None or name is None:
            return None
        path = folder / (Path(name).name if is_package(self.settings.model_id) else name)
        if not path.is_file():
            raise AdapterError(f"models.{self.name}: gguf_file: {folder} holds no {name}")
        return path

    @property
    def weight_file(self) -> type[WeightFile]:
        """What reads a GGUF file. Raises :class:`MissingPackage`."""
        reader: type[WeightFile] = find(WEIGHT_FILES, "gguf", f"{self.where}: gguf_file")
        return reader

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The weights by their content; those of the hub by model, commit and, of GGUF, file and
        ``sha256``. A pinned ``sha256`` needs no file until the model is loaded."""
        settings = self.settings
        pinned = {"sha256": settings.sha256, "format": "gguf"} if settings.sha256 else {}
        if pinned and not is_hub_id(settings.model_id):
            return pinned
        gguf_file, folder = self.gguf_file, self.folder
        if gguf_file:
            return {"sha256": sha256_file(gguf_file), "format": "gguf"}
        if folder:
            files = content_files(folder, code=settings.trust_remote_code)
            return {"sha256": content_sha256(folder, files)}
        file = {"gguf_file": settings.gguf_file} if settings.gguf_file else {}
        return {"model_id": settings.model_id, "commit": self.commit, **file, **pinned}

    def config_and_tokenizer(self) -> tuple[Any, Any]:
        """The configuration and the tokenizer. Raises :class:`MissingPackage`."""
        need_local("torch", "transformers")
        file, pinned, wanted = self.gguf_file, self.settings.sha256, self.settings.gguf_file
        opened = self.weight_file if wanted else None
        if wanted and not file:
            from huggingface_hub import hf_hub_download

            with self.loading("the GGUF file"):
                downloaded = hf_hub_download(self.settings.model_id, wanted, revision=self.commit)
            file = Path(downloaded)
        if file and pinned:
            sha256 = sha256_file(file)
            if sha256 != pinned:
                raise AdapterError(
                    f"{self.where}: {file} has the SHA-256 {sha256}; the definition says {pinned}"
                )
        source = self.source()
        from transformers import AutoConfig, AutoTokenizer

        with self.loading("the configuration"):
            config = AutoConfig.from_pretrained(**source)
        if self.folder and not file:  # transformers would go on without one that it cannot read
            read_json(self.folder / "generation_config.json")
        self.read_file = opened(file) if opened and file else None
        if self.read_file:
            self.read_file.check_configuration(config)
        with self.loading("the tokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(**source)
        if self.read_file:
            self.read_file.set_up_tokenizer(tokenizer)
        return config, tokenizer

    @property
    def device(self) -> str:
        """Where the model is to run."""
        import torch

        if self.settings.device != "auto":
            return self.settings.device
        mps = "mps" if torch.backends.mps.is_available() else "cpu"
        return "cuda" if torch.cuda.is_available() else mps

    def model(
        self, config: Any, kind: str = "AutoModelForCausalLM", numbers: str | None = None
    ) -> Any:
        """The model with its weights on its device, in eval mode. ``kind``: of transformers'
        classes; ``numbers``: their type, where not that of the settings."""
        need_local("accelerate")
        import torch
        import transformers

        if kind == "AutoModelForCausalLM":
            self._refuse_other_kinds(config)
        settings, device = self.settings, self.device
        named = numbers or settings.dtype
        dtype: Any = named if named == "auto" else getattr(torch, named)
        if (dtype, config.dtype, device) == ("auto", torch.float16, "cpu"):
            dtype = torch.float32
        arguments = self.source() | {
            "dtype": dtype,
            "use_safetensors": True,
            "output_loading_info": True,
        }
        if settings.device_map:
            arguments["device_map"] = "auto"
        transformers.logging.disable_progress_bar()
        # The bar of dequantising has no switch.
        quiet = redirect_stderr(io.StringIO()) if settings.gguf_file else nullcontext()
        with self.loading("the weights"):
            self._refuse_unread_numbers(config)
            if settings.quantization:
                bits = {f"load_in_{settings.quantization}": True}
                arguments["quantization_config"] = transformers.BitsAndBytesConfig(**bits)
                arguments.setdefault("device_map", {"": device})
            elif settings.gguf_file:  # also where kernels could take blocks as they are
                arguments["quantization_config"] = transformers.GgufConfig(dequantize=True)
            with quiet:
                model, loaded = getattr(transformers, kind).from_pretrained(**arguments)
            if hasattr(model, "peft_config"):  # transformers loads its base, of which no hash knows
                raise ValueError(f"it is {MERGE}")
            lacking = sorted(loaded["missing_keys"]) or sorted(map(str, loaded["mismatched_keys"]))
            if lacking:
                raise ValueError(f"the checkpoint lacks {len(lacking)} weights, first {lacking[0]}")
            unused = unused_layers(model, loaded["unexpected_keys"])
            if unused:
                raise ValueError(
                    f"the checkpoint holds more layers than config.json names, first {unused[0]}; "
                    "correct its number of layers"
                )
            if self.read_file:
                self.read_file.check_weights(model, loaded["unexpected_keys"])
            unused = unused_parts(model, loaded["unexpected_keys"])
            if unused:
                raise ValueError(
                    f"the checkpoint holds {len(unused)} weights that the model of config.json has no "
                    f"place for, first {unused[0]}; correct config.json (attention_bias, say), merge "
                    "adapters into the weights, or remove what is not needed"
                )
            if "device_map" not in arguments:
                model = model.to(device)
        return model.eval()

    def _refuse_unread_numbers(self, config: Any) -> None:
        """Raises ValueError at weights in whole numbers of which nothing says what they mean, and
        at a quantisation that transformers would leave out."""
        from transformers.quantizers.auto import AutoHfQuantizer

        stated = getattr(config, "quantization_config", None)
        if stated is None:
            tensors = stored_tensors(self.folder) if self.folder and not self.gguf_file else {}
            for name, (kind, _) in tensors.items():
                if name.endswith(".weight") and kind in ("I8", "U8", "I16", "I32"):
                    raise ValueError(
                        f"{name} is of whole numbers ({kind}); config.json has no quantization_config"
                    )
        elif isinstance(stated, dict) and not AutoHfQuantizer.supports_quant_method(stated):
            raise ValueError(f"nothing applies quantization_config {stated!r:.80} of config.json")

    def _refuse_other_kinds(self, config: Any) -> None:
        """Raises AdapterError for a checkpoint that is no decoder."""
        from transformers.models.auto import modeling_auto

        names = config.architectures or []
        encodes = getattr(config, "is_encoder_decoder", False) and "ForCausalLM" not in str(names)
        known = type(config) in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING
        if encodes or not (
            known or "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {})
        ):
            raise AdapterError(
                f"{self.where}: transformers has no decoder for a model of type {config.model_type} "
                f"(architectures: {', '.join(names) or 'none named'}); one with an encoder is measured "
                "behind a server (adapter: openai), or by its answers (adapter: recorded)"
            )

    def source(self) -> dict[str, Any]:
        """Where transformers loads from, as arguments of its ``from_pretrained``."""
        settings, folder, file = self.settings, self.folder, self.gguf_file
        where = file.parent if file else folder or settings.model_id
        source: dict[str, Any] = {"pretrained_model_name_or_path": str(where)}
        source |= {"local_files_only": True} if folder else {"revision": self.commit}
        if settings.gguf_file:
            source["gguf_file"] = file.name if file else settings.gguf_file
        return source | {"trust_remote_code": settings.trust_remote_code}

    @contextmanager
    def loading(self, part: str) -> Iterator[None]:
        """Raises whatever loading a part raises as an :class:`AdapterError`."""
        try:
            yield
        except AdapterError:
            raise
        except Exception as error:
            raise AdapterError(
                f"{self.where}: {part} of {self.settings.model_id!r} cannot be loaded:"
                f" {type(error).__name__}: {first_line(error)}"
            ) from error
