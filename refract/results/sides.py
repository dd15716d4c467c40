"""Two sides of a comparison in, every paired difference between them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import hypot

from refract.agreement.corrections import FIELD, PREFIX
from refract.agreement.ledger import LedgerEntry, below_gaps
from refract.core.params import DecisionSettings
from refract.rates.comparison import DEFAULTS, PairedOutcomes, compare_groups, pair_outcomes
from refract.rates.conditions import check_conditions
from refract.rates.rate import Difference, Rate
from refract.results.sources import Result, ResultsError, Side
from refract.results.table_rows import confidence_of
from refract.statistics.proportions import normal_quantile

Note = tuple[str, str, str]  # model, suite (or none), what


@dataclass(frozen=True)
class ComparedSides:
    """What each side is, what else differs between them, and all paired differences, second side minus
    first, at a confidence."""

    a: str
    b: str
    notes: list[str]
    confidence: float
    differences: list[Difference]


def compare_sides(a: Side, b: Side, settings: DecisionSettings = DEFAULTS) -> ComparedSides:
    """All paired comparisons of two sides.

    Models are paired by name, or, with one on each side, as they are. Raises
    :class:`ResultsError` where nothing can be compared.
    """
    if len(a.results) == len(b.results) == 1:
        pairs = [(next(iter(a.results)), next(iter(b.results)))]
    else:
        pairs = [(model, model) for model in a.results if model in b.results]
    alone = []
    for index, side in enumerate((a, b)):
        paired = {pair[index] for pair in pairs}
        if models := [model for model in side.results if model not in paired]:
            alone.append(f"only in {side.name}: {', '.join(models)}")
    if not pairs:
        raise ResultsError(
            f"no model is on both sides: A has {', '.join(a.results)}, B has "
            f"{', '.join(b.results)}; name one with REVISION:MODEL"
        )
    groups: list[tuple[str, PairedOutcomes]] = []
    differs: list[Note] = []
    refused: list[Note] = []
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
            for suite, what in judge_errors_differ(left, right, settings.confidence)
            if suite not in conditions.refused
        ]
        refused += [(name, suite, why) for suite, why in conditions.refused.items()]
        compared = [
            [row for row in result.outcomes if row["suite"] not in conditions.refused]
            for result in (left, right)
        ]
        groups += [(name, group) for group in pair_outcomes(*compared)]
    if not any(group.first for _, group in groups):
        raise ResultsError(
            "nothing to compare: "
            + ("; ".join(_grouped(refused)) or "no prompt is on both sides with the same text")
        )
    repeated = {
        (name, group.suite, f"(no change) the clean prompts count in {group.repeats} alone"): None
        for name, group in groups
        if group.repeats
    }
    # What bears on the most comes first.
    notes = [f"not compared: {reason}" for reason in _grouped(refused)]
    notes += [*alone, *_grouped(differs), *_grouped(repeated)]
    differences = compare_groups([group for _, group in groups], settings)
    named = [replace(x, model=name) for (name, _), x in zip(groups, differences, strict=True)]
    return ComparedSides(a.name, b.name, notes, settings.confidence, named)


def judge_errors_differ(
    first: Result, second: Result, confidence: float = DEFAULTS.confidence
) -> list[tuple[str, str]]:
    """Suites in which the judge is known to err otherwise on one side than on the other, and how.

    Known from human labels of both: what people find (the rates corrected by them) less what the judge
    finds. The two errors differ if their distance exceeds what the corrected rates' intervals leave
    open. Without human labels nothing is known, and nothing is said.
    """
    errors = [
        _judge_errors(result.rates, confidence_of(result.provenance)) for result in (first, second)
    ]
    notes = []
    for suite, measure in errors[0].keys() & errors[1].keys():
        (one, se_one), (two, se_two) = (side[suite, measure] for side in errors)
        if abs(one - two) > normal_quantile(confidence) * hypot(se_one, se_two):
            what = (
                f"the judge errs differently on the two, by human labels: {measure} is {one:+.3f} from "
                f"what it says of A and {two:+.3f} of B; compare the corrected rates instead"
            )
            notes.append((suite, what))
    return sorted(notes)


def _judge_errors(
    rates: Sequence[Rate], confidence: float
) -> dict[tuple[str, str], tuple[float, float]]:
    """By suite and measure: the rate that people would find less the judge's, and its standard error."""
    by_judge = {(rate.suite, rate.measure): rate.value for rate in rates if not rate.group}
    errors = {}
    for rate in rates:
        measure = rate.measure.removeprefix(PREFIX)
        judged = by_judge.get((rate.suite, measure))
        if rate.group.field != FIELD or rate.value is None or judged is None:
            continue
        if rate.interval is not None:
            se = (rate.interval.high - rate.interval.low) / (2 * normal_quantile(confidence))
            errors[rate.suite, measure] = rate.value - judged, se
    return errors


def gap_notes(
    a: Side, differences: Sequence[Difference], entries: Sequence[LedgerEntry]
) -> list[str]:
    """One line that names the differences below the judge's rate gaps on models with such rates.

    Side A says which judge decided. Differences that are 0 are left out.
    """
    small = []
    largest = 0.0
    for difference in differences:
        result = a.results.get(difference.model.split(" → ")[0])
        provenance = result.provenance if result else None
        if not difference.value or difference.perturbation or not provenance:
            continue
        suite = provenance["suites"].get(difference.suite)
        if suite is None:
            continue
        judge = suite["judges"][0]
        names = {judge, provenance.get("judges", {}).get(judge, {}).get("kind", judge)}
        gap = below_gaps(entries, names, difference.first, difference.second)
        if gap is not None:
            small.append(f"{difference.model} on {difference.suite}, {difference.category}")
            largest = max(largest, gap)
    if not small:
        return []
    shown = ", ".join(small[:5]) + (", …" if len(small) > 5 else "")
    return [
        f"smaller than the rate gaps that the judge was measured to have on models with such rates "
        f"(up to {100 * largest:.1f} points; refract label decides): {shown}"
    ]


def _grouped(notes: Iterable[Note]) -> list[str]:
    """Merged notes: one line each, with the models and suites that it is about."""
    suites_of: dict[tuple[str, str], list[str]] = {}
    for model, suite, what in notes:
        suites_of.setdefault((what, model), []).extend([suite] if suite else [])
    models_of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (what, model), suites in suites_of.items():
        models_of.setdefault((what, tuple(suites)), []).append(model)
    return [
        f"{', '.join(models)}{' on ' if suites else ''}{', '.join(suites)}: {what}"
        for (what, suites), models in models_of.items()
    ]
