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
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    format_: Annotated[
        Literal["csv", "parquet", "every_eval_ever"],
        typer.Option(
            "--format", help="Tables as CSV or Parquet, or records of Every Eval Ever (schema 0.3)."
        ),
    ] = "csv",
    source: Annotated[
        Path | None,
        typer.Argument(help="A project's folder or a results file; default: this project."),
    ] = None,
    organization: Annotated[
        str | None, typer.Option(help="every_eval_ever: who ran the evaluation.")
    ] = None,
    relationship: Annotated[
        Literal["first_party", "third_party", "collaborative", "other"],
        typer.Option(help="every_eval_ever: what the organization is to the models."),
    ] = "other",
    model_id: Annotated[
        list[str] | None,
        typer.Option(
            help="every_eval_ever: a model's id, NAME=DEVELOPER/MODEL; default: the hub's or the "
            "provider's, else local/NAME. Repeatable."
        ),
    ] = None,
) -> None:
    """Write metrics, tables, outcomes and rows as files: refract.load_results in pandas.

    Example: refract export --format parquet --out results
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
