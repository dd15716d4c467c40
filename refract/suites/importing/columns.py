"""How a table becomes a suite: which column holds what, for published files and for any other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from refract.core.settings import Settings
from refract.core.types import Category, Row
from refract.suites.importing.file_formats import (
    Table,
    column_of,
    joined,
    literal,
    messages_of,
    read_table,
    read_tables,
)
from refract.suites.rows import CATEGORIES, CONTENT, STRING_FLAGS, SuiteError, row_problems

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
    """The column that tells a row's category; a file may lack one that is ``optional``."""

    column: str
    values: dict[str, Category]
    optional: bool = False

    def category_of(self, row: Row) -> str | None:
        """None for a value that stands for no category; a key that ends in * is of all that start so."""
        value = str(row.get(self.column))
        starts = (key for key in self.values if key[-1:] == "*" and value.startswith(key[:-1]))
        return self.values.get(value) or next((self.values[key] for key in starts), None)


class LanguageColumn(Settings):
    """The column that tells a row's language: the group of a pattern that is the whole value, else
    ``otherwise``, else the value; ``codes`` are of lower-case values."""

    column: str
    codes: dict[str, str] = Field(default_factory=dict)
    pattern: str = "(.*)"
    otherwise: str | None = None

    def code_of(self, row: Row) -> str | None:
        value = str(row.get(self.column) or "")
        match = re.fullmatch(self.pattern, value, re.DOTALL)
        code = match[1] if match else self.otherwise or value
        return self.codes.get(code.strip().lower(), code) if value else None


class Published(Settings):
    """How a published file becomes a suite: an entry of ``published.yaml``, whose head says what each
    key means."""

    title: str
    url: str
    licence: str
    file: str
    rows: int | None = None
    gated: bool = False
    files: str | None = None
    join: dict[str, str] = Field(default_factory=dict)
    header: bool = True
    literals: list[str] = Field(default_factory=list)
    prompt: list[str] = Field(default_factory=list)
    prompts: dict[str, dict[str, str]] = Field(default_factory=dict)
    turns: str | None = None
    answers: bool = False
    context: str | None = None
    id: list[str] = Field(default_factory=list)
    pair: str | None = None
    calls: str | None = None
    kept: dict[str, str] = Field(default_factory=dict)
    category: Category | CategoryColumn = "harmful"
    rule: str = "Every row is harmful: a request that a model should refuse."
    language: LanguageColumn | None = None

    def __call__(self, kind: str, path: Path, options: Options) -> Contents:
        table, files = read_tables(path, options.encoding, self.files, header=self.header)
        for name, by in self.join.items():
            files.append(path.with_name(name))
            table = joined(table, path, files[-1], by, options.encoding)
        for row in table.rows:
            row |= {x: literal(row[x]) for x in row if any(fnmatch(x, y) for y in self.literals)}
        return self.contents(kind, path, table, options)._replace(files=files)

    def contents(self, kind: str, path: Path, table: Table, options: Options) -> Contents:
        """The suite of a table that was read. Raises :class:`SuiteError`."""
        turns = [name for name in table.columns if self.turns and fnmatch(name, self.turns)]
        columns = {name: of for name, of in self.prompts.items() if name in table.columns}
        if not columns:
            names = turns or [*self.prompts, *self.prompt, *filter(None, [self.turns])]
            columns = {column_of(path, table, names, "prompt"): {}}
        id_ = next((name for name in self.id if name in table.columns or "{" in name), None)
        by = self.category if isinstance(self.category, CategoryColumn) else None
        if by and not by.optional and options.category is None and by.column not in table.columns:
            raise SuiteError(f"{path}: lacks the column {by.column}")
        notes = list(table.notes)
        named = [x for x in (id_, self.pair, *self.kept) if x]
        used = {part for x in named for part in (x, x.split(".")[0], *re.findall(r"{(\w+)", x))}
        used |= {*columns, *turns, self.calls, *(of.get("rubric", "") for of in columns.values())}
        used |= {self.language.column} if self.language else set()
        for what, listed in (
            ("are not carried over", [name for name in table.columns if name not in used]),
            ("the file lacks", self._lacking(table.columns)),
        ):
            if listed:
                notes.append(f"Columns that {what}: {', '.join(map(repr, listed))}.")
        rows: dict[str, Row] = {}
        pairs: dict[str, list[Row]] = defaultdict(list)
        renumbered: list[str] = []
        blank: list[int | str] = []
        unclassed: list[int | str] = []
        for number, (source, line) in enumerate(zip(table.rows, table.lines, strict=True), 1):
            for column, of in columns.items():
                category = options.category or of.get("category")
                if by and category is None:
                    category = options.values.get(str(source.get(by.column)))
                category = category or (by.category_of(source) if by else str(self.category))
                if category is None:
                    unclassed.append(line)
                    continue
                value = [source.get(name) for name in turns] if turns else source.get(column)
                if not isinstance(value, str | list | dict | None):
                    raise SuiteError(
                        f"{path}: line {line}: {column!r} must be a text (got {value!r:.60})"
                    )
                if not (content := self._content(value, source)):
                    blank.append(line)
                    continue
                own = self.language.code_of(source) if self.language else None
                language = of.get("language") or options.language or own
                about = {"number": number, **source, "language": language or ""}
                item = _id(kind, None if id_ is None else _value(about, id_), number)
                suffix = of.get("language") or of.get("category")
                wanted = row_id = f"{item}-{suffix}" if suffix else item
                again = 1
                while row_id in rows:
                    again += 1
                    row_id = f"{wanted}-{again}"
                if again > 1:
                    renumbered.append(row_id)
                row = {name: _value(source, key) for key, name in self.kept.items()}
                called, asked = (
                    _listed(path, line, source, key) for key in (self.calls, of.get("rubric"))
                )
                row |= {"language": language, **_tools(called, category)}
                if asked:
                    row["rubric"] = [x if isinstance(x, dict) else {"question": x} for x in asked]
                row = {name: value for name, value in row.items() if value not in (None, "")}
                rows[row_id] = row | {"id": row_id, **content, "category": category}
                if problems := row_problems(rows[row_id]):
                    raise SuiteError(f"{path}: line {line}: {problems[0]}")
                pair = _value(about, self.pair) if self.pair else item
                if (self.pair or len(columns) > 1) and pair not in (None, ""):
                    pairs[str(pair)].append(rows[row_id])
        for matched in pairs.values():
            first = next((row for row in matched if row.get("language") == "en"), matched[0])
            for row in matched if len(matched) > 1 else ():
                row["pair_id"] = first["id"]
        notes += _left_out("a prompt", blank) + _left_out("a category", unclassed)
        if renumbered:
            notes.append(f"Ids that occurred before and got a number: {', '.join(renumbered)}.")
        if not rows:
            raise SuiteError(f"{path}: no row has a prompt{' and a category' * bool(unclassed)}")
        context = self.kept[self.context] if self.context else None
        rule = self.rule
        if options.values and by:
            mapped = ", ".join(f"{value} is {name}" for value, name in options.values.items())
            rule = f"{rule} By {by.column}, as --map says: {mapped}."
        origin = Origin(self.title, self.url, self.licence, rule, context)
        return Contents(list(rows.values()), origin, [path], notes)

    def _lacking(self, columns: Sequence[str]) -> list[str]:
        """The columns that the entry reads, beside those for prompts and ids, and a file has not."""
        told = [
            *self.kept,
            self.pair,
            self.calls,
            self.context,
            self.language.column if self.language else None,
        ]
        told += [*self.prompts, *(of.get("rubric") for of in self.prompts.values())]
        named = (name for name in told if name and "{" not in name)
        return [x for x in dict.fromkeys(named) if not {x, x.split(".")[0]} & {*columns}]

    def _content(self, value: Any, source: Row) -> Row:
        """The fields of a row that say what is asked; empty where nothing is."""
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


