"""Loading a causal language model and its tokenizer from a folder or the hub cache.

Imports torch and transformers inside its functions: opening a model must not load them.
"""

from __future__ import annotations

import importlib.util
import io
import os
import warnings
from contextlib import nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

from refract.core.jsonl import sha256_file
from refract.models import checkpoint
from refract.models.hf_settings import HFSettings
from refract.models.protocol import AdapterError

# Quantisations of bitsandbytes, and what it calls them.
BITS = {"4bit": "load_in_4bit", "8bit": "load_in_8bit"}


class Loader:
    """Loads what one definition names. Raises :class:`AdapterError`."""

    def __init__(self, name: str, settings: HFSettings) -> None:
        self.name, self.settings = name, settings
        self._commit: str | None = None
        self._checked = False

    @property
    def folder(self) -> Path | None:
        """The checkpoint's folder; None for a model of the hub."""
        model_id, revision = self.settings.model_id, self.settings.revision
        if checkpoint.is_package(model_id):
            path = self.gguf_file()
            return path and path.parent
        if not checkpoint.is_folder(model_id):
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

    @property
    def commit(self) -> str:
        """The commit of a model of the hub, resolved once."""
        if self._commit is None:
            self._commit = checkpoint.resolve_revision(
                self.settings.model_id, self.settings.revision or "main"
            )
        return self._commit

    def gguf_file(self) -> Path | None:
        """The GGUF file of a folder, or of a package where it was fetched; None for a hub model."""
        model_id, name, sha256 = (
            self.settings.model_id,
            self.settings.gguf_file,
            self.settings.sha256,
        )
        assert name is not None
        if checkpoint.is_package(model_id):
            assert sha256 is not None  # the settings ask for it
            path = checkpoint.fetched_file(sha256, name)
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
            content = checkpoint.content_hash(folder, code=settings.trust_remote_code)
            return {"sha256": content, **checkpoint.embedded_adapter(folder)}
        return {"model_id": settings.model_id, "commit": self.commit}

    def config_and_tokenizer(self) -> tuple[Any, Any]:
        """The configuration and the tokenizer."""
        source = self._source()
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
            checkpoint.peft_hash(peft_folder)  # raises where files are missing or pickled
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
        arguments: dict[str, Any] = {"trust_remote_code": self.settings.trust_remote_code}
        settings, folder = self.settings, self.folder
        if folder is None:
            if settings.gguf_file:
                arguments["gguf_file"] = settings.gguf_file
            return arguments | {
                "pretrained_model_name_or_path": settings.model_id,
                "revision": self.commit,
            }
        if settings.gguf_file:
            file = self.gguf_file()
            assert file is not None  # it has a folder
            self._check_pinned(file)
            folder, arguments["gguf_file"] = file.parent, file.name
        else:
            checkpoint.weight_files(folder)
        return arguments | {"pretrained_model_name_or_path": str(folder), "local_files_only": True}

    def _check_pinned(self, file: Path) -> None:
        pinned = self.settings.sha256
        if pinned is not None and not self._checked and (sha256 := sha256_file(file)) != pinned:
            raise AdapterError(
                f"models.{self.name}: {file} has the SHA-256 {sha256}, and the definition says "
                f"{pinned}"
            )
        self._checked = True

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
