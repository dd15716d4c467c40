"""What differs between the runs that made two sets of results."""

from __future__ import annotations

from typing import Any

from refract.core.environment import same_release
from refract.core.types import Row

# Libraries that pass texts on and compute nothing.
CLIENTS = ("anthropic", "openai")
# Of what a model says of its run: no cause, or among the libraries.
TOLD_APART = ("load_seconds", "torch", "transformers")
# What can change a number besides libraries, of all that is noted of a run.
MACHINE = ("architecture", "libc", "processor", "accelerator")


def run_differences(expected: Row, now: Row) -> list[str]:
    """What differs between the runs that made two sets of answers, and their judging, of all that can
    move a number: device, processor, versions, batch shape.

    Both as ``metrics/ran/MODEL.json`` has them; what is not known of one side is no difference.
    """
    lines = []
    for what, pick in (("answers", answered_by), ("verdicts", judged_by)):
        old, new = pick(expected), pick(now)
        for field in sorted({name for run in (*old, *new) for name in run}):
            was, is_ = ([run[field] for run in runs if field in run] for runs in (old, new))
            if was and is_ and not all(_same(field, a, b) for a in was for b in is_):
                sides = (", ".join(sorted({str(value) for value in side})) for side in (was, is_))
                lines.append(f"{what}, {field}: {' → '.join(sides)}")
    return lines


def _same(field: str, one: Any, other: Any) -> bool:
    if field.startswith("library") and None not in (one, other):
        return same_release(one, other)
    return bool(one == other)


def answered_by(side: Row) -> list[dict[str, Any]]:
    """What of each run that made answers can move a number, flat; ``side`` is what
    ``metrics/ran/MODEL.json`` has."""
    return [_causes_in(run) for run in side.get("runs", ())]


def judged_by(side: Row) -> list[dict[str, Any]]:
    """The same of what judged."""
    return [_causes_in(side["judged"])] if "judged" in side else []


def _causes_in(run: Row) -> dict[str, Any]:
    """What of a run can move a number, flat. Where no library computed, that is Python alone."""
    causes: dict[str, Any] = {"python": run["python"]}
    causes |= {"the server's model": run["said_model"]} if run.get("said_model") else {}
    libraries = {name: of for name, of in run["libraries"].items() if name not in CLIENTS}
    if not libraries:
        return causes
    causes |= {"device": run["device"]} if run["device"] else {}
    causes |= {key: value for key, value in run["runtime"].items() if key not in TOLD_APART}
    causes |= {key: run["machine"].get(key) for key in MACHINE}
    return causes | {f"library {name}": of for name, of in libraries.items()}