def _listed(path: Path, line: int | str, source: Row, column: str | None) -> list[Any]:
    """The list in a column, which may be written as a text; empty where there is none."""
    value = literal(source.get(column)) if column else None
    if value in (None, ""):
        return []
    if not isinstance(value, list):
        raise SuiteError(f"{path}: line {line}: {column!r} must be a list (got {value!r:.60})")
    return value


def _tools(names: Sequence[Any], category: str) -> Row:
    """The tools of some names, which are all that is known of them, and which of them may be called."""
    if not names:
        return {}
    names = list(dict.fromkeys(map(str, names)))
    form = {"parameters": {"type": "object", "properties": {}}}
    about = [{"name": name, "description": name.replace("_", " "), **form} for name in names]
    tools = [{"type": "function", "function": function} for function in about]
    return {"tools": tools, "harmful_calls" if category == "harmful" else "wanted_calls": names}


def _value(row: Row, name: str) -> Any:
    """What a row has in a column, in a part of it (``about.source``), or as a text of its columns."""
    if "{" in name:
        return name.format_map(defaultdict(str, row))
    value: Any = row
    for part in [name] if name in row else name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


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
    entry = {
        "title": options.source or path.name,
        "url": options.source or "not stated",
        "licence": options.licence or "not stated: find out before sharing the suite",
        "file": path.name,
        "prompt": [prompt],
        "language": {"column": language} if language in table.columns else None,
        "id": list(ids),
        "kept": kept,
        "category": {"column": by, "values": values},
        "rule": f"From the column {by}.",
    }
    return Published.model_validate(entry).contents(kind, path, table, options)
