"""Figures drawn by matplotlib, as files and as elements of the page.

The bytes depend on the numbers and on matplotlib's version alone: a user's matplotlibrc is not read, ids
come from a salt, and nothing holds a date. Texts are texts and not outlines. ``refract figures --style``
adds a style sheet of the user's (colours come from its ``axes.prop_cycle``).
"""

from __future__ import annotations

import io
import math
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from refract.core.jsonl import write_bytes
from refract.core.tables import write_table
from refract.core.types import Row
from refract.report.markdown import TEMPLATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Format = Literal["pdf", "png", "svg"]
NARROW = 340  # units of width on a telephone's screen; a unit is a pixel of the page
ROW, CHARACTER = 18, 7.3  # height of a line, and width of a character, rounded up
LONGEST = 45  # characters of a name; longer ones are cut
DOTS = 216  # of a PNG, an inch: three for each unit
INK, PAPER = "#1b1b1b", "#ffffff"
MARKERS = ("o", "s", "^", "D")
STYLE = TEMPLATES / "figures.mplstyle"
SVG = "http://www.w3.org/2000/svg"


class Span(NamedTuple):
    """A number with the ends of its interval, None where it has none."""

    value: float
    low: float | None
    high: float | None

    def ends(self) -> list[float]:
        """The low end, the number, the high end; without an interval, the number alone."""
        return [self.value if end is None else end for end in (self.low, self.value, self.high)]


@dataclass(frozen=True)
class Mark:
    """One number of a figure: in which panel, on which line, of which series.

    ``x`` is None where nothing was judged. ``y`` is the second number of a figure with two axes. A
    mark that is not ``sure`` is drawn hollow.
    """

    panel: str
    line: str
    series: str
    x: Span | None
    hover: str
    y: Span | None = None
    sure: bool = True


@dataclass(frozen=True)
class Curve:
    """A line through a panel, of one series."""

    panel: str
    series: str
    x: Sequence[float]
    y: Sequence[float]
    hover: str


@dataclass(frozen=True)
class Figure:
    """What a figure shows, and the rows of the table behind it.

    Without a ``y_label`` each line of a panel has a name, and marks lie on it. ``series`` are all that
    there are, such as the models, so that each has its mark and colour in every figure; the legend
    says which have no value here. By default they are those of the marks.
    """

    name: str
    title: str
    note: str
    x_label: str
    marks: Sequence[Mark]
    rows: list[Row]
    y_label: str = ""
    ticks: Sequence[float] = (0, 0.2, 0.4, 0.6, 0.8, 1)
    series: Sequence[str] = ()
    curves: Sequence[Curve] = ()
    panel_size: tuple[int, int] = (250, 250)
    across: int = 2

    @cached_property
    def broad(self) -> ElementTree.Element:
        """The drawing as SVG."""
        return _svg(self, narrow=False)

    @cached_property
    def narrow(self) -> ElementTree.Element:
        """The same for a screen of ``NARROW`` pixels."""
        return _svg(self, narrow=True)


def write_figures(figures: Sequence[Figure], folder: Path) -> None:
    """``NAME.svg`` and ``NAME.csv`` for each figure; files of other figures are removed."""
    names = {f"{figure.name}.{end}" for figure in figures for end in ("csv", "svg")}
    for path in folder.glob("*.*"):
        if path.name not in names:
            path.unlink()
    for figure in figures:
        write_bytes(folder / f"{figure.name}.svg", [drawn(figure, "svg")])
        write_table(folder / f"{figure.name}.csv", list(figure.rows[0]), figure.rows)


def drawn(figure: Figure, format_: Format, style: Path | None = None) -> bytes:
    """A figure as a file; ``style`` is a matplotlib style sheet."""
    if format_ == "svg":
        root = figure.broad if style is None else _svg(figure, narrow=False, style=style)
        return bytes(ElementTree.tostring(root, encoding="utf-8")) + b"\n"
    metadata = {"pdf": {"CreationDate": None}, "png": {"Software": None}}[format_]
    file = io.BytesIO()
    with _styled(figure.name, style):
        canvas = _draw(figure, narrow=False)
        canvas.savefig(file, format=format_, dpi=DOTS, metadata=metadata)
    return file.getvalue()


def inline_svg(drawing: ElementTree.Element) -> str:
    """A drawing as an element of the page, in the colours of its text and of its ground."""
    root = deepcopy(drawing)
    for element in root.iter():
        for key in ("fill", "stroke"):
            if element.get(key) == INK:
                element.set(key, "currentColor")
            elif element.get(key) == PAPER:
                element.set("class", "paper")
    return ElementTree.tostring(root, encoding="unicode")


