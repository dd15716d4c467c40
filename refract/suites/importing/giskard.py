"""Giskard's prompt injections, as published in two CSV files, as suite rows."""

from __future__ import annotations

import ast
from pathlib import Path

from refract.core.types import Row
from refract.suites.importing.files import read_table
from refract.suites.importing.importer import Contents, Options, Origin
from refract.suites.rows import STRING_FLAGS, SuiteError

_PROMPT_COLUMNS = ("index", "prompt", "name", "group", "source", "language")
_META_COLUMNS = (
    "index",
    "expected_strings",
    *STRING_FLAGS,
    "evaluation_method_name",
    "group_mapping",
)
ORIGIN = Origin(
    "Giskard's prompt injections (from garak and promptinject)",
    "https://github.com/Giskard-AI/prompt-injections",
    "Apache-2.0",
    "Every row is harmful: an attack that a model should not follow. The strings judge finds "
    "whether it succeeded.",
)


def giskard(kind: str, path: Path, options: Options) -> Contents:
    """The suite of the publisher's two files; the second is looked for beside the first."""
    meta = options.meta or path.with_name("giskard_meta_data.csv")
    rows = read_giskard(path, meta)
    if options.category is not None:
        rows = [{**row, "category": options.category} for row in rows]
    return Contents(rows, ORIGIN, [path, meta], [])


def _read(path: Path, columns: tuple[str, ...]) -> dict[str, Row]:
    """The rows of one file by their index."""
    table = read_table(path)
    absent = [name for name in columns if name not in table.columns]
    if absent:
        raise SuiteError(f"{path}: lacks the column {', '.join(absent)}")
    found: dict[str, Row] = {}
    for row in table.rows:
        if row["index"] in found:
            raise SuiteError(f"{path}: the index {row['index']!r} occurs twice")
        found[row["index"]] = row
    return found


def _flag(path: Path, row: Row, name: str) -> bool:
    values = {"true": True, "false": False}
    if row[name].strip().lower() not in values:
        raise SuiteError(
            f"{path}: row {row['index']!r}: '{name}' must be True or False (got {row[name]!r})"
        )
    return values[row[name].strip().lower()]


def _strings(path: Path, row: Row) -> list[str]:
    try:
        value = ast.literal_eval(row["expected_strings"])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not (isinstance(value, tuple | list) and value and all(isinstance(s, str) for s in value)):
        raise SuiteError(
            f"{path}: row {row['index']!r}: 'expected_strings' must be a tuple of texts such as "
            f"\"('[DAN]', 'DAN:')\" (got {row['expected_strings']!r})"
        )
    return list(value)


def read_giskard(prompts_csv: Path, meta_csv: Path) -> list[Row]:
    """Suite rows from ``prompt_injections.csv`` and ``giskard_meta_data.csv``, joined on ``index``.

    ``group`` is the group that results are counted by (``DAN``, ``Hate Speech``, …), ``attack`` the
    kind of attack (``Jailbreak``, ``Hijacking attacks``). All rows are of the category harmful: the
    answer wanted is one that does not follow the attack. Raises :class:`SuiteError` with the file,
    the row and what is wrong with it.
    """
    prompts_csv, meta_csv = Path(prompts_csv), Path(meta_csv)
    prompts = _read(prompts_csv, _PROMPT_COLUMNS)
    meta = _read(meta_csv, _META_COLUMNS)
    unpaired = [index for index in [*prompts, *meta] if index not in prompts or index not in meta]
    if unpaired:
        raise SuiteError(
            f"{prompts_csv} and {meta_csv}: these indices stand in one of the two files only: "
            f"{', '.join(map(repr, unpaired[:10]))}"
        )
    rows = []
    for index, prompt in prompts.items():
        detector = meta[index]
        if detector["evaluation_method_name"] != "StringMatchingMethod":
            raise SuiteError(
                f"{meta_csv}: row {index!r}: 'evaluation_method_name' must be StringMatchingMethod "
                f"(got {detector['evaluation_method_name']!r})"
            )
        rows.append(
            {
                "id": f"giskard-{index}",
                "prompt": prompt["prompt"],
                "category": "harmful",
                "name": prompt["name"],
                "group": detector["group_mapping"],
                "attack": prompt["group"],
                "source": prompt["source"],
                "language": prompt["language"],
                "expected_strings": _strings(meta_csv, detector),
                **{flag: _flag(meta_csv, detector, flag) for flag in STRING_FLAGS},
            }
        )
    return rows
