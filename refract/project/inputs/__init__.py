"""What the last look at the inputs saw, so that the next one can tell in milliseconds that nothing
changed. Imports nothing that takes time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from refract.core.jsonl import write_json

# Counted up when the code would see something else in the same files.
VERSION = 1
STATE = Path("data/runs/inputs.json")
FOLDER = Path("data/inputs")
# Beside a model's answers it has DVC ask again for those that failed.
MARK = "ask_again.json"

Stat = list[int] | None


def stat_of(path: str | Path) -> Stat:
    """Size, times and place of a file or folder: another one, or one written to, has others. None
    where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    # The time of the last change is set by the system alone.
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def stats_of(paths: Iterable[str | Path]) -> dict[str, Stat]:
    """:func:`stat_of` by path."""
    return {str(path): stat_of(path) for path in paths}


def read_state(path: Path = STATE) -> dict[str, Any]:
    """What the last look saw; {} where there was none, or it is not one of this release."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    usable = isinstance(found, dict) and found.get("version") == VERSION
    return found if usable else {}


def nothing_changed(state: Mapping[str, Any]) -> bool:
    """Whether every file that the last look saw is as it was, what it wrote is still there, and there
    was nothing to ask again."""
    if not state or state.get("again"):
        return False
    try:
        return all(stat_of(path) == seen for path, seen in state["watched"].items()) and all(
            (FOLDER / name).read_text("utf-8") == text for name, text in state["written"].items()
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return False


def write_state(**state: Any) -> None:
    """Keeps what this look saw."""
    write_json(STATE, {"version": VERSION, **state})
