"""A line of ``refract show``: where the report is."""

from __future__ import annotations

import os
from pathlib import Path

from refract.report.report_files import PAGE, REPORT


def report_line(root: Path) -> str:
    """Where the report and its page are, or what makes them."""
    parts = []
    for kind, file in (("report", REPORT), ("page", PAGE)):
        place = os.path.relpath(root / file)
        parts.append(f"{kind}: {place}" if os.path.isfile(place) else f"{kind}: no {place}")
    if not ((root / REPORT).is_file() and (root / PAGE).is_file()):
        parts.append("run: dvc repro")
    return "; ".join(parts)
