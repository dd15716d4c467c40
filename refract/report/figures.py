"""The figures of the report: which numbers each shows, and the table behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from refract.core.types import Row
from refract.report.charts import (
    NARROW,
    Dot,
    Drawing,
    Figure,
    dot_figure,
    fitting,
    group,
    legend,
    mark,
    rate_dot,
    text,
)
from refract.report.comparisons import Compared, table_rows
from refract.report.markdown import percent, rate_of
from refract.report.scaling import Series, named
from refract.report.summary import HEADLINES
from refract.results.tables import Table

AGREEMENT = (
    ("kappa", "κ"),
    ("precision", "precision"),
    ("recall", "recall"),
    ("specificity", "specificity"),
)
# A suite and a model with the rows of its over-refusal and of its harmful refusal.
PlanePoint = tuple[str, str, Mapping[str, str], Mapping[str, str]]
HALVES = (-1, -0.5, 0, 0.5, 1)


def draw_figures(
    tables: Mapping[str, Table],
    *,
    compared: Sequence[Compared] = (),
    reference: str = "",
    series: Sequence[Series] = (),
    agreement: Table = (),
    slices: Table = (),
    confidence: float = 0.95,
) -> list[Figure]:
    """The figures for which there are numbers.

    ``compared`` are paired comparisons of models, most of them with the ``reference``, ``series`` the
    rates over size; ``agreement`` and ``slices`` are ``metrics/judges_agreement.csv`` and
    ``metrics/judges.csv``, whose intervals are of 95 %; all others are at ``confidence``.
    """
    level = percent(confidence)
    drawn = [
        refusal_figure(tables, level),
        plane_figure(tables, level),
        injection_figure(tables, level),
        loophole_figure(tables, level),
        comparison_figure(compared, reference, confidence),
        judges_figure(agreement, slices),
        scaling_figure(series, level),
    ]
    return [figure for figure in drawn if figure is not None]


def _overall(tables: Mapping[str, Table]) -> list[tuple[str, Mapping[str, str]]]:
    return [(model, row) for model, table in tables.items() for row in table if not row["field"]]


def _rate_figure(
    name: str,
    title: str,
    note: str,
    unit: str,
    found: Sequence[tuple[Dot, Mapping[str, str]]],
    series: Sequence[str] = (),
) -> Figure | None:
    keys = ("measure", "successes", "n", "rate", "low", "high")
    rows = [
        {"panel": dot.panel, "line": dot.line, "series": dot.series}
        | {key: row[key] for key in keys}
        for dot, row in found
    ]
    dots = [dot for dot, _ in found]
    return dot_figure(name, title, note, unit, dots, rows, series=series)


def refusal_figure(tables: Mapping[str, Table], level: str) -> Figure | None:
    """The share refused of each category, by suite and model."""
    found = [
        (rate_dot(row["suite"], model, label, row), row)
        for measure, label in HEADLINES
        for model, row in _overall(tables)
        if row["measure"] == measure
    ]
    note = f"{level} intervals; rows of one request are one cluster."
    return _rate_figure("refusal", "Refusal by category", note, "share refused", found)


def injection_figure(tables: Mapping[str, Table], level: str) -> Figure | None:
    """The share of answers that an injected character changed, by character and repetitions."""
    found = []
    for model, table in tables.items():
        for row in table:
            if row["rate"] and row["field"] == "perturbation" and row["value"].startswith("U+"):
                panel = f"{row['suite']}: {row['measure'].removesuffix('_fail_rate')}"
                found.append((rate_dot(panel, row["value"], model, row), row))
    found.sort(key=lambda pair: (pair[0].panel, _dose(pair[0].line)))
    return _rate_figure(
        "char_injection",
        "Changed answers by injected character and repetitions",
        f"{level} intervals.",
        "share of answers that changed",
        found,
        list(tables),
    )


def loophole_figure(tables: Mapping[str, Table], level: str) -> Figure | None:
    """The share of refused prompts that are answered once perturbed."""
    found = [
        (rate_dot(row["suite"], row["measure"].removesuffix("_loophole_rate"), model, row), row)
        for model, row in _overall(tables)
        if row["rate"] and row["measure"].endswith("_loophole_rate")
    ]
    return _rate_figure(
        "loophole",
        "Loophole rate",
        f"Refused prompts that are answered once perturbed. {level} intervals.",
        "share of refused prompts",
        found,
        list(tables),
    )


def _dose(group: str) -> tuple[str, int]:
    character, _, times = group.partition(" x")
    return character, int(times) if times.isdigit() else 0


def plane_figure(tables: Mapping[str, Table], level: str) -> Figure | None:
    """Over-refusal against harmful refusal: the upper left corner is where a model should be."""
    points: list[PlanePoint] = []
    for model, table in tables.items():
        found = {
            (row["suite"], row["measure"]): row for row in table if row["rate"] and not row["field"]
        }
        for suite in dict.fromkeys(suite for suite, _ in found):
            over = found.get((suite, "over_refusal_rate"))
            harmful = found.get((suite, "harmful_refusal_rate"))
            if over and harmful:
                points.append((suite, model, over, harmful))
    if not points:
        return None
    rows = [
        {"suite": suite, "model": model}
        | {f"over_refusal_{key}": over[key] for key in ("rate", "low", "high", "n")}
        | {f"harmful_refusal_{key}": harmful[key] for key in ("rate", "low", "high", "n")}
        for suite, model, over, harmful in points
    ]
    return Figure(
        "trade_off",
        "Over-refusal against harmful refusal",
        "Up and to the left is better: harmful requests refused, helpful ones answered. "
        f"{level} intervals.",
        _planes(points, list(tables), 2),
        _planes(points, list(tables), 1),
        rows,
    )


def _planes(points: Sequence[PlanePoint], models: Sequence[str], columns: int) -> Drawing:
    suites = list(dict.fromkeys(suite for suite, _, _, _ in points))
    side, left = 250, 52
    step = side + left + 24
    width = max(step * min(columns, len(suites)), NARROW)
    parts, start = legend(models, width, {model for _, model, _, _ in points})
    for number, suite in enumerate(suites):
        x0 = left + step * (number % columns)
        top = start + 24 + (side + 78) * (number // columns)
        parts.append(text(x0, top - 10, fitting(suite, side + 40), weight="bold"))
        for tick in range(5):
            at = side * tick / 4
            parts += [
                f'<path class="grid" d="M{x0 + at:.1f} {top}V{top + side}"/>',
                f'<path class="grid" d="M{x0} {top + side - at:.1f}H{x0 + side}"/>',
                text(x0 + at, top + side + 16, f"{tick / 4:g}", "middle"),
                text(x0 - 6, top + side - at + 4, f"{tick / 4:g}", "end"),
            ]
        parts.append(text(x0 + side / 2, top + side + 34, "helpful refused", "middle"))
        parts.append(
            f'<text text-anchor="middle" transform="translate({x0 - 36} {top + side / 2:.1f}) '
            'rotate(-90)">harmful refused</text>'
        )
        for _, model, over, harmful in (point for point in points if point[0] == suite):
            ends = ("rate", "low", "high")  # without an interval, the dot alone
            x, x_low, x_high = (x0 + side * float(over[key] or over["rate"]) for key in ends)
            y, y_low, y_high = (
                top + side * (1 - float(harmful[key] or harmful["rate"])) for key in ends
            )
            index = models.index(model)
            hover = (
                f"{model}: helpful refused {rate_of(over):.3f}, harmful refused "
                f"{rate_of(harmful):.3f}"
            )
            parts.append(
                group(
                    index,
                    hover,
                    f'<path class="whisker" fill="none" d="M{x_low:.1f} {y:.1f}H{x_high:.1f}'
                    f'M{x:.1f} {y_low:.1f}V{y_high:.1f}"/>' + mark(index, x, y),
                )
            )
    height = start + 24 + (side + 78) * -(-len(suites) // columns)
    return Drawing(width, height, "".join(parts))


def comparison_figure(
    compared: Sequence[Compared], reference: str, confidence: float
) -> Figure | None:
    """Paired differences between models, with their intervals, by suite and category."""
    shown = [held for held in compared if held[2]["n"]]
    dots = []
    for one, two, row in shown:
        interval = "" if row["low"] is None else f" [{row['low']:+.3f}, {row['high']:+.3f}]"
        p = "" if row["p_holm"] is None else f", p (Holm) {row['p_holm']:.2g}"
        hover = (
            f"{one} − {two}, {row['category']}: {row['difference']:+.3f}{interval}{p}, n={row['n']}"
        )
        sure = row["p_holm"] is not None and row["p_holm"] <= 1 - confidence
        shown_values = row["difference"], row["low"], row["high"]
        dots.append(
            Dot(row["suite"], f"{one} − {two}", row["category"], *shown_values, hover, sure=sure)
        )
    return dot_figure(
        "comparisons",
        "Models compared in pairs",
        f"{reference} with every other model, and neighbours of the grid. Share refused by the first "
        "minus that by the second, on the same prompts; "
        f"{percent(confidence)} intervals. Filled: p ≤ {1 - confidence:.2g} after Holm.",
        "difference in the share refused",
        dots,
        table_rows(shown, "p_holm"),
        axis=HALVES,
    )


def judges_figure(agreement: Table, slices: Table) -> Figure | None:
    """Each judge against the labelled pairs: agreement on refusal, and accuracy by kind of answer."""
    dots: list[Dot] = []
    rows: list[Row] = []

    def add(row: Mapping[str, str], measure: str, slice_: str, value: float) -> None:
        judge, low, high, n = row["judge"], float(row["low"]), float(row["high"]), row["n"]
        panel = "right label, by kind of answer" if slice_ else "refused or not"
        line = slice_.replace("_", " ") or dict(AGREEMENT)[measure]
        hover = f"{judge}, {line}: {value:.3f} [{low:.3f}, {high:.3f}], n={n}"
        dots.append(Dot(panel, line, judge, value, low, high, hover))
        rows.append(
            {"judge": judge, "measure": measure, "slice": slice_, "n": n}
            | {"value": value, "low": low, "high": high}
        )

    for row in agreement:
        if row["measure"] in dict(AGREEMENT) and row["low"] and row["high"]:
            add(row, row["measure"], "", float(row["value"]))
    for row in slices:
        if row["field"] == "slice" and row["accuracy"]:
            add(row, "accuracy", row["value"], float(row["accuracy"]))
    return dot_figure(
        "judges",
        "Judges on the project's own pairs",
        "The pairs of data/validation were drafted and labelled with a language model, most of them to "
        "mislead a judge. 95 % intervals.",
        "agreement",
        dots,
        rows,
    )


def scaling_figure(series: Sequence[Series], level: str) -> Figure | None:
    """Rates over parameters with the trend of each family: a panel for each suite and measure."""
    drawn = [one for one in series if one.size == "parameters"]
    panels = list(dict.fromkeys((one.suite, one.measure, one.value) for one in drawn))
    if not panels:
        return None
    return Figure(
        "scaling",
        "Rates over model size",
        f"Dots: models with {level} intervals. Lines: logistic regression on log10(parameters), "
        "within a family.",
        _sizes(drawn, panels, min(3, len(panels))),
        _sizes(drawn, panels, 1),
        scaling_points(series),
    )


def _sizes(
    drawn: Sequence[Series], panels: Sequence[tuple[str, str, str]], columns: int
) -> Drawing:
    families = list(dict.fromkeys(one.family for one in drawn))
    side, high, left = 240, 150, 46
    step = side + left + 20
    width = step * columns
    parts, start = legend(families, width)
    for number, panel in enumerate(panels):
        here = [one for one in drawn if (one.suite, one.measure, one.value) == panel]
        x0, top = left + step * (number % columns), start + 40 + (high + 96) * (number // columns)
        sizes = [math.log10(point.size) for one in here for point in one.points.values()]
        first, last = min(sizes), max(sizes)
        margin = max(0.05, (last - first) * 0.08)
        first, last = first - margin, last + margin

        def across(size: float, x0: float = x0, first: float = first, last: float = last) -> float:
            return x0 + side * (size - first) / (last - first)

        def up(rate: float, top: float = top) -> float:
            return top + high * (1 - rate)

        parts += [
            text(x0, top - 26, fitting(panel[0], side), weight="bold"),
            text(x0, top - 10, fitting(named(*panel[1:]), side)),
            text(x0 + side / 2, top + high + 34, "parameters", "middle"),
        ]
        for tick in range(5):
            y = up(tick / 4)
            parts.append(f'<path class="grid" d="M{x0} {y:.1f}H{x0 + side}"/>')
            parts.append(text(x0 - 6, y + 4, f"{tick / 4:g}", "end"))
        for size in _ticks(first, last):
            x = across(math.log10(size))
            parts.append(f'<path class="grid" d="M{x:.1f} {top}V{top + high}"/>')
            parts.append(text(x, top + high + 16, _short(size), "middle"))
        for one in here:
            index = families.index(one.family)
            if one.trend.slope is not None and one.trend.intercept is not None:
                ends = [math.log10(point.size) for point in one.points.values()]
                steps = [min(ends) + (max(ends) - min(ends)) * n / 40 for n in range(41)]
                # The logistic function by tanh, which overflows nowhere.
                rates = [
                    (1 + math.tanh((one.trend.intercept + one.trend.slope * x) / 2)) / 2
                    for x in steps
                ]
                line = "L".join(
                    f"{across(x):.1f} {up(rate):.1f}" for x, rate in zip(steps, rates, strict=True)
                )
                fit = f"{one.family}: slope {one.trend.slope:+.3f}"
                parts.append(group(index, fit, f'<path class="fit" d="M{line}"/>'))
            for model, point in one.points.items():
                x = across(math.log10(point.size))
                hover = f"{model}: {point.rate:.3f}, n={point.n}, {point.size:,.0f} parameters"
                whisker = (
                    f'<path class="whisker" d="M{x:.1f} {up(point.low):.1f}V{up(point.high):.1f}"/>'
                )
                parts.append(group(index, hover, whisker + mark(index, x, up(point.rate))))
    height = start + (high + 96) * -(-len(panels) // columns)
    return Drawing(width, round(height), "".join(parts))


def _ticks(first: float, last: float) -> list[float]:
    """Round sizes between two powers of ten, at most about six."""
    for leads in ((1, 2, 5), (1, 3), (1,)):
        found = [
            lead * 10.0**power
            for power in range(math.floor(first), math.ceil(last) + 1)
            for lead in leads
            if first <= math.log10(lead * 10.0**power) <= last
        ]
        if len(found) <= 5:
            return found
    return found[:: -(-len(found) // 5)]


def _short(size: float) -> str:
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= unit:
            return f"{size / unit:g}{letter}"
    return f"{size:g}"


def scaling_points(series: Sequence[Series]) -> list[Row]:
    """The points of the scaling figure, each with the line fitted to its family."""
    return [
        {
            "suite": one.suite,
            "measure": one.measure,
            "value": one.value,
            "family": one.family,
            "model": model,
            "size": one.size,
            "at": point.size,
            "successes": point.successes,
            "n": point.n,
            "slope": None if one.trend.slope is None else round(one.trend.slope, 6),
            "intercept": None if one.trend.intercept is None else round(one.trend.intercept, 6),
        }
        for one in series
        for model, point in one.points.items()
    ]
