"""Every result as CSV, for people's eyes and spreadsheets."""

from __future__ import annotations

from collections.abc import Iterator

from refract.core.jsonl import write_bytes
from refract.core.settings import Settings
from refract.core.showing import csv_cell
from refract.export import Export


def write_csv(export: Export) -> Iterator[str]:
    """A file for each table of :class:`refract.results.Results` that has rows."""
    export.settings(Settings)
    for name, frame in export.results.frames().items():
        if export.suites:
            frame = frame[frame["suite"].isin(export.suites)]
        if frame.empty:
            yield f"{name}: nothing here, and no file"
            continue
        inert = frame.map(csv_cell, na_action="ignore")
        text: str = inert.to_csv(index=False, lineterminator="\n")
        path = export.out / f"{name}.csv"
        write_bytes(path, [text.encode("utf-8", "backslashreplace")])
        otherwise = int((inert.ne(frame) & frame.notna()).any(axis=1).sum())
        line = f"{path}: {len(frame)} rows"
        if otherwise:
            how = "what does not show as <U+00A0>, formulas in quotes"
            line += f", {otherwise} written otherwise ({how})"
        yield line
