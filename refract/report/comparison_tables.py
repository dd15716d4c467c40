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


def leaves_out(interval: Interval | None, value: float | None) -> bool:
    """Whether an interval shows that a value is another one."""
    if interval is None or value is None:
        return False
    return not interval.low <= value <= interval.high


def kind_of(difference: Difference) -> str:
    """Which prompts a difference is over, in words."""
    group = difference.group
    by = f", {group.field} {group.value}" if group else ""
    return f"{difference.category}{by}".replace("_", " ")


def _change(difference: Difference) -> str:
    return short_estimate(difference.value, difference.shown, "+")


def _compared_table(view: View, pairs: Iterable[Compared], corrected: str) -> ShownTable:
    """Paired differences, the second model ``b`` minus the first ``a``, with p alone and
    ``corrected``."""
    rows = []
    for a, b, difference in pairs:
        row = {
            "suite": view.titles.plain(difference.suite),
            "prompts": kind_of(difference),
            "first": view.titles.model(a),
            "second": view.titles.model(b),
            "refused": f"{short_estimate(difference.a)}, {short_estimate(difference.b)}",
            "second − first": _change(difference),
            "n": difference.n,
            "p": p_text(difference.p),
            corrected: p_text(difference.p_adjusted),
        }
        rows.append(row)
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
            row = {
                "suite": view.titles.plain(difference.suite),
                "prompts": kind_of(difference),
                view.titles.model(near.reference): short_estimate(difference.a),
                view.titles.model(near.model): short_estimate(difference.b),
                "difference": _change(difference),
                "n": difference.n,
                "p": p_text(difference.p),
                corrected: p_text(difference.p_adjusted),
                "decision": drop and drop.decision,
            }
            rows.append(row)
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
            row = {
                **view.names(rate),
                "prompts": CATEGORY_OF[rate.name],
                "of": f"{rate.group.field} {rate.group.value}",
                "refused": short_estimate(rate.value, rate.interval),
                "of all": short_estimate(whole.value),
                "n": rate.counts.n,
            }
            rows.append(row)
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


def compared_numbers(view: View, pairs: Iterable[Compared]) -> tuple[list[str], list[Row]]:
    """Paired differences, the second model minus the first, as in the tables of the pages."""
    columns = ["suite", "category", "field", "value", "first", "second", "n", "clusters"]
    columns += ["rate_first", "rate_second", "difference", "low", "high", "p", "p_adjusted"]
    columns += ["judge_low", "judge_high"]
    rows = []
    for a, b, difference in pairs:
        if difference.n:
            low, high = difference.interval or (None, None)
            judge_low, judge_high = difference.judge_interval or (None, None)
            shares = difference.a, difference.b, difference.value, low, high
            ps = difference.p, difference.p_adjusted
            values = [
                view.titles.plain(difference.suite),
                difference.category,
                difference.group.field,
                difference.group.value,
                view.titles.model(a),
                view.titles.model(b),
                difference.n,
                difference.clusters,
                *map(_rounded, shares),
                *(None if p is None else f"{p:.4g}" for p in ps),
                _rounded(judge_low),
                _rounded(judge_high),
            ]
            rows.append(dict(zip(columns, values, strict=True)))
    return columns, rows


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
                "low": _rounded(difference.interval and difference.interval.low),
                "high": _rounded(difference.interval and difference.interval.high),
            }
            rows.append(row)
    return rows
