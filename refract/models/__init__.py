"""Model adapters, one module each. To add one: write its class, and name it in ``ADAPTERS``."""

from __future__ import annotations

import importlib
from typing import Any

from refract.errors import ParamsError
from refract.rows.jsonl import canonical_json

# The name used in params.yaml, and the class behind it. A module is imported when it is used.
ADAPTERS = {
    "anthropic": "refract.models.anthropic:Anthropic",
    "hf": "refract.models.hf:HF",
    "openai": "refract.models.openai:OpenAI",
    "recorded": "refract.models.recorded:Recorded",
    "synthetic": "refract.models.synthetic:Synthetic",
}


def open_model(name: str, definition: dict[str, Any]) -> Any:
    """The adapter that a definition asks for; see :mod:`refract.models.protocol` for its members.

    Raises :class:`ParamsError` for an unknown adapter or a definition it cannot use.
    """
    adapter = definition.get("adapter")
    if not isinstance(adapter, str) or adapter not in ADAPTERS:
        raise ParamsError(
            f"model {name!r}: adapter must be one of {', '.join(ADAPTERS)} (got {adapter!r})"
        )
    try:
        canonical_json(definition)
    except (TypeError, ValueError) as error:
        raise ParamsError(
            f"model {name!r}: the definition holds a value that JSON cannot express ({error})"
        ) from None
    module, _, class_name = ADAPTERS[adapter].partition(":")
    return getattr(importlib.import_module(module), class_name)(name, definition)


def identity_of(model: Any) -> dict[str, Any]:
    """All that determines a model's answers apart from the request, the adapter's code included."""
    return {
        "adapter": type(model).__name__.lower(),
        "adapter_version": model.VERSION,
        **model.identity(),
    }


def check_keys(name: str, definition: dict[str, Any], allowed: dict[str, Any]) -> dict[str, Any]:
    """The definition with its defaults filled in, without ``adapter``.

    Raises :class:`ParamsError` for a key that the adapter does not know.
    """
    given = {key: value for key, value in definition.items() if key != "adapter"}
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise ParamsError(
            f"model {name!r}: unknown key {', '.join(map(repr, unknown))}; "
            f"the {definition.get('adapter')} adapter knows: {', '.join(sorted(allowed))}"
        )
    return allowed | given
