"""LoRA adapters (Hu et al., 2021, arXiv 2106.09685) in the folders that PEFT writes.

They are not merged into their base, which would round each weight to the base's type of
number: a layer computes W x + s B (A x), in float64 where exact answers are decided.

Torch and PEFT are imported only where an adapter is loaded.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from refract.models.checkpoint import read_json
from refract.models.protocol import AdapterError

_MERGE = (
    "merge it into its base: PeftModel.from_pretrained(BASE, FOLDER).merge_and_unload()"
    ".save_pretrained(NEW), and give NEW as model_id"
)
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# Entries of adapter_config.json that may have any value.
KNOWN = frozenset(
    {
        "alpha_pattern",
        "auto_mapping",
        "base_model_name_or_path",
        "exclude_modules",
        "fan_in_fan_out",
        "inference_mode",
        "layers_pattern",
        "layers_to_transform",
        "lora_alpha",
        "lora_dropout",
        "megatron_core",  # the name of a package, whether it is used or not
        "peft_type",
        "peft_version",
        "qalora_group_size",  # likewise a number
        "r",
        "rank_pattern",
        "revision",
        "target_modules",
        "task_type",
        "use_rslora",
    }
)
# Other values of these change weights of the base, and so may what is in no list.
VALUES: dict[str, tuple[Any, ...]] = {
    "bias": ("none",),
    "init_lora_weights": (True, "gaussian"),
}


def adapter_files(folder: Path) -> list[Path]:
    """The files of an adapter that determine an answer. Raises AdapterError where they
    are missing, or are no LoRA adapter of a kind that is supported."""
    from safetensors import SafetensorError, safe_open

    if not folder.is_dir():
        raise AdapterError(
            f"adapter_path {str(folder)!r} is no folder here (seen from {Path.cwd()}); correct it, or "
            "download an adapter of the hub: hf download OWNER/NAME --local-dir FOLDER"
        )
    if not (folder / CONFIG).is_file():
        raise AdapterError(
            f"adapter_path: {folder} has no {CONFIG}: it is no folder that PEFT's save_pretrained wrote"
        )
    if not (folder / WEIGHTS).is_file():
        pickled = (folder / "adapter_model.bin").is_file()
        reason = "adapter_model.bin can run code when loaded; only safetensors are read. " * pickled
        raise AdapterError(
            f"adapter_path: {folder} has no {WEIGHTS}. {reason}Save the adapter with the current PEFT"
        )
    settings = read_json(folder / CONFIG)
    if settings.get("peft_type") != "LORA":
        raise AdapterError(
            f"adapter_path: {folder} is an adapter of type {settings.get('peft_type')!r:.80}, and LORA "
            f"is supported; {_MERGE}"
        )
    for key, value in settings.items():
        if value and key not in KNOWN and value not in VALUES.get(key, ()):
            raise AdapterError(
                f"adapter_path: {folder / CONFIG}: {key}: {value!r:.80} is not supported; {_MERGE}"
            )
    try:
        with safe_open(folder / WEIGHTS, framework="numpy") as weights:
            names = list(weights.keys())
    except (OSError, SafetensorError) as error:
        raise AdapterError(
            f"adapter_path: {folder / WEIGHTS} is not a valid safetensors file ({error}); copy it again"
        ) from None
    for name in names:
        if not name.endswith((".lora_A.weight", ".lora_B.weight")):
            raise AdapterError(
                f"adapter_path: {folder / WEIGHTS}: {name} is no LoRA weight of a linear layer; {_MERGE}"
            )
    return [folder / CONFIG, folder / WEIGHTS]


def add_adapter(model: Any, folder: Path) -> None:
    """Puts an adapter on the layers of a loaded model. Its weights become float32,
    whatever the model's type, which changes none that is stored in 16 bits. Raises
    AdapterError where it is of another base."""
    from peft import LoraConfig, PeftModel

    try:
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


def add_like(model: Any, adapted: Any) -> None:
    """Gives a model without weights the layers of another one's adapter, if that has
    one."""
    for name, config in getattr(adapted, "peft_config", {}).items():
        from peft import inject_adapter_in_model

        inject_adapter_in_model(config, model, adapter_name=name, low_cpu_mem_usage=True)
