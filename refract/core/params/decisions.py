"""What a comparison decides, and by what: the section ``decisions`` of params.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from refract.core.params import load_params
from refract.core.settings import Distinct, Number, Settings, read_settings

Primary = Literal["harmful_refusal_rate", "over_refusal_rate", "borderline_refusal_rate"]
# The measures that can be primary, with the category of prompts that each is taken over.
PRIMARY: dict[Primary, str] = {
    "harmful_refusal_rate": "harmful",
    "over_refusal_rate": "helpful",
    "borderline_refusal_rate": "borderline",
}


class DecisionSettings(Settings):
    """Which differences of two results are decided, and what counts as no worse."""

    margin: Annotated[Number, Field(gt=0, lt=1)] = Field(
        0.05, description="the drop that is still acceptable, as a difference of two rates"
    )
    primary: Distinct[Primary] = Field(
        list(PRIMARY),
        description="measures that are decided; Holm's correction runs over these alone",
        json_schema_extra={"allowed": f"a list, none twice: {', '.join(PRIMARY)}"},
    )
    confidence: Annotated[Number, Field(ge=0.8, lt=1)] = Field(
        0.95, description="of intervals and decisions; a decision errs in at most 1 minus this"
    )

    reference: str | None = Field(
        None,
        description="model that the report compares every other one with; null: the first of the grid",
        json_schema_extra={"allowed": "null or a name from `grid.models`"},
    )

    @property
    def categories(self) -> list[str]:
        """The categories of prompts that the primary measures are taken over."""
        return [PRIMARY[name] for name in self.primary]


def decision_settings(root: Path) -> DecisionSettings:
    """The settings of the project in a folder; the defaults where there is no project, or none set.

    Raises :class:`refract.core.errors.ParamsError`.
    """
    path = root / "params.yaml"
    given = load_params(path).get("decisions") if path.is_file() else None
    return read_settings(DecisionSettings, "decisions", {} if given is None else given)
