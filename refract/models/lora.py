"""LoRA adapters (Hu et al., 2021, arXiv 2106.09685) in the folders that PEFT writes.

They are not merged into their base, which would round each weight to the base's type of
number. PEFT is imported only where an adapter is loaded.
"""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

from refract.core.jsonl import parse_json
from refract.models.protocol import AdapterError, first_line

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# Cut by tokenizers of one vocabulary as they cut.
SAMPLE = "In 2024, I can't  help:\n\n1. a\n2. Über-Maß \u4f60\u597d\n"


def adapter_files(folder: Path) -> list[Path]:
    """The files of an adapter that determine an answer. Raises AdapterError where they
    are missing."""
    if not folder.is_dir():
        raise AdapterError(
            f"adapter_path {str(folder)!r} is no folder here (seen from {Path.cwd()}); correct it, or "
            "download an adapter of the hub: hf download OWNER/NAME --local-dir FOLDER"
        )
    files = [folder / CONFIG, folder / WEIGHTS]
    for path in files:
        if not path.is_file():
            raise AdapterError(
                f"adapter_path: {folder} has no {path.name}; save the adapter there with PEFT's "
                "save_pretrained (of weights, only safetensors are read)"
            )
    return files


def refuse_other_prompts(folder: Path, base: Any, *, templated: bool) -> None:
    """Raises AdapterError where an adapter's folder has a chat template or a tokenizer that is
    not its base's: ``base`` is that tokenizer. ``templated``: whether its template is used."""
    names = ("tokenizer_config.json", "tokenizer.json", "tokenizer.model")
    template = folder / "chat_template.jinja"
    text = template.read_text(encoding="utf-8") if template.is_file() else None
    different = ""
    if any((folder / name).is_file() for name in names):
        from transformers import AutoTokenizer

        try:
            own = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except Exception as error:  # whatever transformers raises
            raise AdapterError(
                f"adapter_path: the tokenizer of {folder} cannot be loaded: {first_line(error)}"
            ) from error
        text = own.chat_template or text
        padding = {own.pad_token, base.pad_token}  # which answers have none of
        words = [set(tokenizer.get_vocab().items()) for tokenizer in (own, base)]
        if {word for word, _ in words[0] ^ words[1]} - padding:
            different = "tokenizer"
        if own(SAMPLE)["input_ids"] != base(SAMPLE)["input_ids"]:
            different = "tokenizer"
        if own.eos_token != base.eos_token:
            different = "end of text"
    if templated and text is not None and text != base.chat_template:
        different = different or "chat template"
    if different:
        raise AdapterError(
            f"adapter_path: {folder} has a {different} of its own, other than the base's; put its "
            "tokenizer files and template into a copy of the base, and name that as model_id"
        )


def add_adapter(model: Any, folder: Path) -> None:
    """Puts an adapter on the layers of a loaded model. Its weights become float32,
    whatever the model's type, which changes none that is stored in 16 bits. Raises
    AdapterError where it is of another base."""
    from peft import LoraConfig, PeftModel

    try:
        stated = parse_json((folder / CONFIG).read_text(encoding="utf-8"))
        if stated.get("peft_type") != "LORA":
            raise ValueError(f"peft_type must be LORA (got {stated.get('peft_type')!r:.40})")
        known = {field.name for field in dataclasses.fields(LoraConfig)}
        for key, value in stated.items():
            if key not in known and value not in (None, False, [], {}):
                raise ValueError(f"nothing applies {key} (here {value!r:.40}); a newer PEFT may")
        config = LoraConfig.from_pretrained(str(folder))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about merging and training
            loaded = PeftModel(model, config).load_adapter(str(folder), "default")
        wrong = [*loaded.missing_keys, *loaded.unexpected_keys]
        if wrong:
            raise ValueError(f"{len(wrong)} of its weights fit nothing, first {wrong[0]}")
    except Exception as error:  # whatever PEFT raises
        reason = " ".join(str(error).split())[:300]  # which is not in the first line
        raise AdapterError(
            f"adapter_path: {folder} cannot be put on {model.config.name_or_path}: "
            f"{type(error).__name__}: {reason}; name the base that it was trained on"
        ) from error
