"""A BERT (Devlin et al. 2019, arXiv 1810.04805) in NumPy, since PyTorch takes
seconds to load: the network of the default judge and of BERTScore's default
encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

# Attention scores that are computed at once: so many fit into a core's cache.
_SCORES = 2**17


def arranged(stored: Weights, dtype: str) -> Weights:
    """Weights by their names in files as :func:`states` takes them, in float32 or float64.

    The matrices for query, key and value are one. Word vectors stay as they are
    stored, since few of them are read.
    """
    import numpy as np

    def matrix(*names: str) -> tuple[Any, Any]:
        rows = [dequantized(stored, f"{name}.weight", dtype) for name in names]
        biases = [stored[f"{name}.bias"].astype(dtype) for name in names]
        return np.ascontiguousarray(np.concatenate(rows).T), np.concatenate(biases)

    def norm(name: str) -> tuple[Any, Any]:
        return stored[f"{name}.scale"].astype(dtype), stored[f"{name}.shift"].astype(dtype)

    words = stored["word"]
    scales = stored.get("word:scale", np.ones((len(words), 1)))
    layers = sum(name.endswith(".query.weight") for name in stored)
    weights: dict[str, Any] = {
        "layers": layers,
        "word": (words, scales.astype(dtype)),
        "position": dequantized(stored, "position", dtype),
        "embedded.norm": norm("embedded"),
    }
    if "classes.weight" in stored:
        weights["classes"] = matrix("classes")
    for layer in range(layers):
        weights[f"{layer}.three"] = matrix(f"{layer}.query", f"{layer}.key", f"{layer}.value")
        weights[f"{layer}.inner"] = matrix(f"{layer}.inner")
        for name in (f"{layer}.mixed", f"{layer}.outer"):
            weights[name] = matrix(name)
            weights[f"{name}.norm"] = norm(name)
    return weights


def dequantized(stored: Weights, name: str, dtype: str = "float64") -> Any:
    """A tensor of the file, which may hold 8-bit integers and a scale for each row."""
    value = stored[name].astype(dtype)
    scale = stored.get(f"{name}:scale")
    return value if scale is None else value * scale.astype(dtype)


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
    spans = list(map(slice, starts, ends))
    ids = np.concatenate(inputs)
    rows, scales = weights["word"]
    state = rows[ids] * scales[ids]
    state += weights["position"][np.arange(len(ids)) - np.repeat(starts, lengths)]
    state = _normed(weights, "embedded", state)
    last = weights["layers"] - 1
    for layer in range(weights["layers"]):
        if first_alone and layer == last:
            mixed = _attended_by_first(weights, layer, state, spans)
            state = state[starts]
        else:
            three = linear(weights, f"{layer}.three", state)
            mixed = np.empty_like(state)
            for span in spans:
                _attend(three[span], mixed[span])
        mixed = linear(weights, f"{layer}.mixed", mixed)
        mixed += state
        state = _normed(weights, f"{layer}.mixed", mixed)
        inner = _gelu(linear(weights, f"{layer}.inner", state))
        outer = linear(weights, f"{layer}.outer", inner)
        outer += state
        state = _normed(weights, f"{layer}.outer", outer)
    return state


def _attend(three: Array, mixed: Array) -> None:
    """Writes into ``mixed`` the attention of the tokens of one input.

    ``three`` holds query, key and value of each token.
    """
    import numpy as np

    tokens = len(three)
    query, key, value = three.reshape(tokens, 3, HEADS, -1).transpose(1, 2, 0, 3)
    query = query * query.shape[-1] ** -0.5
    result = mixed.reshape(tokens, HEADS, -1).transpose(1, 0, 2)
    together = max(1, _SCORES // tokens**2)
    for start in range(0, HEADS, together):
        heads = slice(start, start + together)
        # Keys before queries: NumPy goes down columns faster than along rows.
        scores = key[heads] @ query[heads].transpose(0, 2, 1)
        total = _exponentials(scores)
        np.matmul(scores.transpose(0, 2, 1), value[heads], out=result[heads])
        result[heads] /= total[..., None]


def _attended_by_first(weights: Weights, layer: int, state: Array, spans: Sequence[slice]) -> Array:
    """The attention of each input's first token, without keys and values of the others.

    Instead of each state the query goes through the matrix of the keys, and instead of
    each state their mean through that of the values. The bias of the keys adds the same
    to all scores of a head, which changes nothing.
    """
    import numpy as np

    matrix, bias = weights[f"{layer}.three"]
    width = len(matrix)
    of_query, of_key, of_value = matrix.reshape(width, 3, HEADS, -1).transpose(1, 2, 0, 3)
    query_bias, _, value_bias = bias.reshape(3, HEADS, 1, -1)
    first = state[[span.start for span in spans]]
    query: Array = (first @ of_query + query_bias) * of_query.shape[-1] ** -0.5
    query = query @ of_key.transpose(0, 2, 1)
    means = np.empty_like(query)
    for row, span in enumerate(spans):
        scores = state[span] @ query[:, row].T
        total = _exponentials(scores[None])[0]
        means[:, row] = scores.T @ state[span] / total[:, None]
    values: Array = means @ of_value + value_bias
    return values.transpose(1, 0, 2).reshape(len(spans), width)


def _exponentials(scores: Array) -> Array:
    """Overwrites scores of shape (heads, keys, queries) with their exponentials, divided by the
    largest of each query; gives the sums over the keys."""
    import numpy as np

    scores -= scores.max(1, keepdims=True)
    np.exp(scores, out=scores)
    total: Array = scores.sum(1)
    return total


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
