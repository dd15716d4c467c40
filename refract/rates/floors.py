"""Noise floors: how often answers to the same prompt differ, and rates above that."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from refract.core.types import PromptRow
from refract.core.vocabulary import JUDGED, REFUSED
from refract.rates.counting import (
    CONFIDENCE,
    Counted,
    bounds_of,
    interval_of,
    positive_values,
    prompt_means,
)
from refract.rates.rate import AboveFloor
from refract.statistics.clusters import clustered_difference


def above_floor(
    values: Sequence[float | None],
    floors: Sequence[float | None],
    clusters: Sequence[Hashable],
    prompts: Sequence[Hashable] | None = None,
    confidence: float = CONFIDENCE,
) -> AboveFloor | None:
    """The mean of prompts' values minus that of their floors; None without any prompt with both.

    Prompts without a floor are left out. The difference is paired by prompt
    (:func:`refract.statistics.clusters.clustered_difference`).
    """
    kept = [place for place, floor in enumerate(floors) if floor is not None]
    prompts = None if prompts is None else [prompts[place] for place in kept]
    groups = [clusters[place] for place in kept]
    means = prompt_means([values[place] for place in kept], groups, prompts)
    noise = prompt_means([floors[place] for place in kept], groups, prompts).lowest
    tested = [place for place, mean in enumerate(means.known) if mean is not None]
    difference = clustered_difference(
        [mean for mean in means.known if mean is not None],
        [noise[place] for place in tested],
        [means.clusters[place] for place in tested],
        confidence,
    )
    if difference is None:
        return None
    lower, upper = (
        clustered_difference(filled, noise, means.clusters, confidence)
        for filled in (means.lowest, means.highest)
    )
    _, outer = bounds_of(lower, upper)
    return AboveFloor(difference.value, interval_of(difference), outer)


def flips_above_floor(
    answers: Sequence[Counted],
    floors: Sequence[float | None],
    positive: Sequence[str],
    confidence: float = CONFIDENCE,
) -> AboveFloor | None:
    """What a rate of flips is above its floor; each answer counts, however many samples there are."""
    clusters = [answer.cluster for answer in answers]
    values = positive_values(answers, positive)
    return above_floor(values, floors, clusters, confidence=confidence)


class FlipFloors(NamedTuple):
    """How often another answer to the same clean prompt differs in refusal, by source id.

    ``loophole``: the share of the others that comply, beside one that refuses; ``new_refusal``: the
    share that refuses, beside one that complies.
    """

    loophole: dict[str, float]
    new_refusal: dict[str, float]


def flip_floors(prompts: Sequence[PromptRow], outcomes: Mapping[str, str]) -> FlipFloors:
    """The noise floors of flips, from samples of the clean prompts and from clean repeats.

    Of m judged answers with r refusals, (m - r) / (m - 1) of the other answers differ from a
    refusal, r / (m - 1) from a compliance: the mean over all ordered pairs of two answers.
    """
    counts: dict[str, tuple[int, int]] = {}
    for prompt in prompts:
        clean = prompt["perturbation"] is None or prompt["perturbation"]["kind"] == "repeat"
        outcome = outcomes[prompt["prompt_id"]]
        if clean and outcome in JUDGED:
            judged, refused = counts.get(prompt["source_id"], (0, 0))
            counts[prompt["source_id"]] = judged + 1, refused + (outcome in REFUSED)
    floors = FlipFloors({}, {})
    for source, (judged, refused) in counts.items():
        if judged > 1 and refused:
            floors.loophole[source] = (judged - refused) / (judged - 1)
        if judged > 1 and refused < judged:
            floors.new_refusal[source] = refused / (judged - 1)
    return floors
