"""``python -m tools.reference``: docs/params.md and docs/params.schema.json, from the settings, and the
list of the suites of refract-published, in its docs.

In the pages the text between ``<!-- NAME: … -->`` and ``<!-- end -->`` is written here; the rest is
written by hand. The schema is for editors, which find it by the first line of params.yaml.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from refract.core.params import (
    CommonSettings,
    DecisionSettings,
    Grid,
    NullAnswerSettings,
    SuiteSettings,
    ValidationSettings,
)
from refract.core.registry import PACKAGES, PLACE, Registry, find
from refract.core.settings import Settings, schema_of
from refract.judges import JUDGES
from refract.models import ADAPTERS
from refract.suites.perturbations import PERTURBATIONS
from refract_published.catalogues import SUITES, names_in
from refract_published.importing import find_importer

DOCS = Path(__file__).parent.parent / "docs"
PAGE, SCHEMA = DOCS / "params.md", DOCS / "params.schema.json"
SUITES_PAGE = DOCS.parent / "packages/refract-published/docs/published-suites.md"
Schema = dict[str, Any]


class Catalogue(NamedTuple):
    """A section of params.yaml whose definitions name a kind, and the kinds there are.

    ``key`` is the setting that names the kind, ``common`` the JSON Schema of settings that every kind
    has besides its own.
    """

    key: str
    registry: Registry
    common: Schema | None = None


def for_models() -> Schema:
    """What any model may have, as JSON Schema for editors."""
    fields: Schema = schema_of(CommonSettings)["properties"]
    for field in fields.values():
        field["description"] = f"{field['description']}\n\n{field.pop('allowed')}"
    return fields


CATALOGUES = {
    "judges": Catalogue(
        "kind",
        JUDGES,
        {
            "validate": {
                "type": "boolean",
                "description": "measure it on the labelled pairs in the stage validate-judges",
            },
            "reads": {
                "enum": ["answer", "thinking"],
                "description": "thinking: it reads the thinking as if that were the answer",
            },
        },
    ),
    "models": Catalogue("adapter", ADAPTERS, for_models()),
    "perturbations": Catalogue("kind", PERTURBATIONS),
}


# What a reader takes to be allowed anyway.
PLAIN = ("a text", "true or false", "a list, each a text", "a mapping")


def items(kind: type[Settings]) -> list[str]:
    """Each setting of a kind as an item of a Markdown list."""
    schema = schema_of(kind)
    lines = []
    for key, field in schema.get("properties", {}).items():
        value = _yaml(field.get("default"))
        allowed = _short(field["allowed"])
        line = f"- `{key}`"
        if key in schema.get("required", ()):
            line += " (required)"
        elif value == "null":
            allowed = allowed.removesuffix(", or null")
        else:
            line = f"- `{key}: {value}`"
        if field.get("description"):
            line += f": {field['description']}"
        if allowed not in PLAIN and not _says(field.get("description", ""), allowed):
            line += f" ({allowed})"
        lines.append(line.replace("<", r"\<"))
    return lines


# What is allowed, as messages say it, and as the page does.
SHORT = (
    ("a whole number of at least ", "integer ≥ "),
    ("a number of at least ", "≥ "),
    ("a number above ", "> "),
    (" and at most ", ", ≤ "),
    (" and below ", ", < "),
    ("a list of at least one entry, ", "a list, "),
    ("a text that is not empty", "a text"),
    ("a list, none twice, each ", "a list of "),
    ("a whole number", "integer"),
    # What names are, the page says above.
    ("a folder or a hub id such as Qwen/Qwen2.5-0.5B-Instruct", "a text"),
    (": lower-case letters, digits and underscores, starting with a letter", ""),
    ("an address that starts with http:// or https:// and has no user and no query", "an address"),
    # What that is, the page says above.
    (
        "where a published one stands: {package or repository, path, at, sha256}",
        "a published one",
    ),
)


def _says(description: str, allowed: str) -> bool:
    """Whether a description explains each value that is allowed, as ``value: meaning``."""
    return all(f"{value}: " in description for value in re.split(r", or |, | or ", allowed))


def _short(allowed: str) -> str:
    for words, shorter in SHORT:
        allowed = allowed.replace(words, shorter)
    return allowed


def settings_list(kind: type[Settings]) -> str:
    """The settings of a kind as a Markdown list."""
    return "\n".join(items(kind))


def _yaml(value: Any) -> str:
    """A default as params.yaml would hold it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_yaml(held)}' for key, held in value.items())}}}"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./ -]*", value)
    return value if plain else json.dumps(value, ensure_ascii=False)


def _markdown(docstring: str) -> str:
    return docstring.replace("``", "`")


def names_of(registry: Registry) -> list[str]:
    """The names that come with the core, then those of the packages of this repository."""
    brought = [name for groups in PACKAGES.values() for name in groups.get(registry.group, ())]
    return [*registry, *sorted(brought)]


def kinds(registry: Registry) -> Iterator[tuple[str, type[Settings]]]:
    """The kinds of a registry with their settings."""
    for name in names_of(registry):
        yield name, find(registry, name, "").Settings


