"""What two results were made under, and whether a difference between them says anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from refract.core.jsonl import canonical_json
from refract.core.types import Row


class Conditions(NamedTuple):
    """Notes for the reader, each with the suite it is of (or none), and for each suite that is not to be
    compared the reason."""

    notes: list[tuple[str, str]]
    refused: dict[str, str]


def check_conditions(first: Row | None, second: Row | None) -> Conditions:
    """What differs between the provenance of two results besides their outcomes.

    A suite is refused where both the model and the way it was judged differ: whatever the numbers
    say could then come from either. None stands for a result without provenance.
    """
    if first is None or second is None:
        sides = " and ".join(name for name, side in (("A", first), ("B", second)) if side is None)
        unknown = f"{sides}: no provenance; judges and settings are unknown"
        return Conditions([("", unknown)], {})
    notes, refused = [], {}
    changed = differing(first["model"]["identity"], second["model"]["identity"])
    if changed:
        notes.append(("", "the models differ: " + "; ".join(changed)))
    seeds = first["model"].get("seed"), second["model"].get("seed")
    if seeds[0] != seeds[1]:
        notes.append(("", f"the seeds differ: {seeds[0]} → {seeds[1]}"))
    for suite, one in first["suites"].items():
        other = second["suites"].get(suite)
        if other is None:
            continue
        if one["sha256"] != other["sha256"]:
            hashes = f"{one['sha256'][:12]} → {other['sha256'][:12]}"
            notes.append((suite, f"the suite's file differs: {hashes}"))
        elif one["prompts_sha256"] != other["prompts_sha256"]:
            notes.append((suite, "drawn or perturbed differently from the same file"))
        scoring = differing(_scoring(first, one), _scoring(second, other))
        if scoring and changed:
            refused[suite] = (
                "both the models and the judging differ, so that a difference could come from "
                f"either ({'; '.join(scoring)}); judge both alike and compare again"
            )
        elif scoring:
            what = f"the judging differs, the model does not: {'; '.join(scoring)}"
            notes.append((suite, what))
    return Conditions(notes, refused)


def _scoring(provenance: Row, suite: Row) -> Row:
    """What decides the outcomes of a suite's answers."""
    judge = provenance["judges"][suite["judges"][0]]
    return {"judge": judge, "cut_off": suite.get("cut_off")}


def differing(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The values that differ between two JSON objects, as ``key: first → second``."""
    found = []
    for key in sorted({*first, *second}):
        a, b = first.get(key), second.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differing(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key}: {_short(a)} → {_short(b)}")
    return found


def _short(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= 40 else f"{text[:37]}…"
