"""Which LoRA adapters (Hu et al., 2021, arXiv 2106.09685) exact answers are possible with: a
layer computes W x + s B (A x), in float64 where tokens are decided.

PEFT is imported only where an adapter is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refract.models.checkpoint import read_json
from refract.models.lora import CONFIG, WEIGHTS
from refract.models.protocol import AdapterError

_MERGE = (
    "merge it into its base: PeftModel.from_pretrained(BASE, FOLDER).merge_and_unload()"
    ".save_pretrained(NEW), and give NEW as model_id"
)
# Entries of adapter_config.json that may have any value.
KNOWN = {
    *("alpha_pattern", "auto_mapping", "base_model_name_or_path", "exclude_modules"),
    *("fan_in_fan_out", "inference_mode", "layers_pattern", "layers_to_transform", "lora_alpha"),
    *("lora_dropout", "peft_version", "r", "rank_pattern", "revision", "target_modules"),
    *("task_type", "use_rslora"),
    *("megatron_core", "qalora_group_size"),  # a name and a number, whether used or not
}
# Other values of these change weights of the base, and so may what is in no list.
VALUES: dict[str, tuple[Any, ...]] = {
    "bias": ("none",),
    "init_lora_weights": (True, "gaussian"),
    "peft_type": ("LORA",),
}


def refuse_other(folder: Path) -> None:
    """Raises AdapterError where an adapter is no plain LoRA adapter of linear layers."""
    from safetensors import SafetensorError, safe_open

    for key, value in read_json(folder / CONFIG).items():
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


def add_like(model: Any, adapted: Any) -> None:
    """Gives a model without weights the layers of another one's adapter, if that has one."""
    for name, config in getattr(adapted, "peft_config", {}).items():
        from peft import inject_adapter_in_model

        inject_adapter_in_model(config, model, adapter_name=name, low_cpu_mem_usage=True)
