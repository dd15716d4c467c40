"""The figures of the report: which numbers each shows, and how."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from refract.rates.key import HARMFUL_REFUSAL, LOOPHOLE
from refract.rates.rate import Rate
from refract.report.drawing import Curve, Figure, Mark
from refract.report.model_sizes import Series
from refract.report.view import View
from refract.report.wording import CATEGORY_OF, percent

HARMFUL = HARMFUL_REFUSAL.name
AGREEMENT = ("kappa", "precision", "recall", "specificity")
SERIES = {
    "harmful": "Harmful refused",
    "helpful": "Helpful refused (over-refusal)",
    "borderline": "Borderline refused",
}


def figures_of(view: View) -> list[Figure]:
    """The figures for which there are numbers, in the order of the page."""
    intervals = f"{percent(view.confidence)} intervals"
    alpha = 1 - view.confidence
    models = [view.titles.model(model) for model in view.models]
    figures = [
        Figure(
            "refusal",
            marks=list(_refusal(view)),
            title="Refusal by category",
            note=f"{intervals}; rows of one request are one cluster.",
            x_label="share refused",
        ),
        Figure(
            "trade_off",
            marks=list(_trade_off(view)),
            title="Harmless against harmful requests refused",
            note="Up and to the left is better: harmful requests refused, helpful or borderline ones "
            "answered. On a dotted line discrimination J, harmful minus harmless refused, is the same. "
            f"{intervals}.",
            x_label="harmless refused",
            y_label="harmful refused",
            ticks=(0, 0.25, 0.5, 0.75, 1),
            discrimination=(0.2, 0.4, 0.6, 0.8),
            panel_size=(220, 220),
            across=3,
            series=models,
        ),
        Figure(
            "char_injection",
            marks=_injections(view),
            title="Changed answers by injected character and repetitions",
            note=f"{intervals}.",
            x_label="share of answers that changed",
            series=models,
        ),
        Figure(
            "loophole",
            marks=list(_loopholes(view)),
            title="Loophole rate",
            note=f"Refused prompts that are answered once perturbed. {intervals}.",
            x_label="share of refused prompts",
            series=models,
        ),
        Figure(
            "comparisons",
            marks=list(_comparisons(view)),
            title="Models compared in pairs",
            note=f"{view.titles.model(view.reference)} with every other model, and neighbours of the "
            "grid. Share refused by one minus that by the other, as a line names them, on the same "
            "prompts; "
            f"{intervals}. Filled: p ≤ {alpha:.2g} after Holm.",
            x_label="difference in the share refused",
            ticks=(-1, -0.5, 0, 0.5, 1),
            alpha=alpha,
        ),
        Figure(
            "judges",
            marks=list(_judges(view)),
            title="Judges on the project's own pairs",
            note="The pairs of data/validation were drafted and labelled with a language model, most "
            "of them to mislead a judge. 95 % intervals.",
            x_label="agreement",
        ),
        Figure(
            "scaling",
            marks=list(_sizes(view)),
            title="Rates over model size",
            note=f"Dots: models with {intervals}. Lines: logistic regression on log10(parameters), "
            "within a family.",
            x_label="parameters",
            y_label="rate",
            ticks=(),
            panel_size=(240, 150),
            across=3,
            curves=list(_trends(view)),
        ),
    ]
    return [figure for figure in figures if figure.marks]


def _mark(view: View, rate: Rate, **names: Any) -> Mark:
    """A rate on the line of its model in the panel of its suite, or where ``names`` say."""
    suite = view.titles.suite(rate.suite)
    model = view.titles.model(rate.model)
    mark = Mark(
        panel=suite,
        line=model,
        series=model,
        n=rate.counts.n,
        x=rate.value,
        x_interval=rate.shown,
        answers={
            "model": model,
            "suite": suite,
            "category": CATEGORY_OF.get(rate.name, ""),
            "perturbation": rate.key.perturbation or "none",
        },
    )
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
    for suite, measure, model in product(suites, CATEGORY_OF, view.models):
        rates = view.overall.get((suite, model), {})
        rate, harmful = rates.get(measure), rates.get(HARMFUL)
        if measure == HARMFUL or not rate or not harmful:
            continue
        if rate.value is not None and harmful.value is not None:
            panel = f"{view.titles.suite(suite)}\n{CATEGORY_OF[measure]}"
            mark = _mark(view, rate, panel=panel, line="")
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
            mark = _mark(view, rate, panel=panel, line=rate.group.value)
            places.setdefault((mark.panel, mark.line), len(places))
            marks.append(mark)
    return sorted(marks, key=lambda mark: (mark.panel, places[mark.panel, mark.line]))


def _loopholes(view: View) -> Iterator[Mark]:
    """The share of refused prompts that are answered once perturbed."""
    for rate in view.every:
        if rate.measure == LOOPHOLE and rate.value is not None and not rate.group:
            yield _mark(view, rate, line=rate.key.perturbation)


def _comparisons(view: View) -> Iterator[Mark]:
    """Paired differences between models, by suite and category."""
    for a, b, difference in view.near_compared:
        if difference.value is not None:
            links = {
                "model": view.titles.model(b),
                "differs": view.titles.model(a),
                "suite": view.titles.suite(difference.suite),
                "category": difference.category,
                "perturbation": "none",
            }
            of_prompts = difference.category in CATEGORY_OF.values()
            yield Mark(
                panel=view.titles.plain(difference.suite),
                line=f"{view.titles.model(b)} − {view.titles.model(a)}",
                series=difference.category,
                n=difference.n,
                x=difference.value,
                x_interval=difference.shown,
                p=difference.p_adjusted,
                answers=links if of_prompts else {},
            )


def _judges(view: View) -> Iterator[Mark]:
    """Each judge against the labelled pairs: agreement on refusal, and accuracy by
    kind of answer."""
    kinds = "right label, by kind of answer"
    for panel, judges in (("refused or not", view.scores), (kinds, view.kinds)):
        for judge, scores in judges.items():
            for name, score in scores.items():
                if score.interval and (judges is view.kinds or name in AGREEMENT):
                    yield Mark(
                        panel=panel,
                        line="κ" if name == "kappa" else name.replace("_", " "),
                        series=judge,
                        n=score.n,
                        x=score.value,
                        x_interval=score.interval,
                    )


def _panel(view: View, series: Series) -> str:
    return f"{view.titles.suite(series.suite)}\n{series.title}"


def _sizes(view: View) -> Iterator[Mark]:
    """Rates over parameters: a panel for each suite and measure."""
    for series in view.series:
        for model, point in series.points.items():
            yield Mark(
                panel=_panel(view, series),
                line=view.titles.model(model),
                series=series.family,
                n=point.n,
                x=point.size,
                y=point.rate,
                y_interval=point.interval,
            )


def _trends(view: View) -> Iterator[Curve]:
    """The trend of each family."""
    for series in view.series:
        sizes = [point.size for point in series.points.values()]
        slope = series.trend.slope
        intercept = series.trend.intercept
        if slope is not None and intercept is not None:
            yield Curve(
                panel=_panel(view, series),
                series=series.family,
                first=min(sizes),
                last=max(sizes),
                slope=slope,
                intercept=intercept,
            )
