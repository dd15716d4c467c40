"""An installed package adds a page to the report and a format to the exporters."""

from __future__ import annotations

import pytest

from refract.core.errors import ParamsError
from refract.core.registry import find
from refract.export import EXPORTERS, Export
from refract.report.page_data import page_data
from refract.report.sections import Inputs, report_pages
from refract.report.view import View
from tests.builders import rate, write_distribution

MODULE = '''
class Lengths:
    """How many rates there are."""

    title = "How long answers are"

    def markdown(self, inputs):
        return f"{len(inputs.view.every)} rates of {', '.join(inputs.view.models)}"


lengths = Lengths()


class Silent:
    title = "Nothing"

    def markdown(self, inputs):
        return ""


silent = Silent()


def lines(export):
    (export.out / "lines.txt").write_text("one\\n")
    yield f"{export.out / 'lines.txt'}: 1 line"
'''
POINTS = """
[refract.sections]
lengths = answer_lengths:lengths
silent = answer_lengths:silent
judges = answer_lengths:lengths

[refract.exporters]
lines = answer_lengths:lines
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    write_distribution(tmp_path / "site", "answer_lengths", POINTS, answer_lengths=MODULE)
    monkeypatch.syspath_prepend(tmp_path / "site")


def test_a_section_of_a_package_is_a_page_behind_the_report_that_links_to_it(installed):
    view = View({"one": [rate("refusal_rate", 1, 2)]}, {})
    pages = report_pages(Inputs(view, page_data([]), {}))
    assert pages["lengths"] == (
        "# How long answers are\n\nA part of the [report](../report.md).\n\n1 rates of one\n"
    )
    assert "- [How long answers are](report/lengths.md)" in pages["report"]
    assert "silent" not in pages
    # A name of the report's own stays with it.
    assert pages["judges"].startswith("# How good the judges are")


def test_an_exporter_of_a_package_is_found_by_its_name(installed, tmp_path):
    exporter = find(EXPORTERS, "lines", "--format")
    written = list(exporter(Export(None, tmp_path, tmp_path, {}, {})))
    assert written == [f"{tmp_path / 'lines.txt'}: 1 line"]
    assert (tmp_path / "lines.txt").read_text() == "one\n"


def test_the_exporters_that_are_named_here_can_be_imported():
    for name in EXPORTERS:
        assert callable(find(EXPORTERS, name, "--format"))


def test_an_unknown_exporter_is_refused_with_those_that_there_are(installed):
    with pytest.raises(ParamsError, match="one of csv, parquet, every_eval_ever, lines"):
        find(EXPORTERS, "xml", "--format")
