"""An installed package adds a page to the report and a format to the exporters."""

from __future__ import annotations

import pytest

from refract.core.errors import ParamsError
from refract.core.registry import find
from refract.export import EXPORTERS, Export
from tests.builders import rate
from tests.report.views import pages_for

MODULE = """
class Page:
    def __init__(self, title, text):
        self.title = title
        self.text = text

    def markdown(self, inputs):
        return self.text.format(inputs.view)


lengths = Page("How long answers are", "rates of {0.models[0]}")
silent = Page("Nothing", "")


def lines(export):
    (export.out / "lines.txt").write_text("one\\n")
    yield f"{export.out / 'lines.txt'}: 1 line"
"""
POINTS = """
[refract.sections]
lengths = answer_lengths:lengths
silent = answer_lengths:silent
judges = answer_lengths:lengths

[refract.exporters]
lines = answer_lengths:lines
"""


@pytest.fixture
def installed(install):
    install("answer_lengths", POINTS, MODULE)


def test_a_section_of_a_package_is_a_page_behind_the_report_that_links_to_it(installed):
    pages = pages_for(rate("refusal_rate", 1, 2))
    assert pages["lengths"] == (
        "# How long answers are\n\nA part of the [report](../report.md).\n\nrates of one\n"
    )
    assert "- [How long answers are](report/lengths.md)" in pages["report"]
    assert "silent" not in pages
    # A name of the report's own stays with it.
    assert pages["judges"].startswith("# How good the judges are")


def test_an_exporter_is_found_by_its_name_and_an_unknown_one_is_refused(installed, tmp_path):
    exporter = find(EXPORTERS, "lines", "--as")
    written = list(exporter(Export(tmp_path)))
    assert written == [f"{tmp_path / 'lines.txt'}: 1 line"]
    assert (tmp_path / "lines.txt").read_text() == "one\n"
    assert all(callable(find(EXPORTERS, name, "--as")) for name in EXPORTERS)
    with pytest.raises(ParamsError, match=r"one of csv, .*lines"):
        find(EXPORTERS, "xml", "--as")
