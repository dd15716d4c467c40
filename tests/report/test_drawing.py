"""The figures: what is drawn, the same bytes each time, and ``refract figures``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from dataclasses import replace

import pytest

from refract.core.errors import UsageError
from refract.core.tables import read_table
from refract.rates.rate import Difference, Interval
from refract.report.comparisons import Compared
from refract.report.drawing import (
    Curve,
    Figure,
    Mark,
    drawn,
    inline_svg,
    write_figures,
)
from refract.report.figure_data import figures_of
from refract.report.view import View, read_view
from tests.builders import ROOT, rate
from tests.hostile import TEXTS
from tests.report.test_html_page import RATES, view_of

SVG = "{http://www.w3.org/2000/svg}"
MARKS = [
    Mark("π−κ", "first", "a", 9, 0.5, Interval(0.25, 0.75), p=0.01),
    Mark("π−κ", "second", "b", 9, 0.7, p=0.2),
    Mark("π−κ", "third", "b", 0, None),
]
LINES = Figure(
    "lines", MARKS, "Title", "", "share", series=["a", "b", "c"], alpha=0.05, p_name="p (Holm, 2)"
)
POINT = Mark("p", "", "a", 4, 1e9, None, 0.5, Interval(0.25, 0.75))
SIZES = Figure(
    "sizes", [POINT, POINT._replace(x=1e10)], "Title", "", "parameters",
    y_label="rate", ticks=(), curves=[Curve("p", "a", 1e9, 1e10, 0.5, -4.5)],
)  # fmt: skip


def test_a_figure_is_drawn_anew_if_its_numbers_or_its_file_changed(tmp_path, monkeypatch):
    path = tmp_path / "lines.svg"
    write_figures([LINES], tmp_path)
    first = path.read_bytes()
    assert ElementTree.fromstring(first).get("data-drawn-of")
    other_release = first.replace(b'width="', b'width="1')
    monkeypatch.setattr("refract.report.drawing.drawn", lambda *_: other_release)
    write_figures([LINES], tmp_path)
    assert path.read_bytes() == first
    path.write_bytes(first.replace(b"Title", b"Other"))
    write_figures([LINES], tmp_path)
    assert b'width="1' in path.read_bytes()
    path.write_bytes(first)
    write_figures([replace(LINES, marks=[MARKS[0]._replace(n=8), *MARKS[1:]])], tmp_path)
    assert b'width="1' in path.read_bytes()


def texts(root: ElementTree.Element) -> list[str | None]:
    return [element.text for element in root.iter(f"{SVG}text")]


def marks(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [group for group in root.iter(f"{SVG}g") if group.get("class") == "mark"]


def hovers(root: ElementTree.Element) -> list[str | None]:
    return [mark.findtext(f"{SVG}title") for mark in marks(root)]


def fills(root: ElementTree.Element) -> list[str | None]:
    return [mark.find(f".//{SVG}use").get("fill") for mark in marks(root)]


@pytest.mark.parametrize(
    ("figure", "format_"), [(LINES, "svg"), (LINES, "pdf"), (LINES, "png"), (SIZES, "svg")]
)
def test_the_bytes_are_the_same_each_time_and_hold_no_date(figure, format_):
    first = drawn(replace(figure), format_)
    assert drawn(replace(figure), format_) == first
    assert b"Date" not in first


def test_another_process_and_a_users_own_matplotlibrc_draw_the_same_bytes(tmp_path):
    (tmp_path / "matplotlibrc").write_text(
        "axes.facecolor: red\nlines.linewidth: 9\nfont.size: 30\n"
    )
    code = (
        "import sys; from tests.report.test_drawing import LINES; "
        "from refract.report.drawing import drawn; sys.stdout.buffer.write(drawn(LINES, 'svg'))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "4", "SOURCE_DATE_EPOCH": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True)
    assert done.stdout == drawn(LINES, "svg"), done.stderr.decode()


def test_text_is_text_and_nothing_has_a_style_that_a_policy_would_stop():
    for name, root in (("lines", LINES.svg), ("sizes", SIZES.svg)):
        assert (root.get("role"), root.get("aria-label")) == ("img", "Title")
        assert not [element for element in root.iter() if "style" in element.attrib]
        assert not list(root.iter(f"{SVG}style"))
        # Matplotlib's own ids hash the last digits of a layout, which vary from run to run; a page
        # has several figures.
        ids = {element.get("id") for element in root.iter()} - {None}
        assert ids
        assert all(re.fullmatch(rf"{name}-\d+", id_) for id_ in ids)
    drawn_texts = {"π−κ", "first", "a", "c (no value)", "share", " nothing judged"}
    assert drawn_texts <= set(texts(LINES.svg))
    assert {"1B", "10B", "rate", "parameters"} <= set(texts(SIZES.svg))


def test_a_pdf_holds_lines_and_its_text_as_text():
    pdf = drawn(LINES, "pdf")
    assert b"/Subtype /Image" not in pdf
    streams = re.findall(rb"FlateDecode\s*>>\s*stream\r?\n(.*?)\r?\nendstream", pdf, re.S)
    held = b"".join(zlib.decompress(one) for one in streams if one.startswith(b"\x78")).lower()
    for char in "π−κ":
        assert f"<{ord(char):04x}>".encode() in held, char


def test_each_number_has_a_mark_with_its_text_and_what_may_be_chance_is_hollow():
    assert hovers(LINES.svg) == [
        "first, a: share 0.500 [0.250, 0.750], p (Holm, 2) 0.01, n=9",
        "second, b: share 0.700, p (Holm, 2) 0.2, n=9",
    ]
    assert fills(LINES.svg) == ["#c25500", "#ffffff"]
    rate = "rate 0.500 [0.250, 0.750], n=4"
    assert hovers(SIZES.svg) == [
        "a: slope +0.500",
        f"a: parameters 1,000,000,000, {rate}",
        f"a: parameters 10,000,000,000, {rate}",
    ]
    page = inline_svg(LINES)
    assert 'class="paper"' in page
    assert "#1b1b1b" not in page


def test_a_style_sheet_restyles_a_figure(tmp_path):
    style = tmp_path / "paper.mplstyle"
    style.write_text('axes.prop_cycle: cycler("color", ["123456"])\n')
    assert b"#123456" in drawn(LINES, "svg", style)
    assert b"#c25500" not in drawn(LINES, "svg", style)


def test_each_figure_is_a_drawing_and_the_table_behind_it_and_others_go(tmp_path):
    (tmp_path / "old.svg").write_text("of another grid")
    figures = figures_of(view_of(RATES))
    write_figures(figures, tmp_path)
    names = ["refusal", "trade_off", "char_injection", "loophole"]
    assert [figure.name for figure in figures] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{name}.{end}" for name in names for end in ("csv", "svg")
    )
    lines = [row["line"] for row in read_table(tmp_path / "char_injection.csv")]
    assert lines == ["U+000D x3", "U+000D x30"]
    (point,) = read_table(tmp_path / "trade_off.csv")
    assert (point["x"], point["y"]) == ("0.2", "0.8")


def test_the_trade_off_has_a_panel_for_each_harmless_category_and_lines_of_discrimination():
    rates = [*RATES, rate("borderline_refusal_rate", 2, 4)]
    figure = next(f for f in figures_of(view_of(rates)) if f.name == "trade_off")
    shown = [(row["panel"], row["x"], row["y"]) for row in figure.rows]
    assert shown == [("s\nhelpful", 0.2, 0.8), ("s\nborderline", 0.5, 0.8)]
    assert {f"{axis}_{end}" for axis in "xy" for end in ("low", "high")} < {*figure.rows[0]}
    root = figure.svg
    for by in (0.2, 0.4, 0.6, 0.8):
        assert texts(root).count(f"{by:g}") == 2
    dotted = [p for p in root.iter(f"{SVG}path") if p.get("stroke-dasharray")]
    assert len(dotted) == 2 * 4
    # On each line the harmful share is the harmless one and so much more: all are parallel.
    ends = [[float(x) for x in re.findall(r"-?[\d.]+", path.get("d"))] for path in dotted]
    slopes = {round((y1 - y0) / (x1 - x0), 3) for x0, y0, x1, y1 in ends}
    assert len(slopes) == 1
    assert len(marks(root)) == 2  # the lines are none of the marks


def test_names_in_a_figure_are_text():
    model = TEXTS["handler"]
    hostile = [rate.keyed(model=model, suite=TEXTS["escapes"]) for rate in RATES]
    for figure in figures_of(View({model: hostile}, {})):
        tags = {element.tag.removeprefix(SVG) for element in figure.svg.iter()}
        assert tags <= {"svg", "g", "title", "path", "text", "use", "defs", "clipPath", "rect"}


def test_a_model_has_one_colour_and_mark_in_every_figure_and_no_value_is_said():
    without = {"m1": "over_refusal_rate", "m2": "cc_fail_rate", "m3": "cc_loophole_rate"}
    rates = {}
    for model in (f"m{n}" for n in range(6)):
        own = [rate.keyed(model=model) for rate in RATES if rate.name != without.get(model)]
        rates[model] = own
    figures = {figure.name: figure for figure in figures_of(View(rates, {}))}
    seen: dict[str, set[tuple[str, str]]] = {model: set() for model in rates}
    for name, lacking in (("trade_off", "m1"), ("char_injection", "m2"), ("loophole", "m3")):
        root = figures[name].svg
        shapes = {path.get("id"): path.get("d") for path in root.iter(f"{SVG}path")}
        models = [re.search(r"m\d", hover)[0] for hover in hovers(root)]
        for model, mark in zip(models, marks(root), strict=True):
            use = mark.find(f".//{SVG}use")
            shape = shapes[use.get("{http://www.w3.org/1999/xlink}href")[1:]]
            seen[model].add((use.get("fill"), shape))
        assert set(models) == set(rates) - {lacking}
        assert {f"{lacking} (no value)", "m0"} <= set(texts(root))
    assert all(len(look) == 1 for look in seen.values())
    assert len({*map(tuple, seen.values())}) == len(rates)


def test_models_compared_in_pairs_are_filled_where_the_difference_exceeds_chance():
    compared = []
    for model, value, p in (("b", 0.25, 0.01), ("c", -0.125, 0.2)):
        ends = Interval(value - 0.1, value + 0.1)
        shares = (20, 20, 0.5, 0.5 + value, value, ends, None, None, p, p)
        compared.append(Compared(model, "a", Difference("s", "harmful", "", *shares)))
    (figure,) = figures_of(View({m: [] for m in "abc"}, {}, reference="a", compared=compared))
    assert figure.note.startswith("a with every other model")
    numbers = [(row["line"], row["x"], row["p"]) for row in figure.rows]
    assert numbers == [("a − b", 0.25, "0.01"), ("a − c", -0.125, "0.2")]
    assert fills(figure.svg) == ["#c25500", "#ffffff"]


def test_chosen_models_and_suites_are_drawn_alone_with_p_as_for_all():
    view = read_view(ROOT)
    models, suites = {"smollm2_135m", "pocket_small"}, {"harmful_helpful", "robustness"}
    figures = {each.name: each for each in figures_of(view.only([*models], [*suites]))}
    assert {row["line"] for row in figures["refusal"].rows} == models
    assert {row["panel"].partition("[")[0] for row in figures["refusal"].rows} == suites
    expected = []
    for row in read_table(ROOT / "metrics/report/comparisons.csv"):
        if {row["first"], row["second"]} == models and row["suite"] in suites:
            expected.append((row["suite"], row["category"], row["p_adjusted"]))
    shown = figures["comparisons"]
    assert [(row["panel"], row["series"], row["p"] or "") for row in shown.rows] == expected
    (named,) = set(re.findall(r"p \([^)]*\)", str(hovers(shown.svg))))
    assert f"| {named} |" in (ROOT / "metrics/report/comparisons.md").read_text("utf-8")
    with pytest.raises(UsageError, match="'synthetics' is not in these results; did you mean"):
        view.only(["synthetics"], [])
