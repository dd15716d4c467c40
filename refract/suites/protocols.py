"""Published protocols: what one states, finding one by name, and how a run deviates from
it.

A protocol holds no text of another project: its suite is the publisher's file, its judge
a published one, and another project's system prompt is referred to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from refract.core.errors import ParamsError
from refract.core.published_text import Source, catalogue_file, find_entry, names_in
from refract.core.registry import Registry
from refract.core.settings import Number, Settings
from refract.suites.importing.hub import page_of

CATALOGUE = catalogue_file("refract.published:protocols.yaml")
# An installed package adds a protocol by naming a mapping like an entry of that file.
PROTOCOLS = Registry({}, "refract.protocols", "keys")
# Where a judge's model runs.
WHERE = ("device", "device_map", "batch_tokens")
# What a measure may count of an answer; see ProtocolMeasure.
Share = Literal["full_refusal", "partial_refusal", "full_compliance"]
Counts = Literal["complied", "refused", Share, "right", "score", "inspect_score"]


class Generation(Settings):
    """How answers are generated; null means none, or not known where ``unknown`` has the
    field."""

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
    columns: dict[str, str] = Field(
        {},
        description="for kind generic: of prompt, id and category",
    )
    values: dict[str, str] = Field(
        {},
        description="for kind generic: value of the category column: category",
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
        None,
        ge=1,
        description="most tokens of an answer, by the judge's tokenizer; null: all",
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


def names() -> list[str]:
    """The names of the protocols."""
    return names_in(CATALOGUE, PROTOCOLS)


def find_protocol(label: str, where: str = "--protocol") -> tuple[str, Protocol]:
    """A protocol by ``NAME`` or ``NAME@VERSION``.
    Raises ParamsError."""
    name, _, version = label.partition("@")
    protocol = find_entry(
        CATALOGUE,
        kind=Protocol,
        noun="protocol",
        name=name,
        where=where,
        registry=PROTOCOLS,
    )
    if version and version != protocol.version:
        raise ParamsError(
            f"{where}: {name} is defined here in version {protocol.version} alone "
            f"(got {version!r}); name {name}@{protocol.version}"
        )
    return name, protocol


def find_part(label: str, where: str) -> Chosen:
    """One part of a protocol, by ``NAME@VERSION`` or ``NAME@VERSION/PART``.
    Raises ParamsError."""
    wanted, _, part = label.partition("/")
    name, protocol = find_protocol(wanted, where)
    first = next(iter(protocol.parts))
    if not part and len(protocol.parts) == 1:
        part = first
    if part not in protocol.parts:
        raise ParamsError(
            f"{where}: {name} has the parts {', '.join(protocol.parts)}; name one, such as "
            f"{name}@{protocol.version}/{first} (got {label!r})"
        )
    return Chosen(name, part, protocol)


def parts_of(name: str, protocol: Protocol) -> list[Chosen]:
    """All parts of a protocol."""
    return [Chosen(name, part, protocol) for part in protocol.parts]


def generation_deviations(
    chosen: Chosen, generation: Mapping[str, Any], adapter: str, samples: int
) -> list[str]:
    """Each way in which generation differed from the protocol, as a phrase.

    ``generation`` has the settings that the model's adapter knows, with the values that
    were used."""
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


def judging_deviations(
    chosen: Chosen, judge: str, definition: Mapping[str, Any], cut_off: str | None
) -> list[str]:
    """Each way in which judging differed from the protocol, as a phrase."""
    own = chosen.judge()
    deviations = []
    published = definition.get("judge") or judge if definition.get("kind") == "published" else None
    if own is None:
        deviations.append(f"judge {judge}, since the protocol's own is not defined here")
    elif published != own["judge"]:
        deviations.append(f"judge {judge} instead of {own['judge']}")
    else:
        defaults = {"reading": "strict", "judged_text": "raw"}
        for key, wanted in {**own, "judged_text": "raw"}.items():
            # null is as published, which is what the protocol says too
            value = definition.get(key)
            if value is None:
                value = defaults.get(key, wanted)
            if key not in ("kind", "judge") and value != wanted:
                deviations.append(f"the judge's {key} {value} instead of {wanted}")
        model = {k: v for k, v in (definition.get("model") or {}).items() if k not in WHERE}
        if model:
            deviations.append(f"the judge's model: {_shown(model)}")
    if cut_off == "excluded":
        deviations.append("answers cut off at the token limit are left out instead of judged")
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
