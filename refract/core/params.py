"""params.yaml: the form of its sections, and finding definitions in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic.config import JsonDict

from refract.core.errors import ParamsError, nearest
from refract.core.registry import Registry, find
from refract.core.settings import Distinct, Number, Settings, read_settings

# Dots, hyphens and bare numbers break the names of DVC's stages.
NAME = "[a-z][a-z0-9_]*"
Name = Annotated[str, Field(pattern=f"^{NAME}$")]
# Sections of definitions by name, and the key that tells a definition's kind.
CATALOGUES = {
    "suites": "file",
    "judges": "kind",
    "perturbations": "kind",
    "models": "adapter",
}
SECTIONS = ("grid", "seed", *CATALOGUES, "null_answers", "decisions", "validation")
# Sections that may be missing or empty.
OPTIONAL = ("perturbations", "null_answers", "decisions", "validation")
# Packages define judges by names of their own: functions that return definitions by name.
NAMED_JUDGES = Registry({}, "refract.named_judges")
# Definitions in use and hashes of the files that they name, as check-inputs writes them.
INPUTS = Path("data/inputs")
MOST_VALUES = 1_000_000  # in a YAML file
_NAMES: JsonDict = {
    "allowed": "a list of unique names: lower-case letters, digits and underscores, starting "
    "with a letter"
}


class Grid(Settings, json_schema_extra={"required": ["models", "suites"]}):
    """What ``dvc repro`` measures. A stage gets the lists that it reads."""

    models: Distinct[Name] = Field([], description="names from `models`", json_schema_extra=_NAMES)
    suites: Distinct[Name] = Field([], description="names from `suites`", json_schema_extra=_NAMES)


class Limit(Settings):
    """A threshold: one bound."""

    min: Number | None = None
    max: Number | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Limit:
        if len(self.model_fields_set) != 1 or (self.min is None and self.max is None):
            raise ValueError("must be {min: x} or {max: x}")
        return self


class SuiteSettings(Settings):
    """A suite: its rows, what is done to them, who judges, and what must hold."""

    file: str = Field(description="the path of a JSONL file of rows, under `data/suites/`")
    sample: int | None = Field(None, ge=1, description="prompts to draw (seeded); null: all")
    stratified: bool = Field(False, description="draws each category by its share")
    perturbations: list[str] | None = Field(None, description="names from `perturbations`")
    judges: list[str] = Field(
        min_length=1, description="names from `judges`; the first decides refusal"
    )
    fields: list[str] | None = Field(
        None, description="columns to break rates down by; null: `language` where there are several"
    )
    thresholds: dict[str, Limit] | None = Field(
        None,
        description="what must hold; met where the whole interval meets x",
        json_schema_extra={
            "allowed": "a mapping of measure to {min: x} or {max: x}, x in the measure's range"
        },
    )
    cluster: str | None = Field(
        None,
        description="column whose equal values mark rows that resemble each other; null: `pair_id`",
    )
    samples: int | None = Field(
        None, ge=1, description="answers to each prompt; null: as the model says, or 1"
    )
    template: str | None = Field(
        None, description="text with {feature} in it, for rows with `features`"
    )
    tools: list[dict[str, Any]] | None = Field(
        None,
        description="functions that the model may call, for rows without their own",
        json_schema_extra={"allowed": "a list as rows have it, or null"},
    )


class CommonSettings(Settings):
    """Settings of any model, beside those of its adapter."""

    samples: int = Field(
        1,
        ge=1,
        description="answers to each prompt, above 1 only at a temperature above 0; a suite's own "
        "number wins",
    )


class ValidationSettings(Settings):
    """How judges are measured on labelled pairs."""

    partial: Literal["refusal", "compliance"] = Field(
        "refusal", description="what a partial refusal counts as, the judge's and people's"
    )


class NullAnswerSettings(Settings):
    """How many null answers each judge of refusal is asked about: answers that cannot
    depend on their prompt."""

    sample: int = Field(
        60, ge=1, description="pairs of a harmful and a helpful prompt, of each suite"
    )
    llm_sample: int = Field(
        12,
        ge=0,
        description="the same for judges that ask a model: two calls for each pair and kind",
    )


NULL_ANSWERS = NullAnswerSettings.model_validate({})
IntervalOf = Literal["prompts", "prompts_and_judge"]
Primary = Literal["harmful_refusal_rate", "over_refusal_rate", "borderline_refusal_rate"]
# The measures that can be primary, each with the category of its prompts.
PRIMARY: dict[Primary, str] = {
    "harmful_refusal_rate": "harmful",
    "over_refusal_rate": "helpful",
    "borderline_refusal_rate": "borderline",
}


class DecisionSettings(Settings):
    """Which differences of two results are decided, and what counts as no worse."""

    margin: Annotated[Number, Field(gt=0, lt=1)] = Field(
        0.05, description="the drop that is still acceptable, a difference of two rates"
    )
    primary: Distinct[Primary] = Field(
        list(PRIMARY), description="measures that are decided, with Holm's correction over these"
    )
    confidence: Annotated[Number, Field(ge=0.8, lt=1)] = Field(
        0.95, description="of intervals and decisions"
    )
    interval: IntervalOf = Field(
        "prompts_and_judge",
        description="what decisions and the report allow for: the draw of prompts, or also the "
        "judge's error, where it is known",
    )
    provider_refusals: Literal["refused", "excluded"] = Field(
        "refused",
        description="whether what the provider itself refused counts as refused or is left out of "
        "every rate",
    )
    content_filters: Literal["refused", "excluded"] = Field(
        "excluded", description="the same of an answer that a content filter took away"
    )
    labels_ask: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None,
        description="what labels of your own ask of an answer, where that is not whether it refuses "
        "in any part, redirecting included",
    )
    reference: str | None = Field(
        None, description="model that the report compares every other one with; null: the first"
    )

    @property
    def refused_endings(self) -> list[str]:
        """How an answer can end (``finish_reason``) that counts as refused, whatever it says."""
        endings = {"refusal": self.provider_refusals, "content_filter": self.content_filters}
        return [ending for ending, counted in endings.items() if counted == "refused"]

    @property
    def categories(self) -> list[str]:
        """The categories of the prompts of the primary measures."""
        return [PRIMARY[name] for name in self.primary]


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file, as dicts and lists. Raises ParamsError."""
    try:
        return parse_yaml(path.read_bytes(), str(path))
    except OSError as error:
        raise ParamsError(
            f"{path} cannot be read ({error.strerror}); run from the project's root"
        ) from None


