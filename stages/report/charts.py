"""Figures drawn as SVG, and the numbers behind each as a table.

The drawing is written element by element: its bytes depend on the numbers alone and not on the
version of a plotting library, it holds no style attribute (the page's security policy forbids
them), and its colours follow the reader's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from stages.report import HEADLINES, Table
from stages.report.scaling import Series
from stages.rows.jsonl import Row, write_bytes
from stages.rows.tables import write_table

# Okabe and Ito's colours, told apart by colour-blind readers; each series has its own mark as well.
STYLE = """\
.chart{font:12px 'DejaVu Sans',Verdana,sans-serif;color:#1b1b1b}
.chart text{fill:currentColor}
.chart .grid{stroke:currentColor;stroke-opacity:.16}
.chart .s0{color:#b04a00}.chart .s1{color:#0072b2}.chart .s2{color:#00795a}
.chart .s3{color:#a3487c}.chart .s4{color:#8a6100}.chart .s5{color:#2f2f2f}
.chart .mark{fill:currentColor;stroke:currentColor}
.chart .whisker{stroke:currentColor;stroke-width:1.5}
@media (prefers-color-scheme:dark){.chart{color:#e8e8e8}
.chart .s0{color:#ff8c42}.chart .s1{color:#56b4e9}.chart .s2{color:#2fc79c}
.chart .s3{color:#e79ac4}.chart .s4{color:#e6b422}.chart .s5{color:#c9c9c9}}
"""
COLOURS = 6
ROW, CHARACTER = 18, 7.3  # height of a line; width of a character, rounded up


class Figure(NamedTuple):
    """A drawing with the rows behind it. ``body`` is the inside of an ``<svg>`` element."""

    name: str
    title: str
    note: str
    width: int
    height: int
    body: str
    rows: list[Row]


class Dot(NamedTuple):
    """One rate with its interval: in which panel, on which line, of which series."""

    panel: str
    line: str
    series: str
    row: Mapping[str, str]


def svg(figure: Figure, style: str = "") -> str:
    """The figure as an element. ``style`` stands inside where it is a file of its own."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" width="{figure.width}" '
        f'height="{figure.height}" viewBox="0 0 {figure.width} {figure.height}" '
        f'aria-label="{escape(figure.title)}">{style and f"<style>{style}</style>"}{figure.body}</svg>'
    )


def write_figures(figures: Sequence[Figure], folder: Path) -> None:
    """``NAME.svg`` and ``NAME.csv`` for each figure."""
    for figure in figures:
        write_bytes(folder / f"{figure.name}.svg", [svg(figure, STYLE).encode() + b"\n"])
        write_table(folder / f"{figure.name}.csv", list(figure.rows[0]), figure.rows)


def draw_figures(tables: Mapping[str, Table]) -> list[Figure]:
    """The figures for which the tables hold numbers."""
    overall = [(model, row) for model, table in tables.items() for row in table if not row["field"]]
    refusal = [
        Dot(row["suite"], model, label, row)
        for measure, label in HEADLINES
        for model, row in overall
        if row["measure"] == measure
    ]
    injected = [
        Dot(
            f"{row['suite']}: {row['measure'].removesuffix('_fail_rate')}", row["value"], model, row
        )
        for model, table in tables.items()
        for row in table
        if row["rate"] and row["field"] == "perturbation" and row["value"].startswith("U+")
    ]
    flips = [
        Dot(row["suite"], row["measure"].removesuffix("_loophole_rate"), model, row)
        for model, row in overall
        if row["rate"] and row["measure"].endswith("_loophole_rate")
    ]
    drawn = [
        dot_figure(
            "refusal",
            "Refusal by category",
            "95 % Wilson intervals.",
            "share refused",
            refusal,
        ),
        plane_figure(tables),
        dot_figure(
            "char_injection",
            "Changed answers by injected character and repetitions",
            "95 % Wilson intervals.",
            "share of answers that changed",
            sorted(injected, key=lambda dot: (dot.panel, _dose(dot.line))),
        ),
        dot_figure(
            "loophole",
            "Loophole rate",
            "Refused prompts that are answered once perturbed. 95 % Wilson intervals.",
            "share of refused prompts",
            flips,
        ),
    ]
    return [figure for figure in drawn if figure is not None]


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
            "successes": point.positives,
            "n": point.n,
            "slope": None if one.trend.slope is None else round(one.trend.slope, 6),
            "intercept": None if one.trend.intercept is None else round(one.trend.intercept, 6),
        }
        for one in series
        for model, point in one.points.items()
    ]


def _dose(group: str) -> tuple[str, int]:
    character, _, times = group.partition(" x")
    return character, int(times) if times.isdigit() else 0


def dot_figure(name: str, title: str, note: str, unit: str, dots: Sequence[Dot]) -> Figure | None:
    """Rates as dots with whiskers: a panel for each suite, a line for each model or group."""
    if not dots:
        return None
    series = list(dict.fromkeys(dot.series for dot in dots))
    left = 16 + CHARACTER * max(len(dot.line) for dot in dots)
    plot = 440
    width = round(left + plot + 24)
    parts, top = _legend(series, width)
    for panel in dict.fromkeys(dot.panel for dot in dots):
        found = [dot for dot in dots if dot.panel == panel]
        lines = list(dict.fromkeys(dot.line for dot in found))
        here = [one for one in series if any(dot.series == one for dot in found)]
        height = ROW * max(1.2, 0.62 * len(here))
        parts.append(_text(left, top + 14, panel, weight="bold"))
        top += 24
        bottom = top + height * len(lines)
        parts += _axis(left, plot, top, bottom)
        for number, line in enumerate(lines):
            parts.append(_text(left - 8, top + height * (number + 0.5) + 4, line, "end"))
            drawn = [dot for dot in found if dot.line == line and dot.row["rate"]]
            if not drawn:
                parts.append(_text(left + 4, top + height * (number + 0.5) + 4, "nothing judged"))
            for dot in drawn:
                place = (
                    top + height * number + height * (here.index(dot.series) + 1) / (len(here) + 1)
                )
                rate, low, high = (float(dot.row[key]) for key in ("rate", "low", "high"))
                hover = (
                    f"{line}, {dot.series}: {rate:.3f} [{low:.3f}, {high:.3f}], n={dot.row['n']}"
                )
                parts.append(
                    _group(
                        series.index(dot.series),
                        hover,
                        f'<path class="whisker" d="M{left + plot * low:.1f} {place:.1f}'
                        f'H{left + plot * high:.1f}"/>'
                        + _mark(series.index(dot.series), left + plot * rate, place),
                    )
                )
        parts.append(_text(left + plot / 2, bottom + 30, unit, "middle"))
        top = bottom + 46
    rows = [
        {"panel": dot.panel, "line": dot.line, "series": dot.series}
        | {key: dot.row[key] for key in ("measure", "successes", "n", "rate", "low", "high")}
        for dot in dots
    ]
    return Figure(name, title, note, width, round(top), "".join(parts), rows)


def plane_figure(tables: Mapping[str, Table]) -> Figure | None:
    """Over-refusal against harmful refusal: the upper left corner is where a model should be."""
    points: list[tuple[str, str, Mapping[str, str], Mapping[str, str]]] = []
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
    models = list(dict.fromkeys(model for _, model, _, _ in points))
    suites = list(dict.fromkeys(suite for suite, _, _, _ in points))
    side, left = 250, 52
    step = side + left + 24
    width = max(step * min(2, len(suites)), 360)
    parts, start = _legend(models, width)
    for number, suite in enumerate(suites):
        x0, top = left + step * (number % 2), start + 24 + (side + 64) * (number // 2)
        parts.append(_text(x0, top - 10, suite, weight="bold"))
        for tick in range(5):
            at = side * tick / 4
            parts += [
                f'<path class="grid" d="M{x0 + at:.1f} {top}V{top + side}"/>',
                f'<path class="grid" d="M{x0} {top + side - at:.1f}H{x0 + side}"/>',
                _text(x0 + at, top + side + 16, f"{tick / 4:g}", "middle"),
                _text(x0 - 6, top + side - at + 4, f"{tick / 4:g}", "end"),
            ]
        parts.append(_text(x0 + side / 2, top + side + 34, "helpful refused", "middle"))
        parts.append(
            f'<text text-anchor="middle" transform="translate({x0 - 36} {top + side / 2:.1f}) '
            'rotate(-90)">harmful refused</text>'
        )
        for _, model, over, harmful in (point for point in points if point[0] == suite):
            x, x_low, x_high = (x0 + side * float(over[key]) for key in ("rate", "low", "high"))
            y, y_low, y_high = (
                top + side * (1 - float(harmful[key])) for key in ("rate", "low", "high")
            )
            index = models.index(model)
            hover = f"{model}: helpful refused {over['rate']}, harmful refused {harmful['rate']}"
            parts.append(
                _group(
                    index,
                    hover,
                    f'<path class="whisker" fill="none" d="M{x_low:.1f} {y:.1f}H{x_high:.1f}'
                    f'M{x:.1f} {y_low:.1f}V{y_high:.1f}"/>' + _mark(index, x, y),
                )
            )
    rows = [
        {"suite": suite, "model": model}
        | {f"over_refusal_{key}": over[key] for key in ("rate", "low", "high", "n")}
        | {f"harmful_refusal_{key}": harmful[key] for key in ("rate", "low", "high", "n")}
        for suite, model, over, harmful in points
    ]
    height = start + 24 + (side + 64) * -(-len(suites) // 2)
    return Figure(
        "trade_off",
        "Over-refusal against harmful refusal",
        "Up and to the left is better: harmful requests refused, helpful ones answered. "
        "95 % Wilson intervals.",
        width,
        height,
        "".join(parts),
        rows,
    )


def bar(row: Mapping[str, str]) -> str:
    """A rate as a small drawing for a table's cell: a track, the interval on it, and the rate."""
    rate, low, high = (100 * float(row[key]) for key in ("rate", "low", "high"))
    limit = ""
    if row.get("threshold"):
        at = 100 * float(row["threshold"].split()[-1])
        limit = f'<path class="limit" d="M{at:.1f} 0V14"/>'
    return (
        '<svg class="bar" viewBox="-3 0 106 14" width="106" height="14" aria-hidden="true">'
        '<rect class="track" x="0" y="5" width="100" height="4"/>'
        f'<rect class="interval" x="{low:.1f}" y="3" width="{max(1.0, high - low):.1f}" height="8"/>'
        f'{limit}<circle class="rate" cx="{rate:.1f}" cy="7" r="3"/></svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )


def _axis(left: float, plot: float, top: float, bottom: float) -> list[str]:
    parts = []
    for tick in range(6):
        x = left + plot * tick / 5
        parts.append(f'<path class="grid" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>')
        parts.append(_text(x, bottom + 15, f"{tick / 5:g}", "middle"))
    return parts


def _group(series: int, hover: str, inside: str) -> str:
    return f'<g class="s{series % COLOURS}"><title>{escape(hover)}</title>{inside}</g>'


def _mark(series: int, x: float, y: float) -> str:
    shapes = (
        "M{l:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0-8 0",  # circle
        "M{l:.1f} {t:.1f}h8v8h-8z",  # square
        "M{x:.1f} {t:.1f}l4.5 8h-9z",  # triangle
        "M{x:.1f} {d:.1f}l5 5-5 5-5-5z",  # diamond
    )
    # Shapes and colours run with periods of 4 and 6, shifted, so that 24 series differ.
    shape = shapes[(series + series // 12) % len(shapes)]
    return f'<path class="mark" d="{shape.format(x=x, y=y, l=x - 4, t=y - 4, d=y - 5)}"/>'


def _legend(series: Sequence[str], width: float) -> tuple[list[str], float]:
    """The marks with their names, wrapped to the width; and the height that they took."""
    parts, x, y = [], 12.0, 14.0
    for number, name in enumerate(series):
        wide = 30 + CHARACTER * len(name)
        if x + wide > width and x > 12:
            x, y = 12.0, y + ROW
        parts.append(f'<g class="s{number % COLOURS}">{_mark(number, x, y)}</g>')
        parts.append(_text(x + 10, y + 4, name))
        x += wide
    return parts, y + ROW
