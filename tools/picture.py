"""``python -m tools.picture``: docs/report-page.png, the first screen of the report's page.

The picture holds a hash of what it shows, so that tests without a browser say when it is another
than the results in git."""

from __future__ import annotations

import hashlib
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from refract.core.environment import pinned_libraries
from refract.core.jsonl import write_bytes
from refract.core.showing import say
from refract.report.figure_data import figures_of
from refract.report.page_data import page_data
from refract.report.report_files import REPORT, page_parts
from refract.report.sections import Inputs, report_pages
from refract.report.view import read_view
from tests.builders import ROOT
from tests.report.test_page_in_a_browser import CHROMIUM, DRIVER, chromium, take_picture

PICTURE = ROOT / "docs/report-page.png"
KEYWORD = "refract-results"  # of a text in the picture


def shown_text() -> str:
    """The first table of the report, and what is said of it."""
    return (ROOT / REPORT).read_text("utf-8").partition("\n![")[0]


def shown_results() -> str:
    """A hash of what the picture is to show."""
    return hashlib.sha256(shown_text().encode()).hexdigest()


def stated_results(picture: bytes) -> str | None:
    """The hash that a picture holds; None where it holds none."""
    return Image.open(BytesIO(picture)).info.get(KEYWORD)


def with_results(picture: bytes, results: str) -> bytes:
    """A picture that holds a hash."""
    held, written = PngInfo(), BytesIO()
    held.add_text(KEYWORD, results)
    Image.open(BytesIO(picture)).save(written, "PNG", pnginfo=held)
    return written.getvalue()


def main() -> None:
    """Takes the picture anew where it shows other results than those in git."""
    results = shown_results()
    if stated_results(PICTURE.read_bytes()) == results:
        return
    if not (CHROMIUM and DRIVER):
        say(f"{PICTURE} is of other results; taking it needs chromium and chromedriver")
        return
    # The first screen holds no answers, so that none have to be there.
    inputs = Inputs(read_view(ROOT), page_data([]), pinned_libraries(ROOT / "constraints.txt"))
    parts = page_parts(inputs, report_pages(inputs), figures_of(inputs.view))
    with tempfile.TemporaryDirectory() as folder, chromium(Path(folder)) as driver:
        page = Path(folder) / "report.html"
        write_bytes(page, parts)
        PICTURE.write_bytes(with_results(take_picture(driver, page), results))


if __name__ == "__main__":
    main()
