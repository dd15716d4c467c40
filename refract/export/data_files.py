"""Every result as data files: the tables of :class:`refract.results.Results` as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes
from refract.core.showing import csv_cell

if TYPE_CHECKING:
    from refract.results import Results


def write_tables(results: Results, out: Path, format_: str) -> Iterator[str]:
    """Writes a file for each table that has rows; says of each what was written."""
    from pandas.api.types import is_numeric_dtype

    for name, frame in results._asdict().items():
        if frame.empty:
            yield f"{name}: nothing here, and no file"
            continue
        path = out / f"{name}.{format_}"
        if format_ == "parquet":
            # Of a column without a value in any row, the type would be unknown.
            texts = [name for name in frame.columns if not is_numeric_dtype(frame[name])]
            try:
                data = frame.astype(dict.fromkeys(texts, "string")).to_parquet(None, index=False)
            except ImportError:
                raise UsageError(
                    "Parquet needs pyarrow; run: pip install 'refract-eval[parquet]'"
                ) from None
        else:
            # A table for people's eyes and spreadsheets; Parquet keeps each character as it is.
            frame = frame.map(csv_cell, na_action="ignore")
            text = frame.to_csv(index=False, lineterminator="\n")
            data = text.encode("utf-8", "backslashreplace")
        write_bytes(path, [data])
        yield f"{path}: {len(frame)} rows"