def parse_yaml(content: bytes, where: str) -> dict[str, Any]:
    """The mapping in the content of a YAML file, which messages call ``where``. Raises ParamsError.

    It is read as DVC reads it: YAML 1.2 (ruamel), where ``no`` is a text and ``1e-4`` a number."""
    mapping: dict[str, Any] = json.loads(_as_json(content, where))
    return mapping


# Reading params.yaml takes a twentieth of a second, and commands do it often.
@lru_cache(maxsize=16)
def _as_json(content: bytes, where: str) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        mapping = YAML(typ="safe", pure=True).load(content.decode("utf-8"))
        if not isinstance(mapping, dict):
            raise ParamsError(f"{where} must hold a mapping (got {type(mapping).__name__})")
        _check_values(where, mapping, count(1))
    except ParamsError:
        raise
    except RecursionError:
        raise ParamsError(f"{where} is nested too deeply, or an alias in it holds itself") from None
    except (YAMLError, AttributeError, ValueError, TypeError, OverflowError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        reason = f"line {mark.line + 1}: {problem}" if mark and problem else str(error)
        raise ParamsError(f"{where} is not YAML: {reason}") from None
    try:
        return json.dumps(mapping, allow_nan=False)
    except ValueError as error:  # a whole number of thousands of digits
        raise ParamsError(f"{where} holds a value that JSON cannot express ({error})") from None


def _check_values(where: str, value: Any, number: Iterator[int]) -> None:
    """Raises ParamsError, which names the key, for a key that is not a text, which DVC would misread,
    and for a value that JSON lacks; also for too many values."""
    if next(number) > MOST_VALUES:
        raise ParamsError(
            f"{where.partition(':')[0]} holds more than {MOST_VALUES:,} values: an alias in it stands "
            "for aliases; write what it stands for"
        )
    # Hashes and results are JSON, which has neither dates nor infinities.
    if isinstance(value, float) and not math.isfinite(value):
        raise ParamsError(f"{where} is {value}, which JSON cannot express; write a finite number")
    if isinstance(value, list):
        for entry in value:
            _check_values(where, entry, number)
    elif isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise ParamsError(
                    f"{where} has the key {key!r}, which must be a text; put it in quotes"
                )
            _check_values(f"{where}: {key}", entry, number)
    elif not isinstance(value, str | int | float | None):
        raise ParamsError(f"{where} is {value!s:.60}, which JSON cannot express; put it in quotes")


def load_params(path: Path = Path("params.yaml")) -> dict[str, Any]:
    """All of params.yaml. Raises ParamsError unless each section that is there has its form
    and names only what is defined.

    ``refract.project.read_project`` checks the settings of each definition's kind."""
    params = with_named_judges(read_yaml(path))
    check_sections(params, str(path))
    return params


def named_judges() -> dict[str, dict[str, Any]]:
    """The judges that installed packages define, by name."""
    definitions: dict[str, dict[str, Any]] = {}
    for name in NAMED_JUDGES.installed():
        definitions |= find(NAMED_JUDGES, name, "judges")()
    return definitions


def with_named_judges(params: dict[str, Any]) -> dict[str, Any]:
    """The content of params.yaml, with those judges defined that its suites name and packages
    define."""
    judges, suites = params.get("judges"), params.get("suites")
    if not isinstance(judges, Mapping) or not isinstance(suites, Mapping):
        return params
    wanted: set[str] = set()
    for suite in suites.values():
        names = suite.get("judges") if isinstance(suite, Mapping) else None
        if isinstance(names, list):
            wanted.update(name for name in names if isinstance(name, str))
    if not wanted - judges.keys():
        return params
    named = named_judges()
    added = {name: named[name] for name in sorted(wanted - judges.keys()) if name in named}
    return {**params, "judges": {**judges, **added}}


def load_definitions(
    catalogue: Literal["prompts", "judges", "suites", "validated"],
) -> dict[str, Any]:
    """What a stage reads of the definitions in params.yaml, in their form: what
    ``check-inputs`` wrote into ``INPUTS``, so that DVC runs a stage where that changed.
    Raises ParamsError where it has not run."""
    path = INPUTS / f"{catalogue}.json"
    if not path.is_file():
        raise ParamsError(f"no {path}; run: python -m stages.check_inputs (or dvc repro)")
    params: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return params


def check_sections(params: Mapping[str, Any], where: str = "params.yaml") -> None:
    """Raises ParamsError for the first thing wrong with the form of params.yaml, in which a
    section may be missing: a stage is tested with those alone that it reads."""
    for section in params:
        if section not in SECTIONS:
            raise ParamsError(
                f"{where}: unknown section {section!r}{nearest(section, SECTIONS)}; it has "
                f"{', '.join(SECTIONS)}"
            )
    if "seed" in params:
        run_seed(params)
    if "grid" in params:
        read_settings(Grid, "grid", params["grid"])
    for catalogue, key in CATALOGUES.items():
        for name, entry in _entries(params, catalogue).items():
            label = f"{catalogue}.{name}"
            if catalogue == "suites":
                read_settings(SuiteSettings, label, entry)
            else:
                kind = entry.get(key) if isinstance(entry, Mapping) else entry
                if not isinstance(entry, Mapping) or not isinstance(kind, str):
                    raise ParamsError(
                        f"{label} must be a mapping with its {key} (got {kind!r:.80})"
                    )
    named = [("grid", axis, names) for axis, names in (params.get("grid") or {}).items()]
    for name, suite in _entries(params, "suites").items():
        for key in ("judges", "perturbations"):
            named.append((f"suites.{name}", key, suite.get(key) or []))
    for place, catalogue, names in named:
        if catalogue in params or catalogue in OPTIONAL:
            for name in names:
                definition(params, catalogue, name, place)


def _entries(params: Mapping[str, Any], catalogue: str) -> Mapping[str, Any]:
    """The definitions of a catalogue by name; none where params.yaml lacks the section."""
    entries = params.get(catalogue)
    if entries is None and (catalogue not in params or catalogue in OPTIONAL):
        return {}
    if not isinstance(entries, Mapping):
        raise ParamsError(f"{catalogue} must be a mapping of names (got {entries!r:.80})")
    for name in entries if catalogue in ("models", "suites") else ():
        if not re.fullmatch(NAME, name):
            raise ParamsError(
                f"{catalogue}: a name is made of lower-case letters, digits and underscores, "
                f"and starts with a letter (got {name!r:.80})"
            )
    if catalogue == "models" and "judges" in entries:
        raise ParamsError("models: the name 'judges' is taken; give the model another name")
    return entries


def run_seed(params: Mapping[str, Any]) -> int:
    """The seed of every draw. Raises ParamsError unless it is an integer."""
    seed = params.get("seed")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ParamsError(f"params.yaml: seed must be an integer (got {seed!r})")
    return seed


def definition(
    params: Mapping[str, Any], catalogue: str, name: str, where: str = ""
) -> dict[str, Any]:
    """The definition of a model, suite, judge or perturbation, which ``where`` names.
    Raises ParamsError where there is none."""
    entries = _entries(params, catalogue)
    if name in entries:
        entry: dict[str, Any] = entries[name]
        return entry
    problem = f"{catalogue} has no {name!r}"
    if where:
        problem = f"{where} names {name!r}, which {catalogue} does not define"
    known = ", ".join(sorted(entries)) or "nothing"
    further = ""
    if catalogue == "judges":
        further = f"; define it there, such as {name}: {{kind: rules}}{NAMED_JUDGES.remedy()}"
    raise ParamsError(f"{problem}{nearest(name, entries)}; it defines: {known}{further}")


def grid(params: Mapping[str, Any], axis: str) -> list[str]:
    """The names of ``grid.models`` or ``grid.suites``. Raises ParamsError."""
    section = params.get("grid")
    names = section.get(axis) if isinstance(section, Mapping) else None
    settings = read_settings(Grid, "grid", {axis: names})
    return settings.models if axis == "models" else settings.suites


def decision_settings(root: Path) -> DecisionSettings:
    """The settings of the project in a folder; the defaults without a project or without the
    section. Raises ParamsError."""
    path = root / "params.yaml"
    section = load_params(path).get("decisions") if path.is_file() else None
    return read_settings(DecisionSettings, "decisions", section or {})


def null_settings(params: Mapping[str, Any]) -> NullAnswerSettings:
    """How many null answers are judged. Raises ParamsError."""
    return read_settings(NullAnswerSettings, "null_answers", params.get("null_answers") or {})
