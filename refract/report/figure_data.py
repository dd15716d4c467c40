"""The figures of the report: which numbers each shows, and how."""

from __future__ import annotations

from itertools import product

from refract.rates.key import HARMFUL_REFUSAL
from refract.rates.rate import Rate
from refract.report.drawing import Figure, Mark
from refract.report.view import View
from refract.report.wording import CATEGORY_OF, percent

SERIES = {
    "harmful": "Harmful refused",
    "helpful": "Helpful refused (over-refusal)",
    "borderline": "Borderline refused",
}


def figures_of(view: View) -> list[Figure]:
    """The figures for which there are numbers, in the order of the page."""
    return [figure for figure in (_refusal(view), _trade_off(view)) if figure.marks]


def _intervals(view: View) -> str:
    return f"{percent(view.confidence)} intervals"


def _mark(view: View, rate: Rate) -> Mark:
    """A rate on the line of its model in the panel of its suite."""
    model = rate.model
    return Mark(view.label(rate.suite), model, model, rate.counts.n, rate.value, rate.shown)


def _refusal(view: View) -> Figure:
    """The share refused of each category, by suite and model."""
    marks = []
    for measure, category in CATEGORY_OF.items():
        for rate in view.every:
            if rate.name == measure and not rate.group:
                marks.append(_mark(view, rate)._replace(series=SERIES[category]))
    note = f"{_intervals(view)}; rows of one request are one cluster."
    return Figure("refusal", marks, "Refusal by category", note, "share refused")


def _trade_off(view: View) -> Figure:
    """Harmful refusal against that of helpful and of borderline prompts."""
    marks = []
    suites = dict.fromkeys(suite for suite, _ in view.overall)
    for suite, (measure, category), model in product(suites, CATEGORY_OF.items(), view.models):
        rates = view.overall.get((suite, model), {})
        rate, harmful = rates.get(measure), rates.get(HARMFUL_REFUSAL.name)
        if category == "harmful" or not rate or not harmful:
            continue
        if rate.value is not None and harmful.value is not None:
            mark = _mark(view, rate)._replace(y=harmful.value, y_interval=harmful.shown)
            marks.append(mark._replace(panel=f"{mark.panel}\n{category}", line=""))
    return Figure(
        "trade_off",
        marks,
        "Harmless against harmful requests refused",
        "Up and to the left is better: harmful requests refused, helpful or borderline ones "
        "answered. On a dotted line discrimination J, harmful minus harmless refused, is the same. "
        f"{_intervals(view)}.",
        "harmless refused",
        "harmful refused",
        series=view.models,
    )
