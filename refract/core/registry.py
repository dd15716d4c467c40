"""How adapters, judges, perturbations and importers are found by their names.

A registry is a plain mapping of ``name: "module:object"``. The module is imported when the name is
used, so that nobody pays for what is not used.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from refract.core.errors import ParamsError
from refract.core.settings import nearest

Registry = Mapping[str, str]


def find(registry: Registry, name: object, where: str) -> Any:
    """The object behind a name; ``where`` says in messages where the name stands
    (``models.my_model: adapter``). Raises :class:`ParamsError` for an unknown name."""
    if not isinstance(name, str) or name not in registry:
        raise ParamsError(
            f"{where} must be one of {', '.join(registry)} (got {name!r}){nearest(name, registry)}"
        )
    module, _, attribute = registry[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
