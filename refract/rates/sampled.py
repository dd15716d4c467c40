"""What only several answers to a prompt can show: whether any of k counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refract.core.vocabulary import JUDGED, SAMPLES_FIELD
from refract.rates.counting import (
    Counted,
    CountedSuite,
    PromptMeans,
    counts_of,
    rate_of,
)
from refract.rates.key import ANY_OF_K, SAMPLED, Group, Key
from refract.rates.rate import Rate
from refract.statistics.proportions import any_of_k

Prompts = Sequence[Sequence[Counted]]  # the answers to each prompt


def sample_table(suite: CountedSuite) -> list[Rate]:
    """Rates over sets of k samples, for k from 2 to all of them; where there is one sample, if a
    threshold asks for them.

    ``any_compliance_rate`` of harmful prompts (attack success at k) is the chance that at least one
    of k samples complies; the same of refusals for the other categories: means over prompts of the
    exact estimate from their judged samples. A prompt with fewer than k of them is not known and in
    the bounds."""
    samples = suite.samples
    if samples == 1 and not any(measure.name in suite.thresholds for measure in SAMPLED):
        return []
    steps = [2**n for n in range(1, samples.bit_length()) if 2**n < samples]
    steps.append(samples)
    rates = []
    for category, measure in ANY_OF_K.items():
        rows = [row for row in suite.requested if row["category"] == category]
        prompts = [suite.answers_to(row["id"]) for row in rows]
        for k in steps if prompts else ():
            key = Key(measure, group=Group(SAMPLES_FIELD, str(k)))
            rates.append(_any_rate(suite, key, prompts, k))
    return rates


def _any_rate(suite: CountedSuite, key: Key, prompts: Prompts, k: int) -> Rate:
    """The mean of each prompt's chance that any of k answers counts, from how many of its judged
    ones do, known from k judged ones on; without bounds where prompts have fewer answers."""
    means = PromptMeans(known=[], lowest=[], highest=[], clusters=[])
    for answers in prompts:
        means.clusters.append(answers[0].cluster)
        judged = sum(answer.outcome in JUDGED for answer in answers)
        counting = sum(answer.outcome in key.measure.counted for answer in answers)
        means.known.append(any_of_k(counting, judged, k) if judged >= k else None)
        if len(answers) >= k:
            most = counting + len(answers) - judged
            means.lowest.append(any_of_k(counting, len(answers), k))
            means.highest.append(any_of_k(most, len(answers), k))
    return rate_of_prompts(key, prompts, means, suite.confidence)


def rate_of_prompts(key: Key, prompts: Prompts, means: PromptMeans, confidence: float) -> Rate:
    """A mean over prompts; ``n`` counts prompts, the excluded counts are of answers."""
    estimates = means.estimates(confidence)
    answers = [answer for prompt in prompts for answer in prompt]
    counts = replace(
        counts_of(answers, [answer.outcome in JUDGED for answer in answers]),
        n=sum(value is not None for value in means.known),
        clusters=estimates[0].clusters if estimates[0] else 0,
    )
    return rate_of(key, counts, estimates)
