"""Every result as data files: the tables of :class:`refract.results.Results` as CSV
or Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from refract.core.errors import UsageError
from refract.core.jsonl import write_bytes
from refract.core.showing import csv_cell
from refract.export import Export

if TYPE_CHECKING:
    import pandas as pd


def write_csv(export: Export) -> Iterator[str]:
    """A CSV file for each table that has rows, for people's eyes and spreadsheets."""

    def encoded(frame: pd.DataFrame) -> bytes:
        inert = frame.map(csv_cell, na_action="ignore")
        text: str = inert.to_csv(index=False, lineterminator="\n")
        return text.encode("utf-8", "backslashreplace")

    yield from _written(export, "csv", encoded)


def write_parquet(export: Export) -> Iterator[str]:
    """A Parquet file for each table that has rows, which keeps each character as it is."""
    from pandas.api.types import is_numeric_dtype

    def encoded(frame: pd.DataFrame) -> bytes:
        # Of a column without a value in any row, the type would be unknown.
        texts = [name for name in frame.columns if not is_numeric_dtype(frame[name])]
        data: bytes = frame.astype(dict.fromkeys(texts, "string")).to_parquet(None, index=False)
        return data

    try:
        yield from _written(export, "parquet", encoded)
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow; run: pip install 'refract-eval[parquet]'"
        ) from None


def _written(
    export: Export, ending: str, encoded: Callable[[pd.DataFrame], bytes]
) -> Iterator[str]:
    for name, frame in export.results.frames().items():
        if frame.empty:
            yield f"{name}: nothing here, and no file"
        else:
            path = export.out / f"{name}.{ending}"
            write_bytes(path, [encoded(frame)])
            yield f"{path}: {len(frame)} rows"
