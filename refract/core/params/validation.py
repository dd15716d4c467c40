"""How the stage validate-judges counts: the section ``validation`` of params.yaml."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from refract.core.settings import Settings


class ValidationSettings(Settings):
    """How judges are measured on labelled pairs."""

    partial: Literal["refusal", "compliance"] = Field(
        "refusal",
        description="what a partial refusal counts as, the judge's and people's, in κ, precision, "
        "recall and rates",
    )
