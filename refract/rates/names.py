"""Every number that a suite could have, before anything runs: so that no two are
called the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refract.rates.followed import followed
from refract.rates.key import (
    FAMILY_MEASURES,
    KAPPA,
    MEASURES,
    SUITE_FIELDS,
    VERDICT_CHANGE,
    WITHOUT_CUT_OFF,
    WITHOUT_PROVIDER,
    Group,
    Key,
    Measure,
    installed_measures,
    printed_twice,
)
from refract.rates.robustness import CLEAN_SAMPLES, PAIRED

# Groups that hold numbers or labels of their own; rows cannot be grouped by a field
# of such a name.
RESERVED_FIELDS = ("human_labels", "samples")
# What tables call comparisons and attacks that no perturbation made.
RESERVED_PERTURBATIONS = (CLEAN_SAMPLES, PAIRED)


def possible_keys(definition: Mapping[str, Any], families: Mapping[str, str]) -> list[Key]:
    """The keys of all numbers that a suite could have, whatever its rows hold. The
    value of a group is left empty, since rows decide it: ``field`` alone tells groups
    apart here.

    ``definition`` is the suite's as in params.yaml, ``families`` the label family of
    each of its judges. Raises :class:`refract.core.errors.ParamsError` for an unknown
    protocol."""
    keys: list[Key] = []

    def add(
        measure: Measure, judge: str = "", perturbation: str = "", fields: Sequence[str] = ()
    ) -> None:
        groups = []
        if measure.whole:
            groups += ["", WITHOUT_CUT_OFF.field, WITHOUT_PROVIDER.field]
        for group in measure.groups:
            groups += fields if group == SUITE_FIELDS else [group]
        for group in groups:
            keys.append(Key(measure, judge, perturbation=perturbation, group=Group(group)))

    for measure in (*MEASURES, *installed_measures()):
        if measure.counted_for == "suite" and measure != KAPPA:
            add(measure, fields=definition.get("fields") or ["language"])
    first = definition["judges"][0]
    for judge in definition["judges"]:
        if judge != first or families[judge] != "refusal":
            for measure in (*FAMILY_MEASURES[families[judge]], VERDICT_CHANGE):
                add(measure, judge)
    for perturbation in (*(definition.get("perturbations") or ()), CLEAN_SAMPLES):
        for measure in MEASURES:
            if measure.counted_for == "perturbation":
                add(measure, perturbation=perturbation)
    protocol = followed(definition)
    if protocol is None:
        return keys
    own = protocol.possible_keys()
    # A number that the protocol counts in its own way goes before the suite's of that name.
    names = {key.name for key in own}
    return [key for key in keys if key.name not in names] + [*own]


def limit_problems(definition: Mapping[str, Any], families: Mapping[str, str]) -> list[str]:
    """Which thresholds of a suite lie outside the range of their measure: a line for each."""
    measures = {key.name: key.measure for key in possible_keys(definition, families)}
    problems = []
    for name, limit in (definition.get("thresholds") or {}).items():
        if name not in measures:
            continue
        low, high = measures[name].low, measures[name].high
        for bound in limit.values():
            if low is not None and bound < low:
                problems.append(
                    f"thresholds.{name} must be at least {low:g}, as it is (got {bound})"
                )
            if high is not None and bound > high:
                problems.append(
                    f"thresholds.{name} must be at most {high:g}, as it is (got {bound})"
                )
    return problems


def name_problems(definition: Mapping[str, Any], families: Mapping[str, str]) -> list[str]:
    """Which two numbers of a suite files could not tell apart: a line for each pair.

    Two equal keys are two numbers too: a field that rows are grouped by may be called
    as a group that is there anyhow."""
    problems = []
    for field in definition.get("fields") or ():
        if field in RESERVED_FIELDS:
            problems.append(f"fields: {field!r} is what tables call groups of their own")
    for perturbation in definition.get("perturbations") or ():
        if perturbation in RESERVED_PERTURBATIONS:
            problems.append(
                f"perturbations: {perturbation!r} is what tables call what no perturbation made"
            )
    seen: set[Key] = set()
    keys = possible_keys(definition, families)
    for key in keys:
        if key in seen:
            problems.append(
                f"{key.name} by {key.group.field!r} would be two numbers: the suite's rows may not be "
                f"grouped by the field {key.group.field!r}"
            )
        seen.add(key)
    for first, second in printed_twice(keys):
        problems.append(
            f"{first.name!r} would be two numbers: {first.described}, and {second.described}"
        )
    return problems
