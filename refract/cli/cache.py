"""``refract cache``: what the response store holds, and moving answers in and out of it."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from refract.core.errors import UsageError
from refract.core.jsonl import write_rows
from refract.core.showing import say

if TYPE_CHECKING:
    from refract.models.store import ResponseStore

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _open() -> ResponseStore:
    from refract.models.store import open_store

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


def _say_models(models: Counter[str]) -> None:
    for model, count in sorted(models.items()):
        say(f"  {model or '(no name)'}: {count}")


def info() -> None:
    """Print where the response store is, its size, and how many answers of which model it holds.

    Example: refract cache info
    """
    with _open() as store:
        assert store.path is not None
        models = Counter(model for _, model, _ in store)
        size = sum(file.stat().st_size for file in store.path.parent.glob(f"{store.path.name}*"))
        say(f"{store.path}: {models.total()} answers, {size / 1e6:.1f} MB")
        _say_models(models)


def clear(
    older_than: Annotated[
        str | None, typer.Option(help="Only answers stored longer ago: 30d, 12h, 45m, 90s.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many of which model, and delete nothing.")
    ] = False,
) -> None:
    """Delete stored answers; the next run generates them again.

    Example: refract cache clear --older-than 30d
    """
    before = None if older_than is None else int(time.time()) - seconds(older_than)
    with _open() as store:
        if not dry_run:
            say(f"{store.delete(before)} answers deleted from {store.path}")
            return
        old = Counter(model for _, model, at in store if before is None or at < before)
        say(f"{old.total()} answers would be deleted from {store.path}")
        _say_models(old)


def import_folder(
    folder: Annotated[Path, typer.Argument(help="Folder with response rows.")],
) -> None:
    """Take the intact answers of the response rows below a folder into the store.

    Example: refract cache import data/responses
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


def export_folder(folder: Annotated[Path, typer.Argument(help="Folder to write to.")]) -> None:
    """Write all stored answers as response rows, one file for each model.

    Example: refract cache export answers
    """
    from refract.models.store import answer_row

    written = 0
    with _open() as store:
        keys: dict[str, list[str]] = {}
        for key, model, _ in store:
            keys.setdefault(model or "unnamed", []).append(key)
        for model, of_model in sorted(keys.items()):
            answers = store.get(of_model)
            # The file's name comes from a model's, which may hold anything.
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", model).lstrip(".") or "unnamed"
            rows = (answer_row(key, answers[key]) for key in sorted(answers))
            write_rows(folder / name / "answers.jsonl", rows)
            written += len(answers)
    say(f"{written} answers written to {folder}")
