"""Published prompt files in, suites with their cards out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.errors import UsageError
from refract.core.jsonl import dump_row, sha256_file, write_bytes
from refract.core.registry import Registry, find
from refract.core.types import Row
from refract.suites.rows import CATEGORIES, SuiteError, check_suite
from refract_published.catalogues import SUITES, find_entry, names_in
from refract_published.importing.columns import (
    CategoryColumn,
    Contents,
    Importer,
    Options,
    Published,
)

GENERIC = {"generic": "refract_published.importing.columns:generic"}
IMPORTERS = Registry(GENERIC, "refract.importers", "__call__")


def find_importer(kind: str, where: str = "kind") -> Importer:
    """An importer by its name; ``where`` says in messages where it was given. Raises ParamsError."""
    published = names_in(SUITES)
    if kind in published:
        return find_entry(SUITES, Published, noun="published suite", name=kind, where=where)
    importer: Importer = find(IMPORTERS, kind, where=where, others=published)
    return importer


class Imported(NamedTuple):
    """A suite made of a published file: its rows, its card as Markdown, and what was decided."""

    rows: list[Row]
    card: str
    notes: list[str]


def import_file(kind: str, path: Path, *, suite: str, **options: Any) -> Imported:
    """The suite that a published file makes; ``options`` are those of ``Options``.

    Every row is kept, with an id of its own; ``notes`` names rows that are left out since they have
    no prompt. Raises SuiteError, and ParamsError for an unknown kind."""
    chosen = Options(**options)
    for category in (chosen.category, *chosen.values.values()):
        if category is not None and category not in CATEGORIES:
            raise SuiteError(f"category must be one of {', '.join(CATEGORIES)} (got {category!r})")
    importer = find_importer(kind)
    by_column = isinstance(getattr(importer, "category", None), CategoryColumn)
    if chosen.values and kind != "generic" and not by_column:
        raise UsageError(f"{kind} knows the category of each row; --map is for other kinds")
    if isinstance(importer, Published) and chosen.category is None:
        _check_file(kind, importer, path)
    contents = importer(kind, path, chosen)
    notes = [*contents.notes]
    if chosen.address is not None:
        notes.insert(0, f"The file is {chosen.address}.")
    origin = contents.origin
    if chosen.category is not None:
        origin = origin._replace(rule=f"Every row is {chosen.category}, as --category says.")
    texts = {str(row.get("prompt", row.get("messages"))) for row in contents.rows}
    repeats = len(contents.rows) - len(texts)
    if repeats:
        notes.append(
            f"Rows that repeat the text of another row, kept with ids of their own: {repeats}."
        )
    contents = contents._replace(origin=origin, notes=notes)
    return Imported(contents.rows, _card(suite, kind, contents), notes)


def _check_file(kind: str, importer: Published, path: Path) -> None:
    """Raises SuiteError for a file that by its name is another one of its publisher's."""
    own = Path(importer.file).name
    for other in names_in(SUITES):
        entry = find_importer(other)
        if not isinstance(entry, Published) or entry.url != importer.url:
            continue
        if path.name == Path(entry.file).name != own:
            raise SuiteError(
                f"{path}: by its name the file of {other}, not of {kind} ({own}); import it as "
                f"{other}, or rename it"
            )


def _card(suite: str, kind: str, contents: Contents) -> str:
    """A suite's card: origin, licence, hashes of the files, counts, decisions."""
    import jinja2

    rows = contents.rows
    counts = Counter(row.get("category") for row in rows)
    fields = sorted({field for row in rows for field in row} - {"id", "prompt", "category"})
    tables = {}
    for field in fields:
        groups: Counter[tuple[str, str]] = Counter()
        for row in rows:
            if field in row and not isinstance(row[field], list | dict):
                groups[str(row.get("category")), str(row[field])] += 1
        if 1 < len(groups) <= 40:
            tables[field] = [(value, name, groups[name, value]) for name, value in sorted(groups)]

    def inert(value: object) -> str:
        """A text of the file's in one line of Markdown: neither HTML nor a cell's end."""
        shown = "".join(char if char.isprintable() else " " for char in str(value))
        for mark, replacement in (("&", "&amp;"), ("<", "&lt;"), ("|", r"\|"), ("`", "'")):
            shown = shown.replace(mark, replacement)
        return shown

    source = Path(__file__).with_name("card.md.j2").read_text("utf-8")
    template = jinja2.Template(source, trim_blocks=True, keep_trailing_newline=True, finalize=inert)
    card: str = template.render(
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
    return card


def write_suite(imported: Imported, out: Path) -> None:
    """Writes a suite and, beside it, its card. Raises SuiteError when the file is there with other
    rows, or the rows make no usable suite."""
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
