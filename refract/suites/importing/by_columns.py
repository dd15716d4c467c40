"""How a table becomes a suite: which column holds what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refract.core.types import Row
from refract.suites.importing.files import Table, column_of, read_table
from refract.suites.importing.importer import Contents, Options, Origin
from refract.suites.rows import SuiteError

HARMFUL = "Every row is harmful: a request that a model should refuse."


@dataclass(frozen=True, kw_only=True)
class Published:
    """How a published file becomes a suite.

    ``title``, ``url`` and ``licence`` are for the card; ``file`` says where the publisher's file is,
    and ``gated`` whether its terms must be accepted there first.

    ``prompt`` and ``id`` name columns, the first of several that the file has; ``id`` may be empty.
    ``kept`` maps further columns to fields of the suite; others are left out, and named in the card.
    ``category`` gives a row's category, from the columns it ``needs``; ``rule`` says how in words. A
    row for which it is None is left out, and named. ``by_value`` names a column whose values users can
    map to other categories. ``context`` names a column whose text stands before the prompt, as its
    publisher sends it.

    ``language`` names the column with the language of a row and ``code`` makes a code of its value;
    it becomes the field ``language``. In a wide file ``languages`` maps columns with prompts to their
    languages: each row of the file makes one row for each of them, and ``item``, its id, says which
    are translations of each other.
    """

    title: str
    url: str
    licence: str
    file: str
    gated: bool = False
    prompt: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    category: Callable[[Row], str | None] = lambda row: "harmful"
    rule: str = HARMFUL
    needs: tuple[str, ...] = ()
    by_value: str | None = None
    context: str | None = None
    language: str | None = None
    code: Callable[[str], str] = str
    languages: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, kind: str, path: Path, options: Options) -> Contents:
        return self.contents(
            kind, path, read_table(path, options.encoding, header=options.header), options
        )

    def contents(self, kind: str, path: Path, table: Table, options: Options) -> Contents:
        """The suite of a file that was read. Raises :class:`SuiteError`."""
        columns = self._prompts(path, table)
        id_ = next((name for name in self.id if name in table.columns), None)
        absent = [name for name in self.needs if name not in table.columns]
        if absent and options.category is None:
            raise SuiteError(f"{path}: lacks the column {', '.join(absent)}")
        notes = list(table.notes)
        used = {*columns, *self.kept, id_, self.language}
        unused = [name for name in table.columns if name not in used]
        if unused:
            notes.append(f"Columns that are not carried over: {', '.join(map(repr, unused))}.")
        rows: dict[str, Row] = {}
        renumbered, blank, unclassed = [], [], []
        for number, (found, line) in enumerate(zip(table.rows, table.lines, strict=True), 1):
            category = options.category or self._category(found, options)
            if category is None:
                unclassed.append(line)
                continue
            for column, language in columns.items():
                text = self._text(path, line, column, found.get(column))
                if text is None or not text.strip():
                    blank.append(line)
                    continue
                if self.context and found.get(self.context):
                    text = f"{found[self.context]}\n\n---\n\n{text}"
                item = _id(kind, None if id_ is None else found.get(id_), number)
                wanted = own = item if language is None else f"{item}-{language}"
                again = 1
                while own in rows:
                    again += 1
                    own = f"{wanted}-{again}"
                if again > 1:
                    renumbered.append(own)
                rows[own] = {
                    **{
                        name: found[held]
                        for held, name in self.kept.items()
                        if found.get(held) not in (None, "")
                    },
                    **dict(self._of_language(found, options, language, item)),
                    "id": own,
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

    def _prompts(self, path: Path, table: Table) -> dict[str, str | None]:
        """The columns with prompts, and the language of each where that is what they differ by."""
        if not self.languages:
            return {column_of(path, table, self.prompt, "prompt"): None}
        found = {name: code for name, code in self.languages.items() if name in table.columns}
        if not found:
            column_of(path, table, tuple(self.languages), "prompt")
        return dict(found)

    def _category(self, row: Row, options: Options) -> str | None:
        if self.by_value is not None:
            value = options.values.get(str(row.get(self.by_value)))
            if value is not None:
                return value
        return self.category(row)

    def _of_language(
        self, row: Row, options: Options, column: str | None, item: str
    ) -> Iterator[tuple[str, str]]:
        given = row.get(self.language) if self.language else None
        language = column or options.language or (self.code(str(given)) if given else None)
        if language:
            yield "language", language
        if column:
            yield "item", item

    @staticmethod
    def _text(path: Path, line: int, column: str, value: Any) -> str | None:
        if isinstance(value, list) and len(value) == 1:  # the turns of a conversation of one
            value = value[0]
        if value is not None and not isinstance(value, str):
            raise SuiteError(f"{path}: line {line}: {column!r} must be a text (got {value!r:.60})")
        return value


def _left_out(what: str, lines: list[int]) -> list[str]:
    if not lines:
        return []
    shown = ", ".join(map(str, dict.fromkeys(lines)))
    return [f"Rows without {what}, left out: {len(lines)} (line {shown})."]


def _id(kind: str, given: Any, number: int) -> str:
    """The publisher's id, with the kind before a bare number; else the row's number."""
    text = "" if given is None else str(given).strip()
    if not text or not text.isprintable() or text[0] in "=+-@":
        return f"{kind}-{number:04d}"
    return f"{kind}-{text}" if text.isdigit() else text
