"""The figures of the report: which numbers each shows, and the table behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from refract.core.types import Row
from refract.rates.rate import Interval, Rate, rounded
from refract.report.comparisons import table_row
from refract.report.drawing import Curve, Figure, Mark, ends
from refract.report.model_sizes import Series, measure_text
from refract.report.view import HEADLINES, View
from refract.report.wording import estimate_text, interval_text, percent, three

AGREEMENT = {
    "kappa": "κ",
    "precision": "precision",
    "recall": "recall",
    "specificity": "specificity",
}
LOOPHOLE = "_loophole_rate"
QUARTERS = (0, 0.25, 0.5, 0.75, 1)


def figures_of(view: View) -> list[Figure]:
    """The figures for which there are numbers, in the order of the page."""
    drawn = (refusal, trade_off, injection, loophole, comparisons, judges, scaling)
    return [figure for draw in drawn if (figure := draw(view)).marks]


def _lines(
    name: str,
    title: str,
    note: str,
    x_label: str,
    placed: Sequence[tuple[str, str, str, Rate]],
    series: Sequence[str] = (),
) -> Figure:
    """A figure of rates, each given with its panel, line and series."""
    marks, rows = [], []
    for panel, line, of, rate in placed:
        shown = ""
        if rate.value is not None:
            interval = interval_text(rate.interval) or "no interval"
            shown = f"{three(rate.value)} {interval}, n={rate.counts.n}"
        x = None if rate.value is None else ends(rate.value, rate.interval)
        marks.append(Mark(panel, line, of, x, f"{line}, {of}: {shown}"))
        counts = {"successes": rate.counts.successes, "n": rate.counts.n}
        row = {"panel": panel, "line": line, "series": of, "measure": rate.measure}
        rows.append(row | counts | _numbers(rate))
    return Figure(name, title, note, x_label, marks, rows, series=series)


def _numbers(rate: Rate) -> Row:
    low, high = rate.interval or (None, None)
    numbers = {"rate": rate.value, "low": low, "high": high}
    return {key: None if value is None else rounded(value) for key, value in numbers.items()}


def _models(view: View) -> list[str]:
    return [view.titles.model(model) for model in view.models]


def refusal(view: View) -> Figure:
    """The share refused of each category, by suite and model."""
    placed = [
        (view.titles.suite(rate.suite), view.titles.model(rate.model), label, rate)
        for measure, label in HEADLINES
        for rate in view.every
        if rate.measure == measure and not rate.group
    ]
    note = f"{percent(view.confidence)} intervals; rows of one request are one cluster."
    return _lines("refusal", "Refusal by category", note, "share refused", placed)


def injection(view: View) -> Figure:
    """The share of answers that an injected character changed, by character and repetitions."""
    placed = []
    for rate in view.every:
        group = rate.group
        if rate.value is not None and group.field == "perturbation" and group.value[:2] == "U+":
            perturbation = rate.measure.removesuffix("_fail_rate")
            panel = f"{view.titles.suite(rate.suite)}: {perturbation}"
            placed.append((panel, group.value, view.titles.model(rate.model), rate))

    def dose(group: str) -> tuple[str, int]:
        character, _, times = group.partition(" x")
        return character, int(times) if times.isdigit() else 0

    return _lines(
        "char_injection",
        "Changed answers by injected character and repetitions",
        f"{percent(view.confidence)} intervals.",
        "share of answers that changed",
        sorted(placed, key=lambda line: (line[0], dose(line[1]))),
        _models(view),
    )


def loophole(view: View) -> Figure:
    """The share of refused prompts that are answered once perturbed."""
    placed = []
    for rate in view.every:
        if rate.value is not None and rate.measure.endswith(LOOPHOLE) and not rate.group:
            names = view.titles.suite(rate.suite), rate.measure.removesuffix(LOOPHOLE)
            placed.append((*names, view.titles.model(rate.model), rate))
    return _lines(
        "loophole",
        "Loophole rate",
        f"Refused prompts that are answered once perturbed. {percent(view.confidence)} intervals.",
        "share of refused prompts",
        placed,
        _models(view),
    )


def trade_off(view: View) -> Figure:
    """Over-refusal against harmful refusal: the upper left corner is where a model should be."""
    marks, rows = [], []
    for model in view.models:
        for suite in dict.fromkeys(rate.suite for rate in view.rates[model]):
            overall = view.overall(model, suite)
            over, harmful = (overall.get(f"{k}_rate") for k in ("over_refusal", "harmful_refusal"))
            if not (over and harmful) or over.value is None or harmful.value is None:
                continue
            panel, series = view.titles.suite(suite), view.titles.model(model)
            shares = f"helpful refused {three(over.value)}, harmful refused {three(harmful.value)}"
            x, y = (ends(rate.value or 0.0, rate.interval) for rate in (over, harmful))
            marks.append(Mark(panel, "", series, x, f"{series}: {shares}", y))
            row = {"suite": panel, "model": series}
            for rate in (over, harmful):
                numbers = _numbers(rate) | {"n": rate.counts.n}
                kind = rate.measure.removesuffix("_rate")
                row |= {f"{kind}_{key}": value for key, value in numbers.items()}
            rows.append(row)
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


def comparisons(view: View) -> Figure:
    """Paired differences between models, with their intervals, by suite and category."""
    marks, rows = [], []
    for pair in view.near_compared:
        difference, p = pair.difference, pair.difference.p_adjusted
        if difference.value is None:
            continue
        line = f"{view.titles.model(pair.first)} − {view.titles.model(pair.second)}"
        estimate = estimate_text(difference.value, difference.interval, "+")
        tested = "" if p is None else f", p (Holm) {p:.2g}"
        marks.append(
            Mark(
                view.titles.suite(difference.suite),
                line,
                difference.category,
                ends(difference.value, difference.interval),
                f"{line}, {difference.category}: {estimate}{tested}, n={difference.n}",
                sure=pair.beyond_chance(view.confidence),
            )
        )
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
    measured = [
        (row, row["measure"], "", row["value"], "refused or not", AGREEMENT[row["measure"]])
        for row in view.agreement
        if row["measure"] in AGREEMENT and row["low"] and row["high"]
    ] + [
        (
            *(row, "accuracy", row["value"], row["accuracy"]),
            *("right label, by kind of answer", row["value"].replace("_", " ")),
        )
        for row in view.slices
        if row["field"] == "slice" and row["accuracy"]
    ]
    marks, rows = [], []
    for row, measure, kind, share, panel, line in measured:
        interval = Interval(float(row["low"]), float(row["high"]))
        estimate, judge, n = estimate_text(float(share), interval), row["judge"], row["n"]
        x = ends(float(share), interval)
        marks.append(Mark(panel, line, judge, x, f"{judge}, {line}: {estimate}, n={n}"))
        rows.append(
            {"judge": judge, "measure": measure, "slice": kind, "n": n}
            | {"value": float(share), **interval._asdict()}
        )
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
            y = ends(point.rate, point.interval)
            marks.append(Mark(panel, "", series.family, ends(point.size), hover, y))
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
    logs = [math.log10(point.size) for point in series.points.values()]
    steps = [min(logs) + (max(logs) - min(logs)) * n / 40 for n in range(41)]
    # The logistic function by tanh, which overflows nowhere.
    rates = [(1 + math.tanh((intercept + slope * x) / 2)) / 2 for x in steps]
    hover = f"{series.family}: slope {slope:+.3f}"
    return [Curve(panel, series.family, [10**x for x in steps], rates, hover)]


def scaling_rows(view: View, series: Series) -> list[Row]:
    """The points of a series, each with the line fitted to its family."""
    trend = {"slope": series.trend.slope, "intercept": series.trend.intercept}
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
            **{key: None if number is None else round(number, 6) for key, number in trend.items()},
        }
        for model, point in series.points.items()
    ]
