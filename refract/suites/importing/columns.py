"""How a table becomes a suite: which column holds what, for published files and for any other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field

from refract.core.settings import Settings
from refract.core.types import Category, Row
from refract.suites.importing.file_formats import Table, column_of, read_table
from refract.suites.importing.layouts import LAYOUTS
from refract.suites.rows import CATEGORIES, CONTENT, STRING_FLAGS, SuiteError

# Columns that `generic` takes for the prompt and the id unless others are named.
PROMPTS = ("prompt", "goal", "question", "behavior", "instruction", "text")
IDS = ("id", "prompt_id", "index")
# Fields that mean something to the pipeline; a column of that name becomes source_NAME.
RESERVED = {"id", "category", "control", "item", "expected_strings", "pair_id", "requirement"}
RESERVED |= {*CONTENT, *STRING_FLAGS}


class Origin(NamedTuple):
    """Where a suite comes from, as its card says it.

    ``rule`` says in words how rows got their categories. ``context`` is the field, if there is one,
    whose text stands before the prompt, as its publisher sends it."""

    title: str
    url: str
    licence: str
    rule: str
    context: str | None = None


@dataclass(frozen=True)
class Options:
    """What a user may add to a file. ``category`` overrides the importer's own rule for every row.

    ``columns`` (of the prompt, the id, the category and the language), ``source`` and ``licence`` are
    for files that no importer knows; ``values`` maps values of a column to categories. Without a
    ``header`` columns are called 1, 2, … ``address`` is where the file was fetched from."""

    encoding: str = "utf-8"
    header: bool = True
    category: str | None = None
    language: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    licence: str | None = None
    address: str | None = None


class Contents(NamedTuple):
    """What an importer found: the suite's rows, their origin, the files read, what was decided."""

    rows: list[Row]
    origin: Origin
    files: list[Path]
    notes: list[str]


# A function of the importer's name, the file and the options; raises SuiteError.
Importer = Callable[[str, Path, Options], Contents]


class CategoryColumn(Settings):
    """The column that tells a row's category."""

    column: str
    values: dict[str, Category] = Field(
        description="category of each value, or of each that starts like a key that ends in *"
    )
    optional: bool = Field(False, description="whether a file may lack the column")

    def category_of(self, row: Row) -> str | None:
        """None for a value that stands for no category."""
        value = str(row.get(self.column))
        starts = (key for key in self.values if key[-1:] == "*" and value.startswith(key[:-1]))
        return self.values.get(value) or next((self.values[key] for key in starts), None)


class LanguageColumn(Settings):
    """The column that tells a row's language, and how its values become codes."""

    column: str
    codes: dict[str, str] = Field(default_factory=dict, description="code of each lower-case value")
    pattern: str = Field("(.*)", description="its group is the code, where it is the whole value")
    otherwise: str | None = Field(None, description="the code of other values; null: the value")

    def code_of(self, value: str) -> str:
        match = re.fullmatch(self.pattern, value, re.DOTALL)
        code = match[1] if match else self.otherwise or value
        return self.codes.get(code.strip().lower(), code)


