"""The tables of the report that compare: models in pairs, and the prompts of one value of a
field with all of their category."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from refract.core.types import Row
from refract.rates.rate import Difference, Interval, rounded
from refract.report.comparisons import Compared, number_of_tests, strongest
from refract.report.markdown import ShownTable, shown_table
from refract.report.sentences import NO_FIELDS
from refract.report.view import View
from refract.report.wording import CATEGORY_OF, p_text, short_estimate

# The columns of tables of paired differences.
COMPARED = (
    *("suite", "category", "field", "value", "first", "second", "n", "clusters", "rate_first"),
    *("rate_second", "difference", "low", "high", "p", "p_adjusted", "judge_low", "judge_high"),
)


def leaves_out(interval: Interval | None, value: float | None) -> bool:
    """Whether an interval shows that a value is another one."""
    if interval is None or value is None:
        return False
    return not interval.low <= value <= interval.high


def _names(view: View, difference: Difference) -> dict[str, object]:
    """The first cells of a difference's row: its suite, and which prompts it is over in words."""
    group = difference.group
    by = f", {group.field} {group.value}" if group else ""
    prompts = f"{difference.category}{by}".replace("_", " ")
    return {"suite": view.titles.plain(difference.suite), "prompts": prompts}


def _numbers(difference: Difference, corrected: str) -> dict[str, object]:
    """Its last cells: n, p alone and corrected."""
    p, adjusted = p_text(difference.p), p_text(difference.p_adjusted)
    return {"n": difference.n, "p": p, corrected: adjusted}


def _change(difference: Difference) -> str:
    return short_estimate(difference.value, difference.shown, "+")


def _compared_table(view: View, pairs: Iterable[Compared], corrected: str) -> ShownTable:
    """Paired differences, the second model ``b`` minus the first ``a``, with p alone and
    ``corrected``."""
    rows = []
    for a, b, difference in pairs:
        shares = {
            "first": view.titles.model(a),
            "second": view.titles.model(b),
            "refused": f"{short_estimate(difference.a)}, {short_estimate(difference.b)}",
            "second − first": _change(difference),
        }
        rows.append(_names(view, difference) | shares | _numbers(difference, corrected))
    return shown_table(rows)


def compared(view: View) -> dict[str, Any]:
    """The comparisons with the reference and of neighbours, and of the reference with the model
    nearest to it."""
    near = view.nearest
    if len(view.models) < 2:
        return {"telling": 0}
    pairs = view.near_compared
    corrected = f"p (Holm, {view.tests})"
    telling = strongest(pairs, view.confidence)
    undecided = 0
    for pair in telling:
        interval = pair.difference.judge_interval
        undecided += interval is not None and interval.low <= 0 <= interval.high
    rows, margin = [], None
    if near:
        for difference in chain.from_iterable(near.by_suite.values()):
            drop = difference.drop
            margin = drop.margin if drop else margin
            shares = {
                view.titles.model(near.reference): short_estimate(difference.a),
                view.titles.model(near.model): short_estimate(difference.b),
                "difference": _change(difference),
            }
            row = _names(view, difference) | shares | _numbers(difference, corrected)
            rows.append(row | {"decision": drop and drop.decision})
    return {
        "telling": len(telling),
        "tested": number_of_tests(pairs),
        "tests": view.tests,
        "undecided": undecided,
        "nearest": shown_table(rows),
        "margin": margin,
        "pairs": _compared_table(view, [pair for pair in pairs if pair.difference.n], corrected),
    }


def by_field(view: View) -> dict[str, Any]:
    """The comparisons that are more than chance, and the rates of one value that
    stand out: their interval of the prompts alone leaves out what the model refused of all
    prompts of that category. One judge judged both, so that its error is in neither."""
    rows, counted = [], 0
    tested = number_of_tests(view.by_field)
    telling = [pair for pair in strongest(view.by_field, view.confidence) if pair.difference.n]
    for rate in view.every:
        if rate.group.field in NO_FIELDS or rate.name not in CATEGORY_OF:
            continue
        counted += 1
        whole = view.overall[rate.suite, rate.model].get(rate.name)
        if whole and leaves_out(rate.interval, whole.value):
            cells = {
                "prompts": CATEGORY_OF[rate.name],
                "of": f"{rate.group.field} {rate.group.value}",
                "refused": short_estimate(rate.value, rate.interval),
                "of all": short_estimate(whole.value),
                "n": rate.counts.n,
            }
            rows.append(view.names(rate) | cells)
    return {
        "telling": _compared_table(view, telling, f"p (BH, {tested})"),
        "tested": tested,
        "counted": counted,
        "out": shown_table(rows),
        "expected": f"{1 - view.confidence:.2g}",
    }


def perturbed_table(view: View, *, by_category: bool = False) -> ShownTable:
    """What perturbations did to refusal: shares refused clean and perturbed, flips
    each way and the paired difference."""
    rows = []
    for difference in view.perturbed:
        if difference.n and bool(difference.category) == by_category:
            row = {
                "suite": view.titles.plain(difference.suite),
                "perturbation": difference.perturbation,
                "prompts": difference.category,
                "model": view.titles.model(difference.model),
                "refused clean": short_estimate(difference.a),
                "refused perturbed": short_estimate(difference.b),
                "newly refused": len(difference.prompts["to_refusal"]),
                "newly answered": len(difference.prompts["to_compliance"]),
                "net": short_estimate(difference.value, difference.interval, "+"),
                "n": difference.n,
            }
            rows.append(row)
    rows.sort(key=lambda row: (row["suite"], row["perturbation"]))
    return shown_table(rows)


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value)


def _ends(interval: Interval | None) -> list[float | None]:
    return [_rounded(end) for end in interval or (None, None)]


def compared_numbers(view: View, pairs: Iterable[Compared]) -> list[Row]:
    """Paired differences, the second model minus the first, by :data:`COMPARED`."""
    rows = []
    for a, b, x in pairs:
        if x.n:
            names = [view.titles.plain(x.suite), x.category, x.group.field, x.group.value]
            names += [view.titles.model(a), view.titles.model(b)]
            values = [x.n, x.clusters, *map(_rounded, (x.a, x.b, x.value)), *_ends(x.interval)]
            ps = [None if p is None else f"{p:.4g}" for p in (x.p, x.p_adjusted)]
            cells = [*names, *values, *ps, *_ends(x.judge_interval)]
            rows.append(dict(zip(COMPARED, cells, strict=True)))
    return rows


def perturbed_numbers(view: View) -> list[Row]:
    """What perturbations did to refusal."""
    rows = []
    for difference in view.perturbed:
        if difference.n:
            row = {
                "suite": view.titles.plain(difference.suite),
                "perturbation": difference.perturbation,
                "category": difference.category,
                "model": view.titles.model(difference.model),
                "n": difference.n,
                "clusters": difference.clusters,
                "rate_clean": _rounded(difference.a),
                "rate_perturbed": _rounded(difference.b),
                "newly_refused": len(difference.prompts["to_refusal"]),
                "newly_answered": len(difference.prompts["to_compliance"]),
                "difference": _rounded(difference.value),
                "low": _ends(difference.interval)[0],
                "high": _ends(difference.interval)[1],
            }
            rows.append(row)
    return rows
