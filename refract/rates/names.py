"""Every number that a suite could have, before anything runs: so that no two are
called the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refract.rates.controls import CONTROL_FIELD
from refract.rates.judge_rates import WORDING_FIELD
from refract.rates.key import (
    ATTACK_SUCCESS,
    CATEGORY_MEASURES,
    CHANGED,
    CLEAN_MEASURES,
    CONTRASTS,
    CONTROLS_PASSED,
    DIFFERS,
    FALSE_CONFIDENCE,
    FAMILY_MEASURES,
    FIRST_MEASURES,
    HUMAN_LABELLED,
    INJECTION_SUCCESS,
    KAPPA,
    LANGUAGE_LOOPHOLE,
    LANGUAGE_OVER_REFUSAL,
    LOOPHOLE,
    NEW_REFUSAL,
    NULL_DIFFERENCE,
    OVER_ABSTENTION,
    PAIR_DIFFERENCE,
    REFUSED_UNTIL_END,
    SAMPLED,
    SHARES,
    TASK_DONE,
    THOUGHT_MEASURES,
    VERDICT_CHANGE,
    WITHOUT_CUT_OFF,
    WITHOUT_PROVIDER,
    Group,
    Key,
    Measure,
    counted_by_function,
    printed_twice,
)
from refract.rates.null_differences import NULL_FIELD
from refract.rates.protocol_rates import measure_names, protocol_measure
from refract.rates.robustness import CLEAN_SAMPLES, PAIRED
from refract.rates.turns import TURN_FIELD

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
    fields = list(definition.get("fields") or ["language"])
    keys = [*_refusal_keys("", fields), *_suite_keys(fields)]
    for judge in definition["judges"]:
        family = families[judge]
        if family == "refusal":
            if judge != definition["judges"][0]:
                keys += [*_refusal_keys(judge, ()), Key(KAPPA, judge=judge)]
        elif family == "refusal_in_thought":
            for measure in THOUGHT_MEASURES:
                keys += _with_uncut(Key(measure, judge=judge))
                keys += _grouped([measure], "category", judge)
        else:
            measures = [FAMILY_MEASURES[family]]
            if family == "abstention":
                measures += [FALSE_CONFIDENCE, OVER_ABSTENTION]
            for measure in measures:
                keys += _with_uncut(Key(measure, judge=judge))
    for perturbation in (*(definition.get("perturbations") or ()), CLEAN_SAMPLES):
        for measure in (CHANGED, DIFFERS, LOOPHOLE, NEW_REFUSAL):
            keys += _with_uncut(Key(measure, perturbation=perturbation))
        group = Group("perturbation")
        keys.append(Key(CHANGED, perturbation=perturbation, group=group))
    if definition.get("protocol"):
        of_protocol = list(_protocol_keys(str(definition["protocol"])))
        keys = without_own(keys, of_protocol) + of_protocol
    keys += [Key(measure) for measure in counted_by_function()]
    for judge in definition["judges"]:
        key = Key(VERDICT_CHANGE, judge="" if judge == definition["judges"][0] else judge)
        keys += [key, replace(key, group=Group(WORDING_FIELD))]
    return keys


def without_own(keys: Sequence[Key], of_protocol: Sequence[Key]) -> list[Key]:
    """A suite's keys without those whose number its protocol counts in its own way,
    under one name."""
    names = {key.name for key in of_protocol}
    return [key for key in keys if key.name not in names]


def _with_uncut(key: Key) -> list[Key]:
    """A key over all, and the one without answers that were cut off."""
    return [key, replace(key, group=Group(WITHOUT_CUT_OFF.field))]


def _grouped(measures: Sequence[Measure], field: str, judge: str = "") -> Iterator[Key]:
    for measure in measures:
        yield Key(measure, judge=judge, group=Group(field))


def _refusal_keys(judge: str, fields: Sequence[str]) -> Iterator[Key]:
    """The numbers that each judge of refusal gives of the clean prompts."""
    for measure in (*CLEAN_MEASURES, *CONTRASTS.values()):
        key = Key(measure, judge=judge)
        yield from _with_uncut(key)
        yield replace(key, group=Group(WITHOUT_PROVIDER.field))
    yield Key(NULL_DIFFERENCE, judge=judge)
    yield from _grouped([NULL_DIFFERENCE], NULL_FIELD, judge)
    yield Key(CONTROLS_PASSED, judge=judge)
    yield from _grouped([CONTROLS_PASSED], CONTROL_FIELD, judge)
    for field in fields:
        yield from _grouped([*CATEGORY_MEASURES.values()], field, judge)


def _suite_keys(fields: Sequence[str]) -> Iterator[Key]:
    """The numbers that only the first judge of a suite, or no judge of refusal,
    gives."""
    yield from _grouped(SHARES, "category")
    for measure in (PAIR_DIFFERENCE, ATTACK_SUCCESS, INJECTION_SUCCESS, TASK_DONE):
        yield from _with_uncut(Key(measure))
    for field in fields:
        yield from _grouped([PAIR_DIFFERENCE, ATTACK_SUCCESS], field)
    yield from _grouped([ATTACK_SUCCESS], "attack")
    yield from _grouped([INJECTION_SUCCESS, TASK_DONE], "group")
    for measure in (LANGUAGE_LOOPHOLE, LANGUAGE_OVER_REFUSAL):
        yield from _with_uncut(Key(measure))
        yield from _grouped([measure], "language")
    yield from _grouped(SAMPLED, "samples")
    yield from _grouped(SAMPLED, "over")
    yield from _grouped([*CATEGORY_MEASURES.values(), *FIRST_MEASURES], TURN_FIELD)
    yield Key(REFUSED_UNTIL_END)
    yield from _grouped([*HUMAN_LABELLED.values()], "human_labels")


def _protocol_keys(name: str) -> Iterator[Key]:
    """The numbers of the published protocol that a suite follows."""
    from refract.suites.protocols import find_part

    chosen = find_part(name, "protocol")
    for measure_name in measure_names(chosen):
        yield Key(protocol_measure(measure_name))
    for measure_name, measure in chosen.own.measures.items():
        if measure.by is not None:
            yield Key(protocol_measure(measure_name), group=Group(measure.by))


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
