"""What a GGUF file holds that shapes an answer: used, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refract.models.protocol import AdapterError

# Factors of positions: without effect where all are 1, and read by nothing here.
ROPE_FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
# Architectures whose scaling of positions transformers reads from the file.
SCALING_IS_READ = ("gpt-oss",)
REMEDY = "take the checkpoint in safetensors, or a GGUF file without it"


def _reader(path: Path) -> Any:
    from gguf import GGUFReader

    return GGUFReader(path)


def turn_ends(path: Path) -> list[int]:
    """The ids that end a turn or a message by the file's own keys, besides its ``eos``."""
    fields = _reader(path).fields
    keys = [f"tokenizer.ggml.{name}_token_id" for name in ("eot", "eom")]
    return [int(fields[key].contents()) for key in keys if key in fields]


def check_positions(path: Path) -> None:
    """Raises AdapterError where the file scales positions in a way that is not read."""
    reader = _reader(path)
    architecture = reader.fields["general.architecture"].contents()
    prefix = f"{architecture}.rope.scaling."
    kind = reader.fields.get(f"{prefix}type")
    scaled = kind is not None and kind.contents() != "none"
    for key, field in reader.fields.items():
        factor = key.removeprefix(prefix) in ("factor", "attn_factor") and field.contents() != 1
        if key == f"{architecture}.rope.scale_linear":
            factor = field.contents() not in (0, 1)
        if (factor or (scaled and field is kind)) and architecture not in SCALING_IS_READ:
            raise AdapterError(
                f"{path}: {key} ({field.contents()!r}) is not read, and answers would be others "
                f"than the model's; allowed: no scaling of positions; {REMEDY}"
            )
    for tensor in reader.tensors:
        if tensor.name in ROPE_FACTORS and (tensor.data != 1).any():
            raise AdapterError(
                f"{path}: the tensor {tensor.name} is not read, and answers would be others than "
                f"the model's; allowed: one whose factors are all 1; {REMEDY}"
            )


def check_tensors(path: Path, model: Any) -> None:
    """Raises AdapterError where a tensor has no place in the loaded model. Of architectures whose
    tensors transformers renames as it reads them this is not known."""
    from transformers import modeling_gguf_pytorch_utils as reading

    reader = _reader(path)
    architecture = reader.fields["general.architecture"].contents()
    processor = reading.TENSOR_PROCESSORS.get(architecture, reading.TensorProcessor)
    if processor not in (reading.TensorProcessor, reading.LlamaTensorProcessor):
        return
    known = reading.get_gguf_hf_weights_map(model, processor(config={}))
    for tensor in reader.tensors:
        name = tensor.name
        if name not in known and name not in ROPE_FACTORS and "_exps." not in name:
            raise AdapterError(
                f"{path}: the tensor {name} has no place in a model of {architecture}, and answers "
                f"would be as if it were not there; {REMEDY}"
            )
