"""Two sides of a comparison in, every paired difference between them out."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot

from refract.core.params import DecisionSettings
from refract.core.types import Row
from refract.rates.comparison import DEFAULTS, compare_groups
from refract.rates.comparison.conditions import check_conditions
from refract.rates.comparison.pairs import Group, pair_outcomes
from refract.results.sources import ResultsError, Side
from refract.results.tables import Table, confidence_of
from refract.statistics.proportions import normal_quantile

# Rates from human labels stand in tables under the measure's name with this in front, in this field.
CORRECTED, LABELLED = "prediction_powered_", "human_labels"


def compare_sides(a: Side, b: Side, settings: DecisionSettings = DEFAULTS) -> Row:
    """All paired comparisons of two sides: ``a``, ``b``, ``notes``, ``confidence`` and ``rows``.

    Models are paired by name, or, with one on each side, as they are. Raises
    :class:`ResultsError` where nothing can be compared.
    """
    if len(a.results) == len(b.results) == 1:
        pairs = [(next(iter(a.results)), next(iter(b.results)))]
    else:
        pairs = [(model, model) for model in a.results if model in b.results]
    notes = []
    for index, side in enumerate((a, b)):
        paired = {pair[index] for pair in pairs}
        alone = [model for model in side.results if model not in paired]
        if alone:
            notes.append(f"only in {side.name}: {', '.join(alone)}")
    if not pairs:
        raise ResultsError(
            f"no model is on both sides: A has {', '.join(a.results)}, B has "
            f"{', '.join(b.results)}; name one with REVISION:MODEL"
        )
    groups: list[tuple[str, Group]] = []
    differs: list[tuple[str, str, str]] = []  # model, suite (or none), what
    reasons: list[tuple[str, str, str]] = []
    for one, two in pairs:
        name = one if one == two else f"{one} → {two}"
        left, right = a.results[one], b.results[two]
        conditions = check_conditions(left.provenance, right.provenance)
        for note in conditions.notes:
            suite, _, what = note.partition(": ")
            known = left.provenance is not None and suite in left.provenance["suites"]
            differs.append((name, suite, what) if known else (name, "", note))
        differs += [
            (name, suite, what)
            for suite, what in judge_errors_differ(
                left.table,
                right.table,
                settings.confidence,
                (confidence_of(left.provenance), confidence_of(right.provenance)),
            )
            if suite not in conditions.refused
        ]
        reasons += [(name, suite, why) for suite, why in conditions.refused.items()]
        compared = [
            [row for row in result.outcomes if row["suite"] not in conditions.refused]
            for result in (left, right)
        ]
        groups += [(name, group) for group in pair_outcomes(*compared)]
    if not any(group.first for _, group in groups):
        raise ResultsError(
            "nothing to compare: "
            + ("; ".join(_grouped(reasons)) or "no prompt is on both sides with the same text")
        )
    # What bears on the most comes first.
    notes = [
        *(f"not compared: {reason}" for reason in _grouped(reasons)),
        *notes,
        *_grouped(differs),
        *_grouped(
            list(
                dict.fromkeys(
                    (
                        name,
                        group.suite,
                        f"(no change) the clean prompts count in {group.repeats} alone",
                    )
                    for name, group in groups
                    if group.repeats
                )
            )
        ),
    ]
    found = compare_groups([group for _, group in groups], settings)
    rows = [{"model": name, **row} for (name, _), row in zip(groups, found, strict=True)]
    return {
        "a": a.name,
        "b": b.name,
        "notes": notes,
        "confidence": settings.confidence,
        "rows": rows,
    }


def judge_errors_differ(
    first: Table,
    second: Table,
    confidence: float = DEFAULTS.confidence,
    of_tables: tuple[float, float] = (0.95, 0.95),
) -> list[tuple[str, str]]:
    """Suites in which the judge is known to err otherwise on one side than on the other, and how.

    Known from human labels of both: what people find (the rates corrected by them) less what the judge
    finds. The two errors differ if their distance exceeds what the corrected rates' intervals leave
    open, which are at the confidences ``of_tables``. Without human labels nothing is known, and
    nothing is said.
    """
    errors = _judge_errors(first, of_tables[0]), _judge_errors(second, of_tables[1])
    found = []
    for key in errors[0].keys() & errors[1].keys():
        (one, se_one), (two, se_two) = errors[0][key], errors[1][key]
        if abs(one - two) > normal_quantile(confidence) * hypot(se_one, se_two):
            suite, measure = key
            found.append(
                (
                    suite,
                    f"the judge errs differently on the two, by human labels: {measure} is "
                    f"{one:+.3f} from what it says of A and {two:+.3f} of B; compare the corrected "
                    "rates instead",
                )
            )
    return sorted(found)


def _judge_errors(table: Table, confidence: float) -> dict[tuple[str, str], tuple[float, float]]:
    """By suite and measure: the rate that people would find less the judge's, and its standard error."""
    rates = {
        (row["suite"], row["measure"]): row
        for row in table
        if row["rate"] and row["field"] in ("", LABELLED)
    }
    found = {}
    for (suite, measure), row in rates.items():
        judged = rates.get((suite, measure.removeprefix(CORRECTED)))
        if measure.startswith(CORRECTED) and judged and row["low"] and row["high"]:
            se = (float(row["high"]) - float(row["low"])) / (2 * normal_quantile(confidence))
            found[suite, measure.removeprefix(CORRECTED)] = (
                float(row["rate"]) - float(judged["rate"]),
                se,
            )
    return found


def _grouped(found: Sequence[tuple[str, str, str]]) -> list[str]:
    """Merged notes: one line each, with the models and suites that it is about."""
    suites_of: dict[tuple[str, str], list[str]] = {}
    for model, suite, what in found:
        suites_of.setdefault((what, model), []).extend([suite] if suite else [])
    models_of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (what, model), suites in suites_of.items():
        models_of.setdefault((what, tuple(suites)), []).append(model)
    return [
        f"{', '.join(models)}{' on ' if suites else ''}{', '.join(suites)}: {what}"
        for (what, suites), models in models_of.items()
    ]
