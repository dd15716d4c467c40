"""The encoder of the judge ``refusal``: its input from an answer and its
prompt, and its network.

A BERT of six layers, the last of which computes the first token alone, and a
linear layer for the classes, in NumPy, since PyTorch takes seconds to load.
``python -m tools.refusal_encoder`` trains its weights.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refract.core.errors import ParamsError
from refract.core.jsonl import sha256_file
from refract.judges.cases import encodable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.floating[Any]]

CLASSES = ("refusal", "partial_refusal", "compliance", "redirection")
FOLDER = Path(__file__).with_name("weights")
HEADS = 12
EPSILON = 1e-12
# Tokens that are computed at once.
AT_ONCE = 512
# Tokens of the answer's beginning and end, and of the prompt's end.
READ = HEAD, TAIL, PROMPT = 64, 24, 24
WIDTH = HEAD + TAIL + PROMPT + 4
# Characters that are tokenized, at an answer's beginning and at the end of
# either text: ordinary writing has fewer in so many tokens.
_BEGINNING, _END = 1200, 400
# Digits of float64 logits that are kept.
DIGITS = 8
# Error bound of a float32 logit: more than sixteen times the largest error
# seen.
ERROR = 2**-14

Weights = Mapping[str, Any]
# Token numbers, and for each 0 in the answer, 1 in the prompt.
Tokens = tuple[tuple[int, ...], tuple[int, ...]]
# In the order of the classes.
Logits = tuple[float, ...]


@functools.cache
def description(name: str = "encoder") -> dict[str, Any]:
    """The description of a file of weights: their hash, and how they were trained."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return content


def stored(name: str, folder: Path = FOLDER) -> Weights:
    """Weights as their file has them; see :func:`dequantized`.

    Raises :class:`ParamsError` where the file is not the described one.
    """
    from safetensors.numpy import load_file

    path = folder / f"{name}.safetensors"
    if not path.is_file() or sha256_file(path) != description(name)["sha256"]:
        raise ParamsError(
            f"{path} is not the file that {name}.json describes; install the package again"
        )
    return load_file(path)


@functools.cache
def load(folder: Path = FOLDER, *, double: bool = True) -> Weights:
    """The weights in float64, or rounded to float32."""
    return arranged(stored("encoder", folder), "float64" if double else "float32")


def arranged(weights: Weights, dtype: str) -> dict[str, Any]:
    """The stored weights as :func:`logits` takes them.

    The matrices for query, key and value are one. Word vectors stay integers
    with scales, since few of them are read.
    """
    import numpy as np

    def vector(name: str) -> Any:
        return weights[name].astype(dtype)

    def matrix(names: Sequence[str]) -> tuple[Any, Any]:
        rows = [dequantized(weights, f"{name}.weight", dtype) for name in names]
        biases = [vector(f"{name}.bias") for name in names]
        return np.ascontiguousarray(np.concatenate(rows).T), np.concatenate(biases)

    layers = sum(name.endswith(".query.weight") for name in weights)
    ready: dict[str, Any] = {
        "layers": layers,
        "word": (weights["word"], vector("word:scale")),
        "position": dequantized(weights, "position", dtype),
        "kind": dequantized(weights, "kind", dtype),
        "classes": matrix(["classes"]),
        "embedded.norm": (vector("embedded.scale"), vector("embedded.shift")),
    }
    for layer in range(layers):
        ready[f"{layer}.three"] = matrix([f"{layer}.{part}" for part in ("query", "key", "value")])
        ready[f"{layer}.inner"] = matrix([f"{layer}.inner"])
        for name in (f"{layer}.mixed", f"{layer}.outer"):
            ready[name] = matrix([name])
            ready[f"{name}.norm"] = vector(f"{name}.scale"), vector(f"{name}.shift")
    return ready


def dequantized(weights: Weights, name: str, dtype: str = "float64") -> Any:
    """A vector of the file, or a matrix from 8-bit integers and a scale for each row."""
    value = weights[name].astype(dtype)
    scale = weights.get(f"{name}:scale")
    return value if scale is None else value * scale.astype(dtype)


def logits_of(
    answers: Sequence[str],
    prompts: Sequence[str],
    unsettled: Callable[[Sequence[Logits]], Iterable[int]] | None = None,
) -> list[Logits]:
    """The logits of each answer, in float64 unless ``unsettled`` is given.

    ``unsettled`` returns the indices whose float32 logits are too imprecise;
    these are recomputed in float64.
    """
    inputs = tokens_of(answers, prompts)
    if unsettled is None:
        return scored(load(), inputs)
    rows = scored(load(double=False), inputs)
    indices = list(unsettled(rows))
    exact = scored(load(), [inputs[index] for index in indices])
    for index, logits in zip(indices, exact, strict=True):
        rows[index] = logits
    return rows


