"""Whether the report and the page that lie in a project are of the numbers that lie there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from refract.core.jsonl import sha256_file
from refract.core.progress import FOLDER
from refract.results.current import numbers_sha256

REPORT = Path("metrics/report.md")
PAGE = Path("data/report/report.html")
STALE = "of other numbers than those in metrics/"


def made_of(root: Path, models: Sequence[str]) -> dict[str, str]:
    """What the stage notes of a report that it has just written, for :func:`report_lines`."""
    return {
        "numbers_sha256": numbers_sha256(root, models),
        "report_sha256": sha256_file(root / REPORT),
    }


def page_mark(root: Path, models: Sequence[str]) -> bytes:
    """The last line of a page: which numbers it shows."""
    return f"<!-- numbers {numbers_sha256(root, models)} -->\n".encode()


def report_lines(root: Path, models: Sequence[str]) -> list[str]:
    """Where the report and the page are, and whether they are of the numbers that are here."""
    report, page = root / REPORT, root / PAGE
    lines = []
    if not report.is_file():
        lines.append(f"report: not here ({report}); run: dvc repro")
    elif _is_stale(root, models):
        lines.append(f"report: {report}, {STALE}, since `report` did not end; run: dvc repro")
    else:
        lines.append(f"report: {report}")
    if page.is_file():
        mark = page_mark(root, models)
        with open(page, "rb") as file:
            file.seek(max(0, page.stat().st_size - len(mark)))
            stale = file.read() != mark
        lines.append(f"page:   {page}" + (f", {STALE}; run: refract page" if stale else ""))
    return lines


def _is_stale(root: Path, models: Sequence[str]) -> bool:
    """Whether the report is that of this machine's last run of the stage, and the numbers are others
    by now. One that git brought is of the numbers that came with it."""
    try:
        last = json.loads((root / FOLDER / "report.json").read_text("utf-8"))
        same = last["report_sha256"] == sha256_file(root / REPORT)
        return bool(same and last["numbers_sha256"] != numbers_sha256(root, models))
    except (OSError, ValueError, KeyError, TypeError):
        return False  # it ran elsewhere, or under an earlier release
