"""params.yaml: reading it as DVC reads it, and finding definitions in it.

The file is read with YAML 1.2 rules (ruamel), where ``no`` is a text and ``1e-4`` a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_limit(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) == 1
        and set(value) <= {"min", "max"}
        and all(type(x) in (int, float) and -1 <= x <= 1 for x in value.values())
    )


# What a suite's definition may hold: key, whether a value can be used, what is allowed in words. A
# key that is left out counts as null.
SUITE_KEYS = {
    "file": (lambda value: isinstance(value, str), "the path of a JSONL file"),
    "sample": (
        lambda value: value is None or (type(value) is int and value > 0),
        "null or a number of prompts above 0",
    ),
    "perturbations": (lambda value: value is None or _names(value), "a list of names"),
    "judges": (lambda value: value and _names(value), "a list with at least one name"),
    "fields": (lambda value: value is None or _names(value), "a list of columns of the suite"),
    "thresholds": (
        lambda value: (
            value is None or (isinstance(value, dict) and all(map(_is_limit, value.values())))
        ),
        "a mapping of measure to {min: x} or {max: x}, x from -1 to 1",
    ),
    "count_cut_off": (lambda value: value is None or isinstance(value, bool), "true or false"),
    "template": (
        lambda value: value is None or isinstance(value, str),
        "a text with {feature} in it",
    ),
}


class ParamsError(ValueError):
    """params.yaml lacks something or holds a value that is not allowed."""


def load_params(path: Path = Path("params.yaml")) -> dict[str, Any]:
    """All of params.yaml as plain dicts and lists. Raises :class:`ParamsError`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        with open(path, encoding="utf-8") as file:
            params = YAML(typ="safe", pure=True).load(file)
    except OSError as error:
        raise ParamsError(
            f"{path} cannot be read ({error.strerror}); run from the project's root"
        ) from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise ParamsError(f"{path} is not YAML: {error}") from None
    if not isinstance(params, dict):
        raise ParamsError(f"{path} must hold a mapping (got {type(params).__name__})")
    try:
        # What hashes and results are made of: dates, infinities and mixed keys have no place there.
        json.dumps(params, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ParamsError(
            f"{path} holds a value that JSON cannot express ({error}); put it in quotes"
        ) from None
    return params


def run_seed(params: Mapping[str, Any]) -> int:
    """The seed of every draw. Raises :class:`ParamsError` unless it is an integer."""
    seed = params.get("seed")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ParamsError(f"params.yaml: seed must be an integer (got {seed!r})")
    return seed


def definition(params: dict[str, Any], catalogue: str, name: str) -> dict[str, Any]:
    """The definition of a model, suite, judge or perturbation by name.

    Raises :class:`ParamsError` when the catalogue has no such name, or a suite's definition cannot
    be used.
    """
    entries = params.get(catalogue)
    if not isinstance(entries, dict):
        raise ParamsError(f"params.yaml: {catalogue} must be a mapping of names (got {entries!r})")
    if name not in entries:
        known = ", ".join(sorted(entries))
        raise ParamsError(f"params.yaml: {catalogue} has no {name!r}; it defines: {known}")
    if not isinstance(entries[name], dict):
        raise ParamsError(
            f"params.yaml: {catalogue}.{name} must be a mapping (got {entries[name]!r})"
        )
    if catalogue == "suites":
        _check_suite_definition(name, entries[name])
    return entries[name]


def _check_suite_definition(name: str, suite: Mapping[str, Any]) -> None:
    unknown = sorted(set(suite) - set(SUITE_KEYS))
    if unknown:
        raise ParamsError(
            f"params.yaml: suites.{name} has an unknown key {unknown[0]!r}; "
            f"a suite has: {', '.join(SUITE_KEYS)}"
        )
    for key, (usable, allowed) in SUITE_KEYS.items():
        value = suite.get(key)
        if not usable(value):
            raise ParamsError(f"params.yaml: suites.{name}.{key} must be {allowed} (got {value!r})")


def grid(params: dict[str, Any], axis: str) -> list[str]:
    """The names of ``grid.models`` or ``grid.suites``.

    Raises :class:`ParamsError` for a list with repeated names or with names that DVC would misread:
    dots, hyphens and bare numbers break stage names, two of the three silently.
    """
    axes = params.get("grid")
    names = axes.get(axis) if isinstance(axes, dict) else None
    if not isinstance(names, list) or not names:
        raise ParamsError(f"params.yaml: grid.{axis} must be a list of names (got {names!r})")
    for name in names:
        if not isinstance(name, str) or not NAME.match(name):
            raise ParamsError(
                f"params.yaml: grid.{axis} holds {name!r}; a name is lower-case letters, digits "
                "and underscores, starting with a letter"
            )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ParamsError(f"params.yaml: grid.{axis} repeats {', '.join(repeated)}")
    return names
