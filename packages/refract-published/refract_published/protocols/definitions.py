"""What a published protocol states, each field with its source.

A protocol holds no text of another project: its suite is the publisher's file, its judge
a published one, and another project's system prompt is referred to."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from refract.core.published_text import Source
from refract.core.settings import Number, Settings
from refract_published.importing.hub import page_of

# What a measure may count of an answer; see ProtocolMeasure.
Share = Literal["full_refusal", "partial_refusal", "full_compliance"]
Counts = Literal["complied", "refused", Share, "right", "score", "inspect_score"]


class Generation(Settings):
    """How answers are generated; null means none, or not known where ``unknown`` has the field."""

    max_tokens: int | None = Field(ge=1)
    temperature: Annotated[Number, Field(ge=0)] | None
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = None
    system_prompt: str | Source | None = None
    chat_template: bool = True
    samples: int = Field(1, ge=1)


class SuiteFile(Settings):
    """The publisher's file of prompts."""

    kind: str = Field(description="the importer, as in `refract import-suite`")
    page: str = Field(description="where its publisher has it; follows from a url")
    url: str | None = Field(None, description="the file, where anybody may download it")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None, description="of the file; null: not seen here"
    )
    columns: dict[str, str] = Field({}, description="for kind generic: of prompt, id and category")
    values: dict[str, str] = Field(
        {}, description="for kind generic: value of the category column: category"
    )
    category: Literal["harmful", "helpful", "borderline"] | None = Field(
        None, description="of every row, instead of the importer's rule"
    )
    where: dict[str, list[str]] = Field({}, description="rows that belong to it: values by field")

    @model_validator(mode="before")
    @classmethod
    def _with_page(cls, entry: Any) -> Any:
        if isinstance(entry, dict) and entry.get("url"):
            return {"page": page_of(entry["url"]), **entry}
        return entry


class ProtocolMeasure(Settings):
    """A number of the protocol.

    ``counts``: the share of answers that complied, refused, …; the mean ``score``
    (``inspect_score``: StrongREJECT's as Inspect computes it); or the share that is
    ``right`` (harmful prompts refused, helpful ones answered). ``macro`` adds the
    unweighted mean over the values of ``by``."""

    counts: Counts
    over: Literal["all", "judged"] = Field(
        description="the denominator: all answers, those without a verdict as 0, or judged ones"
    )
    where: dict[str, list[str]] = Field({})
    by: str | None = Field(None, description="the field whose values have a row each")
    macro: bool = False

    @model_validator(mode="after")
    def _of_groups(self) -> ProtocolMeasure:
        if self.macro and self.by is None:
            raise ValueError("macro: the mean over groups needs the field that makes them (by)")
        return self


class Part(Settings):
    """One suite with its judge and its numbers."""

    suite: SuiteFile
    judge: str | None = Field(description="a published judge; null: none that is defined here")
    clip: int | None = Field(
        None, ge=1, description="most tokens of an answer, by the judge's tokenizer; null: all"
    )
    empty: Literal["judged", "refused", "complied", "unjudged"] = Field(
        description="what an empty answer is"
    )
    partial: Literal["refused", "complied", "neither"] = Field(
        description="what a partial refusal is counted as"
    )
    generation: dict[str, Any] = Field({}, description="what differs from the protocol's")
    measures: dict[str, ProtocolMeasure] = Field(min_length=1)


class Protocol(Settings):
    """A published protocol. ``sources`` says where each field is from; ``unknown`` names
    fields that no source states, which a run takes from its model; ``limits`` says what
    Refract leaves out."""

    version: str = Field(pattern=r"^[0-9]+(\.[0-9]+)*$")
    of: str
    generation: Generation
    parts: dict[str, Part] = Field(min_length=1)
    average: str | None = Field(None, description="the measure whose mean over the parts is shown")
    unknown: list[str] = Field([])
    sources: dict[str, str]
    limits: list[str] = Field([])

    @model_validator(mode="after")
    def _complete(self) -> Protocol:
        for name, part in self.parts.items():
            if self.average is not None and self.average not in part.measures:
                raise ValueError(f"average: {name} has no measure {self.average!r}")
            self.generation_of(name)
        return self

    def generation_of(self, part: str) -> Generation:
        """How the answers to one part are generated."""
        own = {key: getattr(self.generation, key) for key in Generation.model_fields}
        return Generation.model_validate(own | self.parts[part].generation)


class Chosen(NamedTuple):
    """A protocol by its name, or one part of it."""

    name: str
    part: str
    protocol: Protocol

    @property
    def label(self) -> str:
        """``NAME@VERSION``, with ``/PART`` where there are several parts."""
        label = f"{self.name}@{self.protocol.version}"
        return label if len(self.protocol.parts) == 1 else f"{label}/{self.part}"

    @property
    def own(self) -> Part:
        """What the part itself says."""
        return self.protocol.parts[self.part]

    @property
    def generation(self) -> Generation:
        """How its answers are generated."""
        return self.protocol.generation_of(self.part)

    def fixed(self) -> dict[str, Any]:
        """The settings of a model that the protocol states, as JSON; null stands for none."""
        stated = self.generation.model_dump(mode="json", exclude_none=True)
        settings = {}
        for key in Generation.model_fields:
            if key != "samples" and key not in self.protocol.unknown:
                settings[key] = stated.get(key)
        return settings

    def judge(self) -> dict[str, Any] | None:
        """The definition of its judge; None where no judge is defined."""
        if self.own.judge is None:
            return None
        return {
            "kind": "published",
            "judge": self.own.judge,
            "reading": "paper",
            "clip": self.own.clip or 0,
            "empty": "judged" if self.own.empty == "judged" else "unjudged",
        }
