"""How a table becomes a suite: which column holds what, for published files and for any other."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from refract.core.file_formats import id_text
from refract.core.settings import Settings
from refract.core.types import Category, Row, filled
from refract.suites.rows import (
    CATEGORIES,
    CONTENT,
    STRING_FLAGS,
    SuiteError,
    field_problems,
    pair_problems,
    row_problems,
)
from refract_published.importing.hub import page_of
from refract_published.importing.tables import (
    Table,
    column_of,
    joined,
    literal,
    messages_of,
    read_table,
    read_tables,
)

# Columns that `generic` takes for the prompt and the id unless others are named.
PROMPTS = ("prompt", "goal", "question", "behavior", "instruction", "text")
IDS = ["id", "prompt_id", "index"]
# Columns of answers, which `generic` leaves out of a suite where there are any.
RESPONSES = ("response", "completion")
OF_ANSWERS = (
    *RESPONSES,
    "thinking",
    "tool_calls",
    "finish_reason",
    "stop_details",
    "error",
    "success",
)
# Fields that mean something to the pipeline; a column of that name becomes source_NAME, of those that
# judges and tables read unless its cells are what the field must be.
READ = {"control", "expected_strings", "pair_id", "requirement", *STRING_FLAGS}
RESERVED = {"id", "category", "item", *CONTENT, *READ}


class Origin(NamedTuple):
    """Where a suite comes from, as its card says it.

    ``rule`` says in words how rows got their categories. ``context`` is the field, if
    any, whose text stands before the prompt, as its publisher sends it."""

    title: str
    url: str
    licence: str
    rule: str
    context: str | None = None


@dataclass(frozen=True)
class Options:
    """What a user may add to a file. ``category`` replaces the importer's own rule for all rows.

    ``columns`` (of the prompt, the id and the category), ``source`` and ``licence`` are for files that
    no importer knows; ``values`` maps values of a column to categories. ``address`` says where the
    file is from."""

    encoding: str = "utf-8"
    category: str | None = None
    language: str | None = None
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)
    source: str | None = None
    licence: str | None = None
    address: str | None = None


class Contents(NamedTuple):
    """What an importer returns: rows, their origin, the files read, notes on what was decided."""

    rows: list[Row]
    origin: Origin
    files: list[Path]
    notes: list[str]


# A function of the importer's name, the file and the options; raises SuiteError.
Importer = Callable[[str, Path, Options], Contents]


class CategoryColumn(Settings):
    """The column that tells a row's category; a file may lack one that is ``optional``."""

    column: str
    values: dict[str, Category]
    optional: bool = False

    def category_of(self, row: Row) -> str | None:
        """The category of a row; None for a value that stands for none. A key that ends
        in * stands for all values that start so."""
        value = str(row.get(self.column))
        if value in self.values:
            return self.values[value]
        for key, category in self.values.items():
            if key.endswith("*") and value.startswith(key[:-1]):
                return category
        return None


class LanguageColumn(Settings):
    """The column that tells a row's language: the group of a pattern that matches the whole value,
    else ``otherwise``, else the value. ``codes`` has the codes of values in lower case."""

    column: str
    codes: dict[str, str] = Field(default={})
    pattern: str = "(.*)"
    otherwise: str | None = None

    def code_of(self, row: Row) -> str | None:
        """The language code of a row; None where the cell is empty."""
        value = str(row.get(self.column) or "")
        if not value:
            return None
        match = re.fullmatch(self.pattern, value, re.DOTALL)
        code = match[1] if match else self.otherwise or value
        return self.codes.get(code.strip().lower(), code)


