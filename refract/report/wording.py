"""Names, rates and differences as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from refract.core.decimals import MISSING, decimals, estimate_text, interval_text
from refract.core.vocabulary import BY_PROVIDER
from refract.rates.key import CATEGORY_MEASURES, Measure
from refract.rates.rate import Rate, Threshold
from refract.statistics.proportions import settled

# The measures that the first table begins with, by the category that each is over.
CATEGORY_OF = {measure.name: category for category, measure in CATEGORY_MEASURES.items()}

short_estimate = partial(estimate_text, places=2)


def percent(confidence: float) -> str:
    """A confidence for people: ``95 %``."""
    return f"{round(100 * confidence, 6):g} %"


def number_of(count: int, noun: str) -> str:
    """So many of something: ``1 pair``, ``2 pairs``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def title_of(measure: Measure) -> str:
    """A measure in words."""
    return measure.title or measure.name.replace("_", " ")


def plain_estimate(rate: Rate) -> str:
    """A rate with its interval, in three decimals: ``0.912 [0.850, 0.950]``."""
    if rate.value is None:
        return MISSING
    if rate.shown is None:
        return f"{decimals(rate.value)} (no interval)"
    return rate_text(rate, places=3)


def short_text(rate: Rate | None) -> str:
    """A rate in two decimals: ``0.72 [0.60, 0.82], of these 0.70 by the provider``."""
    if rate is None:
        return MISSING
    refused = _by_provider(rate)
    share = decimals(refused / rate.counts.n, places=2) if refused else ""
    return rate_text(rate, places=2) + (f", of these {share} by the provider" if refused else "")


def rate_text(rate: Rate, places: int) -> str:
    """A rate and its interval; ``[0.36, 0.87], 0.93 by the judge alone`` where that is outside."""
    if rate.outside and rate.value is not None:
        judged = decimals(rate.value, places=places)
        return f"{interval_text(rate.shown, places=places)}, {judged} by the judge alone"
    return estimate_text(rate.value, rate.shown, places=places) + rate.alone_mark


def _by_provider(rate: Rate) -> int:
    """How many of the answers that a rate counts the provider refused."""
    return rate.counts.by_provider or 0 if BY_PROVIDER in rate.measure.counted else 0


def clusters_of(rate: Rate) -> str:
    """The clusters that a rate's rows come in: ``26 requests (design effect 2.1)``."""
    clusters, effect = rate.counts.clusters, rate.statistics.design_effect
    if not clusters or clusters >= rate.counts.n:
        return ""
    named = number_of(clusters, "request")
    if rate.clustered_by:
        named = f"{number_of(clusters, 'value')} of {rate.clustered_by}"
    note = "" if effect is None else f" (design effect {settled(effect):.1f})"
    return f"{named}{note}"


def clusters_text(rate: Rate) -> str:
    """The same behind a count, with a comma."""
    clusters = clusters_of(rate)
    return f", {clusters}" if clusters else ""


def bounds_text(rate: Rate) -> str:
    """What a rate could be once all answers are judged: ``0.465 to 0.535 [0.381, 0.620]``;
    empty where all are."""
    if not rate.counts.unjudged or rate.bounds is None:
        return ""
    low, high = rate.bounds
    ends = interval_text((rate.with_judge or rate).outer)
    return f"{decimals(low)} to {decimals(high)} {ends}".rstrip()


def p_text(p: float | None) -> str:
    """A p-value; one that rounds to nothing is not zero."""
    if p is None:
        return MISSING
    return f"{p:.4f}" if round(p, 4) else "<0.0001"


def kinds_text(counts: Mapping[str, int]) -> str:
    """Counts by kind: ``2 cut off, 1 error``; ``0`` without any."""
    kinds = [f"{n} {kind.replace('_', ' ')}" for kind, n in counts.items() if n]
    return ", ".join(kinds) or "0"


def not_judged(rate: Rate) -> str | None:
    """The answers that are not in a rate, by reason; None where all are."""
    return kinds_text(rate.counts.excluded) if rate.counts.unjudged else None


def limit_text(threshold: Threshold) -> str:
    """A threshold in words: ``at least 0.8``."""
    return f"{'at least' if threshold.kind == 'min' else 'at most'} {threshold.limit}"


def joined(parts: Sequence[str], between: str = "; ") -> str:
    """A sentence of these parts; empty without a part."""
    text = between.join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""
