"""What the numbers of a suite would be called, before anything runs: so that no two are called the
same, and thresholds can be met. Whether those of groups are apart is seen as they are counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from refract.core.errors import nearest
from refract.rates.key import (
    FAMILY_MEASURES,
    KAPPA,
    MEASURES,
    Key,
    installed_measures,
    name_clashes,
)
from refract.rates.robustness import CLEAN_SAMPLES, PAIRED

# Groups that hold numbers or labels of their own; rows cannot be grouped by a field of such a name.
RESERVED_FIELDS = ("cut_off", "human_labels", "provider_refusals", "samples", "turn")
# What tables call comparisons and attacks that no perturbation made.
RESERVED_PERTURBATIONS = (CLEAN_SAMPLES, PAIRED)


def whole_keys(definition: Mapping[str, Any], families: Mapping[str, str]) -> list[Key]:
    """What the numbers over a whole suite could be of, whatever its rows hold. ``definition`` is
    the suite's, ``families`` the label family of each of its judges."""
    measures = (*MEASURES, *installed_measures())
    keys = [Key(x) for x in measures if x.counted_for == "suite" and x != KAPPA]
    for place, judge in enumerate(definition["judges"]):
        if place or families[judge] != "refusal":
            for measure in FAMILY_MEASURES[families[judge]]:
                keys.append(Key(measure, judge))
    for perturbation in (*(definition.get("perturbations") or ()), CLEAN_SAMPLES):
        for measure in measures:
            if measure.counted_for == "perturbation":
                keys.append(Key(measure, perturbation=perturbation))
    return keys


def name_problems(definition: Mapping[str, Any], families: Mapping[str, str]) -> list[str]:
    """Which numbers of a suite files could not tell apart, and which thresholds lie outside the
    range of their measure: a line for each."""
    problems = []
    for field in definition.get("fields") or ():
        if field in RESERVED_FIELDS:
            problems.append(f"fields: {field!r} is what tables call groups of their own")
    for perturbation in definition.get("perturbations") or ():
        if perturbation in RESERVED_PERTURBATIONS:
            name = f"{perturbation!r} is what tables call what no perturbation made"
            problems.append(f"perturbations: {name}")
    keys = whole_keys(definition, families)
    problems += name_clashes(keys)
    measures = {key.name: key.measure for key in keys}
    for name, limit in (definition.get("thresholds") or {}).items():
        for bound in limit.values() if name in measures else ():
            low, high = measures[name].low, measures[name].high
            if low is not None and bound < low:
                problems.append(f"thresholds.{name} must be at least {low:g} (got {bound})")
            if high is not None and bound > high:
                problems.append(f"thresholds.{name} must be at most {high:g} (got {bound})")
    return problems


def unknown_threshold(
    definition: Mapping[str, Any], families: Mapping[str, str], categories: Iterable[str]
) -> str:
    """What is wrong with the first threshold of a suite for which there is no number: by its name,
    or since no row is of the category that it is over; "" for none."""
    measures = {key.name: key.measure for key in whole_keys(definition, families)}
    for judge in definition["judges"]:
        for measure in installed_measures():
            measures.setdefault(Key(measure, judge).name, measure)
    for name in definition.get("thresholds") or ():
        if name not in measures:
            near = nearest(name, measures) or f"; the suite has {', '.join(sorted(measures))}"
            return f"thresholds name {name!r}, of which it has no number{near}"
        category = measures[name].category
        if category is not None and category not in categories:
            return f"thresholds name {name!r}, and no row of the suite is {category}"
    return ""
