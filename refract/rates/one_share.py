"""People's rate where a judge found one share, by quadrature over how often the judge errs.

The logits of misses and of false alarms of a further model are mixtures of normal distributions at
each people's rate. Their quantiles at even steps of a normal score are paths over people's rate;
each pair of a path of misses and one of false alarms says which share the judge would find. How
likely people's rate is at most r is then how likely, by the confidence distribution of the judge's
share (Xie & Singh 2013, International Statistical Review 81:3), that is at most what the judge
would find at r, in the mean of all pairs. Labels weigh the pairs by how likely they make them, at
each people's rate: with the judge's share they are a double sample (Tenenbein 1970, JASA
65:1350)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import sqrt
from typing import Any, NamedTuple

from refract.statistics.proportions import Interval, normal_quantile, settled, wilson

# Paths of misses and of false alarms, and the normal score of the outermost; people's rates.
PATHS, REACH, STEPS = 33, 4.5, 128
# Significant digits of a limit. NumPy's exp and log differ between processors in the sixteenth, and what
# is summed of them in the fifteenth: of twelve digits one limit in some thousands came out otherwise.
LIMIT_DIGITS = 9
# No pair of paths makes a label impossible.
LEAST_CHANCE = 1e-6


class VerdictLabels(NamedTuple):
    """Labels of answers with one verdict: the share that they call refused, and of how many answers
    that have nothing to do with each other they say as much."""

    refused: float
    n: float


# Of answers that the judge calls refused, and of the others.
LabelPair = tuple[VerdictLabels, VerdictLabels]
NO_LABELS = VerdictLabels(0.0, 0.0), VerdictLabels(0.0, 0.0)


class Found(NamedTuple):
    """The ``share`` that is refused, ``certain`` of it without a judge, and the normal deviation from
    it of the share of all such prompts."""

    share: float
    deviation: float
    certain: float = 0.0


def of_labels_alone(found: Found, labels: LabelPair, confidence: float) -> Interval:
    """People's rate by labels of answers with either verdict, whatever the judge's errors: of
    Wilson's intervals of both by MOVER (Zou & Donner 2008, Statistics in Medicine 27:1693)."""
    reach = normal_quantile(confidence) * found.deviation
    value = found.certain
    below = above = (reach * (labels[0].refused - labels[1].refused)) ** 2
    for part, each in zip((found.share - found.certain, 1 - found.share), labels, strict=True):
        refused = min(each.n, each.n * each.refused)
        ends = wilson(refused, each.n, confidence) or Interval(0.0, 1.0)
        value += part * each.refused
        below += (part * (each.refused - ends.low)) ** 2
        above += (part * (ends.high - each.refused)) ** 2
    return Interval(max(0.0, value - sqrt(below)), min(1.0, value + sqrt(above)))


@cache
def people_rates() -> Any:
    """The rates at which paths are known, the closer together the nearer they are to 0 and 1."""
    import numpy as np

    return np.sin(np.linspace(0, np.pi / 2, STEPS + 1)) ** 2


@cache
def _scores() -> Any:
    """The normal scores of the paths."""
    import numpy as np

    return np.linspace(-REACH, REACH, PATHS)


@cache
def _pair_weights() -> Any:
    import numpy as np

    weights = np.exp(-(_scores() ** 2) / 2)
    return np.outer(weights, weights) / weights.sum() ** 2


def mixture_quantiles(weights: Any, means: Any, deviations: Any) -> Any:
    """Of a mixture of normal distributions, at the scores of the paths."""
    import numpy as np
    from scipy.special import ndtr, ndtri

    middle = weights @ means
    spread = np.sqrt(weights @ (deviations**2 + (means - middle) ** 2))
    values = middle + spread * np.linspace(-8, 8, 97)
    below = ndtr((values[:, None] - means) / deviations) @ weights
    return np.interp(_scores(), ndtri(np.clip(below, 1e-15, 1 - 1e-15)), values)


