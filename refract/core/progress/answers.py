"""Where the answers of a project's models came from when each model last ran here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from refract.core.progress.runs import FOLDER


def answer_line(root: Path, models: Sequence[str]) -> str:
    """How many answers came from the store, which all projects of a user share, and how many were
    generated; "" where no model ran on this machine."""
    total: Counter[str] = Counter()
    stores: set[str] = set()
    for model in models:
        try:
            run = json.loads((root / FOLDER / f"model-inference@{model}.json").read_text("utf-8"))
            for counts in run["answers"].values():
                total.update(counts)
            stores.add(run["store"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # it ran elsewhere, or under an earlier release
    if not stores:
        return ""
    others = total["reused"] - total["from_store"]
    return (
        f"answers, when each model last ran here: {total['from_store']:,} from the store "
        f"({', '.join(sorted(stores))}), {others:,} reused from this project's own rows, "
        f"{total['generated']:,} generated"
    )
