"""The figures of the report: which numbers each shows, and how."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from refract.rates.key import HARMFUL_REFUSAL, LOOPHOLE
from refract.rates.rate import Rate
from refract.report.drawing import Curve, Figure, Mark
from refract.report.view import View
from refract.report.wording import CATEGORY_OF, percent

AGREEMENT = ("kappa", "precision", "recall", "specificity")
SERIES = {
    "harmful": "Harmful refused",
    "helpful": "Helpful refused (over-refusal)",
    "borderline": "Borderline refused",
}
QUARTERS = (0, 0.25, 0.5, 0.75, 1)
DISCRIMINATION = (0.2, 0.4, 0.6, 0.8)  # where lines are drawn


def figures_of(view: View) -> list[Figure]:
    """The figures for which there are numbers, in the order of the page."""
    intervals = f"{percent(view.confidence)} intervals"
    alpha = 1 - view.confidence
    by_model: dict[str, Any] = {"series": [view.titles.model(model) for model in view.models]}
    trends: dict[str, Any] = {"curves": _trends(view), "panel_size": (240, 150), "across": 3}
    plane: dict[str, Any] = {"ticks": QUARTERS, "panel_size": (220, 220), "across": 3} | by_model
    figures = [
        Figure(
            "refusal",
            list(_refusal(view)),
            "Refusal by category",
            f"{intervals}; rows of one request are one cluster.",
            "share refused",
        ),
        Figure(
            "trade_off",
            list(_trade_off(view)),
            "Harmless against harmful requests refused",
            "Up and to the left is better: harmful requests refused, helpful or borderline ones "
            "answered. On a dotted line discrimination J, harmful minus harmless refused, is the same. "
            f"{intervals}.",
            "harmless refused",
            "harmful refused",
            discrimination=DISCRIMINATION,
            **plane,
        ),
        Figure(
            "char_injection",
            _injections(view),
            "Changed answers by injected character and repetitions",
            f"{intervals}.",
            "share of answers that changed",
            **by_model,
        ),
        Figure(
            "loophole",
            list(_loopholes(view)),
            "Loophole rate",
            f"Refused prompts that are answered once perturbed. {intervals}.",
            "share of refused prompts",
            **by_model,
        ),
        Figure(
            "comparisons",
            list(_comparisons(view)),
            "Models compared in pairs",
            f"{view.titles.model(view.reference)} with every other model, and neighbours of the "
            "grid. Share refused by one minus that by the other, as a line names them, on the same "
            f"prompts; {intervals}. Filled: p ≤ {alpha:.2g} after Holm.",
            "difference in the share refused",
            ticks=(-1, -0.5, 0, 0.5, 1),
            alpha=alpha,
        ),
        Figure(
            "judges",
            list(_judges(view)),
            "Judges on the project's own pairs",
            "The pairs of data/validation were drafted and labelled with a language model, most "
            "of them to mislead a judge. 95 % intervals.",
            "agreement",
        ),
        Figure(
            "scaling",
            list(_sizes(view)),
            "Rates over model size",
            f"Dots: models with {intervals}. Lines: logistic regression on log10(parameters), "
            "within a family.",
            "parameters",
            "rate",
            ticks=(),
            **trends,
        ),
    ]
    return [figure for figure in figures if figure.marks]


def _mark(view: View, rate: Rate, **names: Any) -> Mark:
    """A rate on the line of its model in the panel of its suite, or where ``names`` say."""
    suite, model = view.titles.suite(rate.suite), view.titles.model(rate.model)
    links = {"model": model, "suite": suite, "category": CATEGORY_OF.get(rate.name, "")}
    links["perturbation"] = rate.key.perturbation or "none"
    mark = Mark(suite, model, model, rate.counts.n, rate.value, rate.shown, answers=links)
    return mark._replace(**names)


def _refusal(view: View) -> Iterator[Mark]:
    """The share refused of each category, by suite and model."""
    for measure, category in CATEGORY_OF.items():
        for rate in view.every:
            if rate.name == measure and not rate.group:
                yield _mark(view, rate, series=SERIES[category])


def _trade_off(view: View) -> Iterator[Mark]:
    """Harmful refusal against that of helpful and of borderline prompts: the upper
    left corner is where a model should be."""
    suites = dict.fromkeys(suite for suite, _ in view.overall)
    for suite, (measure, category), model in product(suites, CATEGORY_OF.items(), view.models):
        rates = view.overall.get((suite, model), {})
        rate, harmful = rates.get(measure), rates.get(HARMFUL_REFUSAL.name)
        if category == "harmful" or not rate or not harmful:
            continue
        if rate.value is not None and harmful.value is not None:
            mark = _mark(view, rate, panel=f"{view.titles.suite(suite)}\n{category}", line="")
            yield mark._replace(y=harmful.value, y_interval=harmful.shown)


def _injections(view: View) -> list[Mark]:
    """The share of answers that an injected character changed, by character and
    repetitions."""
    marks = []
    places: dict[tuple[str, str], int] = {}
    for rate in view.every:
        injected = rate.group.field == "perturbation" and rate.repetitions
        if injected and rate.value is not None:
            panel = f"{view.titles.suite(rate.suite)}: {rate.key.perturbation}"
            places.setdefault((panel, rate.group.value), len(places))
            marks.append(_mark(view, rate, panel=panel, line=rate.group.value))
    return sorted(marks, key=lambda mark: (mark.panel, places[mark.panel, mark.line]))


def _loopholes(view: View) -> Iterator[Mark]:
    """The share of refused prompts that are answered once perturbed."""
    for rate in view.every:
        if rate.measure == LOOPHOLE and rate.value is not None and not rate.group:
            yield _mark(view, rate, line=rate.key.perturbation)


def _comparisons(view: View) -> Iterator[Mark]:
    """Paired differences between models, by suite and category; a number leads to the prompts
    on which the two differ."""
    for a, b, difference in view.near_compared:
        if difference.value is not None:
            first, second = view.titles.model(a), view.titles.model(b)
            category = difference.category
            links = {}
            if category in CATEGORY_OF.values():
                links = {"model": second, "differs": first, "category": category}
                links |= {"suite": view.titles.suite(difference.suite), "perturbation": "none"}
            yield Mark(
                view.titles.plain(difference.suite),
                f"{second} − {first}",
                category,
                difference.n,
                difference.value,
                difference.shown,
                p=difference.p_adjusted,
                answers=links,
            )


def _judges(view: View) -> Iterator[Mark]:
    """Each judge against the labelled pairs: agreement on refusal, and accuracy by
    kind of answer."""
    kinds = "right label, by kind of answer"
    for panel, judges in (("refused or not", view.scores), (kinds, view.kinds)):
        for judge, scores in judges.items():
            for name, score in scores.items():
                if score.interval and (judges is view.kinds or name in AGREEMENT):
                    line = "κ" if name == "kappa" else name.replace("_", " ")
                    yield Mark(panel, line, judge, score.n, score.value, score.interval)


def _sizes(view: View) -> Iterator[Mark]:
    """Rates over parameters: a panel for each suite and measure."""
    for series in view.series:
        panel = f"{view.titles.suite(series.suite)}\n{series.title}"
        for model, point in series.points.items():
            mark = Mark(panel, view.titles.model(model), series.family, point.n, point.size)
            yield mark._replace(y=point.rate, y_interval=point.interval)


def _trends(view: View) -> list[Curve]:
    """The trend of each family."""
    curves = []
    for series in view.series:
        sizes = [point.size for point in series.points.values()]
        slope, intercept = series.trend.slope, series.trend.intercept
        if slope is not None and intercept is not None:
            panel = f"{view.titles.suite(series.suite)}\n{series.title}"
            ends = min(sizes), max(sizes)
            curves.append(Curve(panel, series.family, *ends, slope, intercept))
    return curves
