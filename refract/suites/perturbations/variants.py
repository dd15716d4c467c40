"""What a kind of perturbation is, and what it makes of a source row: variants and their labels."""

from __future__ import annotations

import functools
import hashlib
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import Field

from refract.core.errors import ParamsError
from refract.core.jsonl import canonical_json
from refract.core.settings import Distinct, Settings

Features = Mapping[str, str]  # {"prompt": text} for a plain row, {variable: text} for a template's

Noisy = tuple[str, int]  # a text, and the number of places where it was changed


class RowKey(NamedTuple):
    """A source row under a perturbation of a run: what its draws depend on, and nothing else."""

    seed: int
    suite: str
    source_id: str
    name: str  # the perturbation's, in params.yaml


@dataclass(frozen=True)
class Variant:
    """One perturbed form of a source row.

    ``label`` is unique within (source row, perturbation name) and holds only ``[A-Za-z0-9+_.-]``.
    ``perturbation`` states what was done, as JSON. ``attempts`` holds the texts of *all* features,
    one dict per attempt; a later attempt is for a model that rejects the earlier as too long."""

    label: str
    perturbation: dict[str, Any]
    attempts: tuple[dict[str, str], ...]


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Perturbation(Generic[S]):
    """A kind of perturbation.

    ``variants`` makes the variants of one source row, in a fixed order; an empty list
    where it finds nothing to change. ``drawn``: its texts come from the row's own
    generator, and differ from seed to seed. ``same_request``: they ask for what the clean prompt does,
    which judges then read in their place. ``repeats``: its variants are the clean prompt; of other kinds
    such are left out. The first line of the function's docstring describes the
    kind in ``docs/params.md``."""

    Settings: type[S]
    variants: Callable[[Features, S, RowKey], list[Variant]]
    drawn: bool = False
    same_request: bool = True
    repeats: bool = False


# Every kind that changes the features of a row one at a time has these.
class FeatureSettings(Settings):
    features: Distinct[str] | None = Field(
        None,
        description="features that are perturbed; a plain prompt is the feature `prompt`",
        json_schema_extra={"allowed": "a list of names of features, or null for all"},
    )


F = TypeVar("F", bound=FeatureSettings)


def row_generator(row: RowKey, feature: str) -> random.Random:
    """The generator of one feature of one row under one perturbation.

    It is made of the names alone, so that no other row, feature or perturbation shifts its draws.
    Only its ``random()`` may be drawn from: the one sequence that Python keeps over versions."""
    key = canonical_json([*row, feature]).encode("ascii")
    return random.Random(int.from_bytes(hashlib.sha256(key).digest(), "big"))


def pick(generator: random.Random, count: int) -> int:
    """An index below ``count``, each as likely as the others."""
    return int(generator.random() * count)


def features_to_perturb(features: Features, settings: FeatureSettings, row: RowKey) -> list[str]:
    """The features that the settings name, or all of them, in the row's order.
    Raises ParamsError when the row lacks one that is named."""
    if settings.features is None:
        return list(features)
    absent = [feature for feature in settings.features if feature not in features]
    if absent:
        raise ParamsError(
            f"perturbations.{row.name}: features names {absent[0]!r}, which row {row.source_id!r} of "
            f"{row.suite} does not have; it has {', '.join(features)}"
        )
    return [feature for feature in features if feature in settings.features]


def make_label(features: Features, feature: str, *parts: str) -> str:
    """The label of a variant: its parts, after the feature's name where the row has several."""
    if list(features) == ["prompt"]:
        return "-".join(parts)
    slug = re.sub(r"[^A-Za-z0-9_]", "_", feature)
    if slug != feature:
        # Two names can come out as one slug; the hash keeps them apart.
        slug += "." + hashlib.sha256(feature.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return "-".join([slug, *parts])


def in_each_feature(
    kind: str, noise: Callable[[str, random.Random, F], Noisy]
) -> Callable[[Features, F, RowKey], list[Variant]]:
    """A function that makes a variant for each feature in which the noise finds something
    to change.

    A text that comes out unchanged, or blank, gives none: its answer would be the clean
    prompt's and count as robust against a noise that never happened."""

    @functools.wraps(noise)
    def variants(features: Features, settings: F, row: RowKey) -> list[Variant]:
        changed = []
        for feature in features_to_perturb(features, settings, row):
            text, edits = noise(features[feature], row_generator(row, feature), settings)
            if text == features[feature] or not text.strip():
                continue
            label = make_label(features, feature, kind)
            done = {"kind": kind, "feature": feature, "edits": edits}
            changed.append(Variant(label, done, ({**features, feature: text},)))
        return changed

    return variants
