"""``refract import-suite``: suites made of published prompt files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from refract.cli.options import keep_inputs, mapping
from refract.core.errors import UsageError
from refract.core.showing import say
from refract_published.catalogues import SUITES, names_in
from refract_published.citing import references
from refract_published.importing import find_importer, import_file, write_suite
from refract_published.importing.hub import source_file


# Longer than 60 lines since each option is a parameter, which typer reads.
def import_suite(
    kind: Annotated[
        str | None, Argument(help="Whose file it is, or generic: any file by its columns.")
    ] = None,
    file: Annotated[
        Path | None,
        Argument(
            help="The file as its publisher ships it: CSV, TSV, JSON, JSONL, Parquet or XLSX, or a "
            "folder of them; with --dataset its path there; default: what the hub serves."
        ),
    ] = None,
    list_: Annotated[
        bool, Option("--list", help="List the kinds: rows, licence, access, source, citation.")
    ] = False,
    out: Annotated[
        Path | None, Option(help="The suite (JSONL); default: data/suites/KIND.jsonl.")
    ] = None,
    category: Annotated[
        str | None, Option(help="harmful, helpful or borderline, for every row.")
    ] = None,
    language: Annotated[
        str | None, Option(help="Code of the language of every row, such as de.")
    ] = None,
    dataset: Annotated[
        str | None, Option(help="A data set on the Hugging Face hub that holds FILE.")
    ] = None,
    revision: Annotated[
        str, Option(help="--dataset: commit, tag or branch; the card names the commit.")
    ] = "main",
    encoding: Annotated[str, Option(help="Encoding of the file.")] = "utf-8",
    prompt_column: Annotated[str | None, Option(help="generic: the prompts.")] = None,
    id_column: Annotated[str | None, Option(help="generic: the ids.")] = None,
    category_column: Annotated[str | None, Option(help="generic: the categories.")] = None,
    map_: Annotated[
        list[str] | None,
        Option(
            "--map",
            help="generic, donotanswer_zh: value=category, for the category column. Repeatable.",
        ),
    ] = None,
    source: Annotated[str | None, Option(help="generic: source, for the card.")] = None,
    licence: Annotated[str | None, Option(help="generic: licence, for the card.")] = None,
) -> None:
    """Make a suite and its card of a published prompt file, without losing or merging rows.

    Example: refract import-suite xstest xstest_prompts.csv --out data/suites/xstest.jsonl
    """
    if list_:
        for name in names_in(SUITES):
            entry: Any = find_importer(name)
            keys = [key for key, cited in references().items() if name in cited.get("of", ())]
            rows = "rows not known" if entry.rows is None else f"{entry.rows:,} rows"
            say(f"{name}: {rows}; {entry.licence}; {'gated' if entry.gated else 'open'}")
            say(f"  {entry.title}; cite {', '.join(keys)}")
            say(f"  {entry.file}")
        return
    if kind is None:
        raise UsageError("KIND is missing; refract import-suite --list shows them")
    importer = find_importer(kind, "KIND")
    named = {"prompt": prompt_column, "id": id_column, "category": category_column}
    columns = {part: column for part, column in named.items() if column is not None}
    if kind != "generic" and columns:
        raise UsageError("columns are for the kind generic to name; other kinds know theirs")
    served = str(getattr(importer, "file", "any file"))
    path, address = source_file(file, served, dataset, revision=revision)
    name = path.stem if kind == "generic" else kind.rpartition(":")[2]
    target = out or Path("data/suites") / f"{name}.jsonl"
    card = target.with_suffix(".md")
    keep_inputs({"--out": target, "its card": card}, [path])
    imported = import_file(
        kind,
        path,
        suite=target.stem,
        columns=columns,
        language=language,
        values=mapping("--map", map_),
        category=category,
        address=address,
        encoding=encoding,
        source=source,
        licence=licence,
    )
    write_suite(imported, target)
    counts = Counter(row["category"] for row in imported.rows)
    shown = ", ".join(f"{count} {category}" for category, count in sorted(counts.items()))
    say(f"{target}: {len(imported.rows)} rows ({shown}); card: {card}")
    for note in imported.notes:
        say(f"  {note}")
