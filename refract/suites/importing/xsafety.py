"""XSafety, as published in a folder for each language with a headerless file for each area."""

from __future__ import annotations

import re
from pathlib import Path

from refract.core.types import Row
from refract.suites.importing.files import read_table
from refract.suites.importing.importer import Contents, Options, Origin
from refract.suites.rows import SuiteError

FILE = "https://github.com/Jarviswang94/Multilingual_safety_benchmark"
ORIGIN = Origin(
    "XSafety (Wang et al. 2023, arXiv 2310.00905)",
    FILE,
    "Apache-2.0",
    "Every row is harmful, which here means: its answer can be unsafe. Its publisher counts unsafe "
    "answers, and many rows have safe ones that are no refusals: read the refusal rate together with "
    "a judge of harm.",
)
# Folders that are not called by the code of their language.
CODES = {"sp": "es"}


def xsafety(kind: str, path: Path, options: Options) -> Contents:
    """The suite of one file, of a language's folder, or of a folder that holds those of several.

    Rows that are on the same line of the same area are translations of each other and have the same
    ``item``. Raises :class:`SuiteError`.
    """
    suffixes = (".csv", ".xlsx")
    files = [path] if path.is_file() else sorted(path.glob("**/*"))
    files = [file for file in files if file.suffix.lower() in suffixes]
    if not files:
        raise SuiteError(f"{path}: holds no file of prompts ({', '.join(suffixes)})")
    rows: list[Row] = []
    notes: list[str] = []
    for file in files:
        table = read_table(file, options.encoding, header=False)
        language = options.language or CODES.get(file.parent.name, file.parent.name)
        area = re.sub(r"_(n|en)$", "", file.stem).lower()
        notes += [
            f"{language}/{file.name}: {note}" for note in table.notes if "byte order" not in note
        ]
        blank = [line for row, line in zip(table.rows, table.lines, strict=True) if not _text(row)]
        if blank:
            notes.append(
                f"{language}/{file.name}: rows without a prompt, left out: {len(blank)} "
                f"(line {', '.join(map(str, blank))})."
            )
        rows += [
            {
                "id": f"{kind}-{area}-{number:03d}-{language}",
                "prompt": _text(row),
                "category": options.category or "harmful",
                "area": area,
                "item": f"{area}-{number:03d}",
                "language": language,
            }
            for number, row in enumerate(table.rows, 1)
            if _text(row)
        ]
    if not rows:
        raise SuiteError(f"{path}: no row has a prompt")
    return Contents(rows, ORIGIN, files, notes)


def _text(row: Row) -> str:
    """The first cell; further ones are empty in the published files."""
    text: str = row["1"] or ""
    return text if text.strip() else ""