@contextmanager
def _styled(salt: str, style: Path | None) -> Iterator[None]:
    import matplotlib.style

    salted: Any = {"svg.hashsalt": salt}
    with warnings.catch_warnings():
        # A glyph that the font lacks is a text all the same; its reader's fonts may have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        with matplotlib.style.context(["default", STYLE, salted, *([style] if style else [])]):
            yield


def _svg(figure: Figure, *, narrow: bool, style: Path | None = None) -> ElementTree.Element:
    """A drawing as SVG that the page's security policy lets stand: attributes instead of styles. Ids
    that nothing refers to go, and marks get texts for those who point at them."""
    with _styled(f"{figure.name}{'-narrow' if narrow else ''}", style):
        canvas, file = _draw(figure, narrow=narrow), io.BytesIO()
        canvas.savefig(file, format="svg", metadata={"Date": None})
    hovers = {line.get_gid(): line.get_label() for axes in canvas.axes for line in axes.lines}
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(file.getvalue())
    for part in [
        *root.findall(f"{{{SVG}}}metadata"),
        *root.findall(f"{{{SVG}}}defs[{{{SVG}}}style]"),
    ]:
        root.remove(part)
    values = [value for element in root.iter() for value in element.attrib.values()]
    used = {value.strip("url()#") for value in values if "#" in value}
    for element in root.iter():
        for declaration in filter(None, element.attrib.pop("style", "").split(";")):
            key, _, value = declaration.partition(":")
            element.set(key.strip(), value.strip())
        id_ = element.get("id", "")
        if id_ in hovers:
            element.set("class", "mark")
            element.insert(0, hover := ElementTree.Element(f"{{{SVG}}}title"))
            hover.text = str(hovers[id_])
        if id_ not in used:
            element.attrib.pop("id", None)
    size = {key: root.attrib[key].removesuffix("pt") for key in ("width", "height")}
    about = {"class": "chart", "role": "img", "aria-label": _inert(figure.title)}
    root.attrib |= {**size, **about, "stroke-linejoin": "round"}
    return root


def _inert(text: str) -> str:
    """A text in one line, with a blank for what does not show and what no XML may hold."""
    return "".join(char if char.isprintable() else " " for char in text)


