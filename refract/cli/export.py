"""``refract export``: every result as files for other tools."""

from __future__ import annotations

from pathlib import Path

from refract.cli.project import project_root
from refract.errors import UsageError
from refract.results import load_results
from refract.results.sources import ResultsError
from refract.rows.jsonl import write_bytes
from refract.rows.showing import csv_cell, say

FORMATS = ("csv", "parquet")


def export(out: Path, format_: str, source: Path | None) -> None:
    """Writes one file for each table that has rows into the folder ``out``."""
    if format_ not in FORMATS:
        raise UsageError(f"--format must be csv or parquet (got {format_!r})")
    if format_ == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise UsageError(
                "Parquet needs pyarrow; run: pip install 'refract[parquet]', or take --format csv"
            ) from None
    try:
        results = load_results(source or project_root())
    except ResultsError as error:
        raise UsageError(str(error)) from None
    for name, frame in results._asdict().items():
        if frame.empty:
            say(f"{name}: nothing here" + ("; dvc pull fetches it" if name == "rows" else ""))
            continue
        path = out / f"{name}.{format_}"
        if format_ == "parquet":
            path.parent.mkdir(parents=True, exist_ok=True)
            frame.to_parquet(path, index=False)
        else:
            # A table for people's eyes and spreadsheets; Parquet keeps each character as it is.
            frame = frame.map(csv_cell, na_action="ignore")
            text = frame.to_csv(index=False, lineterminator="\n")
            write_bytes(path, [text.encode("utf-8", "backslashreplace")])
        say(f"{path}: {len(frame)} rows")
