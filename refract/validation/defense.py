"""Defense in depth: two judges on the same answers as layers, of which either one stops an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refract.rows.types import Row
from refract.statistics.paired import (
    Pairs,
    count_pairs,
    mcnemar_exact,
    mcnemar_midp,
    newcombe_paired,
)
from refract.statistics.proportions import Difference, wilson
from refract.validation import rounded_numbers


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
    only, the outer only, neither. ``difference`` is system minus inner, the same answers on both
    sides: Newcombe's method 10 for paired proportions, corrected. McNemar's test is of the same
    comparison; since the system stops whatever the inner layer stops, it can only go one way.
    """

    pairs: Pairs
    inner: Layer
    outer: Layer
    system: Layer
    both: Layer
    difference: Difference
    mcnemar_exact: float
    mcnemar_midp: float


def defense(inner: Sequence[bool], outer: Sequence[bool]) -> Defense | None:
    """What two layers stop, listed in the same order of answers; None without answers.

    Raises ValueError if the two differ in length.
    """
    pairs = count_pairs(inner, outer)
    n = pairs.n
    either = pairs.n - pairs.neither
    # The system against the inner layer: both stop, system only, inner only (never), neither.
    gained = (pairs.both + pairs.first_only, pairs.second_only, 0, pairs.neither)
    difference = newcombe_paired(*gained)
    if difference is None:
        return None

    def layer(stopped: int) -> Layer:
        interval = wilson(stopped, n)
        assert interval is not None  # there are answers
        return Layer(stopped, n, stopped / n, *interval)

    return Defense(
        pairs,
        inner=layer(pairs.both + pairs.first_only),
        outer=layer(pairs.both + pairs.second_only),
        system=layer(either),
        both=layer(pairs.both),
        difference=difference,
        mcnemar_exact=mcnemar_exact(pairs.second_only, 0),
        mcnemar_midp=mcnemar_midp(pairs.second_only, 0),
    )


def defense_numbers(found: Defense) -> Row:
    """A defense as JSON: counts, rates with limits, the difference and the two p-values."""
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
        "system_minus_inner": rounded_numbers(found.difference._asdict()),
        # Not rounded: a small p would become 0.
        "mcnemar_exact_p": found.mcnemar_exact,
        "mcnemar_midp": found.mcnemar_midp,
    }
