"""Runs the stage: ``python -m stages.report``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from stages.params import ParamsError, grid, load_params
from stages.report import read_results, report_page
from stages.report.charts import draw_figures, scaling_points, write_figures
from stages.report.comparisons import comparison_section, read_clean_outcomes
from stages.report.corrected import corrected_section
from stages.report.page import html_page, read_answers
from stages.report.scaling import model_sizes, scaling_figure, scaling_section, scaling_series
from stages.rows.jsonl import RowError, write_bytes
from stages.rows.tables import write_table

# The libraries whose versions can move a number.
PINNED = ("accelerate", "bert-score", "numpy", "tokenizers", "torch", "transformers")


def pinned_versions(constraints: Path) -> dict[str, str]:
    """The versions that the constraints file pins for the libraries that can move a number."""
    pins = dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", constraints.read_text("utf-8"), re.M))
    return {name: pins[name] for name in PINNED if name in pins}


def main() -> None:
    """Writes ``metrics/report.md``, ``metrics/figures/`` and ``data/report/report.html``."""
    params = load_params()
    models = grid(params, "models")
    tables, provenance = read_results(Path(), models)
    sizes = model_sizes(provenance, params.get("facts") or {})
    series = scaling_series(tables, sizes)
    measured = Path("metrics/judges.json")
    judges = json.loads(measured.read_text("utf-8")) if measured.is_file() else {}
    page = report_page(
        tables,
        provenance,
        pinned_versions(Path("constraints.txt")),
        comparison=comparison_section(read_clean_outcomes(Path(), models)),
        scaling=scaling_section(tables, sizes, series),
        corrected=corrected_section(tables, provenance, judges),
    )
    write_bytes(Path("metrics/report.md"), [page.encode()])
    figures = draw_figures(tables)
    write_figures(figures, Path("metrics/figures"))
    scaling = Path("metrics/figures/scaling.svg")
    scaling_figure(series, scaling)
    if scaling.is_file():
        points = scaling_points(series)
        write_table(scaling.with_suffix(".csv"), list(points[0]), points)
    answers = [
        answer for model in models for answer in read_answers(Path(), model, provenance[model])
    ]
    images = [("Rates over model size", scaling.read_bytes())] if scaling.is_file() else []
    page_path = Path("data/report/report.html")
    write_bytes(page_path, [html_page(tables, provenance, answers, figures, images=images)])
    print(f"report: metrics/report.md, {page_path}")


if __name__ == "__main__":
    try:
        main()
    except (ParamsError, RowError, OSError) as error:
        sys.exit(f"report: {error}")
