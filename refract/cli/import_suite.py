"""``refract import-suite``: a published prompt file becomes a suite with its card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refract.errors import UsageError
from refract.importing import IMPORTERS, import_file, write_suite
from refract.rows.showing import say


def import_suite(
    kind: str,
    path: Path,
    out: Path | None,
    columns: Mapping[str, str | None],
    mapped: Sequence[str],
    **options: Any,
) -> None:
    """Writes the suite and its card, and prints counts and what was decided."""
    if kind not in IMPORTERS:
        raise UsageError(f"KIND must be one of {', '.join(IMPORTERS)} (got {kind!r})")
    if not path.is_file():
        raise UsageError(f"no file {path}")
    named = {what: column for what, column in columns.items() if column is not None}
    if kind != "generic" and (named or mapped):
        raise UsageError("columns and --map are for the kind generic; other kinds know theirs")
    values = {}
    for pair in mapped:
        value, equals, category = pair.rpartition("=")
        if not equals:
            raise UsageError(f"--map takes value=category (got {pair!r})")
        values[value] = category
    out = out or Path("data/suites") / f"{path.stem if kind == 'generic' else kind}.jsonl"
    imported = import_file(kind, path, suite=out.stem, columns=named, values=values, **options)
    write_suite(imported, out)
    counts = Counter(row["category"] for row in imported.rows)
    shown = ", ".join(f"{n} {category}" for category, n in sorted(counts.items()))
    say(f"{out}: {len(imported.rows)} rows ({shown}); card: {out.with_suffix('.md')}")
    for note in imported.notes:
        say(f"  {note}")
