"""Runs the stage: ``python -m stages.report``."""

from __future__ import annotations

from pathlib import Path

from refract.core.jsonl import write_bytes
from refract.core.progress import (
    StageRun,
    answer_line,
    run_stage,
    say_warnings,
)
from refract.core.showing import say
from refract.core.tables import write_table
from refract.report.answers import ANSWERS, StoredAnswers, page_data
from refract.report.charts import write_figures
from refract.report.details import detail_pages, detail_tables
from refract.report.front import report_page
from refract.report.inputs import read_inputs
from refract.report.page import render_page
from refract.report.state import PAGE, REPORT, made_of
from refract.results.current import named, remove_left_over
from refract.results.environment import pinned_libraries

DETAILS = Path("metrics/report")


def main() -> None:
    """Writes ``metrics/report.md`` with the pages behind it, ``metrics/figures/``, the page's rows and
    the page: all of them once everything has been computed, so that a failure leaves the last ones."""
    run = StageRun("report")
    found = read_inputs(Path())
    data = page_data(StoredAnswers(Path(), found))
    pages = detail_pages(found, pinned_libraries(Path("constraints.txt")), data)
    tables = detail_tables(found)
    front = report_page(found, {name: title for name, (title, _) in pages.items()})
    figures = found.figures()
    page = render_page(Path(), found, figures, data)
    # All is computed before the first is written: what was there outlives a stage that fails.
    write_bytes(REPORT, [front.encode()])
    for name, (_, text) in pages.items():
        write_bytes(DETAILS / f"{name}.md", [text.encode()])
    for name, (columns, rows) in tables.items():
        write_table(DETAILS / f"{name}.csv", columns, rows)
    kept = {f"{name}.md" for name in pages} | {f"{name}.csv" for name in tables}
    for path in DETAILS.glob("*.*"):
        if path.name not in kept:
            path.unlink()
    write_figures(figures, Path("metrics/figures"))
    write_bytes(ANSWERS, data.json())
    write_bytes(PAGE, page)
    # DVC leaves them in the folders that this stage depends on, and hashes them with these.
    if gone := remove_left_over(Path(), found.models):
        say(f"report: removed the results of {named(gone)}, which the grid does not name")
    run.end(
        f"{REPORT}, {len(pages)} pages behind it, {len(figures)} figures, {PAGE}",
        **made_of(Path(), found.models),
    )
    if line := answer_line(Path(), found.models):
        say(line)
    say_warnings(Path(), found.models)


if __name__ == "__main__":
    run_stage("report", main)
