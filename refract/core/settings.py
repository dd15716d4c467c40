"""Settings: one pydantic model for each kind of model, judge, perturbation and suite.

A field states type, bounds, default and meaning once. From it come the check and its message
(:func:`read_settings`), the tables of ``docs/params.md`` and the JSON Schema for editors
(:func:`schema_of`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
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

from refract.core.errors import ParamsError
from refract.core.secrets import without_secrets

_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_IN_WORDS = {
    "exclusiveMinimum": "above {}",
    "minimum": "of at least {}",
    "exclusiveMaximum": "below {}",
    "maximum": "at most {}",
}


class _OneNumber:
    """The JSON Schema of int | float as one type, with the bounds that stand on it."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        bounds = {key: value for key, value in handler(schema).items() if key in _BOUNDS}
        return {"type": "number", **bounds}


# An integer stays one: 0 and 0.0 have different hashes.
Number = Annotated[int | float, _OneNumber()]
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
    """What a definition may hold. Unknown keys and values of another type are errors; nothing is
    converted.

    A field's ``description`` is its meaning. What is allowed follows from type and bounds, or is stated
    in words by ``json_schema_extra={"allowed": "…"}``."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, protected_namespaces=()
    )


S = TypeVar("S", bound=Settings)


def read_settings(kind: type[S], where: str, given: object) -> S:
    """The settings that a definition gives, with defaults for the rest.

    ``where`` names the definition in messages (``models.my_model``). Raises :class:`ParamsError`: what
    is wrong, the value that came, what is allowed."""
    if not isinstance(given, Mapping):
        raise ParamsError(f"{where} must map settings to values (got {given!r:.80})")
    strange = [key for key in given if not isinstance(key, str)]
    if strange:
        raise ParamsError(f"{where}: a setting's name is a text (got {strange[0]!r})")
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise ParamsError(_sentence(kind, where, given, error)) from None


def nearest(name: object, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` where a known name is close to the one given, else nothing."""
    close = get_close_matches(str(name), list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def schema_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a kind of settings; ``allowed`` says in words what a field may be."""
    schema: dict[str, Any] = _tidy(kind.model_json_schema(by_alias=True))
    definitions = schema.get("$defs", {})
    for field in schema.get("properties", {}).values():
        field.setdefault("allowed", in_words(field, definitions))
    return schema


def in_words(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> str:
    """What a value may be, of its JSON Schema: ``a whole number of at least 1, or null``."""
    if "allowed" in schema:
        return str(schema["allowed"])
    if "$ref" in schema:
        return in_words((definitions or {})[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return ", or ".join(in_words(option, definitions) for option in schema["anyOf"])
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    if values:
        *most, last = ["null" if value is None else str(value) for value in values]
        return f"{', '.join(most)} or {last}" if most else last
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
    """A schema without titles, and with bounds on numbers named as JSON Schema names them."""
    if isinstance(schema, list):
        return [_tidy(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        _BOUNDS.get(key, key): _tidy(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def _sentence(
    kind: type[BaseModel], where: str, given: Mapping[str, Any], error: ValidationError
) -> str:
    """The first thing wrong with a definition, in one sentence, which shows no secret in it."""
    given, problems = without_secrets(given)[0], error.errors()
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path = [  # without pydantic's own names of alternatives
        str(part)
        for part in problem["loc"]
        if isinstance(part, int) or (part.replace("_", "").isalnum() and part.islower())
    ]
    if not problem["loc"]:  # a check of several settings together; its message names them
        return f"{where}: {problem['ctx']['error']}"
    key, shown = str(problem["loc"][0]), ".".join(path) or str(problem["loc"][0])
    fields = schema_of(kind)
    known = list(fields.get("properties", {}))
    if problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1:
        has = f"it has {', '.join(known)}" if known else "it has no settings"
        return f"{where}: unknown key {key!r}{nearest(key, known)}; {has}"
    allowed = in_words(fields["properties"][key], fields.get("$defs"))
    if problem["type"] == "missing" and len(problem["loc"]) == 1:
        return f"{where}: {key} is missing; it must be {allowed}"
    if problem["type"] == "value_error":
        came = without_secrets({key: problem["input"]})[0][key]
        return f"{where}: {shown} {problem['ctx']['error']} (got {came!r:.80})"
    got = f"{given[key]!r:.80}"
    if len(path) == 2 and path[1].isdigit():  # one entry of a list, which may be long
        got = f"{problem['input']!r:.80} in it"
    return f"{where}: {key} must be {allowed} (got {got})"
