"""A BERT (Devlin et al. 2019, arXiv 1810.04805) in NumPy, since PyTorch takes
seconds to load: the network of the default judge and of BERTScore's default
encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.floating[Any]]

HEADS = 12
EPSILON = 1e-12

Weights = Mapping[str, Any]
# The numbers of an input's tokens.
Tokens = tuple[int, ...]


def of_checkpoint(folder: Path, dtype: str) -> Weights:
    """The weights of a checkpoint of transformers' BertModel, as :func:`states`
    takes them.

    ``dtype`` is float32 or float64. Word vectors stay as they are stored, since
    few of them are read.
    """
    import numpy as np
    from safetensors.numpy import load_file

    stored = load_file(folder / "model.safetensors")

    def vector(name: str) -> Any:
        return stored[name].astype(dtype)

    def matrix(names: Sequence[str]) -> tuple[Any, Any]:
        rows = [vector(f"{name}.weight") for name in names]
        biases = [vector(f"{name}.bias") for name in names]
        return np.ascontiguousarray(np.concatenate(rows).T), np.concatenate(biases)

    def norm(name: str) -> tuple[Any, Any]:
        return vector(f"{name}.weight"), vector(f"{name}.bias")

    words = stored["embeddings.word_embeddings.weight"]
    # Each token is of the first type.
    first_type = vector("embeddings.token_type_embeddings.weight")[0]
    layers = sum(name.endswith(".query.weight") for name in stored)
    ready: dict[str, Any] = {
        "layers": layers,
        "word": (words, np.ones((len(words), 1), dtype)),
        "position": vector("embeddings.position_embeddings.weight") + first_type,
        "embedded.norm": norm("embeddings.LayerNorm"),
    }
    for layer in range(layers):
        source = f"encoder.layer.{layer}"
        parts = [f"{source}.attention.self.{part}" for part in ("query", "key", "value")]
        ready[f"{layer}.three"] = matrix(parts)
        ready[f"{layer}.mixed"] = matrix([f"{source}.attention.output.dense"])
        ready[f"{layer}.mixed.norm"] = norm(f"{source}.attention.output.LayerNorm")
        ready[f"{layer}.inner"] = matrix([f"{source}.intermediate.dense"])
        ready[f"{layer}.outer"] = matrix([f"{source}.output.dense"])
        ready[f"{layer}.outer.norm"] = norm(f"{source}.output.LayerNorm")
    return ready


def in_batches(inputs: Iterable[Tokens], tokens: int) -> Iterator[list[Tokens]]:
    """Batches of different inputs, in order, of so many ``tokens`` at most or one input."""
    batch: list[Tokens] = []
    width = 0
    for each in dict.fromkeys(inputs):
        if batch and width + len(each) > tokens:
            yield batch
            batch, width = [], 0
        batch.append(each)
        width += len(each)
    if batch:
        yield batch


def states(weights: Weights, inputs: Sequence[Tokens], *, first_alone: bool = False) -> Array:
    """The last layer's states, of shape (tokens, hidden size), or with
    ``first_alone`` (inputs, hidden size), of each input's first token.

    The tokens of all inputs follow one another without padding; each attends to
    those of its own input.
    """
    import numpy as np

    lengths = [len(tokens) for tokens in inputs]
    ends = np.cumsum(lengths)
    starts = ends - lengths
    ids = np.concatenate(inputs)
    rows, scales = weights["word"]
    state = rows[ids] * scales[ids]
    state += weights["position"][np.arange(len(ids)) - np.repeat(starts, lengths)]
    state = _normed(weights, "embedded", state)
    for layer in range(weights["layers"]):
        three = linear(weights, f"{layer}.three", state)
        first = first_alone and layer == weights["layers"] - 1
        if first:
            state = state[starts]
        mixed = np.empty_like(state)
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            asking = slice(row, row + 1) if first else slice(start, end)
            _attend(three[start:end], mixed[asking])
        mixed = linear(weights, f"{layer}.mixed", mixed)
        mixed += state
        state = _normed(weights, f"{layer}.mixed", mixed)
        inner = _gelu(linear(weights, f"{layer}.inner", state))
        outer = linear(weights, f"{layer}.outer", inner)
        outer += state
        state = _normed(weights, f"{layer}.outer", outer)
    return state


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


def linear(weights: Weights, name: str, value: Array) -> Array:
    """A matrix of the weights, and its bias, applied to ``value``."""
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
