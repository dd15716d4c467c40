"""comparison: two sets of outcomes in, paired differences in refusal out, prompt by prompt."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from refract.comparison.decisions import decide_rows, evidence
from refract.params.decisions import DecisionSettings
from refract.rows.labels import JUDGED, REFUSED
from refract.rows.types import Row
from refract.settings import read_settings
from refract.statistics.clusters import clustered_difference, clustered_mcnemar, difference_bounds
from refract.statistics.multiplicity import holm

# What makes a pair: without these columns, outcomes cannot be compared prompt by prompt.
NEEDED = ("suite", "prompt_id", "source_id", "category", "perturbation", "prompt_sha256", "outcome")
DEFAULTS = read_settings(DecisionSettings, "decisions", {})

Outcome = Mapping[str, str]  # one line of an outcomes table


@dataclass
class Group:
    """The pairs of one suite, category and perturbation, and what could not be paired.

    ``first`` and ``second`` are whether each side refused, None where it was not judged, ``clusters``
    the cluster of each pair, ``ids`` lists of prompt ids. ``repeats`` names the suite whose clean
    prompts include these, with the same outcomes.
    """

    suite: str
    category: str
    perturbation: str
    first: list[bool | None] = field(default_factory=list)
    second: list[bool | None] = field(default_factory=list)
    clusters: list[Hashable] = field(default_factory=list)
    ids: dict[str, list[str]] = field(default_factory=dict)
    repeats: str = ""


# Pairs whose outcome differs, pairs without a verdict on both sides, and what has no pair.
LISTS = ("to_refusal", "to_compliance", "to_unjudged", "to_judged", "not_judged")
UNPAIRED = ("only_a", "only_b", "reworded")


def pair_outcomes(first: Iterable[Outcome], second: Iterable[Outcome]) -> list[Group]:
    """The outcomes of two sides, paired: by suite, category and perturbation.

    A pair is a prompt variant with the same suite, id and text on both sides. Categories and clusters
    are the first side's; a prompt whose category changed counts as reworded.
    """
    sides = [_keyed(first), _keyed(second)]
    groups: dict[tuple[str, str, str], Group] = {}

    def group(row: Outcome) -> Group:
        key = (row["suite"], row["category"], row["perturbation"])
        if key not in groups:
            groups[key] = Group(*key, ids={name: [] for name in (*LISTS, *UNPAIRED)})
        return groups[key]

    for key, row in sides[0].items():
        held = group(row)
        other = sides[1].get(key)
        if other is None:
            held.ids["only_a"].append(row["prompt_id"])
        elif any(row[name] != other[name] for name in ("prompt_sha256", "category")):
            held.ids["reworded"].append(row["prompt_id"])
        else:
            refused = _refused(row), _refused(other)
            held.first.append(refused[0])
            held.second.append(refused[1])
            held.clusters.append(row.get("cluster") or row["source_id"])
            name = _change(*refused)
            if name:
                held.ids[name].append(row["prompt_id"])
    for key, row in sides[1].items():
        if key not in sides[0]:
            group(row).ids["only_b"].append(row["prompt_id"])
    included = _repeats(*sides)
    for held in groups.values():
        held.repeats = "" if held.perturbation else included.get(held.suite, "")
    return list(groups.values())


def compare_groups(groups: Sequence[Group], settings: DecisionSettings = DEFAULTS) -> list[Row]:
    """One row for each group: the paired difference, what unjudged answers could make of it, and the
    decision.

    ``n`` counts pairs judged on both sides, ``clusters`` the clusters behind them; ``rate_a`` and
    ``rate_b`` are the shares refused (fully or partly) over those, ``difference`` is second minus
    first with its interval (``low``, ``high``: Tango's, scaled to the clusters), ``p`` McNemar's exact
    test, with whole clusters exchanged, and ``p_holm`` the same corrected for all rows given.
    ``bound_low`` and ``bound_high`` are the difference over all pairs at the two extremes of what was
    not judged, ``outer_low`` and ``outer_high`` the same with sampling error.

    Lists of prompt ids: ``to_refusal`` and ``to_compliance`` flipped; ``to_unjudged`` were judged on
    the first side alone, ``to_judged`` on the second alone, ``not_judged`` on neither; ``only_a`` and
    ``only_b`` are missing on one side; ``reworded`` have another text.

    What a row of a primary measure has besides, and the decisions, are
    :func:`refract.comparison.decisions.decide_rows`'s. A group whose clean prompts another suite
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


def compare_outcomes(
    first: Iterable[Outcome], second: Iterable[Outcome], settings: DecisionSettings = DEFAULTS
) -> list[Row]:
    """The rows of :func:`compare_groups` for two models' outcomes."""
    return compare_groups(pair_outcomes(first, second), settings)


def _is_primary(held: Group, settings: DecisionSettings) -> bool:
    paired = bool(held.first) and not held.perturbation and not held.repeats
    return paired and held.category in settings.categories


def _refused(row: Outcome) -> bool | None:
    return row["outcome"] in REFUSED if row["outcome"] in JUDGED else None


def _change(first: bool | None, second: bool | None) -> str:
    """The list that a pair belongs to; none where both were judged alike."""
    if first is None:
        return "not_judged" if second is None else "to_judged"
    if second is None:
        return "to_unjudged"
    return "" if first == second else "to_refusal" if second else "to_compliance"


def _keyed(rows: Iterable[Outcome]) -> dict[tuple[str, str], Outcome]:
    return {(row["suite"], row["prompt_id"]): row for row in rows}


def _repeats(*sides: Mapping[tuple[str, str], Outcome]) -> dict[str, str]:
    """Suites all of whose clean prompts another suite has, with the same outcome on each side."""
    held: dict[str, set[tuple[int, str, str, str]]] = {}
    for number, side in enumerate(sides):
        for row in side.values():
            if not row["perturbation"]:
                one = (number, row["prompt_sha256"], row["category"], row["outcome"])
                held.setdefault(row["suite"], set()).add(one)
    names = list(held)
    found: dict[str, str] = {}
    for place, suite in enumerate(names):
        for other in names:
            # Of two suites with the same prompts, the first is tested.
            same = held[suite] == held[other] and names.index(other) < place
            if other not in found and other != suite and (same or held[suite] < held[other]):
                found[suite] = other
                break
    return found


def _paired(held: Group, confidence: float) -> Row:
    names = ("rate_a", "rate_b", "difference", "low", "high", "p")
    row: Row = {"n": 0, "clusters": 0} | dict.fromkeys(names)
    judged = [
        (a, b, cluster)
        for a, b, cluster in zip(held.first, held.second, held.clusters, strict=True)
        if a is not None and b is not None
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
    bounds = difference_bounds(held.second, held.first, held.clusters, confidence)
    ends = (None,) * 4 if bounds is None else bounds
    return row | dict(
        zip(("bound_low", "bound_high", "outer_low", "outer_high"), ends, strict=True)
    )
