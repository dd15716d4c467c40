"""What pages show of commands, public names and numbers is what ``make readme`` writes."""

from __future__ import annotations

import pytest

from tests.builders import ROOT
from tools import pages


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_shows_what_the_code_and_the_results_in_git_are(name):
    text = (ROOT / name).read_text("utf-8")
    assert pages.PAGES[name](text) == text, "run: make readme"
