"""Catalogues that come with the package: YAML files of published things by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from refract.core.errors import ParamsError
from refract.core.params import read_yaml
from refract.core.settings import Settings, nearest, read_settings

Entry = TypeVar("Entry", bound=Settings)


@functools.cache
def _content(path: Path) -> Mapping[str, Any]:
    return read_yaml(path)


def names_in(path: Path) -> list[str]:
    """The names of a catalogue's entries."""
    return sorted(_content(path))


def find_entry(path: Path, kind: type[Entry], what: str, name: str, where: str) -> Entry:
    """An entry by name. ``what`` says in messages what it is, ``where`` where its name was given.
    Raises :class:`ParamsError`."""
    known = names_in(path)
    if name not in known:
        raise ParamsError(
            f"{where} must be one of {', '.join(known)} (got {name!r}){nearest(name, known)}"
        )
    return read_settings(kind, f"{what} {name}", _content(path)[name])