@dataclass(frozen=True, eq=False)
class Paths:
    """The shares of misses, and of false alarms, by people's rate and path."""

    missed: Any
    false: Any

    @cached_property
    def judged(self) -> Any:
        """What the judge would find by people's rate and pair. It does not fall, unless the judge is
        worse than chance."""
        import numpy as np

        rate = people_rates()[:, None]
        found = _of_pairs(rate * (1 - self.missed), (1 - rate) * self.false)
        return np.where(found[-1] < found[0], found, np.maximum.accumulate(found, axis=0))

    def limit(self, found: Found, chance: float, labels: LabelPair = NO_LABELS) -> float:
        """The people's rate that is not exceeded with such a ``chance``."""
        import numpy as np
        from scipy.optimize import brentq

        edges, below, weights, steps = self._steps(found, labels)
        sums = steps.sum(axis=(1, 2)).cumsum()
        wanted = chance * sums[-1]
        place = int(np.searchsorted(sums[:-1], wanted))
        if place == len(edges):
            return 1.0
        low, before, start = 0.0, 0.0, 0.0
        if place:
            low, before, start = edges[place - 1], sums[place - 1], below[place - 1]

        def beyond(rate: float) -> float:
            more = np.abs(self._below(found, np.array([rate]))[0] - start)
            return float(before + (more * weights[place]).sum() - wanted)

        if beyond(low) >= 0:
            return settled(float(low), LIMIT_DIGITS)
        return settled(float(brentq(beyond, low, edges[place], xtol=1e-12)), LIMIT_DIGITS)

    def expected(
        self, found: Found, place: float, labels: LabelPair = NO_LABELS
    ) -> tuple[float, float]:
        """The shares that more labels would call refused of answers that the judge calls so, and of the
        others, where people's rate is at this place among those it may be, in a window of .04."""
        import numpy as np

        *_, steps = self._steps(found, labels, every=True)
        upper = steps.sum(axis=(1, 2)).cumsum() / steps.sum()
        lower = np.concatenate([[0.0], upper[:-1]])
        window = max(0.0, place - 0.02), min(1.0, place + 0.02)
        within = np.clip(np.minimum(upper, window[1]) - np.maximum(lower, window[0]), 0, None)
        steps *= (within / np.maximum(upper - lower, 1e-12))[:, None, None]
        refused, others = ((chance * steps).sum() / steps.sum() for chance in self.chances)
        return float(refused), float(others)

    def gainsaid(self, found: Found, labels: LabelPair) -> bool:
        """Whether labels are more likely of a judge of which nothing is known than of this one (a Bayes
        factor: Kass & Raftery 1995, JASA 90:773). Of the former they call any share of either
        verdict refused, by Jeffreys' prior."""
        import numpy as np
        from scipy.special import betaln

        if not any(each.n for each in labels):
            return False
        *_, steps = self._steps(found, labels)
        known = np.log(max(steps.sum(), 1e-300)) + _likelihoods(self, labels)[1]
        unknown = 0.0
        for each in labels:
            ends = each.n * each.refused + 0.5, each.n * (1 - each.refused) + 0.5
            unknown += betaln(*ends) - betaln(0.5, 0.5)
        return bool(unknown > known)

    def _steps(
        self, found: Found, labels: LabelPair, every: bool = False
    ) -> tuple[Any, Any, Any, Any]:
        """People's rates, how likely it is at most each in each pair, the weights of pairs below the
        first, between two, and above the last, and how likely it is there in each."""
        import numpy as np

        edges = found.certain + (1 - found.certain) * people_rates()
        weights = np.broadcast_to(_pair_weights(), (STEPS + 2, PATHS, PATHS))
        if any(each.n for each in labels):
            weights = weights * _likelihoods(self, labels)[0]
        elif not every:  # two steps say as much
            edges, weights = edges[[0, -1]], weights[:3]
        below = self._below(found, edges)
        steps = np.concatenate([below[:1], np.abs(np.diff(below, axis=0)), 1 - below[-1:]])
        return edges, below, weights, steps * weights

    def _below(self, found: Found, rates: Any) -> Any:
        """How likely people's rate is at most each of ``rates``, in each pair."""
        import numpy as np
        from scipy.special import ndtr

        decided = 1 - found.certain
        places = np.clip((rates - found.certain) / max(decided, 1e-9), 0, 1)
        people = places[:, None]
        missed, false = _between(self.missed, places), _between(self.false, places)
        # Below what the provider refused people's rate is lower by as much as the share.
        beyond = np.minimum(rates - found.certain, 0)[:, None, None]
        share = found.certain + decided * _between(self.judged, places) + beyond
        variance = np.asarray(found.deviation**2)
        # A share that is known better than paths lie apart is known as well as they tell.
        apart = np.gradient(missed, axis=1) * people, np.gradient(false, axis=1) * (1 - people)
        least = decided**2 / 6 * _of_pairs(*np.square(apart))
        variance = np.maximum(np.maximum(variance, least), 1e-18)
        return ndtr((share - found.share) / np.sqrt(variance))

    @cached_property
    def chances(self) -> tuple[Any, Any]:
        """How often labels call refused what the judge does, and what it does not, by pair: at a
        people's rate of 0, in the middle between two of :func:`people_rates`, and at 1."""
        import numpy as np

        rates = people_rates()
        rates = np.concatenate([rates[:1], (rates[1:] + rates[:-1]) / 2, rates[-1:]])
        people = rates[:, None]
        missed, false = _between(self.missed, rates), _between(self.false, rates)
        chances = []
        for refused, answered in (
            ((people * (1 - missed))[:, :, None], ((1 - people) * false)[:, None, :]),
            ((people * missed)[:, :, None], ((1 - people) * (1 - false))[:, None, :]),
        ):
            share = refused / np.maximum(refused + answered, LEAST_CHANCE)
            chances.append(np.clip(share, LEAST_CHANCE, 1 - LEAST_CHANCE))
        return chances[0], chances[1]

    @cached_property
    def logs(self) -> list[tuple[Any, Any]]:
        """Of :attr:`chances`, and of the opposite."""
        import numpy as np

        return [(np.log(chance), np.log1p(-chance)) for chance in self.chances]


@lru_cache(maxsize=2)  # asked for both limits
def _likelihoods(paths: Paths, labels: LabelPair) -> tuple[Any, float]:
    """Of binomial labels by pair, as :attr:`Paths.chances` has them, the largest 1; and the
    logarithm of that."""
    import numpy as np

    likely = np.zeros((STEPS + 2, PATHS, PATHS))
    for (refused, answered), each in zip(paths.logs, labels, strict=True):
        likely += each.n * (each.refused * refused + (1 - each.refused) * answered)
    return np.exp(likely - likely.max()), float(likely.max())


def _of_pairs(missed: Any, false: Any) -> Any:
    """The sum of both, by rate and pair."""
    return missed[:, :, None] + false[:, None, :]


def _between(known: Any, rates: Any) -> Any:
    """What is known at :func:`people_rates` at other rates, on straight lines."""
    import numpy as np

    grid = people_rates()
    place = np.clip(np.searchsorted(grid, rates, side="right") - 1, 0, STEPS - 1)
    within = (rates - grid[place]) / (grid[place + 1] - grid[place])
    within = within.reshape(-1, *[1] * (known.ndim - 1))
    return (1 - within) * known[place] + within * known[place + 1]
