"""The figures of the report: which numbers each shows, and the table behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from refract.core.types import Row
from refract.rates.rate import Rate, rounded
from refract.report.comparisons import table_row
from refract.report.drawing import Curve, Figure, Mark, Span
from refract.report.model_sizes import Series, measure_text
from refract.report.view import HEADLINES, View
from refract.report.wording import estimate_text, interval_text, percent, three

AGREEMENT = {
    "kappa": "κ",
    "precision": "precision",
    "recall": "recall",
    "specificity": "specificity",
}
QUARTERS = (0, 0.25, 0.5, 0.75, 1)


def figures_of(view: View) -> list[Figure]:
    """The figures for which there are numbers, in the order of the page."""
    figures = [
        refusal(view),
        trade_off(view),
        injection(view),
        loophole(view),
        comparisons(view),
        judges(view),
        scaling(view),
    ]
    return [figure for figure in figures if figure.marks]


def _span(rate: Rate) -> Span | None:
    return None if rate.value is None else Span(rate.value, *(rate.interval or (None, None)))


def _rate_mark(panel: str, line: str, series: str, rate: Rate) -> Mark:
    interval = interval_text(rate.interval) or "no interval"
    value = "" if rate.value is None else f"{three(rate.value)} {interval}, n={rate.counts.n}"
    return Mark(panel, line, series, _span(rate), f"{line}, {series}: {value}")


def _numbers(rate: Rate) -> Row:
    low, high = rate.interval or (None, None)
    ends = {"rate": rate.value, "low": low, "high": high}
    return {
        "measure": rate.measure,
        "successes": rate.counts.successes,
        "n": rate.counts.n,
        **{key: None if end is None else rounded(end) for key, end in ends.items()},
    }


def _rates_figure(
    name: str,
    title: str,
    note: str,
    x_label: str,
    drawn: Sequence[tuple[Mark, Rate]],
    series: Sequence[str] = (),
) -> Figure:
    rows = [
        {"panel": mark.panel, "line": mark.line, "series": mark.series, **_numbers(rate)}
        for mark, rate in drawn
    ]
    return Figure(name, title, note, x_label, [mark for mark, _ in drawn], rows, series=series)


def _models(view: View) -> list[str]:
    return [view.titles.model(model) for model in view.models]


def refusal(view: View) -> Figure:
    """The share refused of each category, by suite and model."""
    titles = view.titles
    drawn = [
        (_rate_mark(titles.suite(rate.suite), titles.model(rate.model), label, rate), rate)
        for measure, label in HEADLINES
        for rate in view.every
        if rate.measure == measure and not rate.group
    ]
    note = f"{percent(view.confidence)} intervals; rows of one request are one cluster."
    return _rates_figure("refusal", "Refusal by category", note, "share refused", drawn)


def trade_off(view: View) -> Figure:
    """Over-refusal against harmful refusal: the upper left corner is where a model should be."""
    marks, rows = [], []
    for model in view.models:
        for suite in dict.fromkeys(rate.suite for rate in view.rates[model]):
            overall, names = view.overall(model, suite), view.titles
            over, harmful = (overall.get(f"{k}_rate") for k in ("over_refusal", "harmful_refusal"))
            if not (over and harmful) or over.value is None or harmful.value is None:
                continue
            panel, series = names.suite(suite), names.model(model)
            shares = f"helpful refused {three(over.value)}, harmful refused {three(harmful.value)}"
            hover = f"{series}: {shares}"
            marks.append(Mark(panel, "", series, _span(over), hover, _span(harmful)))
            rows.append(
                {"suite": panel, "model": series}
                | {
                    f"{kind}_{key}": _numbers(rate)[key]
                    for kind, rate in (("over_refusal", over), ("harmful_refusal", harmful))
                    for key in ("rate", "low", "high", "n")
                }
            )
    return Figure(
        "trade_off",
        "Over-refusal against harmful refusal",
        "Up and to the left is better: harmful requests refused, helpful ones answered. "
        f"{percent(view.confidence)} intervals.",
        "helpful refused",
        marks,
        rows,
        y_label="harmful refused",
        ticks=QUARTERS,
        series=_models(view),
    )


def injection(view: View) -> Figure:
    """The share of answers that an injected character changed, by character and repetitions."""
    drawn = []
    for rate in view.every:
        group = rate.group
        if rate.value is not None and group.field == "perturbation" and group.value[:2] == "U+":
            perturbation = rate.measure.removesuffix("_fail_rate")
            panel = f"{view.titles.suite(rate.suite)}: {perturbation}"
            drawn.append(
                (_rate_mark(panel, group.value, view.titles.model(rate.model), rate), rate)
            )
    drawn.sort(key=lambda pair: (pair[0].panel, _dose(pair[0].line)))
    return _rates_figure(
        "char_injection",
        "Changed answers by injected character and repetitions",
        f"{percent(view.confidence)} intervals.",
        "share of answers that changed",
        drawn,
        _models(view),
    )


def _dose(group: str) -> tuple[str, int]:
    character, _, times = group.partition(" x")
    return character, int(times) if times.isdigit() else 0


def loophole(view: View) -> Figure:
    """The share of refused prompts that are answered once perturbed."""
    titles, end = view.titles, "_loophole_rate"
    drawn = [
        (
            _rate_mark(
                titles.suite(rate.suite),
                rate.measure.removesuffix(end),
                titles.model(rate.model),
                rate,
            ),
            rate,
        )
        for rate in view.every
        if rate.value is not None and rate.measure.endswith(end) and not rate.group
    ]
    return _rates_figure(
        "loophole",
        "Loophole rate",
        f"Refused prompts that are answered once perturbed. {percent(view.confidence)} intervals.",
        "share of refused prompts",
        drawn,
        _models(view),
    )


def comparisons(view: View) -> Figure:
    """Paired differences between models, with their intervals, by suite and category."""
    marks, rows = [], []
    for pair in view.near_compared:
        difference = pair.difference
        if difference.value is None:
            continue
        line = f"{view.titles.model(pair.first)} − {view.titles.model(pair.second)}"
        p = difference.p_adjusted
        hover = (
            f"{line}, {difference.category}: "
            f"{estimate_text(difference.value, difference.interval, '+')}"
            f"{'' if p is None else f', p (Holm) {p:.2g}'}, n={difference.n}"
        )
        span = Span(difference.value, *(difference.interval or (None, None)))
        sure = pair.beyond_chance(view.confidence)
        panel = view.titles.suite(difference.suite)
        marks.append(Mark(panel, line, difference.category, span, hover, sure=sure))
        rows.append(titled(view, table_row(pair)))
    return Figure(
        "comparisons",
        "Models compared in pairs",
        f"{view.titles.model(view.reference)} with every other model, and neighbours of the grid. "
        "Share refused by the first minus that by the second, on the same prompts; "
        f"{percent(view.confidence)} intervals. Filled: p ≤ {1 - view.confidence:.2g} after Holm.",
        "difference in the share refused",
        marks,
        rows,
        ticks=(-1, -0.5, 0, 0.5, 1),
    )


def titled(view: View, row: Row) -> Row:
    """A row of a comparison with the names that readers know."""
    titles = view.titles
    models = {key: titles.model(row[key]) for key in ("first", "second")}
    return {**row, "suite": titles.suite(row["suite"]), **models}


def judges(view: View) -> Figure:
    """Each judge against the labelled pairs: agreement on refusal, and accuracy by kind of answer."""
    marks, rows = [], []

    def add(row: Mapping[str, str], measure: str, slice_: str, value: float) -> None:
        span = Span(value, float(row["low"]), float(row["high"]))
        panel = "right label, by kind of answer" if slice_ else "refused or not"
        line = slice_.replace("_", " ") or AGREEMENT[measure]
        hover = (
            f"{row['judge']}, {line}: {value:.3f} [{span.low:.3f}, {span.high:.3f}], n={row['n']}"
        )
        marks.append(Mark(panel, line, row["judge"], span, hover))
        rows.append(
            {"judge": row["judge"], "measure": measure, "slice": slice_, "n": row["n"]}
            | span._asdict()
        )

    for row in view.agreement:
        if row["measure"] in AGREEMENT and row["low"] and row["high"]:
            add(row, row["measure"], "", float(row["value"]))
    for row in view.slices:
        if row["field"] == "slice" and row["accuracy"]:
            add(row, "accuracy", row["value"], float(row["accuracy"]))
    return Figure(
        "judges",
        "Judges on the project's own pairs",
        "The pairs of data/validation were drafted and labelled with a language model, most of them to "
        "mislead a judge. 95 % intervals.",
        "agreement",
        marks,
        rows,
    )


def scaling(view: View) -> Figure:
    """Rates over parameters with the trend of each family: a panel for each suite and measure."""
    marks, curves = [], []
    for series in view.series:
        if series.size != "parameters":
            continue
        suite = view.titles.suite(series.suite)
        panel = f"{suite}\n{measure_text(series.measure, series.value)}"
        for model, point in series.points.items():
            name = view.titles.model(model)
            hover = f"{name}: {three(point.rate)}, n={point.n}, {point.size:,.0f} parameters"
            size = Span(point.size, None, None)
            rate = Span(point.rate, *point.interval)
            marks.append(Mark(panel, "", series.family, size, hover, rate))
        curves += _fitted(panel, series)
    return Figure(
        "scaling",
        "Rates over model size",
        f"Dots: models with {percent(view.confidence)} intervals. Lines: logistic regression on "
        "log10(parameters), within a family.",
        "parameters",
        marks,
        [row for series in view.series for row in scaling_rows(view, series)],
        y_label="rate",
        ticks=(),
        curves=curves,
        panel_size=(240, 150),
        across=3,
    )


def _fitted(panel: str, series: Series) -> list[Curve]:
    slope, intercept = series.trend.slope, series.trend.intercept
    if slope is None or intercept is None:
        return []
    ends = [math.log10(point.size) for point in series.points.values()]
    steps = [min(ends) + (max(ends) - min(ends)) * n / 40 for n in range(41)]
    # The logistic function by tanh, which overflows nowhere.
    rates = [(1 + math.tanh((intercept + slope * x) / 2)) / 2 for x in steps]
    hover = f"{series.family}: slope {slope:+.3f}"
    return [Curve(panel, series.family, [10**x for x in steps], rates, hover)]


def scaling_rows(view: View, series: Series) -> list[Row]:
    """The points of a series, each with the line fitted to its family."""
    trend = series.trend
    return [
        {
            "suite": view.titles.suite(series.suite),
            "measure": series.measure,
            "value": series.value,
            "family": series.family,
            "model": view.titles.model(model),
            "size": series.size,
            "at": point.size,
            "successes": point.successes,
            "n": point.n,
            "slope": None if trend.slope is None else round(trend.slope, 6),
            "intercept": None if trend.intercept is None else round(trend.intercept, 6),
        }
        for model, point in series.points.items()
    ]
