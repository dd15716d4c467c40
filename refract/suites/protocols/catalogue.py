"""The protocols that Refract knows (``catalogue.yaml``), looking one up, and what a run has otherwise.

A protocol holds no text of another project: its suite is the publisher's file, its judge a published
one, and a system prompt that is somebody's stands there by reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from refract.core.errors import ParamsError
from refract.core.published_text import Source, find_entry, names_in
from refract.core.settings import Number, Settings

CATALOGUE = Path(__file__).with_name("catalogue.yaml")
# Where a judge's model runs.
WHERE = ("device", "device_map", "batch_tokens")
# What a measure may count of an answer; see ProtocolMeasure.
Share = Literal["full_refusal", "partial_refusal", "full_compliance"]
Counts = Literal["complied", "refused", Share, "right", "score", "inspect_score"]


class Generation(Settings):
    """How answers are generated; null is "none", or not known where the protocol says so."""

    max_tokens: int | None = Field(ge=1)
    temperature: Annotated[Number, Field(ge=0)] | None
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = None
    system_prompt: str | Source | None = None
    chat_template: bool = True
    samples: int = Field(1, ge=1)


class SuiteFile(Settings):
    """The publisher's file of prompts."""

    kind: str = Field(description="the importer, as in `refract import-suite`")
    page: str = Field(description="where its publisher has it")
    url: str | None = Field(None, description="the file, where anybody may download it")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        None, description="of the file; null: not seen here"
    )
    columns: dict[str, str] = Field(
        default_factory=dict, description="for kind generic: of prompt, id and category"
    )
    values: dict[str, str] = Field(
        default_factory=dict, description="for kind generic: value of the category column: category"
    )
    category: Literal["harmful", "helpful", "borderline"] | None = Field(
        None, description="of every row, instead of the importer's rule"
    )
    where: dict[str, list[str]] = Field(
        default_factory=dict, description="rows that belong to it: values by field"
    )


class ProtocolMeasure(Settings):
    """A number of the protocol.

    ``counts``: the share of answers that complied, refused, … , the mean ``score`` (StrongREJECT's also
    as Inspect has it, ``inspect_score``), or the share that are ``right`` (harmful prompts refused,
    helpful ones not). ``macro`` adds the mean over the values of ``by``, each counting the same."""

    counts: Counts
    over: Literal["all", "judged"] = Field(
        description="the denominator: all answers, those without a verdict as 0, or judged ones"
    )
    where: dict[str, list[str]] = Field(default_factory=dict)
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
    generation: dict[str, Any] = Field(
        default_factory=dict, description="what differs from the protocol's"
    )
    measures: dict[str, ProtocolMeasure] = Field(min_length=1)


class Protocol(Settings):
    """A published protocol. ``sources`` says of each field where it is from; ``unknown`` names fields
    that no source states, which a run takes from its model; ``limits`` is what Refract leaves out."""

    version: str = Field(pattern=r"^[0-9]+(\.[0-9]+)*$")
    of: str
    generation: Generation
    parts: dict[str, Part] = Field(min_length=1)
    average: str | None = Field(None, description="the measure whose mean over the parts is shown")
    unknown: list[str] = Field(default_factory=list)
    sources: dict[str, str]
    limits: list[str] = Field(default_factory=list)

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
        """``NAME@VERSION``, with ``/PART`` where there are several."""
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
        """The settings of a model that the protocol states, as JSON; null where it is none."""
        held = self.generation.model_dump(mode="json", exclude_none=True)
        known = set(Generation.model_fields) - {"samples", *self.protocol.unknown}
        return {key: held.get(key) for key in Generation.model_fields if key in known}

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
    return names_in(CATALOGUE)


def find_protocol(given: str, where: str = "--protocol") -> tuple[str, Protocol]:
    """A protocol by ``NAME`` or ``NAME@VERSION``. Raises :class:`ParamsError`."""
    name, _, version = given.partition("@")
    found = find_entry(CATALOGUE, Protocol, "protocol", name, where)
    if version and version != found.version:
        raise ParamsError(
            f"{where}: {name} is defined here in version {found.version} alone (got {version!r}); "
            f"name {name}@{found.version}"
        )
    return name, found


def find_part(given: str, where: str) -> Chosen:
    """One part of a protocol, by ``NAME@VERSION`` or ``NAME@VERSION/PART``. Raises
    :class:`ParamsError`."""
    wanted, _, part = given.partition("/")
    name, found = find_protocol(wanted, where)
    if not part and len(found.parts) == 1:
        part = next(iter(found.parts))
    if part not in found.parts:
        raise ParamsError(
            f"{where}: {name} has the parts {', '.join(found.parts)}; name one, such as "
            f"{name}@{found.version}/{next(iter(found.parts))} (got {given!r})"
        )
    return Chosen(name, part, found)


def parts_of(name: str, protocol: Protocol) -> list[Chosen]:
    """All parts of a protocol."""
    return [Chosen(name, part, protocol) for part in protocol.parts]


def generation_deviations(
    chosen: Chosen, generation: Mapping[str, Any], adapter: str, samples: int
) -> list[str]:
    """What differs in how the answers were generated, one phrase each.

    ``generation`` has the settings that the model's adapter knows, with the values that were used."""
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


def suite_deviations(chosen: Chosen, file: Path, sha256: str) -> list[str]:
    """Whether a suite's file is not known to be the publisher's, as a phrase."""
    if sha256 == chosen.own.suite.sha256:
        return []
    return [f"suite {file.name}: not checked against the publisher's file"]


def unknown_notes(chosen: Chosen, generation: Mapping[str, Any]) -> list[str]:
    """What no source states of the protocol, and what stood in for it."""
    return [
        f"{key}: {_shown(generation[key])} was used" if key in generation else key
        for key in chosen.protocol.unknown
    ]


def _same(key: str, held: object, wanted: object) -> bool:
    if isinstance(held, Mapping) and isinstance(wanted, Mapping):
        return held.get("sha256") == wanted.get("sha256")
    return held == wanted or (key == "top_p" and wanted is None and held == 1)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        if "sha256" in value:
            return f"by reference (SHA-256 {str(value['sha256'])[:16]}…)"
        return ", ".join(f"{key} {held}" for key, held in value.items())
    return f"{value!r:.60}" if isinstance(value, str) else str(value)
