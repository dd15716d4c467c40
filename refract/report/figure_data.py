"""The figures of the report: which numbers each shows, and how."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from refract.core.params import read_yaml
from refract.rates.rate import Rate
from refract.report.comparisons import number_of_tests
from refract.report.drawing import Curve, Figure, Mark
from refract.report.markdown import TEMPLATES
from refract.report.view import CATEGORY_OF, HEADLINES, View
from refract.report.wording import percent

AGREEMENT = ("kappa", "precision", "recall", "specificity")
FAILS, LOOPHOLE = "_fail_rate", "_loophole_rate"


def figures_of(view: View) -> list[Figure]:
    """The figures of ``templates/figures.yaml`` for which there are numbers."""
    alpha = 1 - view.confidence
    reference = view.titles.model(view.reference)
    said = {"alpha": alpha, "percent": percent(view.confidence), "reference": reference}
    models = [view.titles.model(model) for model in view.models]
    named = f"p (Holm, {view.tests or number_of_tests(view.compared)})"
    figures = []
    for name, looks in read_yaml(TEMPLATES / "figures.yaml").items():
        series = models if looks.pop("of_models", False) else ()
        tested = alpha if looks.pop("tested", False) else None
        looks["note"] = looks["note"].format(**said)
        if marks := list(MARKS[name](view)):
            curves = list(_trends(view)) if name == "scaling" else ()
            looks |= {"alpha": tested, "p_name": named}
            figures.append(Figure(name, marks, series=series, curves=curves, **looks))
    return figures


def _mark(panel: str, line: str, series: str, rate: Rate) -> Mark:
    return Mark(panel, line, series, rate.counts.n, rate.value, rate.shown)


def _refusal(view: View) -> Iterator[Mark]:
    """The share refused of each category, by suite and model."""
    for measure, label in HEADLINES.items():
        for rate in view.every:
            if rate.measure == measure and not rate.group:
                names = view.titles.suite(rate.suite), view.titles.model(rate.model)
                yield _mark(*names, label, rate)


def _trade_off(view: View) -> Iterator[Mark]:
    """Harmful refusal against that of helpful and of borderline prompts: the upper left corner is where
    a model should be."""
    every = dict.fromkeys(suite for suite, _ in view.overall)
    for suite, measure, model in product(every, list(HEADLINES)[1:], view.models):
        rates = view.overall.get((suite, model), {})
        rate, harmful = rates.get(measure), rates.get("harmful_refusal_rate")
        if rate and harmful and rate.value is not None and harmful.value is not None:
            panel = f"{view.titles.suite(suite)}\n{CATEGORY_OF[measure]}"
            mark = _mark(panel, "", view.titles.model(model), rate)
            yield mark._replace(y=harmful.value, y_interval=harmful.shown)


def _injections(view: View) -> Iterator[Mark]:
    """The share of answers that an injected character changed, by character and repetitions."""

    def dose(mark: Mark) -> tuple[str, str, int]:
        character, _, times = mark.line.partition(" x")
        return mark.panel, character, int(times) if times.isdigit() else 0

    marks = []
    for rate in view.every:
        group = rate.group
        if rate.value is not None and group.field == "perturbation" and group.value[:2] == "U+":
            panel = f"{view.titles.suite(rate.suite)}: {rate.measure.removesuffix(FAILS)}"
            marks.append(_mark(panel, group.value, view.titles.model(rate.model), rate))
    return iter(sorted(marks, key=dose))


def _loopholes(view: View) -> Iterator[Mark]:
    """The share of refused prompts that are answered once perturbed."""
    for rate in view.every:
        if rate.value is not None and rate.measure.endswith(LOOPHOLE) and not rate.group:
            names = view.titles.suite(rate.suite), rate.measure.removesuffix(LOOPHOLE)
            yield _mark(*names, view.titles.model(rate.model), rate)


def _comparisons(view: View) -> Iterator[Mark]:
    """Paired differences between models, by suite and category."""
    for first, second, d in view.near_compared:
        if d.value is not None:
            line = f"{view.titles.model(first)} − {view.titles.model(second)}"
            names = view.titles.suite(d.suite), line, d.category
            yield Mark(*names, d.n, d.value, d.shown, p=d.p_adjusted)


def _judges(view: View) -> Iterator[Mark]:
    """Each judge against the labelled pairs: agreement on refusal, and accuracy by kind of answer."""
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


def _trends(view: View) -> Iterator[Curve]:
    """The trend of each family."""
    for series in view.series:
        panel = f"{view.titles.suite(series.suite)}\n{series.title}"
        sizes = [point.size for point in series.points.values()]
        if series.trend.slope is not None and series.trend.intercept is not None:
            line = series.trend.slope, series.trend.intercept
            yield Curve(panel, series.family, min(sizes), max(sizes), *line)


MARKS = {
    "refusal": _refusal,
    "trade_off": _trade_off,
    "char_injection": _injections,
    "loophole": _loopholes,
    "comparisons": _comparisons,
    "judges": _judges,
    "scaling": _sizes,
}
