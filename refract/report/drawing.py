"""Figures of dots and intervals, drawn by matplotlib.

The bytes depend on the numbers and on matplotlib's version alone: a user's matplotlibrc is not
read, ids come from a salt, and nothing holds a date. Texts are texts and not outlines."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from refract.core.jsonl import write_bytes
from refract.core.showing import printable
from refract.core.tables import write_table
from refract.core.types import Row
from refract.rates.rate import Interval, rounded
from refract.report.markdown import TEMPLATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Format = Literal["pdf", "svg"]
ROW, CHARACTER = 18, 7.3  # height of a line, and width of a character, rounded up
LONGEST = 45  # characters of a name; longer ones are cut
LINE_WIDTH = 440  # of a panel of named lines
PANEL, ACROSS = 220, 3  # width and height of a panel with two axes, and how many stand side by side
DOTS = 216  # an inch, at which panels and texts are laid out
INK, PAPER = "#1b1b1b", "#ffffff"
MARKERS = "os^Dv"  # five, so that with six colours thirty series differ
FIFTHS, QUARTERS = (0, 0.2, 0.4, 0.6, 0.8, 1), (0, 0.25, 0.5, 0.75, 1)  # of an axis
J = (0.2, 0.4, 0.6, 0.8)
STYLE = TEMPLATES / "figures.mplstyle"


class Mark(NamedTuple):
    """One number of a figure: in which panel, on which line, of which series. ``x`` is None
    where nothing was judged, ``y`` the second number of a figure with two axes."""

    panel: str
    line: str
    series: str
    n: int
    x: float | None
    x_interval: Interval | None = None
    y: float | None = None
    y_interval: Interval | None = None


@dataclass(frozen=True)
class Figure:
    """What a figure shows.

    Both axes are shares. Without a ``y_label`` each line of a panel has a name, and marks lie on
    it; with one, Youden's J, the second minus the first, is drawn as lines at each of ``J``.
    ``series``, by default those of the marks, keep their mark and colour in every figure; the legend
    says which have no value here."""

    name: str
    marks: Sequence[Mark]
    title: str
    note: str
    x_label: str
    y_label: str = ""
    series: Sequence[str] = ()

    @cached_property
    def svg(self) -> bytes:
        """It as a file, which the page shows too."""
        return drawn(self)

    @cached_property
    def rows(self) -> list[Row]:
        """The table behind the figure, without the columns that are empty in all rows."""
        rows: list[Row] = []
        filled = set()
        for mark in self.marks:
            row: Row = {"panel": mark.panel, "line": mark.line, "series": mark.series, "n": mark.n}
            axes = ("x", mark.x, mark.x_interval), ("y", mark.y, mark.y_interval)
            for axis, value, interval in axes:
                low, high = interval or (None, None)
                for key, number in ((axis, value), (f"{axis}_low", low), (f"{axis}_high", high)):
                    row[key] = None if number is None else rounded(number)
            filled |= {key for key, value in row.items() if value not in ("", None)}
            rows.append(row)
        return [{key: row[key] for key in row if key in filled} for row in rows]


def write_figures(figures: Sequence[Figure], folder: Path) -> None:
    """Writes ``NAME.svg`` and ``NAME.csv`` for each figure, and removes others."""
    kept = set()
    for figure in figures:
        path = folder / f"{figure.name}.svg"
        table = folder / f"{figure.name}.csv"
        write_bytes(path, [figure.svg])
        write_table(table, list(figure.rows[0]), figure.rows)
        kept |= {path, table}
    for path in set(folder.glob("*.*")) - kept:
        path.unlink()


def drawn(figure: Figure, format_: Format = "svg") -> bytes:
    """A figure as a file."""
    import matplotlib.style

    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None, "Creator": None}}
    styles: list[Any] = ["default", STYLE, {"svg.hashsalt": figure.name}]
    file = io.BytesIO()
    with warnings.catch_warnings(), matplotlib.style.context(styles):
        # A glyph that the font lacks is a text all the same; its reader's fonts may have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        _draw(figure).savefig(file, format=format_, dpi=DOTS, metadata=undated[format_])
    return file.getvalue()


def _fitting(text: str, most: int = LONGEST) -> str:
    """A text in which every character shows, cut where it is longer."""
    text = printable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _draw(figure: Figure) -> Canvas:
    from matplotlib import rcParams
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    panels: dict[str, list[Mark]] = {}
    for mark in figure.marks:
        panels.setdefault(mark.panel, []).append(mark)
    valued = {mark.series for mark in figure.marks}
    series = figure.series or list(dict.fromkeys(mark.series for mark in figure.marks))
    colours = rcParams["axes.prop_cycle"].by_key()["color"]
    looks, labels = {}, []
    for place, name in enumerate(series):
        colour = colours[place % len(colours)]
        looks[name] = {"color": colour, "marker": MARKERS[place % len(MARKERS)]}
        labels.append(_fitting(name) + ("" if name in valued else " (no value)"))
    if figure.y_label:
        across, panel_width = min(ACROSS, len(panels)), PANEL
        width = 24.0 + across * (panel_width + 56)
        heights = [float(PANEL)] * math.ceil(len(panels) / across)
    else:
        across, panel_width = 1, LINE_WIDTH
        width = 40 + panel_width + CHARACTER * max(len(_fitting(m.line)) for m in figure.marks)
        heights = [_height(marks) for marks in panels.values()]
    columns = max(1, int(width / (36 + CHARACTER * max(map(len, labels)))))
    legend = ROW * (math.ceil(len(series) / columns) + 1)
    height = legend + sum(heights) + 76 * len(heights)
    canvas = Canvas(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
    cells = list(canvas.subplots(len(heights), across, squeeze=False, height_ratios=heights).flat)
    handles = [Line2D([], [], linestyle="none", **look) for look in looks.values()]
    canvas.legend(handles, labels, loc="outside upper left", ncols=columns)
    for axes in cells[len(panels) :]:
        axes.remove()
    for axes, (panel, marks) in zip(cells, panels.items(), strict=False):
        room = int((panel_width + 16) / 8.3)  # bold letters are wider
        axes.set_title("\n".join(_fitting(line, room) for line in panel.split("\n")), y=1.0)
        _fill(axes, figure, marks, looks)
    for artist in canvas.findobj():
        # All of it is within its panel; ids of clip paths would hash digits that vary by machine.
        artist.set_clip_on(False)
    return canvas


def _height(marks: Sequence[Mark]) -> float:
    """The height of a panel of named lines."""
    line = ROW * max(1.2, 0.62 * len({mark.series for mark in marks}))
    return line * len({mark.line for mark in marks})


def _fill(
    axes: Axes, figure: Figure, marks: Sequence[Mark], looks: Mapping[str, Mapping[str, Any]]
) -> None:
    """Draws a panel: its axes, and each mark as a cross of its intervals."""
    axes.set_xlabel(figure.x_label)
    axes.grid(axis="both" if figure.y_label else "x", color=INK, linewidth=0.8, alpha=0.16)
    axes.set(xlim=(0, 1), xticks=QUARTERS if figure.y_label else FIFTHS)
    axes.xaxis.set_major_formatter("{x:g}")
    if figure.y_label:
        axes.set(ylim=(0, 1), yticks=QUARTERS, ylabel=figure.y_label)
        axes.yaxis.set_major_formatter("{x:g}")
        _draw_discrimination(axes)
    else:
        marks = _on_named_lines(axes, marks, list(looks))
    for mark in marks:
        if mark.x is not None and mark.y is not None:
            left, right = mark.x_interval or (mark.x, mark.x)
            low, high = mark.y_interval or (mark.y, mark.y)
            x = [left, mark.x, right, math.nan, mark.x, mark.x]
            y = [mark.y, mark.y, mark.y, math.nan, low, high]
            axes.plot(x, y, markevery=[1], zorder=3, **looks[mark.series])


def _draw_discrimination(axes: Axes) -> None:
    """The lines on which harmful minus harmless refused is the same, with that number."""
    box = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5}
    for by in J:
        axes.plot([0, 1 - by], [by, 1], color=INK, linewidth=1, linestyle=(0, (1, 3)), alpha=0.7)
        at = 0.93 - by
        axes.text(at, 0.93, f"{by:g}", size="small", ha="center", va="center", zorder=2, bbox=box)


def _on_named_lines(axes: Axes, marks: Sequence[Mark], series: Sequence[str]) -> list[Mark]:
    """Gives a panel its named lines, and each mark its place there."""
    lines = list(dict.fromkeys(mark.line for mark in marks))
    drawn_here = {mark.series for mark in marks}
    here = [name for name in series if name in drawn_here]
    middles = [number + 0.5 for number in range(len(lines))]
    axes.set(ylim=(len(lines), 0), yticks=middles, yticklabels=map(_fitting, lines))
    valued = {mark.line for mark in marks if mark.x is not None}
    for line, middle in zip(lines, middles, strict=True):
        if line not in valued:
            axes.text(axes.get_xlim()[0], middle, " nothing judged", va="center")
    placed = []
    for mark in marks:
        within = (here.index(mark.series) + 1) / (len(here) + 1)
        placed.append(mark._replace(y=lines.index(mark.line) + within))
    return placed
