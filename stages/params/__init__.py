"""params.yaml: reading it as DVC reads it, and finding definitions in it.

The file is read with YAML 1.2 rules (ruamel), where ``no`` is a text and ``1e-4`` a number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


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
    return params


def definition(params: dict[str, Any], catalogue: str, name: str) -> dict[str, Any]:
    """The definition of a model, suite, judge or perturbation by name.

    Raises :class:`ParamsError` when the catalogue has no such name.
    """
    entries = params[catalogue]
    if name not in entries:
        known = ", ".join(sorted(entries))
        raise ParamsError(f"params.yaml: {catalogue} has no {name!r}; it defines: {known}")
    if not isinstance(entries[name], dict):
        raise ParamsError(
            f"params.yaml: {catalogue}.{name} must be a mapping (got {entries[name]!r})"
        )
    return entries[name]


def grid(params: dict[str, Any], axis: str) -> list[str]:
    """The names of ``grid.models`` or ``grid.suites``.

    Raises :class:`ParamsError` for a list with repeated names or with names that DVC would misread:
    dots, hyphens and bare numbers break stage names, two of the three silently.
    """
    names = params["grid"][axis]
    if not isinstance(names, list) or not names:
        raise ParamsError(f"params.yaml: grid.{axis} must be a list of names (got {names!r})")
    for name in names:
        if not isinstance(name, str) or not NAME.match(name):
            raise ParamsError(
                f"params.yaml: grid.{axis} holds {name!r}; a name is lower-case letters, digits and "
                "underscores, starting with a letter"
            )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ParamsError(f"params.yaml: grid.{axis} repeats {', '.join(repeated)}")
    return names
