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
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, model_validator

from refract.core.errors import ParamsError
from refract.core.settings import Number, Settings
from refract.core.types import Verdict
from refract.core.vocabulary import OUTPUT_SENSITIVITY
from refract.judges.cases import Case, judgeable, unjudged
from refract.judges.encoder import DEFAULT_ENCODER, Window, embed, encoder_folder, weights_sha256

VERSION = "1"

DEFAULT_LAYER = 6
DEFAULT_BASELINE = Path(__file__).with_name("baseline_all_minilm_l6_v2.json")
MEASURE_IT = "run: python -m tools.similarity_baseline --help"
# Characters of the texts whose embeddings are in memory at once: about 200 MB of English.
_CHARACTERS_AT_ONCE = 500_000


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
    baseline: Annotated[Number, Field(ge=-1, lt=1)] | str | None = Field(
        None,
        description="similarity of unrelated texts; null: as measured for the default encoder",
        json_schema_extra={
            "allowed": "a number of at least -1 and below 1, null, or a JSON file of "
            "`python -m tools.similarity_baseline`"
        },
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
                f"stored one is of {DEFAULT_ENCODER!r}, layer {DEFAULT_LAYER}; {MEASURE_IT}"
            )
        return self


class Score(NamedTuple):
    """How alike two texts are; ``truncated``: one was longer than the encoder's limit."""

    similarity: float
    truncated: bool


class Similarity:
    """BERTScore of answers to perturbed prompts against the clean ones, as the score; no label.

    The encoder is loaded once per process and when first needed.
    """

    Settings = SimilaritySettings
    FAMILY = "similarity"
    version = VERSION

    def __init__(self, name: str, settings: SimilaritySettings) -> None:
        self.name, self.settings = name, settings
        # The baseline, and the weights that it was measured on where it is from a file.
        self._stored = _read_baseline(f"judges.{name}: baseline", settings)

    def judge(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict for each case; none without an answer to the clean prompt."""
        verdicts = [unjudged() for _ in cases]
        pairs = {
            index: (str(case.clean["response"]), case.answer)
            for index, case in enumerate(cases)
            if case.clean and judgeable(case.clean)
        }
        try:
            scores = self.score(list(pairs.values())) if pairs else []
        except ParamsError as error:
            raise ParamsError(f"judges.{self.name}: {error}") from None
        for index, found in zip(pairs, scores, strict=True):
            verdicts[index]["score"] = found.similarity
            verdicts[index]["truncated"] = found.truncated
        return verdicts

    @functools.cached_property
    def baseline(self) -> float:
        """Mean F1 of unrelated texts. Raises :class:`ParamsError` for one of other weights."""
        value, measured_on = self._stored
        if measured_on is not None and measured_on != weights_sha256(self._folder()):
            raise ParamsError(
                f"baseline: {self.settings.baseline or DEFAULT_BASELINE} was measured on weights "
                f"{measured_on[:12]}…, not on {weights_sha256(self._folder())[:12]}…; {MEASURE_IT}"
            )
        return value

    def _folder(self) -> Path:
        return encoder_folder(self.settings.encoder)

    def identity(self) -> dict[str, Any]:
        """All that determines a score, as JSON: versions, encoder, weights, layer, baseline."""
        from importlib.metadata import version

        return {
            "version": VERSION,
            "bert_score": version("bert-score"),
            "encoder": self.settings.encoder,
            "weights_sha256": weights_sha256(self._folder()),
            "layer": self.settings.layer,
            "batch_size": self.settings.batch_size,
            "baseline": self.baseline,
        }

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Score]:
        """The score of each pair of answers, in order.

        ``similarity`` is the rescaled F1, to 4 digits: 1 for equal texts (which are not encoded),
        about 0 for unrelated ones, below 0 for pairs less alike than those. Two texts in which the
        encoder sees nothing (empty, whitespace, control characters) are equal; one such text and
        another have 0. ``truncated``: a text is longer than the encoder's limit. It is then encoded
        in consecutive windows of that limit, and all its tokens are matched; none is cut off, but
        no token has context from beyond its window.

        A pair's score depends on the pair alone, not on those scored with it.
        """
        given = self.settings
        cleaned = [(_encodable(clean), _encodable(perturbed)) for clean, perturbed in pairs]
        different = sorted({pair for pair in cleaned if pair[0] != pair[1] and all(pair)})
        scores: dict[tuple[str, str], Score] = {}
        for group in _groups(different):
            texts = sorted({text for pair in group for text in pair})
            embedded = embed(texts, self._folder(), given.layer, given.device, given.batch_size)
            for pair in group:
                scores[pair] = self._score(*(embedded[text] for text in pair))
        return [
            scores[pair] if pair in scores else Score(float(pair[0] == pair[1]), truncated=False)
            for pair in cleaned
        ]

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


def _read_baseline(where: str, settings: SimilaritySettings) -> tuple[float, str | None]:
    given = settings.baseline
    if isinstance(given, int | float):
        return float(given), None
    path = Path(given or DEFAULT_BASELINE)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        value, layer, weights = stored["baseline"], stored["layer"], stored["weights_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ParamsError(
            f"{where}: {path} is not a measured baseline ({type(error).__name__}: {error}); "
            f"{MEASURE_IT}"
        ) from None
    if not isinstance(value, int | float) or isinstance(value, bool) or not -1 <= value < 1:
        raise ParamsError(f"{where}: {path} must hold a number below 1 (got {value!r})")
    if layer != settings.layer:
        raise ParamsError(
            f"{where}: {path} was measured at layer {layer}, not at layer {settings.layer}; "
            f"{MEASURE_IT}"
        )
    return float(value), str(weights)


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


def _precision(candidate: list[Window], reference: list[Window]) -> float:
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
