"""The folder of a project's human labels: which of its files count, and which nothing reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from refract.agreement.label_files import LABEL_FILE, NO_LABEL, label_of, label_rows
from refract.core.errors import nearest

FOLDER = Path(LABEL_FILE).parents[1]
# Files beside labels that nobody takes for labels: of no kind, texts for people, what DVC tracks a
# file by, and what systems and office programs leave.
OTHER_SUFFIXES = ("", ".md", ".dvc")
HIDDEN = (".", "~")


def unread_label_files(
    root: Path, models: Sequence[str], suites: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The files in a project's folder of labels that belong to none of these models and suites: for
    each the name of its model's folder, if it is in one, and a sentence that says why."""
    read = []
    for model in models:
        files = [root / LABEL_FILE.format(model=model, suite=suite) for suite in suites]
        read += [file for file in files if file.is_file()]
    for path in sorted((root / FOLDER).rglob("*")):
        other = path.suffix in OTHER_SUFFIXES or path.name.startswith(HIDDEN)
        # The same file, since some file systems take u.CSV for u.csv.
        if other or not path.is_file() or any(path.samefile(file) for file in read):
            continue
        parts = path.relative_to(root / FOLDER).parts
        reason = _why_unread(parts, models, suites)
        yield parts[0] if len(parts) > 1 else "", f"{path.relative_to(root)} is not read: {reason}"


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


def unlabelled_files(root: Path, models: Sequence[str], suites: Sequence[str]) -> Iterator[str]:
    """Of each file of labels of these models and suites that has no label yet, a sentence that says
    so. Raises :class:`refract.core.errors.RowError` for a file that no labels can be read from."""
    for model in models:
        for suite in suites:
            file = Path(LABEL_FILE.format(model=model, suite=suite))
            if not (root / file).is_file():
                continue
            labels = []
            for number, row in enumerate(label_rows(root / file), 1):
                labels.append(label_of(row, f"{file}: row {number}"))
            if not any(labels):
                yield f"{file}: {NO_LABEL}"
