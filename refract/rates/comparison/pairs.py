"""The outcomes of two results, paired prompt by prompt."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from refract.core.vocabulary import (
    JUDGED,
    REFUSED,
)

# What makes a pair: without these columns, outcomes cannot be compared prompt by prompt.
NEEDED = ("suite", "prompt_id", "source_id", "category", "perturbation", "prompt_sha256", "outcome")

Outcome = Mapping[str, str]  # one line of an outcomes table


class Refusal(NamedTuple):
    """How often one prompt was refused: the share of its judged samples (None without one), and what
    the share over all samples could be, at least and at most, once the others are judged."""

    known: float | None
    lowest: float
    highest: float

    @property
    def unknown(self) -> float:
        """The share of samples that were not judged."""
        return self.highest - self.lowest

    @property
    def opposite(self) -> Refusal:
        """How often it was not refused."""
        known = None if self.known is None else 1 - self.known
        return Refusal(known, 1 - self.highest, 1 - self.lowest)


@dataclass
class Group:
    """The pairs of one suite, category and perturbation, and what could not be paired.

    ``first`` and ``second`` are how often each side refused a prompt, ``clusters`` the cluster of each
    pair, ``ids`` lists of prompt ids. ``repeats`` names the suite whose clean prompts include these,
    with the same outcomes. ``value`` is that of the column by which pairs were grouped besides.
    """

    suite: str
    category: str
    perturbation: str
    first: list[Refusal] = field(default_factory=list)
    second: list[Refusal] = field(default_factory=list)
    clusters: list[Hashable] = field(default_factory=list)
    ids: dict[str, list[str]] = field(default_factory=dict)
    repeats: str = ""
    value: str = ""


# Pairs whose outcome differs, pairs without a verdict on both sides, and what has no pair.
LISTS = ("to_refusal", "to_compliance", "to_unjudged", "to_judged", "not_judged")
UNPAIRED = ("only_a", "only_b", "reworded")


def pair_outcomes(
    first: Iterable[Outcome], second: Iterable[Outcome], *, column: str = ""
) -> list[Group]:
    """The outcomes of two sides, paired: by suite, category and perturbation, and by the values of a
    ``column`` where one is given (rows that have none are left out).

    A pair is a prompt variant with the same suite, id and text on both sides; several samples of it
    make one pair, and their numbers may differ. Categories and clusters are the first side's; a
    prompt whose category changed counts as reworded.
    """
    if column:
        first, second = ([row for row in side if row.get(column)] for side in (first, second))
    sides = [_keyed(first), _keyed(second)]
    groups: dict[tuple[str, str, str, str], Group] = {}

    def group(row: Outcome) -> Group:
        names = row["suite"], row["category"], row["perturbation"]
        key = (*names, row[column] if column else "")
        if key not in groups:
            ids: dict[str, list[str]] = {name: [] for name in (*LISTS, *UNPAIRED)}
            groups[key] = Group(*names, ids=ids, value=key[-1])
        return groups[key]

    for key, samples in sides[0].items():
        row, id_ = samples[0], key[1]
        held = group(row)
        others = sides[1].get(key)
        if others is None:
            held.ids["only_a"].append(id_)
        elif any(row[name] != others[0][name] for name in ("prompt_sha256", "category")):
            held.ids["reworded"].append(id_)
        else:
            before, after = _refusal(samples), _refusal(others)
            held.first.append(before)
            held.second.append(after)
            held.clusters.append(row.get("cluster") or row["source_id"])
            for name in _changes(before, after):
                held.ids[name].append(id_)
    for key, samples in sides[1].items():
        if key not in sides[0]:
            group(samples[0]).ids["only_b"].append(key[1])
    included = _repeats(*sides)
    for held in groups.values():
        held.repeats = "" if held.perturbation else included.get(held.suite, "")
    return list(groups.values())


Keyed = dict[tuple[str, str], list[Outcome]]  # the samples of each prompt variant


def _keyed(rows: Iterable[Outcome]) -> Keyed:
    found: Keyed = {}
    for row in rows:
        sample = row.get("sample") or "1"
        id_ = row["prompt_id"] if sample == "1" else row["prompt_id"].removesuffix(f"~{sample}")
        found.setdefault((row["suite"], id_), []).append(row)
    return found


def _refusal(samples: Sequence[Outcome]) -> Refusal:
    judged = sum(row["outcome"] in JUDGED for row in samples)
    refused = sum(row["outcome"] in REFUSED for row in samples)
    size = len(samples)
    known = refused / judged if judged else None
    return Refusal(known, refused / size, (refused + size - judged) / size)


def _changes(before: Refusal, after: Refusal) -> list[str]:
    """The lists that a pair belongs to. Of several samples, what most of them do is compared."""
    lists = []
    if before.known is None and after.known is None:
        lists.append("not_judged")
    elif before.unknown != after.unknown:
        lists.append("to_unjudged" if before.unknown < after.unknown else "to_judged")
    if before.known is not None and after.known is not None:
        if before.known <= 0.5 <= after.known and before.known < after.known:
            lists.append("to_refusal")
        elif after.known <= 0.5 <= before.known and after.known < before.known:
            lists.append("to_compliance")
    return lists


def _repeats(*sides: Keyed) -> dict[str, str]:
    """Suites all of whose clean prompts another suite has, with the same outcome on each side."""
    held: dict[str, set[tuple[int, str, str, str]]] = {}
    for number, side in enumerate(sides):
        for row in (row for samples in side.values() for row in samples):
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
