"""The clean prompt again: the noise floor, what answers differ by on their own where a model samples or
a server computes them."""

from __future__ import annotations

from pydantic import Field

from refract.core.settings import Settings
from refract.suites.perturbations.variants import Features, Perturbation, RowKey, Variant


class RepeatSettings(Settings):
    repeats: int = Field(3, ge=1, le=1000, description="how often each prompt is repeated")


def repeat(features: Features, settings: RepeatSettings, row: RowKey) -> list[Variant]:
    """The clean prompt again, unchanged: the noise floor of a model that samples, or of a server."""
    return [
        Variant(f"r{number}", {"kind": "repeat", "repeat": number}, (dict(features),))
        for number in range(1, settings.repeats + 1)
    ]


REPEAT = Perturbation(RepeatSettings, repeat)
