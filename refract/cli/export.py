"""``refract export``: every result as files for other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from refract.cli.options import mapping
from refract.core.errors import UsageError
from refract.core.showing import say


def export(
    out: Annotated[Path, typer.Option()],
    format_: Annotated[
        Literal["csv", "parquet", "every_eval_ever"], typer.Option("--format")
    ] = "csv",
    source: Annotated[Path | None, typer.Argument()] = None,
    organization: str | None = None,
    relationship: Literal["first_party", "third_party", "collaborative", "other"] = "other",
    model_id: list[str] | None = None,
) -> None:
    """Write metrics, tables, outcomes and rows as files: refract.load_results in pandas.

    Example: refract export --format parquet --out results

    Args:
        out: Folder to write to.
        format_: Tables as CSV or Parquet, or records of Every Eval Ever (schema 0.3).
        source: A project's folder or a results file; default: this project.
        organization: every_eval_ever: who ran the evaluation.
        relationship: every_eval_ever: what the organization is to the models.
        model_id: every_eval_ever: a model's id, NAME=DEVELOPER/MODEL; default: the hub's or the
          provider's, else local/NAME. Repeatable.
    """
    from refract.export.data_files import write_tables
    from refract.export.every_eval_ever import write_records
    from refract.project import project_root
    from refract.results import results_and_notes

    if format_ == "every_eval_ever" and not organization:
        raise UsageError("--format every_eval_ever needs --organization: who ran the evaluation")
    if format_ != "every_eval_ever" and (organization or model_id):
        raise UsageError("--organization and --model-id go with --format every_eval_ever")
    place = source or project_root()
    results, notes = results_and_notes(place)
    for note in notes:
        say(f"note: {note}", file=sys.stderr)
    if organization:
        publisher = {"organization": organization, "relationship": relationship}
        lines = write_records(results, place, out, publisher, mapping("--model-id", model_id))
    else:
        lines = write_tables(results, out, format_)
    for line in lines:
        say(line)
