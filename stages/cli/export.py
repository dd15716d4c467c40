"""``refract export``: every result as files for other tools."""

from __future__ import annotations

from pathlib import Path

from stages.cli import UsageError
from stages.cli.project import project_root
from stages.results import load_results
from stages.results.sources import ResultsError
from stages.rows.jsonl import write_bytes

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
            print(f"{name}: nothing here" + ("; dvc pull fetches it" if name == "rows" else ""))
            continue
        path = out / f"{name}.{format_}"
        if format_ == "parquet":
            path.parent.mkdir(parents=True, exist_ok=True)
            frame.to_parquet(path, index=False)
        else:
            for column in {"prompt", "response", "error"} & set(frame.columns):
                frame[column] = frame[column].map(_inert, na_action="ignore")
            text = frame.to_csv(index=False, lineterminator="\n")
            write_bytes(path, [text.encode("utf-8", "backslashreplace")])
        print(f"{path}: {len(frame)} rows")


def _inert(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
