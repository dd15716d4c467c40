"""How a run deviates from the protocol that it follows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refract_published.protocols.definitions import Chosen, Generation

# Where a judge's model runs.
WHERE = ("device", "device_map", "batch_tokens")


def generation_deviations(
    chosen: Chosen, generation: Mapping[str, Any], adapter: str, samples: int
) -> list[str]:
    """Each way in which generation differed from the protocol, as a phrase.

    ``generation`` has the settings that the model's adapter knows, with the values that were used."""
    deviations = []
    for key, wanted in chosen.fixed().items():
        if key in generation:
            value = generation[key]
            if not _same(key, value, wanted):
                deviations.append(f"{key} {_shown(value)} instead of {_shown(wanted)}")
        elif key != "chat_template" and wanted is not None:
            deviations.append(
                f"{key} {_shown(wanted)} not set: the adapter {adapter} has no such setting"
            )
    for key, value in generation.items():
        if key not in Generation.model_fields and value is not None:
            deviations.append(f"{key} {_shown(value)} instead of none")
    if samples != chosen.generation.samples:
        deviations.append(f"samples {samples} instead of {chosen.generation.samples}")
    return deviations


def judging_deviations(chosen: Chosen, judge: str, definition: Mapping[str, Any]) -> list[str]:
    """Each way in which judging differed from the protocol, as a phrase."""
    own = chosen.judge()
    deviations = []
    published = definition.get("judge") or judge if definition.get("kind") == "published" else None
    if own is None:
        deviations.append(f"judge {judge}, since the protocol's own is not defined here")
    elif published != own["judge"]:
        deviations.append(f"judge {judge} instead of {own['judge']}")
    else:
        defaults = {"reading": "strict"}
        for key, wanted in own.items():
            # null is as published, which is what the protocol says too
            value = definition.get(key)
            if value is None:
                value = defaults.get(key, wanted)
            if key not in ("kind", "judge") and value != wanted:
                deviations.append(f"the judge's {key} {value} instead of {wanted}")
        model = {k: v for k, v in (definition.get("model") or {}).items() if k not in WHERE}
        if model:
            deviations.append(f"the judge's model: {_shown(model)}")
    return deviations


def suite_deviations(chosen: Chosen, file: Path, sha256: str) -> list[str]:
    """A phrase where it is not known that a suite's file is the publisher's."""
    if sha256 == chosen.own.suite.sha256:
        return []
    return [f"suite {file.name}: not checked against the publisher's file"]


def unknown_notes(chosen: Chosen, generation: Mapping[str, Any]) -> list[str]:
    """The fields of the protocol that no source states, and the values used in their place."""
    return [
        f"{key}: {_shown(generation[key])} was used" if key in generation else key
        for key in chosen.protocol.unknown
    ]


def _same(key: str, value: object, wanted: object) -> bool:
    if isinstance(value, Mapping) and isinstance(wanted, Mapping):
        return value.get("sha256") == wanted.get("sha256")
    return value == wanted or (key == "top_p" and wanted is None and value == 1)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        if "sha256" in value:
            return f"by reference (SHA-256 {str(value['sha256'])[:16]}…)"
        return ", ".join(f"{key} {setting}" for key, setting in value.items())
    return f"{value!r:.60}" if isinstance(value, str) else str(value)