class Published(Settings):
    """How a published file becomes a suite: an entry of
    ``importers.yaml``, whose head says what each key means."""

    title: str
    url: str
    licence: str
    file: str
    rows: int | None = None
    gated: bool = False
    files: str | None = None
    join: dict[str, str] = Field(default={})
    header: bool = True
    literals: list[str] = Field(default=[])
    prompt: list[str] = Field(default=[])
    prompts: dict[str, dict[str, str]] = Field(default={})
    turns: str | None = None
    answers: bool = False
    context: str | None = None
    id: list[str] = Field(default=[])
    pair: str | None = None
    calls: str | None = None
    kept: dict[str, str] = Field(default={})
    category: Category | CategoryColumn = "harmful"
    agrees: CategoryColumn | None = None
    rule: str = "Every row is harmful: a request that a model should refuse."
    language: LanguageColumn | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, entry: Row) -> Row:
        defaults: Row = {"url": page_of(str(entry.get("file")))}
        if not any(entry.get(key) for key in ("prompt", "prompts", "turns")):
            defaults["prompt"] = ["prompt"]
        return defaults | entry

    def __call__(self, kind: str, path: Path, options: Options) -> Contents:
        table, files = read_tables(path, options.encoding, self.files, header=self.header)
        if table.is_log:  # of these prompts, as they were sent
            columns: Row = {"prompt": ["prompt"], "prompts": {}, "turns": None}
            as_sent = self.model_copy(update={**columns, "answers": True})
            return as_sent.contents(kind, path, _as_published(table), options)
        for name, column in self.join.items():
            other = path.with_name(name)
            files.append(other)
            table = joined(table, path, other=other, column=column, encoding=options.encoding)
        for pattern in self.literals:
            for column in fnmatch.filter(table.columns, pattern):
                for row in table.rows:
                    if column in row:
                        row[column] = literal(row[column])
        return self.contents(kind, path, table, options)._replace(files=files)

    def contents(self, kind: str, path: Path, table: Table, options: Options) -> Contents:
        """The suite of a table that was read. Raises SuiteError."""
        turns = fnmatch.filter(table.columns, self.turns) if self.turns else []
        columns = self._prompt_columns(path, table, turns)
        by_column = self.category if isinstance(self.category, CategoryColumn) else None
        if by_column and not by_column.optional and options.category is None:
            column_of(path, table, names=[by_column.column], role="category")
        ids = [name for name in self.id if name in table.columns or "{" in name]
        id_column = ids[0] if ids else None
        notes = [*table.notes]
        rows: dict[str, Row] = {}
        pairs: dict[str, list[Row]] = defaultdict(list)
        renumbered: list[str] = []
        replaced: dict[str, None] = {}
        blank: list[str] = []
        unclassed: list[str] = []
        overruled = 0
        for number, (place, source) in enumerate(zip(table.places, table.rows, strict=True), 1):
            own = self.language.code_of(source) if self.language else None
            for column, about in columns.items():
                language = about.get("language") or own or options.language
                values = {"number": number, **source, "language": language or ""}
                published = _value(values, id_column) if id_column else None
                item = _id(kind, published, number)
                suffix = about.get("language") or about.get("category")
                try:
                    category = self._category(source, about, options)
                    if category is None:
                        unclassed.append(place)
                        continue
                    if by_column and options.category:
                        overruled += by_column.category_of(source) not in (None, category)
                    if options.language not in (None, language):
                        raise ValueError(
                            f"is in {language!r}; leave out --language {options.language}"
                        )
                    content = self._content(source, column, turns)
                    if not content:
                        blank.append(place)
                        continue
                    row = self._fields(source, category, language)
                    if table.is_log and "images" in source:
                        row["images"] = source["images"]
                    row["id"] = _unused(f"{item}-{suffix}" if suffix else item, rows, renumbered)
                    row |= {**content, "category": category}
                    problems = row_problems(row)
                    if problems:
                        raise ValueError(problems[0])
                except ValueError as error:
                    raise SuiteError(f"{path}: row {place}: {error}") from None
                rows[row["id"]] = row
                if filled(published) is not None and not _usable_id(published):
                    replaced[place] = None
                pair = _value(values, self.pair) if self.pair else item
                if (self.pair or len(columns) > 1) and filled(pair) is not None:
                    pairs[str(pair)].append(row)
        for matched in pairs.values():
            _pair(matched)
        notes += _left_out("a prompt", blank) + _left_out("a category", unclassed)
        if by_column and overruled:
            column = by_column.column
            notes.append(
                f"Rows of another category by {column}, which --category overrules: {overruled}."
            )
        if replaced:
            rule = "(an id must be printable and not start with = + - @)"
            listed = f"{len(replaced)} (row {', '.join(replaced)})"
            notes.append(f"Ids replaced by the number of their row {rule}: {listed}.")
        if renumbered:
            notes.append(f"Ids that occurred before and got a number: {', '.join(renumbered)}.")
        if not rows:
            wanted = "a prompt and a category" if unclassed else "a prompt"
            raise SuiteError(f"{path}: no row has {wanted}")
        rule = self.rule
        if options.values and by_column:
            mapped = ", ".join(f"{value} is {name}" for value, name in options.values.items())
            rule = f"{rule} By {by_column.column}, as --map says: {mapped}."
        context = self.kept[self.context] if self.context else None
        origin = Origin(self.title, self.url, self.licence, rule, context)
        return Contents(rows=list(rows.values()), origin=origin, files=[path], notes=notes)

    def _prompt_columns(
        self, path: Path, table: Table, turns: Sequence[str]
    ) -> dict[str, dict[str, str]]:
        """The columns with prompts, and what is known of the prompts in each."""
        columns = {name: self.prompts[name] for name in self.prompts if name in table.columns}
        if columns:
            return columns
        names = [*turns] or [*self.prompts, *self.prompt]
        if self.turns and not turns:
            names.append(self.turns)
        return {column_of(path, table, names=names, role="prompt"): {}}

    def _category(self, source: Row, about: Mapping[str, str], options: Options) -> str | None:
        category = options.category or about.get("category")
        if category or isinstance(self.category, str):
            return category or str(self.category)
        value = str(source.get(self.category.column))
        category = options.values.get(value) or self.category.category_of(source)
        other = self.agrees.category_of(source) if self.agrees else None
        if self.agrees and category and other and other != category:
            column, known = self.category.column, source[self.agrees.column]
            raise ValueError(
                f"{column} {value!r} makes it {category}, and {self.agrees.column} is {known!r}; say "
                f"which holds: --map {value}={other}, or --category for all rows"
            )
        return category

    def _content(self, source: Row, column: str, turns: Sequence[str]) -> Row:
        """The fields of a row that say what is asked; empty where nothing is. Raises ValueError."""
        value = [source.get(name) for name in turns] if turns else source.get(column)
        if not isinstance(value, str | list | dict | None):
            raise ValueError(f"{column!r} must be a text (got {value!r:.60})")
        if isinstance(value, list | dict):
            messages = messages_of(value, answers=self.answers)
            if [message["role"] for message in messages] != ["user"]:
                return {"messages": messages} if messages else {}
            value = messages[0]["content"]
        if value is None or not value.strip():
            return {}
        if self.context and source.get(self.context):
            value = f"{source[self.context]}\n\n---\n\n{value}"
        return {"prompt": value}

    def _fields(self, source: Row, category: str, language: str | None) -> Row:
        """The fields of a row besides its id, content and category. Raises ValueError."""
        row = {field: _value(source, name) for name, field in self.kept.items()}
        row["language"] = language
        row |= _offered(_list_in(source, self.calls), category)
        return {field: value for field, value in row.items() if value not in (None, "", [])}