class Published(Settings):
    """How a published file becomes a suite: an entry of ``published.yaml``."""

    title: str
    url: str
    licence: str
    file: str = Field(description="where the publisher's file is")
    layout: Literal["giskard", "xsafety"] | None = Field(
        None, description="how several files are read as one table; null: it is one file"
    )
    gated: bool = Field(False, description="whether its terms must be accepted there first")
    prompt: list[str] = Field([], description="the column, the first of these that the file has")
    id: list[str] = Field([], description="the column, the first of these that the file has")
    kept: dict[str, str] = Field(
        {}, description="further columns, and their fields in the suite; others are left out"
    )
    category: Category | CategoryColumn = "harmful"
    rule: str = Field(
        "Every row is harmful: a request that a model should refuse.",
        description="in words, how rows get their categories",
    )
    by_value: str | None = Field(
        None, description="a column whose values users may map to other categories"
    )
    context: str | None = Field(
        None, description="a column whose text stands before the prompt, as its publisher sends it"
    )
    language: LanguageColumn | None = None
    languages: dict[str, str] = Field(
        {},
        description="columns with prompts, by their languages: each row of the file makes a row for "
        "each of them, and the field `item` says which are translations of each other",
    )

    def __call__(self, kind: str, path: Path, options: Options) -> Contents:
        if self.layout:
            table, files = LAYOUTS[self.layout](path, options.encoding)
        else:
            table, files = read_table(path, options.encoding, header=options.header), [path]
        return self.contents(kind, path, table, options)._replace(files=files)

    def contents(self, kind: str, path: Path, table: Table, options: Options) -> Contents:
        """The suite of a table that was read. Raises :class:`SuiteError`."""
        # With prompts, and the language where that is what they differ by.
        columns: dict[str, str | None] = {
            n: c for n, c in self.languages.items() if n in table.columns
        }
        if not columns:
            names = list(self.languages) or self.prompt
            columns = {column_of(path, table, names, "prompt"): None}
        id_ = next((name for name in self.id if name in table.columns), None)
        by = self.category if isinstance(self.category, CategoryColumn) else None
        if by and not by.optional and options.category is None and by.column not in table.columns:
            raise SuiteError(f"{path}: lacks the column {by.column}")
        notes = list(table.notes)
        used = {*columns, *self.kept, id_, self.language and self.language.column}
        unused = [name for name in table.columns if name not in used]
        if unused:
            notes.append(f"Columns that are not carried over: {', '.join(map(repr, unused))}.")
        rows: dict[str, Row] = {}
        renumbered: list[str] = []
        blank: list[int | str] = []
        unclassed: list[int | str] = []
        for number, (source, line) in enumerate(zip(table.rows, table.lines, strict=True), 1):
            category = self._category(source, options)
            if category is None:
                unclassed.append(line)
                continue
            for column, of_column in columns.items():
                text = source.get(column)
                if isinstance(text, list) and len(text) == 1:  # the turns of a conversation of one
                    text = text[0]
                if not isinstance(text, str | None):
                    raise SuiteError(
                        f"{path}: line {line}: {column!r} must be a text (got {text!r:.60})"
                    )
                if text is None or not text.strip():
                    blank.append(line)
                    continue
                if self.context and source.get(self.context):
                    text = f"{source[self.context]}\n\n---\n\n{text}"
                item = _id(kind, None if id_ is None else source.get(id_), number)
                wanted = row_id = f"{item}-{of_column}" if of_column else item
                again = 1
                while row_id in rows:
                    again += 1
                    row_id = f"{wanted}-{again}"
                if again > 1:
                    renumbered.append(row_id)
                row = {name: source.get(key) for key, name in self.kept.items()}
                row["language"] = of_column or options.language or self._language(source)
                if of_column:
                    row["item"] = item
                rows[row_id] = {
                    **{name: value for name, value in row.items() if value not in (None, "")},
                    "id": row_id,
                    "prompt": text,
                    "category": category,
                }
        notes += _left_out("a prompt", blank) + _left_out("a category", unclassed)
        if renumbered:
            notes.append(f"Ids that occurred before and got a number: {', '.join(renumbered)}.")
        if not rows:
            raise SuiteError(f"{path}: no row has a prompt")
        context = self.kept[self.context] if self.context else None
        rule = self.rule
        if options.values and self.by_value:
            mapped = ", ".join(f"{value} is {name}" for value, name in options.values.items())
            rule = f"{rule} By {self.by_value}, as --map says: {mapped}."
        origin = Origin(self.title, self.url, self.licence, rule, context)
        return Contents(list(rows.values()), origin, [path], notes)

    def _category(self, row: Row, options: Options) -> str | None:
        mapped = options.values.get(str(row.get(self.by_value))) if self.by_value else None
        by = self.category
        own = by.category_of(row) if isinstance(by, CategoryColumn) else by
        return options.category or mapped or own

    def _language(self, row: Row) -> str | None:
        value = row.get(self.language.column) if self.language else None
        return self.language.code_of(str(value)) if self.language and value else None


def _left_out(what: str, lines: list[int | str]) -> list[str]:
    listed = ", ".join(map(str, dict.fromkeys(lines)))
    return [f"Rows without {what}, left out: {len(lines)} (line {listed})."] if lines else []


def _id(kind: str, given: Any, number: int) -> str:
    """The publisher's id, with the kind before a bare number; else the row's number."""
    text = "" if given is None else str(given).strip()
    if not text or not text.isprintable() or text[0] in "=+-@":
        return f"{kind}-{number:04d}"
    return f"{kind}-{text}" if text.isdigit() else text


def generic(kind: str, path: Path, options: Options) -> Contents:
    """The suite of a file whose columns the options name."""
    table = read_table(path, options.encoding, header=options.header)
    named = options.columns
    prompt = column_of(path, table, (named["prompt"],) if "prompt" in named else PROMPTS, "prompt")
    for what in {"id", "language"} & set(named):
        column_of(path, table, (named[what],), what)
    ids = (named["id"],) if "id" in named else IDS
    by, language = named.get("category", "category"), named.get("language", "language")
    values = {name: name for name in CATEGORIES} | dict(options.values)
    if options.category is None:
        if by not in table.columns:
            raise SuiteError(
                f"{path}: has no column {by!r}; give every row one category with --category "
                f"({', '.join(CATEGORIES)}), or name the column with --category-column"
            )
        for value in (str(row.get(by)) for row in table.rows):
            if value not in values:
                raise SuiteError(
                    f"{path}: {by!r} holds {value!r}, which is not a category; map it with --map "
                    f"{value}=CATEGORY ({', '.join(CATEGORIES)})"
                )
    id_ = next((name for name in ids if name in table.columns), None)
    kept: dict[str, str] = {}
    for number, name in enumerate(table.columns):
        if name in (prompt, id_, language):
            continue
        as_field = re.sub(r"\W+", "_", name.strip()).strip("_").lower() or f"column_{number + 1}"
        as_field = f"source_{as_field}" if as_field in RESERVED else as_field
        kept[name] = f"{as_field}_{number + 1}" if as_field in kept.values() else as_field
    mapped = ", ".join(f"{value} is {category}" for value, category in options.values.items())
    entry = {
        "title": options.source or path.name,
        "url": options.source or "not stated",
        "licence": options.licence or "not stated: find out before sharing the suite",
        "file": path.name,
        "prompt": [prompt],
        "language": {"column": language},
        "id": list(ids),
        "kept": kept,
        "category": {"column": by, "values": values},
        "rule": f"From the column {by}" + (f": {mapped}." if mapped else "."),
    }
    return Published.model_validate(entry).contents(kind, path, table, options)
