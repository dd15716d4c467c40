"""Figures of dots and intervals, drawn by matplotlib, as files and as elements of the
page.

The bytes depend on the numbers and on matplotlib's version alone: a user's
matplotlibrc is not read, ids come from a salt, and nothing holds a date. A file that
holds the same numbers, drawn by this code, is not drawn anew. Texts are texts and not
outlines. ``refract figures --style`` adds a style sheet of the user's (colours come
from its ``axes.prop_cycle``).
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from refract.core.decimals import estimate_text
from refract.core.jsonl import sha256_file, sha256_json, write_bytes
from refract.core.showing import printable
from refract.core.tables import write_table
from refract.core.types import Row
from refract.rates.rate import Interval, rounded
from refract.report.markdown import TEMPLATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Format = Literal["pdf", "png", "svg"]
ROW, CHARACTER = 18, 7.3  # height of a line, and width of a character, rounded up
LONGEST = 45  # characters of a name; longer ones are cut
LINE_WIDTH = 440  # of a panel of named lines
DOTS = 216  # of a PNG, an inch: three for each unit
INK, PAPER = "#1b1b1b", "#ffffff"
MARKERS = ("o", "s", "^", "D")
STYLE = TEMPLATES / "figures.mplstyle"
SVG = "http://www.w3.org/2000/svg"
_DRAWN_OF = re.compile(rb' data-drawn-of="[0-9a-f]{64}"')


class Mark(NamedTuple):
    """One number of a figure: in which panel, on which line, of which series.

    ``x`` is None where nothing was judged. ``y`` is the second number of a figure
    with two axes. ``answers`` filters the page's answers by those behind it.
    """

    panel: str
    line: str
    series: str
    n: int
    x: float | None
    x_interval: Interval | None = None
    y: float | None = None
    y_interval: Interval | None = None
    p: float | None = None
    answers: Mapping[str, str] = {}


class Curve(NamedTuple):
    """A logistic regression on log10(x), drawn through a panel between two x, of one
    series."""

    panel: str
    series: str
    first: float
    last: float
    slope: float
    intercept: float


@dataclass(frozen=True)
class Figure:
    """What a figure shows.

    Without a ``y_label`` each line of a panel has a name, and marks lie on it.
    Without ``ticks`` the first axis shows sizes in powers of ten. ``series``, by
    default those of the marks, keep their mark and colour in every figure; the legend
    says which have no value here. ``discrimination`` are differences of the two axes
    at each of which a line is drawn and labelled (Youden's J). With ``alpha``, marks
    whose p is above it, or that have none, are hollow; ``p_name`` is what the tables
    call that p.
    """

    name: str
    marks: Sequence[Mark]
    title: str
    note: str
    x_label: str
    y_label: str = ""
    ticks: Sequence[float] = (0, 0.2, 0.4, 0.6, 0.8, 1)
    series: Sequence[str] = ()
    curves: Sequence[Curve] = ()
    discrimination: Sequence[float] = ()
    alpha: float | None = None
    p_name: str = "p"
    panel_size: Sequence[int] = (250, 250)
    across: int = 2

    @cached_property
    def svg(self) -> ElementTree.Element:
        """The drawing as SVG."""
        return _svg(self, None)

    @cached_property
    def rows(self) -> list[Row]:
        """The table behind the figure, without the columns that are empty in all
        rows."""
        rows: list[Row] = []
        filled = set()
        for mark in self.marks:
            row: Row = {"panel": mark.panel, "line": mark.line, "series": mark.series, "n": mark.n}
            axes = ("x", mark.x, mark.x_interval), ("y", mark.y, mark.y_interval)
            for axis, value, interval in axes:
                low, high = interval or (None, None)
                for key, number in ((axis, value), (f"{axis}_low", low), (f"{axis}_high", high)):
                    row[key] = None if number is None else rounded(number)
            row["p"] = None if mark.p is None else f"{mark.p:.4g}"
            filled |= {key for key, value in row.items() if value not in ("", None)}
            rows.append(row)
        return [{key: row[key] for key in row if key in filled} for row in rows]


def write_figures(figures: Sequence[Figure], folder: Path) -> None:
    """Writes ``NAME.svg`` and ``NAME.csv`` for each figure, and removes others."""
    kept = set()
    for figure in figures:
        path = folder / f"{figure.name}.svg"
        table = folder / f"{figure.name}.csv"
        if not is_drawn(figure, path):
            before, tag, after = drawn(figure, "svg").partition(b"<svg")
            write_bytes(path, [before, tag, _drawn_of(figure, before + tag + after), after])
        write_table(table, list(figure.rows[0]), figure.rows)
        kept |= {path, table}
    for path in set(folder.glob("*.*")) - kept:
        path.unlink()


def is_drawn(figure: Figure, path: Path) -> bool:
    """Whether a file holds this figure, drawn by this code and not edited since, by any
    release of matplotlib."""
    content = path.read_bytes() if path.is_file() else b""
    stated = _DRAWN_OF.search(content)
    if stated is None:
        return False
    return stated[0] == _drawn_of(figure, content.replace(stated[0], b"", 1))


def _drawn_of(figure: Figure, content: bytes) -> bytes:
    """An attribute with a hash of what a figure shows, of this code and of the file."""
    shown = {field.name: _portable(getattr(figure, field.name)) for field in fields(figure)}
    shown["code"] = sha256_file(Path(__file__)) + sha256_file(STYLE)
    shown["content"] = hashlib.sha256(content).hexdigest()
    return f' data-drawn-of="{sha256_json(shown)}"'.encode()


def _portable(value: Any) -> Any:
    """A value with the digits of its numbers that all processors agree on."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return list(map(_portable, value)) if isinstance(value, list | tuple) else value


def drawn(figure: Figure, format_: Format, style: Path | None = None) -> bytes:
    """A figure as a file; ``style`` is a matplotlib style sheet."""
    if format_ != "svg":
        return _saved(figure, format_, style)[0]
    root = figure.svg if style is None else _svg(figure, style)
    return bytes(ElementTree.tostring(root, encoding="utf-8")) + b"\n"


def inline_svg(figure: Figure) -> str:
    """A figure as an element of the page, in the colours of its text and ground."""
    text = ElementTree.tostring(figure.svg, encoding="unicode")
    return text.replace(f'"{INK}"', '"currentColor"').replace(f'fill="{PAPER}"', 'class="paper"')


def _saved(figure: Figure, format_: Format, style: Path | None) -> tuple[bytes, Canvas]:
    import matplotlib.style
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    dated = {"pdf": {"CreationDate": None}, "png": {"Software": None}, "svg": {"Date": None}}
    styles: list[Any] = ["default", STYLE, {"svg.hashsalt": figure.name}]
    styles += [style] if style else []
    file = io.BytesIO()
    with warnings.catch_warnings(), matplotlib.style.context(styles):
        # A glyph that the font lacks is a text all the same; its reader's fonts may have it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas = _draw(figure)
        if format_ == "svg":  # laid out here, since savefig draws everything once more for it
            FigureCanvasSVG(canvas)
            layout = canvas.get_layout_engine()
            if layout:
                layout.execute(canvas)
            canvas.set_layout_engine(None)
        canvas.savefig(file, format=format_, dpi=DOTS, metadata=dated[format_])
    return file.getvalue(), canvas


def _svg(figure: Figure, style: Path | None) -> ElementTree.Element:
    """A drawing as SVG that the page's security policy lets stand: attributes instead
    of styles. Ids that nothing refers to go, and marks get texts for those who point
    at them."""
    text, canvas = _saved(figure, "svg", style)
    hovers: dict[str | None, str] = {}
    for axes in canvas.axes:
        hovers |= {line.get_gid(): str(line.get_label()) for line in axes.lines}
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(text)
    for name in ("metadata", f"defs[{{{SVG}}}style]"):
        for part in root.findall(f"{{{SVG}}}{name}"):
            root.remove(part)
    ids: dict[str, str] = {}
    for element in root.iter():
        for declaration in filter(None, element.attrib.pop("style", "").split(";")):
            key, _, value = declaration.partition(":")
            element.set(key.strip(), value.strip())
        for key, value in element.attrib.items():
            if value.startswith("url(#") or key.endswith("href"):
                # By their order: matplotlib's own hash a layout, whose last digits vary by run.
                name = value.strip("url()#")
                ids.setdefault(name, f"{figure.name}-{len(ids)}")
                element.set(key, value.replace(name, ids[name]))
    for element in root.iter():
        id_ = element.get("id", "")
        if id_ in hovers:
            element.set("class", "mark")
            hover = ElementTree.Element(f"{{{SVG}}}title")
            hover.text = hovers[id_]
            element.insert(0, hover)
        if id_ in ids:
            element.set("id", ids[id_])
        else:
            element.attrib.pop("id", None)
    root.attrib |= {
        "width": root.attrib["width"].removesuffix("pt"),
        "height": root.attrib["height"].removesuffix("pt"),
        "class": "chart",
        "role": "img",
        "aria-label": printable(figure.title),
        "stroke-linejoin": "round",
    }
    return root


def _fitting(text: str, most: int = LONGEST) -> str:
    """A text in which every character shows, cut where it is longer."""
    text = printable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _draw(figure: Figure) -> Canvas:
    import matplotlib
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    panels: dict[str, list[Mark]] = {}
    for mark in figure.marks:
        panels.setdefault(mark.panel, []).append(mark)
    valued = {mark.series: None for mark in figure.marks}
    series = list(figure.series or valued)
    colours = matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]
    looks, labels, handles = {}, [], []
    for place, name in enumerate(series):
        # Shapes and colours run with periods of 4 and 6, shifted, so that 24 series differ.
        marker = MARKERS[(place + place // 12) % len(MARKERS)]
        looks[name] = {"color": colours[place % len(colours)], "marker": marker}
        labels.append(_fitting(name) + ("" if name in valued else " (no value)"))
        handles.append(Line2D([], [], linestyle="none", **looks[name]))
    if figure.y_label:
        across = min(figure.across, len(panels))
        panel_width, high = figure.panel_size
        width = 24.0 + across * (panel_width + 56)
        heights = [float(high)] * math.ceil(len(panels) / across)
    else:
        across, panel_width = 1, LINE_WIDTH
        longest = max(len(_fitting(mark.line)) for mark in figure.marks)
        width = 40 + panel_width + CHARACTER * longest
        heights = []
        for marks in panels.values():
            heights.append(_height(marks) * len({mark.line for mark in marks}))
    columns = max(1, int(width / (36 + CHARACTER * max(map(len, labels)))))
    above = ROW * (math.ceil(len(series) / columns) + 1)
    height = above + sum(heights) + 76 * len(heights)
    canvas = Canvas(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
    cells = list(canvas.subplots(len(heights), across, squeeze=False, height_ratios=heights).flat)
    canvas.legend(handles, labels, loc="outside upper left", ncols=columns)
    for axes in cells[len(panels) :]:
        axes.remove()
    for axes, (panel, marks) in zip(cells, panels.items(), strict=False):
        room = int((panel_width + 16) / 8.3)  # bold letters are wider
        # At a y of its own: to find one, matplotlib measures all labels of the other axis.
        axes.set_title("\n".join(_fitting(line, room) for line in panel.split("\n")), y=1.0)
        axes.set_xlabel(figure.x_label)
        axes.grid(axis="both" if figure.y_label else "x", color=INK, linewidth=0.8, alpha=0.16)
        _fill(axes, figure, panel=panel, marks=marks, looks=looks)
    for place, line in enumerate(line for axes in canvas.axes for line in axes.lines):
        line.set_gid(f"mark-{place}")
    return canvas


def _height(marks: Sequence[Mark]) -> float:
    """The height of each named line of a panel."""
    return ROW * max(1.2, 0.62 * len({mark.series for mark in marks}))


def _fill(
    axes: Axes,
    figure: Figure,
    *,
    panel: str,
    marks: Sequence[Mark],
    looks: Mapping[str, Mapping[str, Any]],
) -> None:
    """Draws a panel: its axes, its curves, and each mark as a cross of its intervals;
    the label of a line is what stands beside a pointer."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    def plot(x: Sequence[float], y: Sequence[float], **looks: Any) -> None:
        axes.add_artist(Line2D(x, y, clip_on=False, zorder=3, **looks))

    if figure.ticks:
        first, last = figure.ticks[0], figure.ticks[-1]
        axes.set(xlim=(first, last), xticks=figure.ticks)
        axes.xaxis.set_major_formatter("{x:g}")
    else:
        first, last = 0.0, math.inf
        _sizes_below(axes, [mark.x for mark in marks if mark.x is not None])
    if figure.y_label:
        axes.set(ylim=(0, 1), yticks=(0, 0.25, 0.5, 0.75, 1), ylabel=figure.y_label)
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        marks = _on_named_lines(axes, marks, list(looks))
        if first < 0:
            axes.vlines(0, *axes.get_ylim(), INK, linewidth=0.8, alpha=0.7)
    dotted: dict[str, Any] = {"linewidths": 1, "linestyles": [(0, (1, 3))], "alpha": 0.7}
    equal = [[(0, by), (1 - by, 1)] for by in figure.discrimination]
    axes.add_collection(LineCollection(equal, colors=INK, **dotted))
    for by in figure.discrimination:
        label = axes.text(0.93 - by, 0.93, f"{by:g}", size="small", ha="center", va="center")
        label.set(zorder=2, bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.5})
    for curve in figure.curves:
        if curve.panel == panel:
            steps = [curve.first * (curve.last / curve.first) ** (n / 40) for n in range(41)]
            # The logistic function by tanh, which overflows nowhere.
            logits = [curve.intercept + curve.slope * math.log10(x) for x in steps]
            rates = [rounded((1 + math.tanh(logit / 2)) / 2) for logit in logits]
            hover = f"{curve.series}: slope {curve.slope:+.3f}"
            plot(steps, rates, label=printable(hover), color=looks[curve.series]["color"])
    for mark in marks:
        if mark.x is not None and mark.y is not None:
            left, right = mark.x_interval or (mark.x, mark.x)
            low, high = mark.y_interval or (mark.y, mark.y)
            # What lies beyond the axis is drawn at its end.
            left, at, right = (min(max(end, first), last) for end in (left, mark.x, right))
            x = [left, at, right, math.nan, at, at]
            y = [mark.y, mark.y, mark.y, math.nan, low, high]
            sure = figure.alpha is None or (mark.p is not None and mark.p <= figure.alpha)
            hollow: dict[str, Any] = {} if sure else {"markerfacecolor": PAPER}
            hover = printable(_hover(mark, figure))
            plot(x, y, label=hover, markevery=[1], **looks[mark.series], **hollow)


def _hover(mark: Mark, figure: Figure) -> str:
    """What stands beside a pointer."""
    names = ", ".join(filter(None, (mark.line, mark.series)))
    sign = "+" if figure.ticks and figure.ticks[0] < 0 else ""
    x = f"{mark.x:,.0f}" if not figure.ticks else estimate_text(mark.x, mark.x_interval, sign)
    numbers = [f"{figure.x_label} {x}"]
    if figure.y_label:
        numbers.append(f"{figure.y_label} {estimate_text(mark.y, mark.y_interval)}")
    if mark.p is not None:
        numbers.append(f"{figure.p_name} {mark.p:.2g}")
    return f"{names}: {', '.join(numbers)}, n={mark.n}"


def _on_named_lines(axes: Axes, marks: Sequence[Mark], series: Sequence[str]) -> list[Mark]:
    """Gives a panel its named lines, and each mark its place there."""
    lines = list(dict.fromkeys(mark.line for mark in marks))
    drawn_here = {mark.series for mark in marks}
    here = [name for name in series if name in drawn_here]
    height = _height(marks)
    middles = {line: height * (number + 0.5) for number, line in enumerate(lines)}
    axes.set(ylim=(height * len(lines), 0), yticks=list(middles.values()))
    axes.set_yticklabels(list(map(_fitting, lines)))
    for line in set(lines) - {mark.line for mark in marks if mark.x is not None}:
        axes.text(axes.get_xlim()[0], middles[line], " nothing judged", va="center")
    shifts = {name: (n + 1) / (len(here) + 1) - 0.5 for n, name in enumerate(here)}
    return [m._replace(y=middles[m.line] + height * shifts[m.series]) for m in marks]


def _sizes_below(axes: Axes, sizes: Sequence[float]) -> None:
    """A logarithmic axis with a few round sizes: ``100M``."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    billions = EngFormatter(sep="")
    least, most = min(sizes), max(sizes)
    margin = max(1.12, (most / least) ** 0.08)
    axes.set(xscale="log", xlim=(least / margin, most * margin))
    decades = math.log10(most / least)
    leads = (1, 2, 5) if decades < 1.5 else (1, 3) if decades < 2.5 else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=leads))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda size, _: billions(size).replace("G", "B"))
