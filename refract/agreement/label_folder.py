"""The folder of a project's human labels: which of its files count, and which nothing reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refract.agreement.label_files import LABEL_FILE, label_of, label_rows
from refract.core.errors import nearest

FOLDER = Path(LABEL_FILE).parents[1]
# Files beside labels that nobody takes for labels: of no kind, texts for people, what DVC tracks a
# file by, and what systems and office programs leave.
OTHER_SUFFIXES = ("", ".md", ".txt", ".dvc", ".bak")
HIDDEN = (".", "~")


def label_notes(root: Path, models: Sequence[str], suites: Sequence[str]) -> list[str]:
    """Of each file in a project's folder of labels that belongs to none of these models and suites, a
    sentence that says why.

    Raises :class:`refract.core.errors.RowError` for a file of theirs that no labels can be read
    from."""
    read, notes = [], []
    for model in models:
        for suite in suites:
            place = LABEL_FILE.format(model=model, suite=suite)
            if (root / place).is_file():
                read.append(root / place)
                for number, row in enumerate(label_rows(root / place), 1):
                    label_of(row, f"{place}: row {number}")
    for path in sorted((root / FOLDER).rglob("*")):
        parts = path.relative_to(root / FOLDER).parts
        hidden = any(part.startswith(HIDDEN) for part in parts) or path.name.endswith("~")
        other = path.suffix in OTHER_SUFFIXES or hidden
        # The same file, since some file systems take u.CSV for u.csv.
        if other or not path.is_file() or any(path.samefile(file) for file in read):
            continue
        reason = _why_unread(parts, models, suites)
        notes.append(f"{path.relative_to(root)} is not read: {reason}")
    return notes


def _why_unread(parts: Sequence[str], models: Sequence[str], suites: Sequence[str]) -> str:
    """Why nothing reads a file, by the parts of its path in the folder of labels."""
    if len(parts) != 2:
        return f"labels belong in {LABEL_FILE.format(model='MODEL', suite='SUITE')}"
    model, name = parts
    if model not in models:
        return f"grid.models has no {model!r}{nearest(model.lower(), models)}"
    suite = Path(name).stem
    if suite not in suites:
        return f"grid.suites has no {suite!r}{nearest(suite.lower(), suites)}"
    return f"labels of this suite belong in {LABEL_FILE.format(model=model, suite=suite)}"
