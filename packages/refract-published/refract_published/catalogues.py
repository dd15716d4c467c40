"""Catalogues: YAML files of published things by name."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TypeVar

from refract.core.errors import ParamsError, nearest
from refract.core.params import read_yaml
from refract.core.settings import Settings, read_settings

HERE = Path(__file__).parent
SUITES = HERE / "importers.yaml"
JUDGES = HERE / "judges/catalogue.yaml"
Entry = TypeVar("Entry", bound=Settings)
_content = functools.cache(read_yaml)


def names_in(path: Path) -> list[str]:
    return sorted(_content(path))


def find_entry(path: Path, kind: type[Entry], *, noun: str, name: str, where: str) -> Entry:
    """An entry of a catalogue by name. ``noun`` says in messages what it is, ``where`` where its
    name was given. Raises ParamsError."""
    entries = _content(path)
    if name not in entries:
        known = names_in(path)
        raise ParamsError(
            f"{where} must be one of {', '.join(known)} (got {name!r}){nearest(name, known)}"
        )
    return read_settings(kind, f"{noun} {name}", entries[name])
