"""What pages show of public names and numbers is what ``make readme`` writes."""

from __future__ import annotations

import pytest

from tests.builders import ROOT
from tools import pages, picture


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_shows_what_the_code_and_the_results_in_git_are(name):
    text = (ROOT / name).read_text("utf-8")
    assert pages.PAGES[name](text) == text, "run: make readme"


def test_the_picture_of_the_report_shows_the_results_in_git():
    stated = picture.stated_results(picture.PICTURE.read_bytes())
    assert stated == picture.shown_results(), "run: make readme (needs chromium and data/report)"
    assert picture.stated_results(picture.with_results(picture.PICTURE.read_bytes(), "0")) == "0"
