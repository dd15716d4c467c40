"""garak's reports as rows of answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refract.core.errors import RowError
from refract.core.file_formats import Log, read_row_file
from refract.core.types import Row
from refract_published.logs.messages import conversation


def read(path: Path) -> Log:
    """The answers in a report, and what it says of its run. Raises RowError."""
    rows = read_row_file(path)
    if "entry_type" not in rows[0]:
        raise RowError(
            f"{path}: a hit log of garak, which holds only answers that a detector hit; take the "
            "report beside it: NAME.report.jsonl"
        )
    setup: Row = {}
    for row in rows:
        if row.get("entry_type") in ("start_run setup", "init"):
            setup |= row
    model = setup.get("plugins.target_name", setup.get("plugins.model_name"))
    about = {"tool": "garak", "version": setup.get("garak_version"), "model": model}
    try:
        answers = garak_rows(rows)
    except (AttributeError, KeyError, TypeError) as error:
        raise RowError(f"{path}: not a report of garak ({error!r})") from None
    except RowError as error:
        raise RowError(f"{path}: {error}") from None
    return Log(answers, about)


def garak_rows(rows: Sequence[Row]) -> list[Row]:
    """A row for each output of each attempt; ``repeat`` numbers those to one prompt.

    An attempt stands there twice, before and behind its detectors. Reports do not say why an answer
    ended; an output that is null is none. Raises RowError where two attempts of one id differ."""
    answers: dict[tuple[str, int], Row] = {}
    for row in rows:
        if row.get("entry_type") != "attempt":
            continue
        prompt = row["prompt"]
        turns = prompt["turns"] if isinstance(prompt, dict) and "turns" in prompt else [prompt]
        messages = []
        for turn in turns:
            content = turn.get("content", turn) if isinstance(turn, dict) else turn
            role = turn.get("role", "user") if isinstance(turn, dict) else "user"
            messages.append({"role": role, "content": _text(content)})
        for repeat, output in enumerate(row.get("outputs") or (), 1):
            answer = {
                "id": row["uuid"],
                "repeat": repeat,
                **conversation(messages),
                "response": _text(output),
                "probe": row.get("probe_classname"),
                "goal": row.get("goal"),
            }
            if answers.setdefault((row["uuid"], repeat), answer) != answer:
                raise RowError(
                    f"two attempts are {row['uuid']} and differ: two runs in one file; give each a "
                    "file of its own"
                )
    return list(answers.values())


def _text(message: Any) -> str | None:
    """The text of a message; older reports have the text itself."""
    text = message.get("text") if isinstance(message, dict) else message
    return text if isinstance(text, str) else None
