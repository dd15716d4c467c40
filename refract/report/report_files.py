"""The report's files: writing them all, and whether those that lie in a project are of its numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from refract.core.environment import pinned_libraries
from refract.core.jsonl import sha256_file, write_bytes
from refract.core.progress import FOLDER, ran_file, read_object
from refract.core.tables import write_table
from refract.report.comparisons import COLUMNS, table_row
from refract.report.drawing import Figure, write_figures
from refract.report.figure_data import figures_of, titled
from refract.report.html_page import History, page_parts
from refract.report.moves import biggest_moves, commit_now
from refract.report.page_data import ANSWERS, PageData, StoredAnswers, page_data
from refract.report.sections import Inputs, report_pages
from refract.report.view import View, read_view
from refract.results.current import numbers_sha256

REPORT = Path("metrics/report.md")
PAGES = Path("metrics/report")
FIGURES = Path("metrics/figures")
PAGE = Path("data/report/report.html")
STALE = "of other numbers than those in metrics/"


def write_report(root: Path) -> tuple[str, dict[str, str]]:
    """Writes ``metrics/report.md`` with the pages behind it, ``metrics/figures/``, the page's rows and
    the page, once all of it has been computed: a failure leaves what was there.

    Gives what was written, in words, and what :func:`report_lines` reads to tell a stale report.
    """
    view = read_view(root)
    data = page_data(StoredAnswers(root, view))
    pages = report_pages(Inputs(view, data, pinned_libraries(root / "constraints.txt")))
    figures = figures_of(view)
    page = list(_page(root, view, data, figures))
    tables = {"comparisons": view.compared, "fields": view.by_field}
    write_bytes(root / REPORT, [pages.pop("report").encode()])
    for name, text in pages.items():
        write_bytes(root / PAGES / f"{name}.md", [text.encode()])
    for name, compared in tables.items():
        rows = [titled(view, table_row(pair)) for pair in compared if pair.difference.n]
        write_table(root / PAGES / f"{name}.csv", COLUMNS, rows)
    kept = {f"{name}.md" for name in pages} | {f"{name}.csv" for name in tables}
    for path in (root / PAGES).glob("*.*"):
        if path.name not in kept:
            path.unlink()
    write_figures(figures, root / FIGURES)
    write_bytes(root / ANSWERS, [data.json()])
    write_bytes(root / PAGE, page)
    written = f"{REPORT}, {len(pages)} pages behind it, {len(figures)} figures, {PAGE}"
    numbers = numbers_sha256(root, view.models)
    return written, {"numbers_sha256": numbers, "report_sha256": sha256_file(root / REPORT)}


def write_page(root: Path) -> Path:
    """Writes the page alone, from the results that are computed."""
    view = read_view(root)
    data = page_data(StoredAnswers(root, view))
    write_bytes(root / PAGE, _page(root, view, data, figures_of(view)))
    return root / PAGE


def _page(root: Path, view: View, data: PageData, figures: Sequence[Figure]) -> Iterable[bytes]:
    """The page of a project's results, the last part of which says of which numbers it is.

    It depends on the view, the answers, the tree and git's history of it.
    """
    ran = {view.titles.model(m): read_object(root / ran_file(m)) for m in view.models}
    history = History(commit_now(root), biggest_moves(root), ran)
    return chain(page_parts(view, data, figures, history), [_page_mark(root, view.models)])


def _page_mark(root: Path, models: Sequence[str]) -> bytes:
    """The last line of a page: which numbers it shows."""
    return f"<!-- numbers {numbers_sha256(root, models)} -->\n".encode()


def report_lines(root: Path, models: Sequence[str]) -> list[str]:
    """Where the report and the page are, and whether they are of the numbers that are here."""
    report, page = root / REPORT, root / PAGE
    lines = []
    if not report.is_file():
        lines.append(f"report: not here ({report}); run: dvc repro")
    elif _is_stale(root, models):
        lines.append(f"report: {report}, {STALE}, since `report` did not end; run: dvc repro")
    else:
        lines.append(f"report: {report}")
    if page.is_file():
        mark = _page_mark(root, models)
        with open(page, "rb") as file:
            file.seek(max(0, page.stat().st_size - len(mark)))
            stale = file.read() != mark
        lines.append(f"page:   {page}" + (f", {STALE}; run: refract page" if stale else ""))
    return lines


def _is_stale(root: Path, models: Sequence[str]) -> bool:
    """Whether the report is that of this machine's last run of the stage, and the numbers are others
    by now. One that git brought is of the numbers that came with it."""
    try:
        last: Mapping[str, str] = json.loads((root / FOLDER / "report.json").read_text("utf-8"))
        same = last["report_sha256"] == sha256_file(root / REPORT)
        return same and last["numbers_sha256"] != numbers_sha256(root, models)
    except (OSError, ValueError, KeyError, TypeError):
        return False  # it ran elsewhere
