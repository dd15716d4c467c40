"""``refract export``: every result as files for other tools."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from refract.cli.options import mapping
from refract.cli.output import several_files
from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes, write_json, write_rows
from refract.core.showing import csv_cell, say

if TYPE_CHECKING:
    from refract.results import Results


def export(
    out: Annotated[Path, typer.Option(help="Folder to write to.", callback=several_files)],
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
            help="every_eval_ever: a model's id, as NAME=DEVELOPER/MODEL; default: as the hub or "
            "provider calls it, else local/NAME. Repeatable."
        ),
    ] = None,
) -> None:
    """Write metrics, tables, outcomes and rows as files: refract.load_results in pandas.

    Example: refract export --format parquet --out results
    """
    from refract.project import project_root
    from refract.results import results_and_notes

    if format_ == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise UsageError(
                "Parquet needs pyarrow; run: pip install 'refract-eval[parquet]', or take "
                "--format csv"
            ) from None
    if format_ == "every_eval_ever" and not organization:
        raise UsageError("--format every_eval_ever needs --organization: who ran the evaluation")
    if format_ != "every_eval_ever" and (organization or model_id):
        raise UsageError("--organization and --model-id go with --format every_eval_ever")
    place = source or project_root()
    results, notes = results_and_notes(place)
    for note in notes:
        say(f"note: {note}", file=sys.stderr)
    if organization:
        _write_records(
            results, place, out, organization, relationship, mapping("--model-id", model_id)
        )
    else:
        _write_tables(results, out, format_)


def _write_tables(results: Results, out: Path, format_: str) -> None:
    from pandas.api.types import is_numeric_dtype

    for name, frame in results._asdict().items():
        if frame.empty:
            say(f"{name}: nothing here, and no file")
            continue
        path = out / f"{name}.{format_}"
        if format_ == "parquet":
            # Of a column without a value in any row, the type would be unknown.
            texts = [name for name in frame.columns if not is_numeric_dtype(frame[name])]
            frame = frame.astype(dict.fromkeys(texts, "string"))
            write_bytes(path, [frame.to_parquet(None, index=False)])
        else:
            # A table for people's eyes and spreadsheets; Parquet keeps each character as it is.
            frame = frame.map(csv_cell, na_action="ignore")
            text = frame.to_csv(index=False, lineterminator="\n")
            write_bytes(path, [text.encode("utf-8", "backslashreplace")])
        say(f"{path}: {len(frame)} rows")


def _write_records(
    results: Results,
    place: Path,
    out: Path,
    organization: str,
    relationship: str,
    given: dict[str, str],
) -> None:
    from importlib.metadata import version

    from refract.export.every_eval_ever import Publisher, model_id, records
    from refract.results.sources import read_run

    models = list(dict.fromkeys(results.tables["model"]))
    if place.is_file():
        provenance = {models[0]: read_run(place)["provenance"]}
    else:
        provenance = {
            model: json.loads((place / f"metrics/provenance/{model}.json").read_text("utf-8"))
            for model in models
        }
    for name, id_ in given.items():
        developer, _, rest = id_.partition("/")
        if name not in provenance or not developer or not rest:
            raise UsageError(
                f"--model-id takes NAME=DEVELOPER/MODEL, NAME being one of {', '.join(models)} "
                f"(got {name}={id_!r})"
            )
    ids = {
        name: given.get(name) or model_id(name, held["model"]["definition"])
        for name, held in provenance.items()
    }
    publisher = Publisher(
        organization,
        relationship,
        int(os.environ.get("SOURCE_DATE_EPOCH") or time.time()),
        version("refract-eval"),
    )
    left_out = Counter[str]()
    lines = 0
    tables, outcomes, rows = map(_as_rows, (results.tables, results.outcomes, results.rows))
    for record in records(tables, outcomes, rows, provenance, ids, publisher):
        write_json(out / f"{record.path}.json", record.aggregate)
        if record.samples:
            write_rows(out / f"{record.path}_samples.jsonl", record.samples)
        say(
            f"{out / record.path}.json: {len(record.aggregate['evaluation_results'])} rates, "
            f"{len(record.samples)} answers"
        )
        left_out += record.left_out
        lines += len(record.samples)
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items())) or "none"
    say(f"{lines} answers; left out, not judged or not compared: {counts}")
    local = [f"{name} as {id_}" for name, id_ in ids.items() if id_.startswith("local/")]
    if local:
        say(f"note: {', '.join(local)}; --model-id names them otherwise", file=sys.stderr)


def _as_rows(frame: Any) -> list[dict[str, Any]]:
    """A data frame as rows, with None for what is missing."""
    plain = frame.astype(object)
    rows: list[dict[str, Any]] = plain.where(plain.notna(), None).to_dict("records")
    return rows