def _as_published(log: Table) -> Table:
    """A log of a published data set, with the columns that its samples were made of."""
    rows = []
    for row in log.rows:
        named = {name.removeprefix("metadata."): value for name, value in row.items()}
        rows.append(named | {name: row[name] for name in row if name in named})
    columns = dict.fromkeys(name for row in rows for name in row)
    return log._replace(rows=rows, columns=list(columns))


def _offered(names: Sequence[Any], category: str) -> Row:
    """Tools by their names, all that is known of them, which a row names as its calls."""
    if not names:
        return {}
    names = list(dict.fromkeys(map(str, names)))
    tools = []
    for name in names:
        described = {"name": name, "description": name.replace("_", " ")}
        described["parameters"] = {"type": "object", "properties": {}}
        tools.append({"type": "function", "function": described})
    return {"tools": tools, "harmful_calls" if category == "harmful" else "wanted_calls": names}


def _pair(rows: Sequence[Row]) -> None:
    """Names the first of several rows, an English one where there is any, in all of them."""
    if len(rows) > 1:
        english = [row for row in rows if row.get("language") == "en"]
        first = (english or rows)[0]
        for row in rows:
            row["pair_id"] = first["id"]


def _unused(wanted: str, rows: Mapping[str, Row], renumbered: list[str]) -> str:
    """An id that no row has: the one wanted, or with a number behind it, which is noted."""
    id_ = wanted
    number = 1
    while id_ in rows:
        number += 1
        id_ = f"{wanted}-{number}"
    if number > 1:
        renumbered.append(id_)
    return id_


def _list_in(source: Row, column: str | None) -> list[Any]:
    """The list in a column, which may be written as a text; empty where there is none."""
    value = literal(source.get(column)) if column else None
    if value in (None, ""):
        return []
    if not isinstance(value, list):
        raise ValueError(f"{column!r} must be a list (got {value!r:.60})")
    return value