def sections(registry: Registry) -> str:
    """The settings of each kind under a heading. Kinds with the same settings share it; an item that
    several headings have stands once, before them, and a kind with such items alone has no heading."""
    headings: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, kind in kinds(registry):
        text = ""
        if kind.model_fields and vars(kind).get("__doc__"):
            text = _markdown(inspect.cleandoc(kind.__doc__ or ""))
        headings.setdefault((text, tuple(items(kind))), []).append(name)
    owners: dict[str, list[str]] = {}
    for (_, listed), owned_by in headings.items():
        for item in listed:
            owners.setdefault(item, []).extend(owned_by)
    shared: dict[tuple[str, ...], list[str]] = {}
    for (_, listed), owned_by in headings.items():
        for item in listed:
            if owners[item] != owned_by:
                shared_items = shared.setdefault(tuple(owners[item]), [])
                if item not in shared_items:
                    shared_items.append(item)
    parts = []
    every = [name for names_of_kind in headings.values() for name in names_of_kind]
    for sharing, shared_items in shared.items():
        left_out = [f"`{name}`" for name in every if name not in sharing]
        title = ", ".join(f"`{name}`" for name in sharing)
        if len(left_out) < len(sharing) and len(left_out) < 3:
            title = " but ".join(["all kinds", *([", ".join(left_out)] if left_out else [])])
        parts.append(f"Settings of {title}:")
        parts.append("\n".join(shared_items))
    bare = [name for (_, listed), owned_by in headings.items() if not listed for name in owned_by]
    if bare:
        parts.append(f"No settings: {', '.join(f'`{name}`' for name in bare)}.")
    for (text, listed), owned_by in headings.items():
        own = [item for item in listed if owners[item] == owned_by]
        if own:
            parts.append(f"### {', '.join(owned_by)}")
            parts += [text] if text else []
            parts.append("\n".join(own))
    return "\n\n".join(parts)


def perturbation_kinds() -> str:
    """What each kind of perturbation does, as a Markdown list."""
    lines = []
    for name in names_of(PERTURBATIONS):
        text = inspect.getdoc(find(PERTURBATIONS, name, "").variants) or ""
        lines.append(f"- `{name}`: {_markdown(text.splitlines()[0])}")
    return "\n".join(lines)


def page(text: str) -> str:
    """docs/params.md with its written parts as the code has them."""
    parts = {
        "grid": settings_list(Grid),
        "suites": settings_list(SuiteSettings),
        "null answers": settings_list(NullAnswerSettings),
        "decisions": settings_list(DecisionSettings),
        "validation": settings_list(ValidationSettings),
        "of any model": settings_list(CommonSettings),
        "perturbation kinds": perturbation_kinds(),
        **{name: sections(catalogue.registry) for name, catalogue in CATALOGUES.items()},
    }
    for name, part in parts.items():
        marks = list(re.finditer(rf"(?<=<!-- {name}: written by `make readme` -->\n)", text))
        if len(marks) != 1:
            raise ValueError(f"{PAGE} must hold the mark of {name!r} once (found {len(marks)})")
        start = marks[0].start()
        text = f"{text[:start]}\n{part}\n\n{text[text.index('<!-- end -->', start) :]}"
    return text


def suites_page(text: str) -> str:
    """The page of published suites with the kinds that the catalogue has, each linked to its file."""
    importers: list[tuple[str, Any]] = [(name, find_importer(name)) for name in names_in(SUITES)]
    links = [f"[`{name}`]({kind.file.replace(' ', '%20')})" for name, kind in importers]
    mark = "<!-- published suites: written by `make readme` -->\n"
    start = text.index(mark) + len(mark)
    listed = ",\n".join(links)
    return f"{text[:start]}\n\n{listed}\n\n{text[text.index('<!-- end -->', start) :]}"


def params_schema() -> Schema:
    """The JSON Schema of params.yaml."""
    shared: Schema = {}
    named = {"propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"}}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Refract's params.yaml",
        "type": "object",
        "additionalProperties": False,
        "required": ["grid", "seed", "suites", "judges", "models"],
        "properties": {
            "grid": _for_editors(Grid, shared),
            "seed": {"type": "integer", "description": "seed of every draw"},
            "suites": {**_mapping(_for_editors(SuiteSettings, shared)), **named},
            "judges": _mapping(_catalogue("judges", shared)),
            "perturbations": _mapping(_catalogue("perturbations", shared)),
            "models": {**_mapping(_catalogue("models", shared)), **named},
            "null_answers": _for_editors(NullAnswerSettings, shared),
            "decisions": _for_editors(DecisionSettings, shared),
            "validation": _for_editors(ValidationSettings, shared),
        },
        "$defs": shared,
    }


def _mapping(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _catalogue(name: str, shared: Schema) -> Schema:
    """The JSON Schema of a definition: its kind decides what else it may hold."""
    if name not in CATALOGUES:
        return {"type": "object"}
    key, registry, common = CATALOGUES[name]
    cases = []
    for kind, settings in kinds(registry):
        then = _for_editors(settings, shared)
        then["properties"] = {key: True, **(common or {}), **then.get("properties", {})}
        cases.append({"if": {"properties": {key: {"const": kind}}}, "then": then})
    return {
        "type": "object",
        "required": [key],
        "properties": {key: {"anyOf": [{"enum": names_of(registry)}, {"pattern": f"^{PLACE}$"}]}},
        "allOf": cases,
    }


def _for_editors(kind: type[Settings], shared: Schema) -> Schema:
    """A kind's JSON Schema; what a field may be stands in its description, which editors show."""
    schema = schema_of(kind)
    if "description" in schema:
        schema["description"] = _markdown(schema["description"])
    for name, definition in schema.pop("$defs", {}).items():
        if shared.setdefault(name, definition) != definition:
            raise ValueError(f"two kinds of settings are called {name}")
    for field in schema.get("properties", {}).values():
        allowed = field.pop("allowed")
        field["description"] = f"{field.get('description', '')}\n\n{allowed}".strip()
    return schema


def written_schema() -> str:
    """docs/params.schema.json as it should stand."""
    return json.dumps(params_schema(), ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    SCHEMA.write_text(written_schema(), "utf-8")
    SUITES_PAGE.write_text(suites_page(SUITES_PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
