"""Published prompt files in, suites with their cards out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import UsageError
from refract.core.jsonl import dump_row, sha256_file, write_bytes
from refract.core.published_text import find_entry, names_in
from refract.core.registry import Registry, find
from refract.core.types import Row
from refract.suites.importing.columns import (
    CategoryColumn,
    Contents,
    Importer,
    Options,
    Published,
)
from refract.suites.rows import CATEGORIES, SuiteError, check_suite

PUBLISHED = Path(__file__).with_name("published.yaml")
GENERIC = {"generic": "refract.suites.importing.columns:generic"}
IMPORTERS = Registry(GENERIC, "refract.importers", "__call__")


def find_importer(kind: str, where: str = "kind") -> Importer:
    """An importer by its name; ``where`` says in messages where it was given. Raises ParamsError."""
    if kind in names_in(PUBLISHED):
        return find_entry(PUBLISHED, Published, "published suite", kind, where)
    importer: Importer = find(IMPORTERS, kind, where, names_in(PUBLISHED))
    return importer


class Imported(NamedTuple):
    """A suite made of a published file: its rows, its card as Markdown, and what was decided."""

    rows: list[Row]
    card: str
    notes: list[str]


def import_file(kind: str, path: Path, *, suite: str, **options: Any) -> Imported:
    """The suite that a published file makes; ``options`` as in
    :class:`~refract.suites.importing.columns.Options`.

    Every row is kept, with an id of its own; one without a prompt is left out and named in ``notes``.
    Raises :class:`SuiteError`, and :class:`ParamsError` for an unknown kind."""
    given = Options(**options)
    if given.category is not None and given.category not in CATEGORIES:
        raise SuiteError(
            f"category must be one of {', '.join(CATEGORIES)} (got {given.category!r})"
        )
    strange = sorted(set(given.values.values()) - set(CATEGORIES))
    if strange:
        raise SuiteError(f"a category must be one of {', '.join(CATEGORIES)} (got {strange[0]!r})")
    importer = find_importer(kind)
    by = getattr(importer, "category", None)
    if given.values and kind != "generic" and not isinstance(by, CategoryColumn):
        raise UsageError(f"{kind} knows the category of each row; --map is for other kinds")
    rows, origin, files, notes = importer(kind, path, given)
    if given.address is not None:
        notes = [f"The file is {given.address}.", *notes]
    if given.category is not None:
        origin = origin._replace(rule=f"Every row is {given.category}, as --category says.")
    texts = Counter(str(row.get("prompt", row.get("messages"))) for row in rows)
    if repeats := texts.total() - len(texts):
        note = "Rows that repeat the text of another row, kept with ids of their own"
        notes = [*notes, f"{note}: {repeats}."]
    return Imported(rows, _card(suite, kind, Contents(rows, origin, files, notes)), notes)


def _card(suite: str, kind: str, contents: Contents) -> str:
    """A suite's card as Markdown: origin, licence, hashes of the files, counts, decisions."""
    import jinja2

    rows = contents.rows
    counts = Counter(row.get("category") for row in rows)
    fields = sorted({field for row in rows for field in row} - {"id", "prompt", "category"})
    tables = {}
    for field in fields:
        groups = Counter(
            (str(row[field]), str(row.get("category"))) for row in rows if field in row
        )
        if 1 < len(groups) <= 40:
            ordered = sorted(groups.items(), key=lambda group: (group[0][1], group[0][0]))
            tables[field] = [(value.replace("|", "/"), name, n) for (value, name), n in ordered]
    source = Path(__file__).with_name("card.md.j2").read_text("utf-8")
    template = jinja2.Template(source, trim_blocks=True, keep_trailing_newline=True)
    text: str = template.render(
        suite=suite,
        kind=kind,
        origin=contents.origin,
        files=[{"name": path.name, "sha256": sha256_file(path)} for path in contents.files],
        rows=len(rows),
        counts=[f"{counts[name]} {name}" for name in CATEGORIES if counts[name]],
        fields=fields,
        tables=tables,
        notes=contents.notes,
    )
    return text


def write_suite(imported: Imported, out: Path) -> None:
    """Writes a suite and, beside it, its card. Raises :class:`SuiteError` when the file is there with
    other rows, or the rows make no usable suite."""
    content = b"".join(map(dump_row, imported.rows))
    if out.exists() and out.read_bytes() != content:
        raise SuiteError(f"{out} exists and holds other rows; name another file with --out")
    write_bytes(out, [content])
    problems = [problem for problem in check_suite(out)[1] if not problem.harmless]
    if problems:
        out.unlink()
        listed = "\n".join(f"  row {problem.line}: {problem.message}" for problem in problems)
        raise SuiteError(f"the rows make no usable suite:\n{listed}")
    write_bytes(out.with_suffix(".md"), [imported.card.encode()])
