"""What pages show of commands, public names and numbers is what ``make readme`` writes."""

from __future__ import annotations

import re

import pytest

from tests.builders import ROOT
from tools import pages


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_shows_what_the_code_and_the_results_in_git_are(name):
    text = (ROOT / name).read_text("utf-8")
    assert pages.PAGES[name](text) == text, "run: make readme"


def test_the_speed_that_is_claimed_is_what_the_benchmarks_measured():
    text = (ROOT / "docs/how-it-works.md").read_text("utf-8")
    claimed = re.search(
        r"no longer for exact answers than\nplain batches, servers (\d\.\d+) of a bare client", text
    )
    measured = (ROOT / "benchmarks/README.md").read_text("utf-8")
    rows: dict[str, list[str]] = {}
    for line in measured.splitlines():
        rows.setdefault(line.split(" | ")[0], line.split(" | "))  # whole commands come first
    models = ("| SmolLM2-135M", "| 25M, 256", "| 10M, the", "| 260K, the")
    of_bound = [next(rows[key][2] for key in rows if key.startswith(model)) for model in models]
    served = rows["| 1,000 prompts, 40 ms, 32 connections"][4]
    assert max(float(share) for share in of_bound) <= 1
    assert claimed.groups() == (served,)
