"""The figures: what is drawn, the same bytes each time. Where every mark is, tests.golden keeps."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from refract.core.tables import read_table
from refract.rates.rate import Interval
from refract.report.drawing import Figure, Mark, drawn, write_figures
from refract.report.figure_data import figures_of
from refract.report.view import View
from tests.builders import ROOT
from tests.hostile import TEXTS
from tests.report.test_html_page import RATES, view_of

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}"
MARKS = [
    Mark("π−κ", "first", "a", 9, 0.5, Interval(0.25, 0.75)),
    Mark("π−κ", "second", "b", 9, 0.7),
    Mark("π−κ", "third", "b", 0, None),
]
LINES = Figure("lines", MARKS, "Title", "", "share", series=["a", "b", "c"])
POINT = Mark("p", "", "a", 4, 0.25, None, 0.5, Interval(0.25, 0.75))
CROSSES = Figure("crosses", [POINT], "Title", "", "x", y_label="y")


def root_of(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(drawn(figure, "svg"))


def texts(figure: Figure) -> list[str | None]:
    return [element.text for element in root_of(figure).iter(f"{SVG}text")]


def looks(figure: Figure) -> list[tuple[str, str]]:
    """The fill and the shape of each mark, in the order of the marks."""
    root = root_of(figure)
    shapes = {f"#{path.get('id')}": path.get("d") for path in root.iter(f"{SVG}path")}
    found = []
    for group in root.iter(f"{SVG}g"):
        for use in group.iter(f"{SVG}use") if group.get("id", "").startswith("axes_") else ():
            fill = re.search(r"fill: (#\w+)", use.get("style"))[1]
            found.append((fill, shapes[use.get(f"{XLINK}href")]))
    return found


@pytest.mark.parametrize("format_", ["svg", "pdf"])
def test_the_bytes_are_the_same_each_time_and_hold_no_date(format_):
    first = drawn(LINES, format_)
    assert drawn(replace(LINES), format_) == first
    assert b"Date" not in first


def test_another_process_and_a_users_own_matplotlibrc_draw_the_same_bytes(tmp_path):
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: red\nfont.size: 30\n")
    code = (
        "import sys; from tests.report.test_drawing import LINES; "
        "from refract.report.drawing import drawn; sys.stdout.buffer.write(drawn(LINES, 'svg'))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "4", "SOURCE_DATE_EPOCH": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True)
    assert done.stdout == drawn(LINES, "svg"), done.stderr.decode()


def test_texts_are_texts_and_nothing_is_clipped_by_an_id_that_hashes_a_layout():
    assert {"π−κ", "first", "a", "c (no value)", "share", " nothing judged"} <= set(texts(LINES))
    assert b"clip-path" not in drawn(LINES, "svg") + drawn(CROSSES, "svg")


def test_each_figure_is_a_drawing_and_the_table_behind_it_and_others_go(tmp_path):
    (tmp_path / "old.svg").write_text("of another grid")
    figures = figures_of(view_of(RATES))
    write_figures(figures, tmp_path)
    names = ["refusal", "trade_off"]
    assert [figure.name for figure in figures] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{name}.{end}" for name in names for end in ("csv", "svg")
    )
    (point,) = read_table(tmp_path / "trade_off.csv")
    assert (point["x"], point["y"]) == ("0.2", "0.8")


def test_names_in_a_figure_are_text():
    model = TEXTS["handler"]
    hostile = [rate.keyed(model=model, suite=TEXTS["escapes"]) for rate in RATES]
    harmless = [rate.keyed(model="one", suite="s") for rate in RATES]
    for figure, plain in zip(
        figures_of(View({model: hostile}, {})), figures_of(View({"one": harmless}, {})), strict=True
    ):
        tags = [{element.tag for element in root_of(each).iter()} for each in (figure, plain)]
        assert tags[0] == tags[1]


def test_each_model_has_its_own_colour_and_mark_and_no_value_is_said():
    rates = {}
    for model in (f"m{n}" for n in range(6)):
        left_out = "over_refusal_rate" if model == "m1" else None
        rates[model] = [rate.keyed(model=model) for rate in RATES if rate.name != left_out]
    figure = next(each for each in figures_of(View(rates, {})) if each.name == "trade_off")
    shown = [mark.series for mark in figure.marks if mark.x is not None]
    assert set(shown) == set(rates) - {"m1"}
    assert {"m1 (no value)", "m0"} <= set(texts(figure))
    assert len({*looks(figure)}) == len(shown)