def _fitting(text: str, most: int = LONGEST) -> str:
    """An inert text, cut where it is longer."""
    text = _inert(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _draw(figure: Figure, *, narrow: bool) -> Canvas:
    import matplotlib
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    panels: dict[str, list[Mark]] = {}
    for mark in figure.marks:
        panels.setdefault(mark.panel, []).append(mark)
    series = list(figure.series) or list(dict.fromkeys(mark.series for mark in figure.marks))
    valued = {mark.series for mark in figure.marks}
    colours = matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]
    # Shapes and colours run with periods of 4 and 6, shifted, so that 24 series differ.
    looks = {
        name: {
            "color": colours[place % len(colours)],
            "marker": MARKERS[(place + place // 12) % len(MARKERS)],
        }
        for place, name in enumerate(series)
    }
    labels = [_fitting(name) + ("" if name in valued else " (no value)") for name in series]
    names = narrow and not figure.y_label  # above their lines
    across = min(figure.across, len(panels)) if figure.y_label and not narrow else 1
    left, (wide, high) = 56.0, figure.panel_size
    if not figure.y_label:
        longest = max(len(_fitting(mark.line)) for mark in figure.marks)
        left = 14 if narrow else 16 + CHARACTER * longest
        wide = NARROW - 38 if narrow else 440
    heights = [high] * math.ceil(len(panels) / across) if figure.y_label else [
        sum(_places(marks, names)[1]) for marks in panels.values()
    ]  # fmt: skip
    above = 8 + ROW * (1 + max(panel.count("\n") for panel in panels))
    width = left + across * wide + (across - 1) * (left + 20) + 24
    columns = max(1, int(width / (36 + CHARACTER * max(map(len, labels)))))
    head, below = ROW * math.ceil(len(series) / columns) + 8, 44
    height = head + sum(heights) + len(heights) * (above + below)
    canvas = Canvas(figsize=(width / 72, height / 72), dpi=72)
    grid = canvas.subplots(
        len(heights),
        across,
        squeeze=False,
        gridspec_kw={
            "left": left / width,
            "right": 1 - 24 / width,
            "top": 1 - (head + above) / height,
            "bottom": below / height,
            "height_ratios": heights,
            "hspace": (above + below) / (sum(heights) / len(heights)),
            "wspace": (left + 20) / wide,
        },
    )
    canvas.legend(
        [Line2D([], [], linestyle="none", **looks[name]) for name in series],
        labels,
        loc="upper left",
        ncols=columns,
    )
    cells = list(grid.flat)
    for axes in cells[len(panels) :]:
        axes.remove()
    for axes, (panel, marks) in zip(cells, panels.items(), strict=False):
        room = int((wide + 16) / 8.3)  # bold letters are wider
        axes.set_title("\n".join(_fitting(line, room) for line in panel.split("\n")))
        axes.set_xlabel(figure.x_label)
        if figure.y_label:
            _fill_plane(axes, figure, panel, marks, looks)
        else:
            _fill_lines(axes, figure, marks, looks, names=names)
    for place, line in enumerate(line for axes in canvas.axes for line in axes.lines):
        line.set_gid(f"mark-{place}")
    return canvas


def _places(marks: Sequence[Mark], names: bool) -> tuple[dict[str, float], list[float]]:
    """How far below a panel's top each of its lines begins, and the heights of the lines; ``names``:
    a name stands above each, as on a narrow screen."""
    series = len({mark.series for mark in marks})
    lines = list(dict.fromkeys(mark.line for mark in marks))
    height, name = ROW * max(1.2, 0.62 * series), ROW if names else 0
    places = {line: (name + height) * number + name for number, line in enumerate(lines)}
    return places, [name + height] * len(lines)


def _fill_lines(
    axes: Axes,
    figure: Figure,
    marks: Sequence[Mark],
    looks: Mapping[str, Mapping[str, Any]],
    *,
    names: bool,
) -> None:
    tops, heights = _places(marks, names)
    height = heights[0] - (ROW if names else 0)
    here = [name for name in looks if any(mark.series == name for mark in marks)]
    first, last = figure.ticks[0], figure.ticks[-1]
    axes.set(xlim=(first, last), ylim=(sum(heights), 0), xticks=figure.ticks)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks([] if names else [top + height / 2 for top in tops.values()])
    if not names:
        axes.set_yticklabels(list(map(_fitting, tops)))
    inks = [(INK, 0.7 if tick == 0 and first < 0 else 0.16) for tick in figure.ticks]
    judged = {mark.line for mark in marks if mark.x is not None}
    for line, top in tops.items():
        # Where a name stands above its line, the grid stops.
        axes.vlines(figure.ticks, top, top + height, inks, linewidth=0.8)
        if names:
            axes.text(first, top - 5, _fitting(line))
        if line not in judged:
            axes.text(first, top + height / 2, " nothing judged", va="center")
    for mark in marks:
        if mark.x is not None:
            y = tops[mark.line] + height * (here.index(mark.series) + 1) / (len(here) + 1)
            # What lies beyond the axis is drawn at its end.
            x = [min(max(end, first), last) for end in mark.x.ends()]
            hollow = {} if mark.sure else {"markerfacecolor": PAPER}
            _add(axes, x, [y] * 3, mark.hover, markevery=[1], **looks[mark.series], **hollow)


def _fill_plane(
    axes: Axes,
    figure: Figure,
    panel: str,
    marks: Sequence[Mark],
    looks: Mapping[str, Mapping[str, Any]],
) -> None:
    axes.set(ylim=(0, 1), yticks=(0, 0.25, 0.5, 0.75, 1), ylabel=figure.y_label)
    axes.yaxis.set_major_formatter("{x:g}")
    if figure.ticks:
        axes.set(xlim=(figure.ticks[0], figure.ticks[-1]), xticks=figure.ticks)
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        _sizes_below(axes, [mark.x.value for mark in marks if mark.x is not None])
    axes.grid(color=INK, linewidth=0.8, alpha=0.16)
    for curve in figure.curves:
        if curve.panel == panel:
            _add(axes, curve.x, curve.y, curve.hover, color=looks[curve.series]["color"])
    for mark in marks:
        if mark.x is not None and mark.y is not None:
            (low_x, at_x, high_x), (low_y, at_y, high_y) = mark.x.ends(), mark.y.ends()
            x = [low_x, at_x, high_x, math.nan, at_x, at_x]
            y = [at_y, at_y, at_y, math.nan, low_y, high_y]
            _add(axes, x, y, mark.hover, markevery=[1], **looks[mark.series])


def _add(axes: Axes, x: Sequence[float], y: Sequence[float], hover: str, **look: Any) -> None:
    """A line, with a mark where ``look`` has one; its label is what stands beside a pointer."""
    axes.plot(x, y, label=_inert(hover), clip_on=False, zorder=3, **look)


def _sizes_below(axes: Axes, sizes: Sequence[float]) -> None:
    """A logarithmic axis with a few round sizes: ``100M``."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    least, most = min(sizes), max(sizes)
    margin = max(1.12, (most / least) ** 0.08)
    axes.set(xscale="log", xlim=(least / margin, most * margin))
    decades = math.log10(most / least)
    leads = (1, 2, 5) if decades < 1.5 else (1, 3) if decades < 2.5 else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=leads))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: _short(size)))


def _short(size: float) -> str:
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= unit:
            return f"{size / unit:g}{letter}"
    return f"{size:g}"
