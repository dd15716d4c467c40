"""``refract show`` and ``refract page``: the results of a project that are already computed."""

from __future__ import annotations

from refract.core.showing import say


def show() -> None:
    """Print the result table of the last `dvc repro`, where its report is, and all warnings.

    Example: refract show
    """
    from refract.cli.printing import print_table
    from refract.core.params import grid
    from refract.core.progress import answer_line, say_warnings
    from refract.project import project_root, read_project
    from refract.report.report_files import PAGE, REPORT
    from refract.report.sections import MAIN_HEADER, main_rows
    from refract.report.view import View, read_titles
    from refract.results.current import grid_notes, rows_missing, rows_note, without_results
    from refract.results.sources import read_rate_tables

    root = project_root()
    params = read_project(root).params
    models = grid(params, "models")
    absent = without_results(root, models)
    rates, provenance = read_rate_tables(root, [m for m in models if m not in absent] or models)
    titles = read_titles(params.get("metadata"), models, grid(params, "suites"))
    print_table(MAIN_HEADER, main_rows(View(rates, provenance, titles)))
    for note in grid_notes(root, models):
        say(f"note: {note}")
    if missing := rows_missing(root, provenance):
        say(f"note: {rows_note(missing)}")
    for kind, path in (("report", root / REPORT), ("page", root / PAGE)):
        say(f"{kind}: {path}" if path.is_file() else f"{kind}: no {path}; run: dvc repro")
    if line := answer_line(root, models):
        say(line)
    say_warnings(root, models)


def page() -> None:
    """Write the report's page, data/report/report.html, from the results that are computed.

    Example: refract page
    """
    from refract.project import project_root
    from refract.report.report_files import write_page

    say(f"page: {write_page(project_root())}")
