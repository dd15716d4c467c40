"""A judge's error on one model, narrowed by labels of some of its answers.

Every draw of the judge's error rates (:mod:`refract.rates.judge_error`), with a people's rate that fits
what the judge found, says how many of the answers that the judge calls refused labels would too,
and how many of the others. It weighs as much as it makes the labels that were given likely
(importance sampling: Rubin 1988, Bayesian Statistics 3:395)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from refract.rates.judge_error import (
    JudgeError,
    judged_share,
    people_by_draw,
    people_interval,
    spare_uniforms,
)
from refract.rates.rate import Interval, SharePart
from refract.statistics.proportions import normal_quantile, settled

# Fewer draws than the first, by weight, say nothing: the labels are such as no draw has them, or so
# many that they need none. From the second on draws are relied on alone.
FEW_DRAWS, ENOUGH_DRAWS = 50, 200
# No draw makes a label impossible.
LEAST_CHANCE = 1e-6


class VerdictLabels(NamedTuple):
    """Labels of answers with one verdict: the share that they call refused, and of how many answers
    that have nothing to do with each other they say as much."""

    refused: float
    n: float


class Weighed(NamedTuple):
    """An interval, and how far it may be relied on: 0 to 1."""

    interval: Interval
    reliance: float

    def instead_of(self, other: Interval) -> Interval:
        """Between this interval and one without draws, as far as it may be relied on."""
        ends = []
        for end, without in zip(self.interval, other, strict=True):
            ends.append(settled(self.reliance * end + (1 - self.reliance) * without))
        return Interval(*ends)


def weighed_interval(
    error: JudgeError,
    part: SharePart,
    said_refused: VerdictLabels,
    said_answered: VerdictLabels,
    confidence: float,
) -> Weighed:
    """Where people's rate lies on prompts like these, of which a judge found ``part`` refused, with
    labels of some answers that the judge calls refused, and of some others. What the provider
    refused counts among neither. The interval without labels stays where it is narrower and holds
    as much."""
    import numpy as np

    people, chance_refused, chance_answered = _chances(error, part, confidence)
    likely = _log_likelihood(chance_refused, said_refused)
    likely += _log_likelihood(chance_answered, said_answered)
    weights = np.exp(likely - likely.max())
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    order = np.argsort(people, kind="stable")
    ordered = weights[order]
    below = (np.cumsum(ordered) - ordered / 2) / ordered.sum()
    tails = ((1 - confidence) / 2, (1 + confidence) / 2)
    low, high = (settled(float(end)) for end in np.interp(tails, below, people[order]))
    plain = people_interval(
        error, [part], Interval(part.share, part.share), part.interval, confidence
    )
    inside = weights[(people >= plain.low) & (people <= plain.high)].sum() / weights.sum()
    # Near 0 and 1 labels that agree take draws beyond an end away, and move the other one outwards.
    if inside >= confidence and plain.high - plain.low < high - low:
        low, high = plain
    reliance = (effective - FEW_DRAWS) / (ENOUGH_DRAWS - FEW_DRAWS)
    return Weighed(Interval(low, high), min(1.0, max(0.0, reliance)))


def foreseen(
    error: JudgeError, part: SharePart, labels: int, place: float, confidence: float
) -> Interval:
    """The interval that so many labels, drawn at random, would give where the judge errs as in the
    draws around this ``place`` of people's rate: at .5 as it most likely does, at .1 and .9 as in
    one of ten cases."""
    import numpy as np

    people, *chances = _chances(error, part, confidence)
    order = np.argsort(people, kind="stable")
    low, high = (max(0.0, min(1.0, place + side)) for side in (-0.02, 0.02))
    around = order[int(low * len(order)) : int(high * len(order))]
    refused, answered = (float(chance[around].mean()) for chance in chances)
    judged = float(judged_share(part.share, part.certain))
    count = labels * (1 - part.certain)
    said = VerdictLabels(refused, count * judged), VerdictLabels(answered, count * (1 - judged))
    return weighed_interval(error, part, *said, confidence).interval


@lru_cache(maxsize=4)  # of one rate it is asked for each number of labels that is foreseen
def _chances(error: JudgeError, part: SharePart, confidence: float) -> tuple[Any, Any, Any]:
    """In each draw people's rate, and how often they call refused what the judge does, and what it
    does not."""
    import numpy as np
    from scipy.special import ndtri

    draws = error.draws(part.prompts, part.model)
    shares = (part.share, *part.interval)
    middle, low, high = (np.clip(people_by_draw(draws, s, part.certain), 0, 1) for s in shares)
    away = ndtri(spare_uniforms()) / normal_quantile(confidence)
    people = middle + away * np.where(away > 0, high - middle, middle - low)
    people = np.clip(people, 0, 1)
    judged = judged_share(people, part.certain)
    missed, false = draws.missed.at(judged), draws.false.at(judged)
    right, seen = judged * (1 - missed), (1 - judged) * false
    unseen, rest = judged * missed, (1 - judged) * (1 - false)
    chance_refused = right / np.maximum(right + seen, LEAST_CHANCE)
    chance_answered = unseen / np.maximum(unseen + rest, LEAST_CHANCE)
    return people, chance_refused, chance_answered


def _log_likelihood(chance: Any, labels: VerdictLabels) -> Any:
    """Of binomial labels, up to a constant, where each is a refusal with such a chance."""
    import numpy as np

    held = np.clip(chance, LEAST_CHANCE, 1 - LEAST_CHANCE)
    share = labels.refused
    return labels.n * (share * np.log(held) + (1 - share) * np.log(1 - held))
