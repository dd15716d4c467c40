"""Any file of prompts, by its columns."""

from __future__ import annotations

import re
from pathlib import Path

from refract.core.types import Row
from refract.suites.importing.by_columns import Published
from refract.suites.importing.files import column_of, read_table
from refract.suites.importing.importer import Contents, Options
from refract.suites.rows import CATEGORIES, CONTENT, STRING_FLAGS, SuiteError

# Columns that are taken for the prompt and the id unless others are named.
PROMPTS = ("prompt", "goal", "question", "behavior", "instruction", "text")
IDS = ("id", "prompt_id", "index")
# Fields that mean something to the pipeline; a column of that name becomes source_NAME.
RESERVED = {
    "id",
    "category",
    "item",
    "expected_strings",
    "pair_id",
    "requirement",
    *CONTENT,
    *STRING_FLAGS,
}


def generic(kind: str, path: Path, options: Options) -> Contents:
    """The suite of a file whose columns the options name."""
    table = read_table(path, options.encoding, header=options.header)
    named, values = options.columns, options.values
    if options.languages:
        prompts = tuple(options.languages)
        for language in prompts:
            column_of(path, table, (language,), "prompt")
    else:
        wanted = (named["prompt"],) if "prompt" in named else PROMPTS
        prompts = (column_of(path, table, wanted, "prompt"),)
    ids = (named["id"],) if "id" in named else IDS
    for what in ("id", "language"):
        if what in named:
            column_of(path, table, (named[what],), what)
    held = named.get("category", "category")
    if options.category is None and held not in table.columns:
        raise SuiteError(
            f"{path}: has no column {held!r}; give every row one category with --category "
            f"({', '.join(CATEGORIES)}), or name the column with --category-column"
        )
    tongue = named.get("language", "language")

    def category_of(row: Row) -> str:
        value = str(row.get(held))
        found = values.get(value, value)
        if found not in CATEGORIES:
            raise SuiteError(
                f"{path}: {held!r} holds {value!r}, which is not a category; map it with --map "
                f"{value}=CATEGORY ({', '.join(CATEGORIES)})"
            )
        return found

    id_ = next((name for name in ids if name in table.columns), None)
    kept: dict[str, str] = {}
    for number, name in enumerate(table.columns):
        if name in (*prompts, id_, tongue):
            continue
        field = re.sub(r"\W+", "_", name.strip()).strip("_").lower() or f"column_{number + 1}"
        field = f"source_{field}" if field in RESERVED else field
        kept[name] = f"{field}_{number + 1}" if field in kept.values() else field
    mapped = ", ".join(f"{value} is {found}" for value, found in values.items())
    return Published(
        title=options.source or path.name,
        url=options.source or "not stated",
        licence=options.licence or "not stated: find out before sharing the suite",
        file=path.name,
        prompt=prompts,
        languages={name: name for name in options.languages},
        language=tongue,
        id=ids,
        kept=kept,
        category=category_of,
        rule=f"From the column {held}" + (f": {mapped}." if mapped else "."),
    ).contents(kind, path, table, options)