@functools.cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    vocabulary = str(FOLDER / "vocabulary.txt")
    tokenizer = Tokenizer(WordPiece.from_file(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def ids_of(tokenizer: Any, texts: Iterable[str]) -> list[list[int]]:
    """The token numbers of each text."""
    whole = list(map(encodable, texts))
    encoded = tokenizer.encode_batch(whole, add_special_tokens=False)
    return [encoding.ids for encoding in encoded]


def ends_of(
    tokenizer: Any, texts: Sequence[str], beginning: int, end: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Token numbers of as many characters of each text's beginning and end.

    A text that is no longer than both has all of its tokens in the beginning.
    """
    long = [len(text) > beginning + end for text in texts]
    starts, ends = [], []
    for text, cut in zip(texts, long, strict=True):
        starts.append(text[:beginning] if cut else text)
        ends.append(text[-end:] if cut else "")
    return ids_of(tokenizer, starts), ids_of(tokenizer, ends)


def pieces(texts: Sequence[str]) -> list[list[int]]:
    """The encoder's token numbers of each text."""
    return ids_of(_tokenizer(), texts)


def tokens_of(
    answers: Sequence[str], prompts: Sequence[str], read: tuple[int, int, int] = READ
) -> list[Tokens]:
    """The encoder's input for each answer and its prompt; ``read`` has the
    numbers of tokens of the answer's beginning, its end, and the prompt's end.
    """
    beginning, ending, asking = read
    tokenizer = _tokenizer()
    start, stop = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    stripped = [answer.strip() for answer in answers]
    heads, ends = ends_of(tokenizer, stripped, beginning=_BEGINNING, end=_END)
    asked = pieces([prompt[-_END:] for prompt in prompts])
    inputs = []
    for head, end, prompt in zip(heads, ends, asked, strict=True):
        end = end or head[beginning:]
        answer = [start, *head[:beginning], stop, *end[-ending:], stop]
        question = [*prompt[-asking:], stop]
        inputs.append(((*answer, *question), (0,) * len(answer) + (1,) * len(question)))
    return inputs


def scored(weights: Weights, inputs: Sequence[Tokens]) -> list[Logits]:
    """The logits of inputs from :func:`tokens_of`; equal ones are computed once."""
    different = list(dict.fromkeys(inputs))
    size = -(-AT_ONCE // WIDTH)
    rows: dict[Tokens, Logits] = {}
    for start in range(0, len(different), size):
        batch = different[start : start + size]
        for tokens, row in zip(batch, logits(weights, batch).tolist(), strict=True):
            rows[tokens] = tuple(round(value, DIGITS) for value in row)
    return [rows[tokens] for tokens in inputs]


def logits(weights: Weights, inputs: Sequence[Tokens]) -> Array:
    """Shape (inputs, classes). The tokens of all inputs follow one another
    without padding; each attends to those of its own input.
    """
    import numpy as np

    lengths = [len(tokens) for tokens, _ in inputs]
    ends = np.cumsum(lengths)
    starts = ends - lengths
    ids = np.concatenate([tokens for tokens, _ in inputs])
    kinds = np.concatenate([kinds for _, kinds in inputs])
    integers, scales = weights["word"]
    state = integers[ids] * scales[ids]
    state += weights["position"][np.arange(len(ids)) - np.repeat(starts, lengths)]
    state += weights["kind"][kinds]
    state = _normed(weights, "embedded", state)
    last = weights["layers"] - 1
    for layer in range(weights["layers"]):
        three = _linear(weights, f"{layer}.three", state)
        if layer == last:
            state = state[starts]
        mixed = np.empty_like(state)
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            asking = slice(start, end) if layer < last else slice(row, row + 1)
            _attend(three[start:end], mixed[asking])
        mixed = _linear(weights, f"{layer}.mixed", mixed)
        mixed += state
        state = _normed(weights, f"{layer}.mixed", mixed)
        inner = _gelu(_linear(weights, f"{layer}.inner", state))
        outer = _linear(weights, f"{layer}.outer", inner)
        outer += state
        state = _normed(weights, f"{layer}.outer", outer)
    return _linear(weights, "classes", state)


def _attend(three: Array, mixed: Array) -> None:
    """Writes into ``mixed`` the attention of the first tokens of one input, one
    for each of its rows.

    ``three`` holds query, key and value of each token of the input.
    """
    import numpy as np

    query, key, value = three.reshape(len(three), 3, HEADS, -1).transpose(1, 2, 0, 3)
    scores = query[:, : len(mixed)] @ key.transpose(0, 2, 1)
    scores *= query.shape[-1] ** -0.5
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    total = scores.sum(-1, keepdims=True)
    heads = mixed.reshape(len(mixed), HEADS, -1).transpose(1, 0, 2)
    np.matmul(scores, value, out=heads)
    heads /= total


# Coefficients of a polynomial P in x squared for which tanh(x P) is erf(x /
# sqrt 2), within 1e-7 of GELU where x is at most 6 and nowhere further from it
# than float32 is.
_ERF = (
    0.7978842166931639,
    0.03633428227391139,
    -3.3129211784777575e-05,
    -5.5240365483070545e-05,
    3.9691351120459805e-06,
    -1.3344786925631772e-07,
    1.805646929244969e-09,
)


def _gelu(value: Array) -> Array:
    """GELU (Hendrycks & Gimpel 2016, arXiv 1606.08415). In float32 by a
    polynomial: SciPy's erf takes half as long as the matrices do.
    """
    import numpy as np

    if value.dtype == np.float64:
        from scipy.special import erf

        above: Array = erf(value * 0.5**0.5)
    else:
        square = value * value
        np.minimum(square, 36, out=square)
        above = square * _ERF[-1]
        for coefficient in _ERF[-2:0:-1]:
            above += coefficient
            above *= square
        above += _ERF[0]
        above *= value
        np.tanh(above, out=above)
    above += 1
    above *= value
    above *= 0.5
    return above


def _linear(weights: Weights, name: str, value: Array) -> Array:
    matrix, bias = weights[name]
    product: Array = value @ matrix
    product += bias
    return product


def _normed(weights: Weights, name: str, value: Array) -> Array:
    """Layer normalisation of ``value``, which it overwrites."""
    import numpy as np

    scale, shift = weights[f"{name}.norm"]
    value -= value.mean(-1, keepdims=True)
    deviation = np.sqrt(np.einsum("ij,ij->i", value, value) / value.shape[1] + EPSILON)
    value /= deviation[:, None]
    value *= scale
    value += shift
    return value
