"""Defense in depth: two judges on the same answers as layers, of which either one stops an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refract.agreement import rounded_numbers
from refract.core.types import Row
from refract.statistics.paired import Pairs, count_pairs
from refract.statistics.proportions import wilson


class Layer(NamedTuple):
    """How many of the answers a layer stops: a share with its 95 % Wilson interval."""

    stopped: int
    n: int
    rate: float
    low: float
    high: float


class Defense(NamedTuple):
    """Two layers alone and together.

    ``system`` stops what either stops. ``pairs`` counts answers stopped by both, the inner layer
    only, the outer only, neither. ``gain`` is what the outer layer adds, system minus inner: the
    share stopped by the outer layer alone. Since the system stops whatever the inner layer stops,
    that share is all there is to the difference: it cannot be negative, and one answer shows that
    it is not 0.
    """

    pairs: Pairs
    inner: Layer
    outer: Layer
    system: Layer
    both: Layer
    gain: Layer


def defense(
    inner: Sequence[bool], outer: Sequence[bool], confidence: float = 0.95
) -> Defense | None:
    """What two layers stop, listed in the same order of answers; None without answers.

    Raises ValueError if the two differ in length.
    """
    pairs = count_pairs(inner, outer)
    n = pairs.n
    either = pairs.n - pairs.neither
    if n == 0:
        return None

    def layer(stopped: int) -> Layer:
        interval = wilson(stopped, n, confidence)
        assert interval is not None  # there are answers
        return Layer(stopped, n, stopped / n, *interval)

    return Defense(
        pairs,
        inner=layer(pairs.both + pairs.first_only),
        outer=layer(pairs.both + pairs.second_only),
        system=layer(either),
        both=layer(pairs.both),
        gain=layer(pairs.second_only),
    )


def defense_numbers(found: Defense) -> Row:
    """A defense as JSON: counts, and rates with limits."""
    layers = {
        name: {
            "stopped": layer.stopped,
            **rounded_numbers({"rate": layer.rate, "low": layer.low, "high": layer.high}),
        }
        for name, layer in (
            ("inner", found.inner),
            ("outer", found.outer),
            ("system", found.system),
            ("both", found.both),
            ("gain", found.gain),
        )
    }
    return {
        "n": found.pairs.n,
        "pairs": {
            "both": found.pairs.both,
            "inner_only": found.pairs.first_only,
            "outer_only": found.pairs.second_only,
            "neither": found.pairs.neither,
        },
        **layers,
    }
