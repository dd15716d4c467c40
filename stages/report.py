"""Runs the stage: ``python -m stages.report``."""

from __future__ import annotations

from pathlib import Path

from refract.core.params import grid, load_params
from refract.core.progress import StageRun, run_stage, warning_lines
from refract.core.showing import say
from refract.report.report_files import write_report
from refract.results.current import left_over, named


def main() -> None:
    """Writes the report with all that belongs to it. Results that the grid does not name stay as
    they are, and are named."""
    root = Path()
    run = StageRun("report")
    written = write_report(root)
    models = grid(load_params(root / "params.yaml"), "models")
    if names := left_over(root, models):
        say(f"report: without {named(names)}, which the grid does not name; their results are kept")
    run.end(written)
    for line in warning_lines(root, models):
        say(line)


if __name__ == "__main__":
    run_stage("report", main)
