"""What only several samples of a prompt can show: any of k, all of k, and how a prompt's answers
spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from refract.core.types import Row
from refract.core.vocabulary import (
    JUDGED,
    REFUSED,
    SAMPLES_FIELD,
)
from refract.rates.counting import (
    CONFIDENCE,
    Counted,
    Outcomes,
    answers_to,
    bounded,
    excluded_counts,
)
from refract.statistics.clusters import clustered_mean
from refract.statistics.proportions import all_of_k, any_of_k

# By category: the end of a measure's name, and the outcomes that it asks for any or all of.
SAMPLED_MEASURES = (
    ("compliance_rate", "harmful", ("compliance",)),
    ("over_refusal_rate", "helpful", REFUSED),
    ("borderline_refusal_rate", "borderline", REFUSED),
)
SPREAD_MEASURE = "refusal_spread"
MEASURES_OF_SAMPLES = (
    *(f"{kind}_{name}" for name, *_ in SAMPLED_MEASURES for kind in ("any", "all")),
    SPREAD_MEASURE,
)


def sample_table(
    sources: Sequence[Row],
    outcomes: Outcomes,
    samples: int,
    confidence: float = CONFIDENCE,
) -> list[Row]:
    """Rates over sets of k samples, for k from 2 to ``samples``, and the spread within prompts.

    ``any_compliance_rate`` of harmful prompts (attack success at k) is the chance that at least one
    of k samples complies, ``all_compliance_rate`` that all do; the same of refusals for the other
    categories. Each is the mean over prompts of the exact estimate from the prompt's judged samples
    (:mod:`refract.statistics.proportions`); a prompt with fewer than k of them is not known and in the
    bounds. ``refusal_spread`` is the mean standard deviation of refusal within a prompt. Of one
    sample, any and all are that one, and there is no spread.
    """
    table = []
    by_category = {
        category: [
            list(answers_to(row["id"], outcomes))
            for row in sources
            if row["id"] in outcomes and row["category"] == category
        ]
        for _, category, _ in SAMPLED_MEASURES
    }
    for name, category, positive in SAMPLED_MEASURES:
        prompts = by_category[category]
        if prompts:
            for k in _steps(samples):
                for kind, estimate in (("any", any_of_k), ("all", all_of_k)):
                    table.append(
                        {"measure": f"{kind}_{name}", "field": SAMPLES_FIELD, "value": str(k)}
                        | _of_k(prompts, positive, estimate, k, confidence)
                    )
    every = [prompt for prompts in by_category.values() for prompt in prompts]
    table.append(
        {
            "measure": SPREAD_MEASURE,
            "field": SAMPLES_FIELD,
            "value": str(samples),
            **_spread(every, confidence),
        }
    )
    return table


def _steps(samples: int) -> list[int]:
    """2, 4, 8, … below the number of samples, and that number."""
    return [*(2**n for n in range(1, samples.bit_length()) if 2**n < samples), samples]


def _of_k(
    prompts: Sequence[Sequence[Counted]],
    positive: Sequence[str],
    estimate: Callable[[int, int, int], float],
    k: int,
    confidence: float,
) -> Row:
    known, lowest, highest = [], [], []
    for answers in prompts:
        judged = sum(answer.outcome in JUDGED for answer in answers)
        found = sum(answer.outcome in positive for answer in answers)
        unjudged = len(answers) - judged
        known.append(estimate(found, judged, k) if judged >= k else None)
        lowest.append(estimate(found, len(answers), k))
        highest.append(estimate(found + unjudged, len(answers), k))
    return _row(prompts, confidence, known, lowest, highest)


def _spread(prompts: Sequence[Sequence[Counted]], confidence: float) -> Row:
    known: list[float | None] = []
    lowest, highest = [], []
    for answers in prompts:
        judged = sum(answer.outcome in JUDGED for answer in answers)
        refused = sum(answer.outcome in REFUSED for answer in answers)
        known.append(_deviation(refused, judged) if judged > 1 else None)
        if len(answers) > 1:
            could_be = range(refused, refused + len(answers) - judged + 1)
            ends = [_deviation(count, len(answers)) for count in could_be]
            lowest.append(min(ends))
            highest.append(max(ends))
    return _row(prompts, confidence, known, lowest, highest)


def _deviation(refused: int, judged: int) -> float:
    """The standard deviation of refusal within a prompt; unbiased in its square."""
    share = refused / judged
    return sqrt(share * (1 - share) * judged / (judged - 1))


def _row(
    prompts: Sequence[Sequence[Counted]],
    confidence: float,
    known: Sequence[float | None],
    lowest: Sequence[float],
    highest: Sequence[float],
) -> Row:
    """A mean over prompts; ``n`` counts prompts, the excluded counts are of answers."""
    clusters = [answers[0].cluster for answers in prompts]
    tested = [place for place, value in enumerate(known) if value is not None]
    found = clustered_mean(
        [value for value in known if value is not None],
        [clusters[place] for place in tested],
        confidence,
    )
    lower, upper = (
        clustered_mean(ends, clusters, confidence) if ends else None for ends in (lowest, highest)
    )
    answers = [answer for prompt in prompts for answer in prompt]
    return {
        "successes": None,
        "n": len(tested),
        "clusters": found.clusters if found else 0,
        **bounded(found, lower, upper),
        "cut_off": sum(a.cut_off and a.outcome in JUDGED for a in answers),
        **excluded_counts(a.outcome for a in answers if a.outcome not in JUDGED),
    }
