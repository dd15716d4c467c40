"""``refract cache``: what the response store holds, and moving answers in and out of it."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

from refract.errors import UsageError
from refract.inference import known_answers, response_row
from refract.rows.jsonl import write_rows
from refract.rows.showing import say
from refract.store import ResponseStore, open_store

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _open() -> ResponseStore:
    store = open_store()
    if store.path is None:
        raise UsageError("the response store is turned off (REFRACT_CACHE)")
    return store


def seconds(age: str) -> int:
    """An age such as ``30d``, ``12h``, ``45m`` or ``90s`` in seconds. Raises :class:`UsageError`."""
    match = re.fullmatch(r"(\d+)([smhd])", age)
    if not match:
        raise UsageError(
            f"--older-than takes a number with s, m, h or d, such as 30d (got {age!r})"
        )
    return int(match[1]) * UNITS[match[2]]


def show_info() -> None:
    """Prints where the store is, its size, and how many answers of which model it holds."""
    with _open() as store:
        models = Counter(model for _, model, _ in store)
        files = [store.path.with_name(store.path.name + end) for end in ("", "-wal")]
        size = sum(file.stat().st_size for file in files if file.is_file())
        say(f"{store.path}: {models.total()} answers, {size / 1e6:.1f} MB")
        for model, count in sorted(models.items()):
            say(f"  {model or '(no name)'}: {count}")


def clear(older_than: str | None) -> None:
    """Deletes all answers, or those stored longer ago than an age; prints how many."""
    before = None if older_than is None else int(time.time()) - seconds(older_than)
    with _open() as store:
        say(f"{store.delete(before)} answers deleted from {store.path}")


def import_folder(folder: Path) -> None:
    """Takes every intact answer of the response rows below a folder into the store."""
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}")
    found = new = 0
    with _open() as store:
        for inner in sorted({path.parent for path in folder.rglob("*.jsonl")}):
            answers = list(known_answers(inner))
            found += len(answers)
            new += store.put(answers, inner.name)
        say(f"{found} intact answers in {folder}, {new} of them new to {store.path}")


def export_folder(folder: Path) -> None:
    """Writes every intact answer as a response row to ``FOLDER/MODEL/answers.jsonl``."""
    written = 0
    with _open() as store:
        keys: dict[str, list[str]] = {}
        for key, model, _ in store:
            keys.setdefault(model or "unnamed", []).append(key)
        for model, of_model in sorted(keys.items()):
            answers = store.get(of_model)
            # The file's name comes from a model's, which may hold anything.
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", model).lstrip(".") or "unnamed"
            rows = (response_row("", key, answers[key]) for key in sorted(answers))
            write_rows(folder / name / "answers.jsonl", rows)
            written += len(answers)
    say(f"{written} answers written to {folder}")
