"""Model adapters, one module each."""

from __future__ import annotations

from typing import Any

from refract.errors import ParamsError
from refract.models.protocol import Model
from refract.registry import find
from refract.rows.jsonl import canonical_json
from refract.settings import read_settings

ADAPTERS = {
    "anthropic": "refract.models.anthropic:Anthropic",
    "hf": "refract.models.hf:HF",
    "openai": "refract.models.openai:OpenAI",
    "recorded": "refract.models.recorded:Recorded",
    "synthetic": "refract.models.synthetic:Synthetic",
}
"""The value of ``adapter`` in params.yaml, and the class behind it.

To add one, write a class with the members of :class:`refract.models.protocol.Model` and add a line
here. Settings, error messages, the reference of params.yaml and the command line follow from these.
"""


def open_model(name: str, definition: dict[str, Any], where: str = "") -> Model:
    """The model of a definition: its adapter, with the definition's settings.

    ``where`` names the definition in messages (``models.NAME`` unless given).
    Raises :class:`ParamsError` for an unknown adapter or settings that it cannot use.
    """
    where = where or f"models.{name}"
    adapter = find(ADAPTERS, definition.get("adapter"), f"{where}: adapter")
    given = {key: value for key, value in definition.items() if key != "adapter"}
    settings = read_settings(adapter.Settings, where, given)
    try:
        canonical_json(given)
    except (TypeError, ValueError) as error:
        raise ParamsError(f"{where}: a value cannot be expressed in JSON ({error})") from None
    model: Model = adapter(name, settings)
    return model


def identity_of(model: Model) -> dict[str, Any]:
    """All that determines a model's answers apart from the request, the adapter's code included."""
    return {
        "adapter": type(model).__name__.lower(),
        "adapter_version": model.VERSION,
        **model.identity(),
    }
