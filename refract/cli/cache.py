"""``refract cache``: what the response store holds, and moving answers in and out of it."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refract.core.errors import UsageError
from refract.core.jsonl import write_rows
from refract.core.showing import say

if TYPE_CHECKING:
    from refract.models.store import ResponseStore


def _open() -> ResponseStore:
    from refract.models.store import open_store

    store = open_store()
    if store.path is None:
        raise UsageError("the response store is turned off (REFRACT_CACHE)")
    return store


def _by_model(store: ResponseStore) -> dict[str, list[str]]:
    """The stored requests of each model, by name."""
    keys: dict[str, list[str]] = {}
    for key, model in store:
        keys.setdefault(model or "unnamed", []).append(key)
    return dict(sorted(keys.items()))


def info() -> None:
    """Print where the response store is, its size, and how many answers of which model it holds.

    Example: refract cache info
    """
    with _open() as store:
        assert store.path is not None
        counts = {model: len(keys) for model, keys in _by_model(store).items()}
        size = sum(file.stat().st_size for file in store.path.parent.glob(f"{store.path.name}*"))
        say(f"{store.path}: {sum(counts.values())} answers, {size / 1e6:.1f} MB")
        for model, count in counts.items():
            say(f"  {model}: {count}")


def clear(older_than: Annotated[int, typer.Option(min=0)] = 0) -> None:
    """Delete stored answers; the next run generates them again.

    Example: refract cache clear --older-than 30

    Args:
        older_than: Only answers stored more than so many days ago.
    """
    with _open() as store:
        deleted = store.delete(
            max(0, int(time.time()) - older_than * 86400) if older_than else None
        )
        say(f"{deleted} answers deleted from {store.path}")


def import_folder(folder: Path) -> None:
    """Take the intact answers of the response rows below a folder into the store.

    Example: refract cache import data/responses

    Args:
        folder: Folder with response rows.
    """
    from refract.models.answering import known_answers

    if not folder.is_dir():
        raise UsageError(f"no folder {folder}")
    intact = new = 0
    with _open() as store:
        for inner in sorted({file.parent for file in folder.rglob("*.jsonl")}):
            answers = list(known_answers(inner))
            intact += len(answers)
            new += store.put(answers, inner.name)
        say(f"{intact} intact answers in {folder}, {new} of them new to {store.path}")


def export_folder(folder: Path) -> None:
    """Write all stored answers as response rows, one file for each model.

    Example: refract cache export answers

    Args:
        folder: Folder to write to.
    """
    from refract.models.store import answer_row

    written = 0
    with _open() as store:
        for model, keys in _by_model(store).items():
            answers = store.get(keys)
            # The file's name comes from a model's, which may hold anything.
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", model).lstrip(".") or "unnamed"
            rows = (answer_row(key, answers[key]) for key in sorted(answers))
            write_rows(folder / name / "answers.jsonl", rows)
            written += len(answers)
    say(f"{written} answers written to {folder}")
