"""Settings: one pydantic model for each kind of model, judge, perturbation and suite.

A field states type, bounds, default and meaning once. The check and its message
(``read_settings``), the tables of ``docs/params.md`` and the JSON Schema
(``schema_of``) follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic_core import CoreSchema

from refract.core.errors import ParamsError, nearest
from refract.core.secrets import without_secrets

_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_IN_WORDS = {
    "exclusiveMinimum": "above {}",
    "minimum": "of at least {}",
    "exclusiveMaximum": "below {}",
    "maximum": "at most {}",
}


class _NumberSchema:
    """The JSON Schema of int | float as one type, with the bounds that stand on it."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        bounds = {key: value for key, value in handler(schema).items() if key in _BOUNDS}
        return {"type": "number", **bounds}


# An integer stays one: 0 and 0.0 have different hashes.
Number = Annotated[int | float, _NumberSchema()]
T = TypeVar("T")


def _none_twice(values: list[T]) -> list[T]:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"holds {value!r} twice")
    return values


# A list with at least one entry, none of them twice.
Distinct = Annotated[
    list[T],
    Field(min_length=1, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_none_twice),
]


class Settings(BaseModel):
    """What a definition may hold. Unknown keys and values of another type are errors; no
    value is converted.

    A field's ``description`` is its meaning. What is allowed follows from type and
    bounds, or from words in ``json_schema_extra={"allowed": "…"}``."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


S = TypeVar("S", bound=Settings)


def read_settings(kind: type[S], where: str, definition: object) -> S:
    """The settings of a definition, with defaults for those that it lacks.

    ``where`` names the definition in messages (``models.my_model``). Raises ParamsError, which says
    what is wrong, the value received and what is allowed."""
    if not isinstance(definition, Mapping):
        raise ParamsError(f"{where} must map settings to values (got {definition!r:.80})")
    for key in definition:
        if not isinstance(key, str):
            raise ParamsError(f"{where}: a setting's name is a text (got {key!r})")
    try:
        return kind.model_validate(dict(definition))
    except ValidationError as error:
        raise ParamsError(_sentence(kind, where, definition=definition, error=error)) from None


def schema_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a kind of settings, with ``allowed`` in words for each field."""
    schema: dict[str, Any] = _tidy(kind.model_json_schema(by_alias=True))
    definitions = schema.get("$defs", {})
    for field in schema.get("properties", {}).values():
        field.setdefault("allowed", in_words(field, definitions))
    return schema


def in_words(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> str:
    """What a JSON Schema allows, in words: ``a whole number of at least 1, or null``."""
    if "allowed" in schema:
        return str(schema["allowed"])
    if "$ref" in schema:
        return in_words((definitions or {})[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return ", or ".join(in_words(option, definitions) for option in schema["anyOf"])
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    if values:
        texts = ["null" if value is None else str(value) for value in values]
        *others, last = texts
        return f"{', '.join(others)} or {last}" if others else last
    kind = schema.get("type")
    if kind in ("integer", "number"):
        noun = "a whole number" if kind == "integer" else "a number"
        bounds = [words.format(schema[key]) for key, words in _IN_WORDS.items() if key in schema]
        return " ".join([noun, " and ".join(bounds)]).strip()
    if kind == "array":
        return _list_in_words(schema, definitions)
    names = {"boolean": "true or false", "object": "a mapping", "null": "null", "string": "a text"}
    if kind == "string" and "pattern" in schema:
        return f"a text like {schema['pattern']}"
    if kind == "string" and schema.get("minLength"):
        return "a text that is not empty"
    return names.get(str(kind), "a value")


def _list_in_words(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None) -> str:
    entry = in_words(schema["items"], definitions) if schema.get("items") else ""
    words = "a list of at least one entry" if schema.get("minItems") else "a list"
    words += ", none twice" if schema.get("uniqueItems") else ""
    return f"{words}, each {entry}" if entry else words


def _tidy(schema: Any) -> Any:
    """A schema without titles, with the bounds of numbers named as in JSON Schema."""
    if isinstance(schema, list):
        return [_tidy(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {}
    for key, value in schema.items():
        if key != "title" or not isinstance(value, str):
            tidy[_BOUNDS.get(key, key)] = _tidy(value)
    return tidy


def _sentence(
    kind: type[BaseModel], where: str, definition: Mapping[str, Any], error: ValidationError
) -> str:
    """The first thing wrong with a definition, in one sentence that shows no secret."""
    problems = error.errors()
    unknown = [problem for problem in problems if problem["type"] == "extra_forbidden"]
    problem = (unknown or problems)[0]
    place = problem["loc"]
    if not place:  # a check of several settings together; its message names them
        return f"{where}: {problem['ctx']['error']}"
    key = str(place[0])
    path = []  # without pydantic's own names of alternatives
    for part in place:
        if isinstance(part, int) or (part.replace("_", "").isalnum() and part.islower()):
            path.append(str(part))
    schema = schema_of(kind)
    known = list(schema.get("properties", {}))
    if len(place) == 1 and problem["type"] == "extra_forbidden":
        settings = f"it has {', '.join(known)}" if known else "it has no settings"
        return f"{where}: unknown key {key!r}{nearest(key, known)}; {settings}"
    allowed = in_words(schema["properties"][key], schema.get("$defs"))
    if len(place) == 1 and problem["type"] == "missing":
        return f"{where}: {key} is missing; it must be {allowed}"
    if problem["type"] == "value_error":
        value = without_secrets({key: problem["input"]})[0][key]
        shown = ".".join(path) or key
        return f"{where}: {shown} {problem['ctx']['error']} (got {value!r:.80})"
    got = f"{without_secrets(definition)[0][key]!r:.80}"
    if len(path) == 2 and path[1].isdigit():  # one entry of a list, which may be long
        got = f"{problem['input']!r:.80} in it"
    return f"{where}: {key} must be {allowed} (got {got})"
