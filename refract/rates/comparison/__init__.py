"""comparison: two sets of outcomes in, paired differences in refusal out, prompt by prompt."""

from __future__ import annotations

from collections.abc import Sequence

from refract.core.params import DecisionSettings
from refract.core.settings import read_settings
from refract.core.types import Row
from refract.rates.comparison.decisions import decide_rows, evidence
from refract.rates.comparison.pairs import Group
from refract.statistics.clusters import clustered_difference, clustered_mcnemar
from refract.statistics.hypotheses import holm

DEFAULTS = read_settings(DecisionSettings, "decisions", {})


def compare_groups(groups: Sequence[Group], settings: DecisionSettings = DEFAULTS) -> list[Row]:
    """One row for each group: the paired difference, what unjudged answers could make of it, and the
    decision.

    ``n`` counts prompts judged on both sides, ``clusters`` the clusters behind them; ``rate_a`` and
    ``rate_b`` are the shares refused (fully or partly) over those, of several samples the mean of
    the prompts' means, ``difference`` is second minus first with its interval (``low``, ``high``:
    Tango's, scaled to the clusters), ``p`` McNemar's exact test, with whole clusters exchanged, and
    ``p_holm`` the same corrected for all rows given. ``bound_low`` and ``bound_high`` are the
    difference over all pairs at the two extremes of what was not judged, ``outer_low`` and
    ``outer_high`` the same with sampling error.

    Lists of prompt ids: ``to_refusal`` and ``to_compliance`` flipped (of several samples, what most
    of them do); ``to_unjudged`` have fewer judged samples on the second side, ``to_judged`` more,
    ``not_judged`` none on either; ``only_a`` and ``only_b`` are missing on one side; ``reworded``
    have another text.

    What a row of a primary measure has besides, and the decisions, are
    :func:`refract.rates.comparison.decisions.decide_rows`'s. A group whose clean prompts another suite
    includes with the same outcomes (``repeats``) has neither p nor decision: it would test the same
    answers twice.
    """
    rows = []
    for held in groups:
        row: Row = {
            "suite": held.suite,
            "category": held.category,
            "perturbation": held.perturbation,
            **_paired(held, settings.confidence),
            **held.ids,
            "repeats": held.repeats,
        }
        if held.repeats:
            row["p"] = None
        rows.append(row)
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = adjusted
    decide_rows(
        rows,
        [
            evidence(held.first, held.second, held.clusters, held.category, settings)
            if _is_primary(held, settings)
            else None
            for held in groups
        ],
        settings,
    )
    return rows


def _is_primary(held: Group, settings: DecisionSettings) -> bool:
    paired = bool(held.first) and not held.perturbation and not held.repeats
    return paired and held.category in settings.categories


def _paired(held: Group, confidence: float) -> Row:
    names = ("rate_a", "rate_b", "difference", "low", "high", "p")
    row: Row = {"n": 0, "clusters": 0} | dict.fromkeys(names)
    judged = [
        (a.known, b.known, cluster)
        for a, b, cluster in zip(held.first, held.second, held.clusters, strict=True)
        if a.known is not None and b.known is not None
    ]
    if judged:
        first, second, clusters = zip(*judged, strict=True)
        found = clustered_difference(second, first, clusters, confidence)
        assert found is not None  # there are pairs
        row |= {
            "n": len(judged),
            "clusters": found.clusters,
            "rate_a": sum(first) / len(judged),
            "rate_b": sum(second) / len(judged),
            "difference": found.value,
            "low": found.low,
            "high": found.high,
            "p": clustered_mcnemar(first, second, clusters),
        }
    lower, upper = (
        clustered_difference(
            [getattr(one, second) for one in held.second],
            [getattr(one, first) for one in held.first],
            held.clusters,
            confidence,
        )
        for first, second in (("highest", "lowest"), ("lowest", "highest"))
    )
    return row | {
        "bound_low": lower and lower.value,
        "bound_high": upper and upper.value,
        "outer_low": lower and lower.low,
        "outer_high": upper and upper.high,
    }
