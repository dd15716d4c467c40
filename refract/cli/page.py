"""``refract page``: the page of results that are already here."""

from __future__ import annotations

from refract.cli.project import project_root
from refract.report.answers import read_page_data
from refract.report.inputs import read_inputs
from refract.report.page import write_page
from refract.rows.showing import say


def write_report_page() -> None:
    """Writes the page and prints where it is."""
    root = project_root()
    found = read_inputs(root)
    path = write_page(root, found, found.figures(), read_page_data(root, found))
    say(f"page: {path}")