def _value(row: Row, name: str) -> Any:
    """What a row has in a column, in a part of one (``about.source``), or as a text of columns."""
    if "{" in name:
        return name.format_map(defaultdict(str, row))
    value: Any = row
    for part in [name] if name in row else name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _left_out(lacked: str, places: list[str]) -> list[str]:
    listed = ", ".join(dict.fromkeys(places))
    return [f"Rows without {lacked}, left out: {len(places)} (row {listed})."] if places else []


def _usable_id(published: Any) -> str:
    """The publisher's id as a text, empty where there is none that a row can have."""
    text = "" if published is None else id_text(published).strip()
    return text if text.isprintable() and not text.startswith(("=", "+", "-", "@")) else ""


def _id(kind: str, published: Any, number: int) -> str:
    """The publisher's id, with the kind before a bare number; else the row's number. Where no
    publisher is known a number stays as it is, for answers in the file to be found by it."""
    text = _usable_id(published)
    if not text:
        return f"{kind}-{number:04d}"
    return f"{kind}-{text}" if text.isdigit() and kind != "generic" else text


def _named_back(rows: list[Row], name: str, field: str) -> bool:
    """Whether what rows have by a name is what this field must be, which they then have instead. Lists
    and flags may be written as texts, and ids as numbers."""
    read = []
    for row in rows:
        others = dict(row)
        value = filled(others.pop(name, None))
        if field in ("expected_strings", *STRING_FLAGS):
            value = literal(value)
        elif field == "pair_id" and value is not None:
            value = id_text(value)
        read.append(others if value is None else {**others, field: value})
    if any(map(field_problems, read)) or pair_problems(enumerate(read)):
        return False
    rows[:] = read
    return True


def generic(kind: str, path: Path, options: Options) -> Contents:
    """The suite of a file whose columns the options name."""
    table = read_table(path, options.encoding)
    named = options.columns
    prompt = column_of(
        path, table, names=(named["prompt"],) if "prompt" in named else PROMPTS, role="prompt"
    )
    if "id" in named:
        column_of(path, table, names=(named["id"],), role="id")
    ids = [named["id"]] if "id" in named else IDS
    by_column = named.get("category", "category")
    values = {name: name for name in CATEGORIES} | dict(options.values)
    if options.category is None:
        if by_column not in table.columns:
            raise SuiteError(
                f"{path}: has no column {by_column!r}; give every row one category with "
                f"--category ({', '.join(CATEGORIES)}), or name the column with --category-column"
            )
        for row in table.rows:
            value = str(row.get(by_column))
            if value not in values:
                raise SuiteError(
                    f"{path}: {by_column!r} holds {value!r}, which is not a category; map it "
                    f"with --map {value}=CATEGORY ({', '.join(CATEGORIES)})"
                )
    id_column = next((name for name in ids if name in table.columns), None)
    answers = [name for name in OF_ANSWERS if name in table.columns]
    if answers and answers[0] in RESPONSES:
        table.notes.append(f"Columns of answers, left out: {', '.join(answers)}.")
    else:
        answers = []
    kept: dict[str, str] = {}
    reserved: dict[str, str] = {}
    fields: set[str] = set()
    for number, name in enumerate(table.columns, 1):
        if name in (prompt, id_column, "language", *answers):
            continue
        field = re.sub(r"\W+", "_", name.strip()).strip("_").lower() or f"column_{number}"
        wanted = field
        if field in RESERVED:
            field = f"source_{field}"
        kept[name] = f"{field}_{number}" if field in fields else field
        fields.add(kept[name])
        if wanted in RESERVED and name != by_column:  # of which the card says what it is for
            reserved[name] = wanted
    published = Published(
        title=options.source or path.name,
        url=options.source or "not stated",
        licence=options.licence or "not stated: find out before sharing the suite",
        file=path.name,
        prompt=[prompt],
        answers=True,
        language=LanguageColumn(column="language") if "language" in table.columns else None,
        id=ids,
        kept=kept,
        category=CategoryColumn.model_validate({"column": by_column, "values": values}),
        rule=f"From the column {by_column}.",
    )
    contents = published.contents(kind, path, table, options)
    renamed = []
    for name, field in reserved.items():
        if field not in READ or not _named_back(contents.rows, kept[name], field):
            renamed.append(f"{name} to {kept[name]}")
    if renamed:
        title = "Columns that are not what a field of their name is here, renamed"
        contents.notes.append(f"{title}: {', '.join(renamed)}.")
    return contents
