"""Lines of ``refract show``: how answers were computed, and where the report is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from refract.core.progress import ran_file, read_object
from refract.core.types import Row
from refract.models.origins import arithmetic_line
from refract.report.report_files import PAGE, REPORT


def arithmetic_lines(root: Path, provenance: Mapping[str, Row], *, wide: bool) -> list[str]:
    """How the models' answers were computed, equal lines once."""
    models: dict[str, list[str]] = {}
    for model, facts in provenance.items():
        line = arithmetic_line(facts, read_object(root / ran_file(model)))
        if line and not wide and re.match(r"([\d,]+) of \1 answers certified", line):
            line = "all answers certified"
        if line:
            models.setdefault(line, []).append(model)
    return [f"{', '.join(names)}: {line}" for line, names in models.items()]


def report_line(root: Path) -> str:
    """Where the report and its page are, or what makes them."""
    parts = []
    for kind, file in (("report", REPORT), ("page", PAGE)):
        place = os.path.relpath(root / file)
        parts.append(f"{kind}: {place}" if os.path.isfile(place) else f"{kind}: no {place}")
    if not ((root / REPORT).is_file() and (root / PAGE).is_file()):
        parts.append("run: dvc repro")
    return "; ".join(parts)
