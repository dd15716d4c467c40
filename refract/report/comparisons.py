"""Paired comparisons of models: with a reference, of neighbours, and under perturbations.

Nothing here depends on the report: these are functions of outcomes, and of what is known of
models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import NamedTuple

from refract.core.params import DecisionSettings
from refract.core.types import Row, is_last
from refract.rates.comparison import compare_groups, pair_outcomes
from refract.rates.rate import Difference
from refract.results.sources import Result, pair_results

# Up to so many models every pair is compared; the number of pairs grows with the square.
ALL_PAIRS = 8
Outcomes = Mapping[str, Sequence[Mapping[str, str]]]


class Compared(NamedTuple):
    """Two models of the grid, and the difference ``b`` minus ``a``."""

    a: str
    b: str
    difference: Difference


def near_pairs(models: Sequence[str], reference: str) -> list[tuple[str, str]]:
    """The reference with every other model, and each model with the next one of the
    grid; the earlier model of the grid is first in each pair."""
    pairs: dict[tuple[str, str], None] = {}
    for other in models:
        if other != reference:
            a, b = sorted((reference, other), key=models.index)
            pairs[a, b] = None
    return list(pairs | dict.fromkeys(pairwise(models)))


def compare_models(
    outcomes: Outcomes,
    settings: DecisionSettings,
    reference: str,
    provenance: Mapping[str, Row],
) -> list[Compared]:
    """Paired comparisons of models, undecided, with Holm's p over all of live models.

    Of up to ``ALL_PAIRS`` models all pairs, of more those of :func:`near_pairs`. A pair with a
    stand-in (recorded answers, synthetic models) is in no family of tests, unless all are such."""
    models = list(outcomes)
    pairs = list(combinations(models, 2))
    if len(models) > ALL_PAIRS:
        pairs = near_pairs(models, reference)
    names, groups = [], []
    for a, b in pairs:
        side_a = Result(outcomes[a], provenance.get(a))
        side_b = Result(outcomes[b], provenance.get(b))
        for group in pair_results(side_a, side_b):
            names.append((a, b))
            groups.append(group)
    undecided = settings.model_copy(update={"primary": []})
    differences = compare_groups(groups, undecided)
    return [Compared(*pair, x) for pair, x in zip(names, differences, strict=True)]


def compare_perturbed(outcomes: Outcomes, settings: DecisionSettings) -> list[Difference]:
    """What each perturbation did to refusal, of each model and suite: perturbed minus clean, over
    all prompts (``category`` empty) and by category. A pair is a perturbed prompt with its clean
    one, sample by sample; clusters are those of the clean prompts. Repeats of the clean prompt are
    among them."""
    differences = []
    for model, rows in outcomes.items():
        last = list(filter(is_last, rows))
        clean = {_sample(row): row["outcome"] for row in last if not row["perturbation"]}
        perturbed = [row for row in last if row["perturbation"] and _sample(row) in clean]
        for category in ("", *dict.fromkeys(row["category"] for row in perturbed)):
            before, after = [], []
            for row in perturbed:
                if category in ("", row["category"]):
                    after.append({**row, "category": category})
                    before.append({**row, "category": category, "outcome": clean[_sample(row)]})
            for difference in compare_groups(pair_outcomes(before, after), settings):
                differences.append(replace(difference, model=model))
    return differences


def _sample(row: Mapping[str, str]) -> tuple[str, str, str]:
    """The request that an answer was asked for, and which of its answers it is."""
    return row["suite"], row["source_id"], row.get("sample") or "1"


def strongest(compared: Sequence[Compared], confidence: float) -> list[Compared]:
    """Those that are more than chance (corrected p at most 1 - ``confidence``), with
    most evidence first."""
    order = []
    for pair in compared:
        p = pair.difference.p_adjusted
        if p is not None and not pair.difference.may_be_chance(confidence):
            order.append((p, -abs(pair.difference.value or 0), pair))
    return [pair for *_, pair in sorted(order, key=lambda entry: entry[:2])]


def number_of_tests(compared: Sequence[Compared]) -> int:
    """How many of them have a test whose p is corrected for the others."""
    return sum(pair.difference.p_adjusted is not None for pair in compared)
