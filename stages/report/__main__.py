"""Runs the stage: ``python -m stages.report``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from stages.params import ParamsError
from stages.progress.runs import StageRun, say_warnings
from stages.report import report_page
from stages.report.charts import write_figures
from stages.report.comparisons import comparison_section
from stages.report.corrected import corrected_section
from stages.report.inputs import read_inputs
from stages.report.page import ANSWERS, PAGE, read_page_data, write_page
from stages.report.scaling import scaling_section
from stages.rows.jsonl import RowError, dump_row, write_bytes
from stages.rows.showing import printable

# The libraries whose versions can move a number.
PINNED = ("accelerate", "bert-score", "numpy", "tokenizers", "torch", "transformers")


def pinned_versions(constraints: Path) -> dict[str, str]:
    """The versions that the constraints file pins for the libraries that can move a number."""
    pins = dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", constraints.read_text("utf-8"), re.M))
    return {name: pins[name] for name in PINNED if name in pins}


def main() -> None:
    """Writes ``metrics/report.md``, ``metrics/figures/``, the page's rows and the page."""
    run = StageRun("report")
    PAGE.unlink(missing_ok=True)  # being no output, one of other numbers would stay
    found = read_inputs(Path())
    data = read_page_data(Path(), found)
    page = report_page(
        found.tables,
        found.provenance,
        pinned_versions(Path("constraints.txt")),
        comparison=comparison_section(found.models, found.compared),
        scaling=scaling_section(found.tables, found.sizes, found.series),
        corrected=corrected_section(found.tables, found.provenance, found.judges),
    )
    write_bytes(Path("metrics/report.md"), [page.encode()])
    figures = found.figures()
    write_figures(figures, Path("metrics/figures"))
    write_bytes(ANSWERS, [dump_row(data)])
    path = write_page(Path(), found, figures, data)
    run.end(f"metrics/report.md, {len(figures)} figures, {path}")
    say_warnings(Path(), found.models)


if __name__ == "__main__":
    try:
        main()
    except (ParamsError, RowError, OSError) as error:
        sys.exit(printable(f"report: {error}", keep="\n"))
