"""``refract cache``: stored answers and verdicts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from refract.cli import Listed
from refract.core.errors import UsageError
from refract.core.showing import say
from refract.judges.kept import VERDICTS
from refract.models.store import ResponseStore, known_answers, open_store

cache = typer.Typer(
    cls=Listed,
    add_completion=False,
    no_args_is_help=True,
    help="The response store: info, clear, import.",
)


def _open() -> tuple[ResponseStore, Path]:
    answers = open_store()
    if answers.path is None:
        raise UsageError("the response store is turned off (REFRACT_CACHE)")
    return answers, answers.path


@cache.command()
def info() -> None:
    """Print where the response store is, its size, and how many answers of which model and verdicts it
    holds.

    Example: refract cache info
    """
    answers, path = _open()
    with answers:
        counts = Counter(model or "unnamed" for _, model in answers)
        verdicts = counts.pop(VERDICTS, 0)
        size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
        say(f"{path}: {counts.total()} answers, {verdicts} verdicts, {size / 1e6:.1f} MB")
        for model in sorted(counts):
            say(f"  {model}: {counts[model]}")


@cache.command()
def clear(
    verdicts: Annotated[
        bool, Option("--verdicts", help="Only verdicts, which judging gives again.")
    ] = False,
) -> None:
    """Delete stored answers and verdicts; the next run makes them again.

    Example: refract cache clear --verdicts
    """
    answers, path = _open()
    with answers:
        deleted = answers.delete(model=VERDICTS if verdicts else None)
        say(f"{deleted} {'verdicts' if verdicts else 'answers and verdicts'} deleted from {path}")


@cache.command("import")
def import_folder(
    places: Annotated[list[Path], Argument(help="Files and folders with response rows.")],
) -> None:
    """Take the intact answers of files of response rows, and of those below folders, into the store.

    Example: refract cache import data/responses
    """
    files: dict[Path, list[Path]] = {}
    for place in places:
        if not place.exists():
            raise UsageError(f"no file and no folder {place}")
        for file in sorted(place.rglob("*.jsonl")) if place.is_dir() else [place]:
            files.setdefault(file.parent, []).append(file)
    intact = new = 0
    answers, path = _open()
    with answers:
        for folder in sorted(files):
            rows = list(known_answers(*files[folder]))
            intact += len(rows)
            new += answers.put(rows, folder.resolve().name)
    sources = ", ".join(map(str, places))
    say(f"{intact} intact answers in {sources}, {new} of them new to {path}")
