"""Where it is noted what made a model's answers and verdicts: ``metrics/ran/MODEL.json``."""

from __future__ import annotations

import json
from pathlib import Path

from refract.core.types import Row

FOLDER = Path("metrics/ran")


def ran_file(model: str) -> Path:
    """Where what made a model's results is noted, from the project's folder."""
    return FOLDER / f"{model}.json"


def read_ran(path: Path) -> Row:
    """What such a file holds; {} where it is not there or cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
