"""``refract lint`` and ``refract import-suite``: suites as files, checked or made of published ones."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from refract.cli.options import keep_inputs, mapping
from refract.core.errors import UsageError
from refract.core.showing import say


def lint(files: list[Path]) -> None:
    """Check suites and list every problem with its line; exit with 1 if there is any.

    Example: refract lint data/suites/harmful_helpful.jsonl

    Args:
        files: Suite files (JSONL).
    """
    from refract.suites.rows import check_suite

    count = 0
    for path in files:
        try:
            rows, problems = check_suite(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
        for problem in problems:
            say(f"{path}:{problem.line}: {problem.message}", file=sys.stderr)
        count += len(problems)
        if not problems:
            say(f"{path}: {len(rows)} rows, no problems")
    raise typer.Exit(int(count > 0))


def import_suite(
    kind: Annotated[str | None, typer.Argument()] = None,
    file: Annotated[Path | None, typer.Argument()] = None,
    list_: Annotated[bool, typer.Option("--list")] = False,
    out: Path | None = None,
    category: str | None = None,
    language: str | None = None,
    dataset: str | None = None,
    revision: str = "main",
    encoding: str = "utf-8",
    header: bool = True,
    prompt_column: str | None = None,
    id_column: str | None = None,
    category_column: str | None = None,
    language_column: str | None = None,
    map_: Annotated[list[str] | None, typer.Option("--map")] = None,
    source: str | None = None,
    licence: str | None = None,
) -> None:
    """Make a suite and its card of a published prompt file, without losing or merging rows.

    Example: refract import-suite xstest xstest_prompts.csv --out data/suites/xstest.jsonl

    Args:
        kind: Whose file it is, or generic: any file by its columns.
        file: The file as its publisher ships it: CSV, TSV, JSON, JSONL, Parquet or XLSX, or a folder of
          them; with --dataset its path there; default: what the hub serves.
        list_: List the kinds: rows, licence, access, source, citation.
        out: The suite (JSONL); default: data/suites/KIND.jsonl.
        category: harmful, helpful or borderline, for every row.
        language: Code of the language of every row, such as de.
        dataset: A data set on the Hugging Face hub that holds FILE.
        revision: --dataset: commit, tag or branch; the card names the commit.
        encoding: Encoding of the file.
        header: Without one, the columns of a CSV, TSV or XLSX are called 1, 2, …
        prompt_column: generic: the prompts.
        id_column: generic: the ids.
        category_column: generic: the categories.
        language_column: generic: the languages.
        map_: generic, donotanswer_zh: value=category, for the category column. Repeatable.
        source: generic: source, for the card.
        licence: generic: licence, for the card.
    """
    from refract.core.published_text import names_in
    from refract.suites.importing import PUBLISHED, find_importer, import_file, write_suite
    from refract.suites.importing.hub import ON_HUB, hub_file

    if list_:
        from refract.export.paper import reference_keys

        for name in names_in(PUBLISHED):
            entry: Any = find_importer(name)
            rows = "rows not known" if entry.rows is None else f"{entry.rows:,} rows"
            say(f"{name}: {rows}; {entry.licence}; {'gated' if entry.gated else 'open'}")
            say(f"  {entry.title}; cite {', '.join(reference_keys(name, entry.title))}")
            say(f"  {entry.file}")
        return
    if kind is None:
        raise UsageError("KIND is missing; refract import-suite --list shows them")
    importer = find_importer(kind, "KIND")
    columns = (prompt_column, id_column, category_column, language_column)
    pairs = zip(("prompt", "id", "category", "language"), columns, strict=True)
    named = {what: column for what, column in pairs if column is not None}
    if kind != "generic" and (named or not header):
        raise UsageError("columns are for the kind generic to name; other kinds know theirs")
    place, address = file.as_posix() if file else "", None
    if file is None:
        served = str(getattr(importer, "file", "any file"))
        if (hub := re.fullmatch(ON_HUB, served)) is None:
            raise UsageError(f"FILE is missing: {served}")
        dataset, pinned, place = hub.groups()
        revision = pinned if revision == "main" else revision
    path = Path(place)
    if dataset is not None:
        path, address = hub_file(dataset, place, revision)
    elif not path.exists():
        raise UsageError(f"no file {path}")
    name = path.stem if kind == "generic" else kind.rpartition(":")[2]
    target = out or Path("data/suites") / f"{name}.jsonl"
    keep_inputs({"--out": target, "its card": target.with_suffix(".md")}, [path])
    imported = import_file(
        kind,
        path,
        suite=target.stem,
        columns=named,
        language=language,
        header=header,
        values=mapping("--map", map_),
        category=category,
        address=address,
        encoding=encoding,
        source=source,
        licence=licence,
    )
    write_suite(imported, target)
    counts = Counter(row["category"] for row in imported.rows)
    shown = ", ".join(f"{n} {category}" for category, n in sorted(counts.items()))
    say(f"{target}: {len(imported.rows)} rows ({shown}); card: {target.with_suffix('.md')}")
    for note in imported.notes:
        say(f"  {note}")


def rewrite(perturbation: str) -> None:
    """Have a model rewrite the prompts of a perturbation of kind rewrite, and keep what it wrote.

    Only texts that the perturbation's file lacks are asked. What the model declined to rewrite is kept
    as that and has no variant; exit with 1 if some requests failed, which run again are asked again.

    Example: refract rewrite past_tense

    Args:
        perturbation: Its name in params.yaml.
    """
    from refract.evaluate.rewriting import write_rewritings
    from refract.models.store import open_store
    from refract.project import project_root, read_project

    with open_store() as store:
        path, counts = write_rewritings(perturbation, read_project(project_root()), store)
    written = counts.pop("compliance", 0)
    kept, failed = counts.pop("kept"), counts.pop("error", 0)
    said = [f"{written} written", f"{kept} kept", f"{failed} errors"]
    said += [f"{count} not rewritten ({outcome})" for outcome, count in sorted(counts.items())]
    say(f"{path}: {', '.join(said)}")
    raise typer.Exit(int(failed > 0))
