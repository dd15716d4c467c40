"""importing: published prompt files in, suites with their cards out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refract.importing.files import Table, read_table
from refract.importing.giskard import GISKARD, read_giskard
from refract.importing.kinds import KINDS, Kind
from refract.rows.jsonl import Row, dump_row, sha256_file, write_bytes
from refract.rows.suites import CATEGORIES, CONTENT, STRING_FLAGS, SuiteError, check_suite

NAMES = (*sorted((*KINDS, "giskard")), "generic")
# Columns of other files that a generic import takes for the prompt and the id unless told others.
PROMPTS = ("prompt", "goal", "question", "behavior", "instruction", "text")
IDS = ("id", "prompt_id", "index")
# Fields that mean something to the pipeline; a column of that name becomes source_NAME.
RESERVED = {"id", "category", "expected_strings", "pair_id", "requirement", *CONTENT, *STRING_FLAGS}


class Imported(NamedTuple):
    """A suite made of a published file: its rows, its card as Markdown, and what was decided."""

    rows: list[Row]
    card: str
    notes: list[str]


def import_file(
    kind: str,
    path: Path,
    *,
    suite: str,
    meta: Path | None = None,
    encoding: str = "utf-8",
    category: str | None = None,
    columns: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
    source: str | None = None,
    licence: str | None = None,
) -> Imported:
    """The suite that a published file makes.

    ``category`` overrides the kind's own rule for every row. For the kind generic, ``columns`` may
    name the ``prompt``, the ``id`` and the ``category`` column, and ``values`` maps what stands in
    the last to a category; ``source`` and ``licence`` go into the card. ``meta`` is the second file
    of Giskard's two.

    Every row is kept, with an id of its own; one without a prompt, which cannot be asked, is left
    out and named in ``notes``. Raises :class:`SuiteError`.
    """
    if category is not None and category not in CATEGORIES:
        raise SuiteError(f"category must be one of {', '.join(CATEGORIES)} (got {category!r})")
    notes: list[str] = []
    hashes = {}
    if kind == "giskard":
        meta = meta or path.with_name("giskard_meta_data.csv")
        rows = read_giskard(path, meta)
        if category is not None:
            rows = [{**row, "category": category} for row in rows]
        shown = GISKARD
        hashes[meta.name] = sha256_file(meta)
    else:
        table = read_table(path, encoding)
        if kind == "generic":
            shown = _generic(path, table, category, columns or {}, values or {}, source, licence)
        elif kind in KINDS:
            shown = KINDS[kind]
        else:
            raise SuiteError(f"kind must be one of {', '.join(NAMES)} (got {kind!r})")
        notes += table.notes
        rows = _suite_rows(kind, path, table, shown, category, notes)
    if category is not None:
        shown = shown._replace(rule=f"Every row is {category}, as the import was told.")
    hashes = {path.name: sha256_file(path), **hashes}
    texts = Counter(row["prompt"] for row in rows)
    repeats = sum(count - 1 for count in texts.values())
    if repeats:
        notes.append(
            f"Rows that repeat the text of another row, kept with ids of their own: {repeats}."
        )
    return Imported(rows, card(suite, kind, shown, hashes, rows, notes), notes)


def _suite_rows(
    kind: str, path: Path, table: Table, of: Kind, category: str | None, notes: list[str]
) -> list[Row]:
    prompt = _column(path, table, of.prompt, "prompt")
    id_ = next((name for name in of.id if name in table.columns), None)
    needed = {"type"} if of is KINDS["xstest"] and category is None else set()
    absent = sorted(needed - set(table.columns))
    if absent:
        raise SuiteError(f"{path}: lacks the column {', '.join(absent)}")
    unused = [c for c in table.columns if c not in (prompt, id_) and c not in of.kept]
    if unused:
        notes.append(f"Columns that are not carried over: {', '.join(map(repr, unused))}.")
    rows: list[Row] = []
    taken: set[str] = set()
    renamed, unasked = [], []
    for number, (found, line) in enumerate(zip(table.rows, table.lines, strict=True), 1):
        text = found.get(prompt)
        if text is not None and not isinstance(text, str):
            raise SuiteError(f"{path}: line {line}: {prompt!r} must be a text (got {text!r:.60})")
        if text is None or not text.strip():
            unasked.append(line)
            continue
        if of.context and found.get(of.context):
            text = f"{found[of.context]}\n\n---\n\n{text}"
        wanted = _id(kind, None if id_ is None else found.get(id_), number)
        own, again = wanted, 1
        while own in taken:
            again += 1
            own = f"{wanted}-{again}"
        if again > 1:
            renamed.append(own)
        taken.add(own)
        extra = {
            field: found[name]
            for name, field in of.kept.items()
            if found.get(name) not in (None, "")
        }
        rows.append(
            {**extra, "id": own, "prompt": text, "category": category or of.category(found)}
        )
    if unasked:
        notes.append(
            f"Rows without a prompt, which cannot be asked and are left out: {len(unasked)} "
            f"(line {', '.join(map(str, unasked))})."
        )
    if renamed:
        notes.append(f"Ids that occurred before and were numbered on: {', '.join(renamed)}.")
    if not rows:
        raise SuiteError(f"{path}: no row has a prompt")
    return rows


def _column(path: Path, table: Table, names: Sequence[str], what: str) -> str:
    for name in names:
        if name in table.columns:
            return name
    raise SuiteError(
        f"{path}: has no {what} column ({' or '.join(names)}); "
        f"it has {', '.join(map(repr, table.columns))}"
    )


def _id(kind: str, given: Any, number: int) -> str:
    """The publisher's id, with the kind before a bare number; else the row's number."""
    text = "" if given is None else str(given).strip()
    if not text or not text.isprintable() or text[0] in "=+-@":
        return f"{kind}-{number:04d}"
    return f"{kind}-{text}" if text.isdigit() else text


def _generic(
    path: Path,
    table: Table,
    category: str | None,
    columns: Mapping[str, str],
    values: Mapping[str, str],
    source: str | None,
    licence: str | None,
) -> Kind:
    prompt = _column(path, table, [columns["prompt"]] if "prompt" in columns else PROMPTS, "prompt")
    ids = (columns["id"],) if "id" in columns else IDS
    if "id" in columns:
        _column(path, table, ids, "id")
    held = columns.get("category", "category")
    if category is None and held not in table.columns:
        raise SuiteError(
            f"{path}: has no column {held!r}; give every row one category with --category "
            f"({', '.join(CATEGORIES)}), or name the column with --category-column"
        )
    strange = sorted(set(values.values()) - set(CATEGORIES))
    if strange:
        raise SuiteError(f"a category must be one of {', '.join(CATEGORIES)} (got {strange[0]!r})")

    def category_of(row: Row) -> str:
        value = str(row.get(held))
        found = values.get(value, value)
        if found not in CATEGORIES:
            raise SuiteError(
                f"{path}: {held!r} holds {value!r}, which is no category; map it with --map "
                f"{value}=CATEGORY ({', '.join(CATEGORIES)})"
            )
        return found

    id_ = next((name for name in ids if name in table.columns), None)
    kept: dict[str, str] = {}
    for number, name in enumerate(table.columns):
        if name in (prompt, id_):
            continue
        field = re.sub(r"\W+", "_", name.strip()).strip("_").lower() or f"column_{number + 1}"
        field = f"source_{field}" if field in RESERVED else field
        kept[name] = f"{field}_{number + 1}" if field in kept.values() else field
    mapped = ", ".join(f"{value} is {found}" for value, found in values.items())
    return Kind(
        source or path.name,
        source or "not stated",
        licence or "not stated: find out before sharing the suite",
        (prompt,),
        tuple(ids),
        kept,
        category_of,
        f"From the column {held}" + (f": {mapped}." if mapped else "."),
    )


def card(
    suite: str,
    kind: str,
    of: Kind,
    hashes: Mapping[str, str],
    rows: Sequence[Row],
    notes: Sequence[str],
) -> str:
    """A suite's card: where it comes from, its licence, its file's content, counts, decisions."""
    counts = Counter(row["category"] for row in rows)
    fields = sorted({field for row in rows for field in row} - {"id", "prompt", "category"})
    lines = [
        f"# {suite}",
        "",
        f"**Source.** {of.title}. {of.url}",
        "",
        f"**Licence.** {of.licence}.",
        "",
        "**File.** " + "; ".join(f"`{name}`, SHA-256 `{sha}`" for name, sha in hashes.items()),
        "",
        f"**Categories.** {of.rule}",
        "",
        f"**Counts.** {len(rows)} prompts: "
        + ", ".join(f"{counts[name]} {name}" for name in CATEGORIES if counts[name])
        + ".",
        "",
    ]
    if of.context:
        lines += [
            f"**Context.** Where a row has one (`{of.kept[of.context]}`), the prompt is the context, "
            "a line of three hyphens and the behavior, as the publisher sends it.",
            "",
        ]
    if fields:
        lines += ["**Fields.** " + ", ".join(f"`{field}`" for field in fields), ""]
    for field in fields:
        groups = Counter((row["category"], str(row[field])) for row in rows if field in row)
        if 1 < len(groups) <= 40:
            lines += [f"| {field} | category | prompts |", "|---|---|---:|"]
            lines += [
                f"| {value.replace('|', '/')} | {category} | {n} |"
                for (category, value), n in sorted(groups.items())
            ] + [""]
    lines += ["**Decided at import.**" + ("" if notes else " Nothing: the file is clean."), ""]
    lines += [f"- {note}" for note in notes]
    lines += [""] if notes else []
    lines += [f"Made by `refract import-suite {kind}`.", ""]
    return "\n".join(lines)


def write_suite(imported: Imported, out: Path) -> None:
    """Writes a suite and, beside it, its card.

    Raises :class:`SuiteError` when the file is there with other rows, or the rows make no usable
    suite.
    """
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
