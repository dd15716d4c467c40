"""Figures drawn as SVG, and the numbers behind each as a table.

The drawing is written element by element: its bytes depend on the numbers alone and not on the
version of a plotting library, it holds no style attribute (the page's security policy forbids
them), and its colours follow the reader's light or dark setting.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from refract.core.jsonl import write_bytes
from refract.core.tables import write_table
from refract.core.types import Row
from refract.report.markdown import rate_of, shown_interval

# Okabe and Ito's colours, told apart by colour-blind readers; each series has its own mark as well.
STYLE = """\
.chart{font:12px 'DejaVu Sans',Verdana,sans-serif;color:#1b1b1b}
.chart text{fill:currentColor}
.chart .grid{stroke:currentColor;stroke-opacity:.16}.chart .zero{stroke:currentColor;stroke-opacity:.7}
.chart .s0{color:#b04a00}.chart .s1{color:#0072b2}.chart .s2{color:#00795a}
.chart .s3{color:#a3487c}.chart .s4{color:#8a6100}.chart .s5{color:#2f2f2f}
.chart .mark{fill:currentColor;stroke:currentColor}
.chart .unsure .mark{fill:#fff}
.chart .fit{fill:none;stroke:currentColor;stroke-width:1.5}
.chart .whisker{stroke:currentColor;stroke-width:1.5}
@media (prefers-color-scheme:dark){.chart{color:#e8e8e8}.chart .unsure .mark{fill:#161718}
.chart .s0{color:#ff8c42}.chart .s1{color:#56b4e9}.chart .s2{color:#2fc79c}
.chart .s3{color:#e79ac4}.chart .s4{color:#e6b422}.chart .s5{color:#c9c9c9}}
"""
COLOURS = 6
ROW, CHARACTER = 18, 7.3  # height of a line; width of a character, rounded up
NARROW = 340  # width of a drawing for a telephone


class Drawing(NamedTuple):
    """A size, and the inside of an ``<svg>`` element."""

    width: int
    height: float
    body: str


class Figure(NamedTuple):
    """A drawing with the rows behind it, and the same for a screen of ``NARROW`` pixels."""

    name: str
    title: str
    note: str
    drawing: Drawing
    narrow: Drawing
    rows: list[Row]


class Dot(NamedTuple):
    """One number with its interval: in which panel, on which line, of which series.

    ``value`` is None where nothing was judged, ``low`` and ``high`` where there is no interval. A
    number that is not ``sure`` is drawn hollow.
    """

    panel: str
    line: str
    series: str
    value: float | None
    low: float | None
    high: float | None
    hover: str
    sure: bool = True


def svg(figure: Figure, style: str = "", *, narrow: bool = False) -> str:
    """The figure as an element. ``style`` stands inside where it is a file of its own."""
    width, height, body = figure.narrow if narrow else figure.drawing
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}" '
        f'aria-label="{inert(figure.title)}">{style and f"<style>{style}</style>"}{body}</svg>'
    )


def write_figures(figures: Sequence[Figure], folder: Path) -> None:
    """``NAME.svg`` and ``NAME.csv`` for each figure; files of other figures are removed."""
    names = {f"{figure.name}.{end}" for figure in figures for end in ("csv", "svg")}
    for path in folder.glob("*.*"):
        if path.name not in names:
            path.unlink()
    for figure in figures:
        write_bytes(folder / f"{figure.name}.svg", [svg(figure, STYLE).encode() + b"\n"])
        write_table(folder / f"{figure.name}.csv", list(figure.rows[0]), figure.rows)


def rate_dot(panel: str, line: str, series: str, row: Mapping[str, str]) -> Dot:
    """A line of a rate table as a dot."""
    if not row["rate"]:
        return Dot(panel, line, series, None, None, None, "")
    rate = rate_of(row)
    low, high = (float(row[key]) if row[key] else None for key in ("low", "high"))
    interval = shown_interval(row) or "no interval"
    hover = f"{line}, {series}: {rate:.3f} {interval}, n={row['n']}"
    return Dot(panel, line, series, rate, low, high, hover)


def dot_figure(
    name: str,
    title: str,
    note: str,
    unit: str,
    dots: Sequence[Dot],
    rows: list[Row],
    *,
    axis: tuple[float, ...] = (0, 0.2, 0.4, 0.6, 0.8, 1),
    series: Sequence[str] = (),
) -> Figure | None:
    """Numbers as dots with whiskers: a panel for each suite, a line for each model or group.

    ``axis`` are the ticks, from the left end to the right; what lies beyond is drawn at the end.
    ``series`` are all that there are, such as the models, so that each has its mark and colour in
    every figure; the legend says which of them have no value here. By default those of the dots.
    """
    if not dots:
        return None
    series = series or list(dict.fromkeys(dot.series for dot in dots))
    broad, narrow = (_dots(unit, dots, axis, series, narrow=narrow) for narrow in (False, True))
    return Figure(name, title, note, broad, narrow, rows)


def _dots(
    unit: str,
    dots: Sequence[Dot],
    axis: tuple[float, ...],
    series: Sequence[str],
    *,
    narrow: bool,
) -> Drawing:
    """What :func:`dot_figure` draws; ``narrow``: a line's name stands above it and not before."""
    left = 14 if narrow else 16 + CHARACTER * max(len(dot.line) for dot in dots)
    plot = NARROW - 28 if narrow else 440
    above = 18 if narrow else 0
    width = NARROW if narrow else round(left + plot + 24)
    start, end = axis[0], axis[-1]

    def at(value: float) -> float:
        return left + plot * (min(max(value, start), end) - start) / (end - start)

    parts, top = legend(series, width, {dot.series for dot in dots})
    for panel in dict.fromkeys(dot.panel for dot in dots):
        found = [dot for dot in dots if dot.panel == panel]
        lines = list(dict.fromkeys(dot.line for dot in found))
        here = [one for one in series if any(dot.series == one for dot in found)]
        height = ROW * max(1.2, 0.62 * len(here))
        parts.append(text(left, top + 14, fitting(panel, width - left), weight="bold"))
        top += 24
        bottom = top + (above + height) * len(lines)
        for tick in axis:
            strong = "zero" if tick == 0 and start < 0 else "grid"
            # The lines of the grid stop where a name stands above its line.
            parts += [
                f'<path class="{strong}" d="M{at(tick):.1f} {upper:.1f}V{lower:.1f}"/>'
                for upper, lower in _stretches(top, bottom, above, height if narrow else 0)
            ]
            parts.append(text(at(tick), bottom + 15, f"{tick:g}", "middle"))
        for number, line in enumerate(lines):
            upper = top + (above + height) * number + above
            if narrow:
                parts.append(text(left, upper - 5, fitting(line, plot)))
            else:
                parts.append(text(left - 8, upper + height / 2 + 4, line, "end"))
            drawn = [
                (dot, dot.value) for dot in found if dot.line == line and dot.value is not None
            ]
            if not drawn:
                parts.append(text(left + 4, upper + height / 2 + 4, "nothing judged"))
            for dot, value in drawn:
                index = series.index(dot.series)
                place = upper + height * (here.index(dot.series) + 1) / (len(here) + 1)
                whisker = ""
                if dot.low is not None and dot.high is not None:
                    whisker = (
                        f'<path class="whisker" d="M{at(dot.low):.1f} {place:.1f}'
                        f'H{at(dot.high):.1f}"/>'
                    )
                drawing = whisker + mark(index, at(value), place)
                parts.append(group(index, dot.hover, drawing, sure=dot.sure))
        parts.append(text(left + plot / 2, bottom + 30, unit, "middle"))
        top = bottom + 46
    return Drawing(width, round(top), "".join(parts))


def _stretches(top: float, bottom: float, gap: float, height: float) -> list[tuple[float, float]]:
    """Where the lines of a grid run: through, or where there are gaps, below each of them."""
    if not gap:
        return [(top, bottom)]
    count = round((bottom - top) / (gap + height))
    uppers = [top + gap + (gap + height) * number for number in range(count)]
    return [(upper, upper + height) for upper in uppers]


def difference_bar(low: float, difference: float, high: float, reach: float) -> str:
    """A difference with its interval as a small drawing: zero in the middle, ``reach`` at the ends."""
    left, at, right = (50 + 50 * min(1.0, max(-1.0, x / reach)) for x in (low, difference, high))
    return _interval(left, at, right, '<path class="middle" d="M50 0V14"/>')


def bar(row: Mapping[str, str]) -> str:
    """A rate as a small drawing for a table's cell: a track, the interval on it, and the rate."""
    rate = 100 * float(row["rate"])
    low, high = (100 * float(row[key] or row["rate"]) for key in ("low", "high"))
    limit = ""
    if row.get("threshold"):
        at = 100 * float(row["threshold"].split()[-1])
        limit = f'<path class="limit" d="M{at:.1f} 0V14"/>'
    return _interval(low, rate, high, limit)


def _interval(low: float, at: float, high: float, line: str) -> str:
    """An interval and the number in it on a track from 0 to 100; ``line`` is drawn between them."""
    return (
        '<svg class="bar" viewBox="-3 0 106 14" width="106" height="14" aria-hidden="true">'
        '<rect class="track" x="0" y="5" width="100" height="4"/>'
        f'<rect class="interval" x="{low:.1f}" y="3" width="{max(1.0, high - low):.1f}" height="8"/>'
        f'{line}<circle class="rate" cx="{at:.1f}" cy="7" r="3"/></svg>'
    )


def inert(said: str) -> str:
    """A text as XML takes it: without markup, and without characters that no XML may hold."""
    return escape("".join(char if char.isprintable() else " " for char in said))


def text(x: float, y: float, said: str, anchor: str = "start", weight: str = "normal") -> str:
    """A text whose baseline begins, is centred or ends at a point."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{inert(said)}</text>"
    )


def fitting(said: str, width: float) -> str:
    """A text cut to a width, where it is longer than that."""
    most = int(width / CHARACTER)
    return said if len(said) <= most else f"{said[: most - 1]}…"


def group(series: int, hover: str, inside: str, *, sure: bool = True) -> str:
    """Drawings of one series, with a text for those who point at them."""
    kind = f"s{series % COLOURS}{'' if sure else ' unsure'}"
    return f'<g class="{kind}"><title>{inert(hover)}</title>{inside}</g>'


def mark(series: int, x: float, y: float) -> str:
    """The mark of a series: shape and colour tell 24 apart."""
    shapes = (
        "M{l:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0-8 0",  # circle
        "M{l:.1f} {t:.1f}h8v8h-8z",  # square
        "M{x:.1f} {t:.1f}l4.5 8h-9z",  # triangle
        "M{x:.1f} {d:.1f}l5 5-5 5-5-5z",  # diamond
    )
    # Shapes and colours run with periods of 4 and 6, shifted, so that 24 series differ.
    shape = shapes[(series + series // 12) % len(shapes)]
    return f'<path class="mark" d="{shape.format(x=x, y=y, l=x - 4, t=y - 4, d=y - 5)}"/>'


NO_VALUE = " (no value)"


def legend(
    series: Sequence[str], width: float, valued: Collection[str] | None = None
) -> tuple[list[str], float]:
    """The marks with their names, wrapped to the width; and the height that they took.

    ``valued`` are those of which the figure shows a value, all of them by default."""
    parts, x, y = [], 12.0, 14.0
    for number, one in enumerate(series):
        name = one if valued is None or one in valued else one + NO_VALUE
        wide = 30 + CHARACTER * len(name)
        if x + wide > width and x > 12:
            x, y = 12.0, y + ROW
        parts.append(f'<g class="s{number % COLOURS}">{mark(number, x, y)}</g>')
        parts.append(text(x + 10, y + 4, name))
        x += wide
    return parts, y + ROW
