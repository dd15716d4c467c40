"""What a run has otherwise than its protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refract.suites.protocols.catalogue import Chosen, Generation

# Where a judge's model runs.
WHERE = ("device", "device_map", "processes", "batch_tokens")
# Values that are the same as none.
NONE: dict[str, tuple[Any, ...]] = {"top_p": (None, 1)}


def generation_deviations(
    chosen: Chosen, generation: Mapping[str, Any], adapter: str, samples: int
) -> list[str]:
    """What differs in how the answers were generated, one phrase each.

    ``generation`` has the settings that the model's adapter knows, with the values that were used.
    """
    fixed, found = chosen.fixed(), []
    for key, wanted in fixed.items():
        if key not in generation:
            if key != "chat_template" and wanted is not None:
                found.append(
                    f"{key} {_shown(wanted)} not set: the adapter {adapter} has no such setting"
                )
        elif not _same(key, generation[key], wanted):
            found.append(f"{key} {_shown(generation[key])} instead of {_shown(wanted)}")
    found += [
        f"{key} {_shown(value)} instead of none"
        for key, value in generation.items()
        if key not in Generation.model_fields and value is not None
    ]
    if samples != chosen.generation.samples:
        found.append(f"samples {samples} instead of {chosen.generation.samples}")
    return found


def judging_deviations(
    chosen: Chosen, judge: str, definition: Mapping[str, Any], cut_off: str | None
) -> list[str]:
    """What differs in how the answers were judged, one phrase each."""
    own, found = chosen.judge(), []
    published = definition.get("judge") or judge if definition.get("kind") == "published" else None
    if own is None:
        found.append(f"judge {judge}, since the protocol's own is not defined here")
    elif published != own["judge"]:
        found.append(f"judge {judge} instead of {own['judge']}")
    else:
        # null is as published, which is what the protocol says too
        held = {"reading": "strict", "clip": own["clip"], "empty": own["empty"]}
        held |= {"judged_text": "raw"}
        held |= {key: value for key, value in definition.items() if value is not None}
        found += [
            f"the judge's {key} {held[key]} instead of {wanted}"
            for key, wanted in {**own, "judged_text": "raw"}.items()
            if key not in ("kind", "judge") and held[key] != wanted
        ]
        model = {k: v for k, v in (definition.get("model") or {}).items() if k not in WHERE}
        if model:
            found.append(f"the judge's model: {_shown(model)}")
    if cut_off == "excluded":
        found.append("answers cut off at the token limit are left out instead of judged")
    return found


def unknown_notes(chosen: Chosen, generation: Mapping[str, Any]) -> list[str]:
    """What no source states of the protocol, and what stood in for it."""
    return [
        f"{key}: {_shown(generation[key])} was used" if key in generation else key
        for key in chosen.protocol.unknown
    ]


def _same(key: str, held: object, wanted: object) -> bool:
    if isinstance(held, Mapping) and isinstance(wanted, Mapping):
        return held.get("sha256") == wanted.get("sha256")
    return held == wanted or (wanted is None and held in NONE.get(key, ()))


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        if "sha256" in value:
            return f"by reference (SHA-256 {str(value['sha256'])[:16]}…)"
        return ", ".join(f"{key} {held}" for key, held in value.items())
    return f"{value!r:.60}" if isinstance(value, str) else str(value)
