"""Suites that their publishers ship in several files, read as one table."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from refract.core.types import Row
from refract.suites.importing.file_formats import Table, read_table
from refract.suites.rows import STRING_FLAGS, SuiteError, field_problems


def giskard(path: Path, encoding: str) -> tuple[Table, list[Path]]:
    """``prompt_injections.csv`` joined on ``index`` with the ``giskard_meta_data.csv`` beside it."""
    files = [path, path.with_name("giskard_meta_data.csv")]
    tables = [read_table(file, encoding) for file in files]
    prompts, meta = ({row.get("index"): row for row in table.rows} for table in tables)
    if [*prompts] != [row.get("index") for row in tables[0].rows] or {*prompts} != {*meta}:
        raise SuiteError(
            f"{path} and {files[1]} must both have each index, and {path} have it once"
        )
    rows: list[Row] = []
    for index, prompt in prompts.items():
        row, where = {**prompt, **meta[index]}, f"{files[1]}: row {index!r}"
        if row.get("evaluation_method_name") != "StringMatchingMethod":
            raise SuiteError(
                f"{where}: 'evaluation_method_name' must be StringMatchingMethod "
                f"(got {row.get('evaluation_method_name')!r})"
            )
        row["expected_strings"] = _tuple(row.get("expected_strings"))
        for flag in STRING_FLAGS:
            text = str(row.get(flag)).strip().lower()
            row[flag] = text == "true" if text in ("true", "false") else row.get(flag)
        if problems := field_problems(row):
            raise SuiteError(f"{where}: {problems[0]}")
        rows.append(row)
    notes = [note for table in tables for note in table.notes]
    return Table(rows, tables[0].lines, list(rows[0]), notes), files


def _tuple(text: str | None) -> object:
    """A tuple of texts such as ``('[DAN]', 'DAN:')`` as a list; anything else as it is."""
    try:
        value = ast.literal_eval(text or "")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return list(value) if isinstance(value, tuple) else value


def xsafety(path: Path, encoding: str) -> tuple[Table, list[Path]]:
    """One file, a language's folder, or a folder that holds those of several languages.

    XSafety has a folder for each language, with a headerless file for each area. Rows that are on the
    same line of the same area are translations of each other and have the same ``item``."""
    suffixes = (".csv", ".xlsx")
    files = [path] if path.is_file() else sorted(path.glob("**/*"))
    files = [file for file in files if file.suffix.lower() in suffixes]
    if not files:
        raise SuiteError(f"{path}: holds no file of prompts ({', '.join(suffixes)})")
    together = Table([], [], ["prompt", "key", "area", "item", "language"], [])
    for file in files:
        table = read_table(file, encoding, header=False)
        folder = file.parent.name
        language = "es" if folder == "sp" else folder  # the one that is not called by its code
        area = re.sub(r"_(n|en)$", "", file.stem).lower()
        named = f"{language}/{file.name}"
        together.notes.extend(
            f"{named}: {note}" for note in table.notes if "byte order" not in note
        )
        for number, (row, line) in enumerate(zip(table.rows, table.lines, strict=True), 1):
            item = f"{area}-{number:03d}"
            # The first cell; further ones are empty in the published files.
            values = (row["1"], f"xsafety-{item}-{language}", area, item, language)
            together.rows.append(dict(zip(together.columns, values, strict=True)))
            together.lines.append(f"{line} of {named}")
    return together, files


LAYOUTS = {"giskard": giskard, "xsafety": xsafety}
