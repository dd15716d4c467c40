"""What a perturbation makes of a source row: variants, their labels, the row's own generator."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refract.rows.jsonl import canonical_json

Features = dict[str, str]  # {"prompt": text} for a plain row, {variable: text} for a template's
Definition = Mapping[str, Any]  # a perturbation's settings from params.yaml


@dataclass(frozen=True)
class Variant:
    """One perturbed form of a source row.

    ``label`` is unique within (source row, perturbation name) and holds only ``[A-Za-z0-9+_.-]``.
    ``perturbation`` states what was done, as JSON. ``attempts`` holds the texts of *all* features,
    one dict per attempt; a later attempt is for a model that rejects the earlier as too long.
    """

    label: str
    perturbation: dict[str, Any]
    attempts: tuple[Features, ...]


def row_generator(seed: int, suite: str, source_id: str, name: str, feature: str) -> random.Random:
    """The generator of one feature of one row under one perturbation.

    It is made of the names alone, so that no other row, feature or perturbation shifts its draws.
    Only its ``random()`` may be drawn from: the one sequence that Python keeps over versions.
    """
    key = canonical_json([seed, suite, source_id, name, feature]).encode("ascii")
    return random.Random(int.from_bytes(hashlib.sha256(key).digest(), "big"))


def pick(generator: random.Random, count: int) -> int:
    """An index below ``count``, each as likely as the others."""
    return int(generator.random() * count)


def features_to_perturb(features: Features, definition: Definition) -> list[str]:
    """The features that the definition names, or all of them, in the row's order.

    Raises ValueError when the row lacks one that is named.
    """
    wanted = definition.get("features")
    if wanted is None:
        return list(features)
    absent = [feature for feature in wanted if feature not in features]
    if absent:
        raise ValueError(
            f"the row has no feature {absent[0]!r}; its features are {', '.join(features)}"
        )
    return [feature for feature in features if feature in wanted]


def make_label(features: Features, feature: str, *parts: str) -> str:
    """The label of a variant: its parts, after the feature's name where the row has several."""
    if list(features) == ["prompt"]:
        return "-".join(parts)
    slug = re.sub(r"[^A-Za-z0-9_]", "_", feature)
    if slug != feature:
        # Two names can come out as one slug; the hash keeps them apart.
        slug += "." + hashlib.sha256(feature.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return "-".join([slug, *parts])
