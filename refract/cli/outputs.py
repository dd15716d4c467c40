"""What is computed, for people and other programs: ``refract show``, ``page`` and ``export``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from refract.cli.options import Models, Suites, listed, yaml_values
from refract.cli.printing import print_by_suite, print_table
from refract.core.params import grid
from refract.core.progress import warning_lines
from refract.core.registry import find
from refract.core.showing import say
from refract.export import EXPORTERS, Export, Exporter
from refract.models.origins import arithmetic_lines
from refract.project import project_root, read_project
from refract.project.inputs import changed_files
from refract.report.first_table import first_table, threshold_table
from refract.report.judge_notes import further_table, prompt_readers
from refract.report.report_files import PAGE, REPORT, write_page
from refract.report.view import View
from refract.report.wording import percent
from refract.results.current import current_note, notes_of, rows_missing, without_results
from refract.results.sources import read_side


def show() -> None:
    """Print the result table of the last `dvc repro`; metrics/report/details.md has all that limits it.

    Example: refract show
    """
    root = project_root()
    params = read_project(root).params
    models = grid(params, "models")
    absent = without_results(root, models)
    side = read_side(root, [model for model in models if model not in absent] or models)
    rates = {model: result.rates for model, result in side.results.items()}
    view = View(rates, side.provenance)
    table, limits, further = first_table(view), threshold_table(view), further_table(view)
    if table.rows:
        say(f"share refused [{percent(view.confidence)}]")
        print_by_suite(table)
        say()
    for line in [*table.notes, *limits.notes]:
        say(line)
    for other in (limits, further):
        if other.rows:
            print_table(other.header, other.rows)
    for line in prompt_readers(view):
        say(f"warning: {line}")
    missing = rows_missing(root, view.provenance)
    reasons = [*side.reasons, *changed_files(params)]
    notes = notes_of(absent, reasons, missing)
    places = []
    for kind, file in (("report", REPORT), ("page", PAGE)):
        place = os.path.relpath(root / file)
        places.append(f"{kind}: {place}" if os.path.isfile(place) else f"{kind}: no {place}")
    if not ((root / REPORT).is_file() and (root / PAGE).is_file()):
        places.append("run: dvc repro")
    lines = [
        *(f"note: {note}" for note in notes),
        *arithmetic_lines(root, view.provenance),
        "; ".join(places),
        *warning_lines(root, models),
    ]
    for line in lines:
        if line:
            say(line)


def page() -> None:
    """Write the report's page, data/report/report.html, from the results that are computed.

    Example: refract page
    """
    root = project_root()
    reasons = [*read_side(root).reasons, *changed_files(read_project(root).params)]
    note = f"note: {current_note(reasons)}" if reasons else ""
    say(f"page: {write_page(root, note)}")
    if note:
        say(note)


def export(
    out: Annotated[Path, Option(help="Folder to write to.")],
    source: Annotated[
        str | None, Argument(help="A project's folder or a results file; default: this project.")
    ] = None,
    as_: Annotated[
        str,
        Option(
            "--as",
            metavar="<csv|latex|appendix|bundle>",
            help="csv: every table. Of refract-paper: latex, a paper's appendix, and the bundle "
            "behind its numbers.",
        ),
    ] = "csv",
    models: Models = None,
    suites: Suites = None,
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="A setting of that format (YAML). Repeatable."),
    ] = None,
) -> None:
    """Write results for other tools.

    Example: refract export --as csv --out tables
    """
    exporter: Exporter = find(EXPORTERS, as_, "--as")
    asked = Export(out, source, listed(models), listed(suites), yaml_values("--set", set_))
    for line in exporter(asked):
        say(line, file=sys.stderr if line.startswith("note: ") else None)
