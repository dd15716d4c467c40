"""``refract figures``: the report's drawings as PDF and PNG, of chosen models and suites."""

from __future__ import annotations

import csv
import io
import re
import zlib

import pytest

from refract.core.errors import UsageError
from refract.report.charts import Drawing, Figure, text, write_figures
from refract.report.converting import drawn
from refract.report.inputs import Inputs, read_inputs
from tests.builders import ROOT

DRAWING = Drawing(40, 30, text(2, 12, "π−κ"))
DRAWN = Figure("one", "Title", "", DRAWING, DRAWING, [{"a": 1}])


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return read_inputs(ROOT)


def converted(figure: Figure, format_: str) -> bytes:
    try:
        return drawn(figure, format_)  # type: ignore[arg-type]
    except UsageError as error:
        pytest.skip(str(error))


def test_every_figure_converts_to_lines_and_letters(inputs):
    for figure in inputs.figures():
        pdf = converted(figure, "pdf")
        assert pdf.startswith(b"%PDF-")
        assert b"/Subtype /Image" not in pdf


def test_the_bytes_are_the_same_each_time():
    pdf = converted(DRAWN, "pdf")
    assert (pdf, drawn(DRAWN, "png")) == (drawn(DRAWN, "pdf"), drawn(DRAWN, "png"))
    assert b"CreationDate" not in pdf


def test_a_pdf_holds_its_text_as_text():
    found = converted(DRAWN, "pdf")
    streams = [
        zlib.decompress(held)
        for held in re.findall(rb"FlateDecode\s*>>\s*stream\r?\n(.*?)\r?\nendstream", found, re.S)
        if held.startswith(b"\x78")
    ]
    maps = b"".join(one for one in streams if b"begincmap" in one).lower()
    for char in "π−κ":
        assert f"<{ord(char):04x}>".encode() in maps, char


def test_a_png_is_three_dots_a_unit_on_white():
    from PIL import Image

    with Image.open(io.BytesIO(converted(DRAWN, "png"))) as image:
        assert image.size == (120, 90)
        assert image.convert("RGBA").getpixel((119, 89)) == (255, 255, 255, 255)


def test_an_svg_is_that_of_the_report(tmp_path):
    write_figures([DRAWN], tmp_path)
    assert drawn(DRAWN, "svg") == (tmp_path / "one.svg").read_bytes()


def test_chosen_models_and_suites_are_drawn_alone_with_p_as_for_all(inputs, tmp_path):
    models, suites = ["synthetic", "pocket_small"], ["harmful_helpful", "robustness"]
    found = {figure.name: figure.rows for figure in inputs.only(models, suites).figures()}
    assert {row["line"] for row in found["refusal"]} == set(models)
    assert {row["panel"].partition("[")[0] for row in found["refusal"]} == set(suites)
    with open(ROOT / "metrics/report/comparisons.csv", newline="", encoding="utf-8") as file:
        expected = [
            (row["suite"], row["category"], row["p_adjusted"])
            for row in csv.DictReader(file)
            if {row["first"], row["second"]} == set(models)
            and row["suite"].partition("[")[0] in suites
        ]
    assert [(r["suite"], r["category"], r["p_adjusted"]) for r in found["comparisons"]] == expected


def test_names_that_are_not_there_are_said(inputs, cli, monkeypatch):
    with pytest.raises(UsageError, match="'synthetics' is not in these results; did you mean"):
        inputs.only(["synthetics"], [])
    cli("init", "p")
    monkeypatch.chdir("p")
    done = cli("figures", "--out", "figures")
    assert done.code == 1
    assert "run: dvc repro" in done.err


def test_the_command_writes_what_was_asked_for(inputs, cli, monkeypatch, tmp_path):
    monkeypatch.setattr("refract.project.project_root", lambda: ROOT)
    monkeypatch.setattr("refract.report.inputs.read_inputs", lambda root: inputs)
    done = cli("figures", "--out", tmp_path, "--format", "svg", "--figure", "refusal")
    assert done.out == f"{tmp_path}/refusal.svg: Refusal by category\n"
    assert [path.name for path in tmp_path.iterdir()] == ["refusal.svg"]
    done = cli("figures", "--out", tmp_path, "--figure", "refusals")
    names = ", ".join(figure.name for figure in inputs.figures())
    assert (done.code, done.err) == (
        2,
        f"refract: no figure 'refusals' of these results; did you mean 'refusal'?; there are: {names}\n",
    )
