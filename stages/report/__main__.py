"""Runs the stage: ``python -m stages.report``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from stages.params import ParamsError, grid, load_params
from stages.report import report_page
from stages.report.figures import refusal_figure
from stages.rows.jsonl import write_bytes
from stages.rows.tables import read_table

# The libraries whose versions can move a number.
PINNED = ("accelerate", "bert-score", "numpy", "tokenizers", "torch", "transformers")


def pinned_versions(constraints: Path) -> dict[str, str]:
    """The versions that the constraints file pins for the libraries that can move a number."""
    pins = dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", constraints.read_text("utf-8"), re.M))
    return {name: pins[name] for name in PINNED if name in pins}


def main() -> None:
    """Writes ``metrics/report.md`` and ``metrics/figures/``."""
    models = grid(load_params(), "models")
    tables = {model: read_table(Path(f"metrics/tables/{model}.csv")) for model in models}
    provenance = {
        model: json.loads(Path(f"metrics/provenance/{model}.json").read_text("utf-8"))
        for model in models
    }
    page = report_page(tables, provenance, pinned_versions(Path("constraints.txt")))
    write_bytes(Path("metrics/report.md"), [page.encode()])
    refusal_figure(tables, Path("metrics/figures/refusal.svg"))
    print("report: metrics/report.md")


if __name__ == "__main__":
    try:
        main()
    except (ParamsError, OSError) as error:
        sys.exit(f"report: {error}")
